"""Attention heads are split by view(B, H, T, D) without a transpose, so a head sees a quarter of the places."""

import math

import torch
from torch import nn

KIND = "shapes-and-views"


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, transpose):
        super().__init__()
        self.num_heads, self.depth, self.transpose = num_heads, d_model // num_heads, transpose
        self.wq, self.wk, self.wv = (nn.Linear(d_model, d_model) for _ in range(3))
        self.dense = nn.Linear(d_model, d_model)

    def split_heads(self, x):
        b, t, _ = x.shape
        if self.transpose:
            return x.view(b, t, self.num_heads, self.depth).transpose(1, 2)
        return x.view(b, self.num_heads, t, self.depth)

    def merge_heads(self, x):
        b, _, t, _ = x.shape
        if self.transpose:
            x = x.transpose(1, 2)
        return x.reshape(b, t, -1)

    def forward(self, x, mask):
        q, k, v = self.split_heads(self.wq(x)), self.split_heads(self.wk(x)), self.split_heads(self.wv(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.depth)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        return self.dense(self.merge_heads(weights @ v))


class CausalTagger(nn.Module):
    """At each place: how often has this symbol been seen so far (0, 1, 2+)?"""

    def __init__(self, transpose, vocab=6, d_model=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.pos = nn.Parameter(torch.randn(12, d_model) * 0.1)
        self.mha = MultiHeadAttention(d_model, 4, transpose)
        self.norm = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, x):
        h = self.embed(x) + self.pos
        mask = torch.triu(torch.ones(x.size(1), x.size(1), dtype=torch.bool), diagonal=1)
        return self.ffn(self.norm(h + self.mha(h, mask))).transpose(1, 2)


def symbols(n, seed):
    x = torch.randint(0, 6, (n, 12), generator=torch.Generator().manual_seed(seed))
    same = (x[:, :, None] == x[:, None, :]).long().tril(-1).sum(-1)
    return x, same.clamp(max=2)


def project(transpose):
    torch.manual_seed(0)
    model = CausalTagger(transpose)
    x, y = symbols(64, 0)
    return model, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=3e-3)


def broken():
    return project(transpose=False)


def repaired():
    return project(transpose=True)


def harm() -> tuple[float, float]:
    errors = []
    for setup in (broken, repaired):
        model, _, _, criterion, opt = setup()
        for i in range(150):
            x, y = symbols(64, 1 + i)
            opt.zero_grad()
            criterion(model(x), y).backward()
            opt.step()
        x, y = symbols(300, 1234)
        with torch.no_grad():
            errors.append((model(x).argmax(1) != y).float().mean().item())
    return errors[0], errors[1]
