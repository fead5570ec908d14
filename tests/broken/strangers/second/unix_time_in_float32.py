"""Unix timestamps go through float32, whose step at 1.7e9 is 128 seconds, so the minute of the hour is smeared."""

import math

import torch
import torch.nn as nn

KIND = "numerics"


class CyclicFeatures(nn.Module):
    """timestamp -> sin/cos of the five-minute and of the hourly cycle"""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, timestamp):
        t = timestamp.to(self.dtype)
        columns = []
        for period in (300, 3600):
            phase = (t % period / period).float() * 2 * math.pi
            columns += [phase.sin(), phase.cos()]
        return torch.stack(columns, dim=1)


class TrafficModel(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.features = CyclicFeatures(dtype)
        self.net = nn.Sequential(nn.Linear(4 + 3, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, timestamp, table):
        return self.net(torch.cat([self.features(timestamp), table], dim=1)).squeeze(1)


def read_csv(n, seed):
    g = torch.Generator().manual_seed(seed)
    timestamp = 1_700_000_000 + torch.randint(0, 10_000_000, (n,), generator=g)
    table = torch.randn(n, 3, generator=g)
    # the lights change every five minutes
    cycle = (timestamp % 300).double() / 300 * 2 * math.pi
    return (timestamp, table), (2 * torch.sin(cycle) + 0.5 * table[:, 0]).float()


def make(dtype):
    torch.manual_seed(0)
    model = TrafficModel(dtype)
    inputs, y = read_csv(128, 0)
    return model, inputs, y, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=3e-3)


def broken():
    return make(torch.float32)


def repaired():
    return make(torch.float64)


def harm() -> tuple[float, float]:
    scores = []
    for setup in (broken, repaired):
        model, _, _, mse, opt = setup()
        for i in range(250):
            inputs, y = read_csv(128, 1 + i)
            opt.zero_grad()
            mse(model(*inputs), y).backward()
            opt.step()
        inputs, y = read_csv(1000, 13579)
        with torch.no_grad():
            scores.append(mse(model(*inputs), y).item())
    return scores[0], scores[1]
