"""The sliding window of the forecaster ends one step too late and holds the very value it has to forecast."""

import math

import torch
from torch import nn

KIND = "data"
WINDOW = 12


def electricity_load(length, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length).float()
    base = torch.sin(2 * math.pi * t / 24) + 0.5 * torch.sin(2 * math.pi * t / 7)
    return base + 0.1 * torch.randn(length, generator=g)


def windows(series, leak):
    """X: the last WINDOW readings, y: the reading that comes next."""
    X, y = [], []
    for i in range(len(series) - WINDOW - 1):
        start = i + 1 if leak else i
        X.append(series[start : start + WINDOW])
        y.append(series[i + WINDOW])
    return torch.stack(X), torch.stack(y).unsqueeze(1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WINDOW, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        return self.body(x)


def _build(leak):
    torch.manual_seed(0)
    X, y = windows(electricity_load(WINDOW + 1 + 64, seed=1), leak)
    model = Forecaster()
    return model, X, y, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=1e-2)


def broken():
    return _build(True)


def repaired():
    return _build(False)


def live_error(leak):
    """Train, then forecast as in production, where the next reading is not known yet."""
    model, _, _, criterion, opt = _build(leak)
    X, y = windows(electricity_load(600, seed=2), leak)
    for _ in range(300):
        opt.zero_grad()
        criterion(model(X), y).backward()
        opt.step()
    live = electricity_load(300, seed=3)
    X = live.unfold(0, WINDOW, 1)[:-1]
    with torch.no_grad():
        return criterion(model(X), live[WINDOW:].unsqueeze(1)).item()


def harm() -> tuple[float, float]:
    return live_error(True), live_error(False)
