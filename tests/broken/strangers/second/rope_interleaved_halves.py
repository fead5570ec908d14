"""Rotary angles are laid out in pairs but rotate_half splits in halves, so scores depend on absolute positions."""

import torch
import torch.nn.functional as F
from torch import nn

KIND = "attention-and-masks"


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotaryAttention(nn.Module):
    def __init__(self, dim, heads, interleaved):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.interleaved = interleaved
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.register_buffer("inv_freq", 1.0 / (100 ** (torch.arange(0, self.hd, 2).float() / self.hd)))

    def rotary(self, x, offset):
        freqs = torch.outer(torch.arange(offset, offset + x.shape[-2]).float(), self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1) if self.interleaved else torch.cat((freqs, freqs), dim=-1)
        return x * emb.cos() + rotate_half(x) * emb.sin()

    def forward(self, x, offset=0):
        b, t, d = x.shape
        q, k, v = (w(x).view(b, t, self.heads, self.hd).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = self.rotary(q, offset), self.rotary(k, offset)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


class RotaryLM(nn.Module):
    def __init__(self, interleaved, vocab=16, dim=32):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = RotaryAttention(dim, 2, interleaved)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
        self.head = nn.Linear(dim, vocab)

    def forward(self, idx, offset=0):
        x = self.wte(idx)
        x = x + self.attn(self.norm1(x), offset)
        x = x + self.mlp(self.norm2(x))
        return self.head(x)


def get_batch(n, seed):
    """Every token repeats the one three places back."""
    g = torch.Generator().manual_seed(seed)
    first = torch.randint(0, 16, (n, 3), generator=g)
    seq = first.repeat(1, 7)
    return seq[:, :-1], seq[:, 1:]


def loss_fn(logits, y):
    return F.cross_entropy(logits.reshape(-1, 16), y.reshape(-1))


def _make(interleaved):
    torch.manual_seed(42)
    model = RotaryLM(interleaved)
    x, y = get_batch(32, 1)
    return model, x, y, loss_fn, torch.optim.AdamW(model.parameters(), lr=2e-3)


def broken():
    return _make(True)


def repaired():
    return _make(False)


def harm() -> tuple[float, float]:
    """A rotary model must not care where the sequence starts: move it by 37 positions and compare."""
    gaps = []
    for f in (broken, repaired):
        model, x, *_ = f()
        with torch.no_grad():
            gaps.append((model(x, 0) - model(x, 37)).abs().max().item())
    return gaps[0], gaps[1]
