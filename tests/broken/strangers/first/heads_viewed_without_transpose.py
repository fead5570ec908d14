"""Attention heads are split with view(B, H, T, d) and no transpose: heads mix time steps and look into the future."""

import torch
import torch.nn as nn
import torch.nn.functional as F

KIND = "shapes-and-views"


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, transpose):
        super().__init__()
        self.h, self.transpose = heads, transpose
        self.wq, self.wk, self.wv = (nn.Linear(dim, dim) for _ in range(3))
        self.wo = nn.Linear(dim, dim)

    def split(self, x):
        b, t, c = x.shape
        if self.transpose:
            return x.view(b, t, self.h, c // self.h).transpose(1, 2)
        return x.view(b, self.h, t, c // self.h)

    def merge(self, x):
        b, h, t, c = x.shape
        return x.transpose(1, 2).reshape(b, t, h * c)

    def forward(self, x):
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        return self.wo(self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class Decoder(nn.Module):
    def __init__(self, transpose, features=4, dim=32, steps=16):
        super().__init__()
        self.inp = nn.Linear(features, dim)
        self.pos = nn.Parameter(0.1 * torch.randn(steps, dim))
        self.attn = SelfAttention(dim, 4, transpose)
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, features))

    def forward(self, x):
        h = self.inp(x) + self.pos
        return self.mlp(self.norm(h + self.attn(h)))


def prices(n, seed, steps=16):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, steps + 1, 4, generator=g).cumsum(1) * 0.3
    return x[:, :-1], x[:, 1:] - x[:, :-1]


def _model(transpose):
    torch.manual_seed(0)
    model = Decoder(transpose)
    x, y = prices(64, seed=0)
    return model, x, y, nn.MSELoss(), torch.optim.AdamW(model.parameters(), lr=2e-3)


def broken():
    return _model(transpose=False)


def repaired():
    return _model(transpose=True)


def leak(transpose):
    model, _, _, loss, opt = _model(transpose)
    for step in range(150):
        x, y = prices(64, seed=step + 1)
        opt.zero_grad()
        loss(model(x), y).backward()
        opt.step()
    x, _ = prices(64, seed=3333)
    changed = x.clone()
    changed[:, 9:] += 1.0
    with torch.no_grad():
        return (model(x) - model(changed))[:, :9].abs().max().item()


def harm() -> tuple[float, float]:
    return leak(False), leak(True)
