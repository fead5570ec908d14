"""The coupling flow subtracts its log-determinant instead of adding it: the likelihood rewards squashing the data."""

import math

import torch
from torch import nn

KIND = "generative"


def bananas(n, seed):
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(n, generator=g)
    b = 0.4 * torch.randn(n, generator=g)
    return torch.stack([a, b + 0.7 * a**2 - 0.7, 0.5 * a + b, torch.randn(n, generator=g)], 1)


class Coupling(nn.Module):
    def __init__(self, swap):
        super().__init__()
        self.swap = swap
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.swap:
            a, b = b, a
        log_s, t = self.net(a).chunk(2, dim=1)
        log_s = torch.tanh(log_s) * 1.5
        b = b * log_s.exp() + t
        out = torch.cat([b, a] if self.swap else [a, b], dim=1)
        return out, log_s.sum(1)


class RealNVP(nn.Module):
    def __init__(self, layers=6):
        super().__init__()
        self.couplings = nn.ModuleList(Coupling(swap=bool(i % 2)) for i in range(layers))

    def forward(self, x):
        log_det = x.new_zeros(len(x))
        for c in self.couplings:
            x, ld = c(x)
            log_det = log_det + ld
        return x, log_det


def base_log_prob(z):
    return (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(1)


def nll(out, _):
    z, log_det = out
    return -(base_log_prob(z) + log_det).mean()


def nll_flipped(out, _):
    z, log_det = out
    return -(base_log_prob(z) - log_det).mean()


def _flow(loss):
    torch.manual_seed(0)
    flow = RealNVP()
    x = bananas(128, seed=0)
    return flow, x, x.clone(), loss, torch.optim.Adam(flow.parameters(), lr=3e-3)


def broken():
    return _flow(nll_flipped)


def repaired():
    return _flow(nll)


def true_nll(loss):
    flow, _, _, criterion, opt = _flow(loss)
    for step in range(250):
        x = bananas(128, seed=step + 1)
        opt.zero_grad()
        criterion(flow(x), x).backward()
        opt.step()
    x = bananas(1000, seed=44_444)
    with torch.no_grad():
        return nll(flow(x), x).item()


def harm() -> tuple[float, float]:
    return true_nll(nll_flipped), true_nll(nll)
