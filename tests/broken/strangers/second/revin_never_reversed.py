"""Each window is normalised by its own mean and deviation, but the forecast is not scaled back to the series' level."""

import torch
from torch import nn

KIND = "normalisation-and-modes"


class RevIN(nn.Module):
    """Reversible instance normalisation (Kim et al.)."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def norm(self, x):
        self.mean = x.mean(dim=1, keepdim=True).detach()
        self.stdev = torch.sqrt(x.var(dim=1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - self.mean) / self.stdev

    def denorm(self, y):
        return y * self.stdev + self.mean


class DLinear(nn.Module):
    def __init__(self, seq_len, pred_len, denormalise):
        super().__init__()
        self.revin = RevIN()
        self.linear = nn.Sequential(nn.Linear(seq_len, 64), nn.ReLU(), nn.Linear(64, pred_len))
        self.denormalise = denormalise

    def forward(self, x):
        y = self.linear(self.revin.norm(x))
        if self.denormalise:
            y = self.revin.denorm(y)
        return y


def load_series(n, seed, seq_len=24, pred_len=6):
    """Many shops with their own level and their own swing."""
    g = torch.Generator().manual_seed(seed)
    level = 3 * torch.randn(n, 1, generator=g)
    swing = torch.rand(n, 1, generator=g) * 2 + 0.2
    phase = torch.rand(n, 1, generator=g) * 6.28
    t = torch.arange(seq_len + pred_len).float()
    s = level + swing * torch.sin(0.5 * t + phase) + 0.05 * torch.randn(n, seq_len + pred_len, generator=g)
    return s[:, :seq_len], s[:, seq_len:]


def experiment(denormalise):
    torch.manual_seed(2021)
    model = DLinear(24, 6, denormalise)
    x, y = load_series(32, 0)
    return model, x, y, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=2e-3)


def broken():
    return experiment(denormalise=False)


def repaired():
    return experiment(denormalise=True)


def harm() -> tuple[float, float]:
    test = []
    for setup in (broken, repaired):
        model, _, _, mse, opt = setup()
        for i in range(300):
            x, y = load_series(32, 1 + i)
            opt.zero_grad()
            mse(model(x), y).backward()
            opt.step()
        x, y = load_series(500, 606060)
        with torch.no_grad():
            test.append(mse(model(x), y).item())
    return test[0], test[1]
