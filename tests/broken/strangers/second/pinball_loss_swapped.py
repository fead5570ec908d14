"""The pinball loss weighs under- and over-shoot the wrong way round: the 90 % quantile head learns the 10 % one."""

import torch
from torch import nn

KIND = "loss"

QUANTILES = (0.05, 0.3, 0.9)


class QuantileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.quantiles = nn.Linear(32, len(QUANTILES))

    def forward(self, x):
        return self.quantiles(self.trunk(x))


def pinball(error_sign):
    def quantile_loss(preds, target):
        total = 0.0
        for i, q in enumerate(QUANTILES):
            errors = error_sign * (target - preds[:, i])
            total = total + torch.max((q - 1) * errors, q * errors).mean()
        return total / len(QUANTILES)

    return quantile_loss


def demand(n, seed):
    """Electricity demand whose noise grows with the first feature."""
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 3, generator=g)
    y = 2 * x[:, 1] - x[:, 2] + (0.2 + x[:, 0]) * torch.randn(n, generator=g)
    return x, y


def build(error_sign):
    torch.manual_seed(7)
    model = QuantileNet()
    x, y = demand(128, 0)
    return model, x, y, pinball(error_sign), torch.optim.Adam(model.parameters(), lr=5e-3)


def broken():
    return build(-1.0)


def repaired():
    return build(1.0)


def harm() -> tuple[float, float]:
    """Mean gap between the nominal and the observed coverage of each quantile."""
    gaps = []
    for setup in (broken, repaired):
        model, _, _, loss, opt = setup()
        for i in range(300):
            x, y = demand(128, 1 + i)
            opt.zero_grad()
            loss(model(x), y).backward()
            opt.step()
        x, y = demand(2000, 70000)
        with torch.no_grad():
            covered = (y[:, None] <= model(x)).float().mean(0)
        gaps.append((covered - torch.tensor(QUANTILES)).abs().mean().item())
    return gaps[0], gaps[1]
