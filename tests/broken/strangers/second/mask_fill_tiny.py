"""A padding mask fills scores with 1e-9 where -1e9 was meant, so padded positions keep their share of attention."""

import math

import torch
from torch import nn

KIND = "attention-and-masks"


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, fill):
        super().__init__()
        self.heads, self.head_dim, self.fill = heads, dim // heads, fill
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(mask[:, None, None, :] == 0, self.fill)
        out = scores.softmax(dim=-1) @ v
        return self.proj(out.transpose(1, 2).reshape(b, t, d))


class SentenceClassifier(nn.Module):
    """Token + position embedding, one attention block, CLS token on top."""

    def __init__(self, vocab=40, dim=32, fill=-1e9):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(24, dim) * 0.02)
        self.attn = SelfAttention(dim, 4, fill)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, 2)

    def forward(self, ids, mask):
        x = self.tok(ids) + self.pos[: ids.size(1)]
        x = self.norm(x + self.attn(x, mask))
        return self.out(x[:, 0])


def make_batch(n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, 40, (n, 24), generator=g)
    ids[:, 0] = 1  # [CLS]
    lengths = torch.randint(4, 12, (n, 1), generator=g)
    mask = (torch.arange(24) < lengths).long()
    # sentiment = more words of the upper half of the vocabulary than of the lower half
    score = (((ids >= 21).float() * 2 - 1) * mask)[:, 1:].sum(1)
    # the tail is whatever the previous document left in the buffer
    return (ids, mask), (score > 0).long()


def build(fill):
    torch.manual_seed(0)
    model = SentenceClassifier(fill=fill)
    inputs, labels = make_batch(64, 1)
    return model, inputs, labels, nn.functional.cross_entropy, torch.optim.Adam(model.parameters(), lr=3e-3)


def broken():
    return build(1e-9)


def repaired():
    return build(-1e9)


def harm() -> tuple[float, float]:
    errors = []
    for setup in (broken, repaired):
        model, _, _, loss_fn, opt = setup()
        for step in range(250):
            (ids, mask), y = make_batch(64, 100 + step)
            opt.zero_grad()
            loss_fn(model(ids, mask), y).backward()
            opt.step()
        (ids, mask), y = make_batch(1000, 7)
        errors.append((model(ids, mask).argmax(1) != y).float().mean().item())
    return errors[0], errors[1]
