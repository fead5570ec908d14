"""The Gaussian NLL halves the squared error but not the log-variance: the net reports half of the true variance."""

import torch
import torch.nn as nn

KIND = "loss"


def rides(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 2, generator=g) * 2 - 1
    sigma = 0.2 + 0.6 * (x[:, :1] + 1) / 2
    return x, torch.sin(3 * x[:, 1:]) + sigma * torch.randn(n, 1, generator=g)


class MeanAndLogVar(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(2, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU())
        self.mean = nn.Linear(40, 1)
        self.log_var = nn.Linear(40, 1)

    def forward(self, x):
        h = self.shared(x)
        return self.mean(h), self.log_var(h)


def nll_wrong(out, y):
    mean, log_var = out
    return (0.5 * (y - mean) ** 2 / log_var.exp() + log_var).mean()


def nll_right(out, y):
    mean, log_var = out
    return (0.5 * (y - mean) ** 2 / log_var.exp() + 0.5 * log_var).mean()


def _new(loss):
    torch.manual_seed(5)
    net = MeanAndLogVar()
    x, y = rides(128, seed=1)
    return net, x, y, loss, torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return _new(nll_wrong)


def repaired():
    return _new(nll_right)


def calibration_error(make):
    """How far the mean squared z-score is from one on fresh data."""
    net, _, _, loss, opt = make()
    for step in range(500):
        x, y = rides(128, seed=10 + step)
        opt.zero_grad()
        loss(net(x), y).backward()
        opt.step()
    x, y = rides(4000, seed=2)
    with torch.no_grad():
        mean, log_var = net(x)
        z2 = ((y - mean) ** 2 / log_var.exp()).mean()
    return abs(z2.item() - 1)


def harm() -> tuple[float, float]:
    return calibration_error(broken), calibration_error(repaired)
