"""A float mask of ones and zeros goes to attn_mask, where floats are added to the scores and block nothing."""

import torch
import torch.nn as nn

KIND = "attention-and-masks"
STEPS, FEATS = 24, 6


def ticks(n, seed):
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, STEPS + 1, FEATS, generator=g)
    x = torch.zeros_like(noise)
    for t in range(1, STEPS + 1):
        x[:, t] = 0.6 * x[:, t - 1].roll(1, dims=-1) + noise[:, t]
    return x[:, :-1], x[:, 1:]


class NextTick(nn.Module):
    def __init__(self, bool_mask, dim=32):
        super().__init__()
        self.inp = nn.Linear(FEATS, dim)
        self.pos = nn.Parameter(torch.randn(STEPS, dim) * 0.5)
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, FEATS)
        mask = torch.triu(torch.ones(STEPS, STEPS), diagonal=1)
        self.register_buffer("mask", mask.bool() if bool_mask else mask)

    def forward(self, x):
        h = self.inp(x) + self.pos
        a, _ = self.attn(h, h, h, attn_mask=self.mask, need_weights=False)
        return self.out(self.norm(h + a))


def _start(bool_mask):
    torch.manual_seed(0)
    net = NextTick(bool_mask)
    x, y = ticks(48, seed=3)
    return net, x, y, nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=2e-3)


def broken():
    return _start(bool_mask=False)


def repaired():
    return _start(bool_mask=True)


def future_influence(make):
    """How far the outputs of the first half move when the second half of the input is replaced."""
    net, x, y, loss, opt = make()
    for _ in range(100):
        opt.zero_grad()
        loss(net(x), y).backward()
        opt.step()
    other = x.clone()
    other[:, STEPS // 2 :] = ticks(48, seed=4)[0][:, STEPS // 2 :]
    with torch.no_grad():
        return (net(x) - net(other))[:, : STEPS // 2].abs().max().item()


def harm() -> tuple[float, float]:
    return future_influence(broken), future_influence(repaired)
