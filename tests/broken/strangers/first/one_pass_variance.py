"""The normaliser takes the variance as E[x^2] - E[x]^2 in float32 on data with a large offset: it cancels to noise."""

import torch
import torch.nn as nn

KIND = "numerics"


def barometer(n, seed, length=24):
    """Pressure in pascal: about 101325 with swings of a few units; rising or falling?"""
    g = torch.Generator().manual_seed(seed)
    slope = torch.randn(n, 1, generator=g)
    t = torch.linspace(-1, 1, length)
    x = 101_325 + slope * t + 0.5 * torch.randn(n, length, generator=g)
    return x, (slope.squeeze(1) > 0).long()


class InstanceScale(nn.Module):
    """Zero mean, unit variance per series."""

    def __init__(self, one_pass):
        super().__init__()
        self.one_pass = one_pass

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        square_of_mean = mean**2
        var = (x**2).mean(1, keepdim=True) - square_of_mean
        if not self.one_pass:
            var = (x - mean).pow(2).mean(1, keepdim=True)
        return (x - mean) / (var.clamp(min=0) + 1e-5).sqrt()


class TrendNet(nn.Module):
    def __init__(self, one_pass):
        super().__init__()
        self.scale = InstanceScale(one_pass)
        self.conv = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 24, 2))

    def forward(self, x):
        return self.conv(self.scale(x).unsqueeze(1))


def _weather(one_pass):
    torch.manual_seed(0)
    net = TrendNet(one_pass)
    x, y = barometer(64, seed=0)
    return net, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return _weather(one_pass=True)


def repaired():
    return _weather(one_pass=False)


def _loss(one_pass):
    net, _, _, ce, opt = _weather(one_pass)
    for step in range(150):
        x, y = barometer(64, seed=step + 1)
        opt.zero_grad()
        ce(net(x), y).backward()
        opt.step()
    x, y = barometer(500, seed=7_000)
    with torch.no_grad():
        return ce(net(x), y).item()


def harm() -> tuple[float, float]:
    return _loss(True), _loss(False)
