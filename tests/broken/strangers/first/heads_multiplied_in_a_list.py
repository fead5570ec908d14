"""The horizon heads are made by [nn.Linear(...)] * 4, one layer four times: all horizons get the same forecast."""

import math

import torch
import torch.nn as nn

KIND = "gradients"
HORIZONS = (1, 3, 6, 12)
WINDOW = 24


def traffic(n, seed):
    g = torch.Generator().manual_seed(seed)
    phase = torch.rand(n, 1, generator=g) * 2 * math.pi
    speed = 0.2 + 0.2 * torch.rand(n, 1, generator=g)
    t = torch.arange(WINDOW + max(HORIZONS)).float()
    wave = torch.sin(speed * t + phase)
    noisy = wave[:, :WINDOW] + 0.05 * torch.randn(n, WINDOW, generator=g)
    return noisy, torch.stack([wave[:, WINDOW - 1 + h] for h in HORIZONS], dim=1)


class MultiHorizon(nn.Module):
    def __init__(self, multiplied, dim=48):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(WINDOW, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.heads = nn.ModuleList(self.make_heads(dim, multiplied))

    @staticmethod
    def make_heads(dim, multiplied):
        if multiplied:
            return [nn.Linear(dim, 1)] * len(HORIZONS)
        return [nn.Linear(dim, 1) for _ in HORIZONS]

    def forward(self, x):
        z = self.encoder(x)
        return torch.cat([head(z) for head in self.heads], dim=1)


def _forecaster(multiplied):
    torch.manual_seed(0)
    model = MultiHorizon(multiplied)
    x, y = traffic(64, seed=0)
    return model, x, y, nn.L1Loss(), torch.optim.Adam(model.parameters(), lr=3e-3)


def broken():
    return _forecaster(multiplied=True)


def repaired():
    return _forecaster(multiplied=False)


def _mae(multiplied):
    model, _, _, mae, opt = _forecaster(multiplied)
    for step in range(250):
        x, y = traffic(64, seed=step + 1)
        opt.zero_grad()
        mae(model(x), y).backward()
        opt.step()
    x, y = traffic(500, seed=18_181)
    with torch.no_grad():
        return mae(model(x), y).item()


def harm() -> tuple[float, float]:
    return _mae(True), _mae(False)
