"""The pinball loss takes prediction minus target, not target minus prediction: the outer quantiles change places."""

import torch
import torch.nn as nn

KIND = "loss"
QUANTILES = (0.1, 0.5, 0.9)


def demand(n, seed):
    """Skewed demand, its spread grows with the first feature."""
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 3, generator=g)
    noise = -torch.log(torch.rand(n, 1, generator=g).clamp_min(1e-6))
    return x, 2 * x[:, 1:2] - x[:, 2:3] + (0.3 + 2 * x[:, 0:1]) * noise


class QuantileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(32, 1) for _ in QUANTILES)

    def forward(self, x):
        h = self.trunk(x)
        return torch.cat([head(h) for head in self.heads], dim=1)


def pinball(preds, target, flipped=False):
    total = 0.0
    for i, q in enumerate(QUANTILES):
        error = target[:, 0] - preds[:, i]
        if flipped:
            error = preds[:, i] - target[:, 0]
        total = total + torch.max(q * error, (q - 1) * error).mean()
    return total


def pinball_flipped(preds, target):
    return pinball(preds, target, flipped=True)


def _go(loss):
    torch.manual_seed(0)
    net = QuantileNet()
    x, y = demand(128, seed=4)
    return net, x, y, loss, torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return _go(pinball_flipped)


def repaired():
    return _go(pinball)


def coverage_error(make):
    net, _, _, loss, opt = make()
    x, y = demand(2048, seed=5)
    for step in range(400):
        s = slice(128 * (step % 16), 128 * (step % 16) + 128)
        opt.zero_grad()
        loss(net(x[s]), y[s]).backward()
        opt.step()
    xt, yt = demand(4000, seed=6)
    with torch.no_grad():
        covered = (yt <= net(xt)).float().mean(0)
    return (covered - torch.tensor(QUANTILES)).abs().mean().item()


def harm() -> tuple[float, float]:
    return coverage_error(broken), coverage_error(repaired)
