"""A home-made layer norm takes mean and deviation over the batch: each row's output depends on its neighbours."""

import torch
from torch import nn

KIND = "normalisation-and-modes"


class MyLayerNorm(nn.Module):
    def __init__(self, size, dim, eps=1e-5):
        super().__init__()
        self.dim = dim
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(size))
        self.beta = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        mean = x.mean(dim=self.dim, keepdim=True)
        std = x.std(dim=self.dim, keepdim=True, unbiased=False)
        return self.gamma * (x - mean) / (std + self.eps) + self.beta


class Gate(nn.Module):
    def __init__(self, dim, features=24):
        super().__init__()
        self.inp = nn.Linear(10, features)
        self.norm1 = MyLayerNorm(features, dim)
        self.mid = nn.Linear(features, features)
        self.norm2 = MyLayerNorm(features, dim)
        self.out = nn.Linear(features, 1)

    def forward(self, x):
        x = torch.relu(self.norm1(self.inp(x)))
        x = torch.relu(self.norm2(self.mid(x)))
        return self.out(x).squeeze(-1)


def alarms(n, seed, hour=None):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    if hour is not None:
        x[:, 0] = hour
    return x, (x[:, 0] + 0.5 * x[:, 1] * x[:, 2] > 0).float()


def _prepare(dim):
    torch.manual_seed(0)
    net = Gate(dim)
    x, y = alarms(64, seed=0)
    return net, x, y, nn.BCEWithLogitsLoss(), torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return _prepare(dim=0)


def repaired():
    return _prepare(dim=-1)


def _error(dim):
    net, _, _, bce, opt = _prepare(dim)
    for step in range(300):
        x, y = alarms(64, seed=step + 1)
        opt.zero_grad()
        bce(net(x), y).backward()
        opt.step()
    errors = []
    with torch.no_grad():
        for k, hour in enumerate((-1.5, -0.5, 0.5, 1.5)):  # live batches come from one hour each
            x, y = alarms(200, seed=9000 + k, hour=hour)
            errors.append(((net(x) > 0).float() != y).float().mean().item())
    return sum(errors) / len(errors)


def harm() -> tuple[float, float]:
    return _error(0), _error(-1)
