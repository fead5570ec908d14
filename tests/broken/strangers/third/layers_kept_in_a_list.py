"""Ten small networks are kept in a Python list, and no optimizer ever hears of them."""

# Reported as "RESMLPS submodules not registered as nn.ModuleList" (LianpoWang/SLIIF).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "optimizer-and-loop"


class Residuals(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.mlps = keep([nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(10)])
        self.into, self.out = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x):
        h = self.into(x)
        for mlp in self.mlps:
            h = h + mlp(h)
        return self.out(h)


def points(seed, n=64):
    x = 2 * torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, :1] * x[:, 1:2]).sin() + x[:, 2:].abs()


def patient(keep):
    torch.manual_seed(0)
    net = Residuals(keep)
    return net, *points(0), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(list)


def repaired():
    return patient(nn.ModuleList)


def harm():
    x, y = points(10**6, 500)
    return harm_of((broken, repaired), 300, lambda net: (net(x) - y).square().mean(), points)
