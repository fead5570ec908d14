"""The language model's causal mask starts one diagonal too late, so each position sees the token it must predict."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "attention-and-masks"
V, T, D = 16, 20, 32


def corpus(n, seed):
    """A noisy Markov chain over V characters."""
    g = torch.Generator().manual_seed(seed)
    nxt = torch.randperm(V, generator=torch.Generator().manual_seed(0))
    seq = [torch.randint(0, V, (n,), generator=g)]
    for _ in range(T):
        noise = torch.rand(n, generator=g) < 0.3
        seq.append(torch.where(noise, torch.randint(0, V, (n,), generator=g), nxt[seq[-1]]))
    seq = torch.stack(seq, 1)
    return seq[:, :-1], seq[:, 1:]


class CausalSelfAttention(nn.Module):
    def __init__(self, diagonal):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)
        self.register_buffer("mask", torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=diagonal))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        att = q @ k.transpose(-2, -1) / math.sqrt(D)
        att = att.masked_fill(self.mask[: x.size(1), : x.size(1)], float("-inf"))
        return self.proj(F.softmax(att, dim=-1) @ v)


class CharLM(nn.Module):
    def __init__(self, diagonal=1):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(T, D)
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = CausalSelfAttention(diagonal)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.head = nn.Linear(D, V)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1)))
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return self.head(x)


def lm_loss(logits, targets):
    return F.cross_entropy(logits.reshape(-1, V), targets.reshape(-1))


def _new(diagonal):
    torch.manual_seed(1337)
    model = CharLM(diagonal)
    x, y = corpus(32, seed=1)
    return model, x, y, lm_loss, torch.optim.AdamW(model.parameters(), lr=3e-3)


def broken():
    return _new(diagonal=2)


def repaired():
    return _new(diagonal=1)


def generation_loss(diagonal):
    """Loss of the last position, predicted from a prefix that ends there, as when text is sampled."""
    model, _, _, loss, opt = _new(diagonal)
    for step in range(250):
        x, y = corpus(32, seed=10 + step)
        opt.zero_grad()
        loss(model(x), y).backward()
        opt.step()
    x, y = corpus(512, seed=2)
    with torch.no_grad():
        return sum(F.cross_entropy(model(x[:, :k])[:, -1], y[:, k - 1]).item() for k in (4, 8, 12)) / 3


def harm() -> tuple[float, float]:
    return generation_loss(2), generation_loss(1)
