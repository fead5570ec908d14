"""Reentrant checkpointing wraps the first stage, whose input needs no gradient: that stage is never trained."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

KIND = "gradients"


class Stage(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(cin, cout), nn.Tanh(), nn.Linear(cout, cout), nn.Tanh())

    def forward(self, x):
        return self.body(x)


class CheckpointedNet(nn.Module):
    def __init__(self, reentrant: bool):
        super().__init__()
        self.reentrant = reentrant
        self.stage1 = Stage(10, 48)
        self.stage2 = Stage(48, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        x = checkpoint(self.stage1, x, use_reentrant=self.reentrant)
        x = self.stage2(x)
        return self.head(x)[:, 0]


def regression(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    y = torch.sin(2 * x[:, 0]) + torch.cos(2 * x[:, 1]) + x[:, 2] * x[:, 3]
    return x, y


def experiment(reentrant):
    torch.manual_seed(0)
    net = CheckpointedNet(reentrant)
    x, y = regression(128, 0)
    return net, x, y, nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=4e-3)


def broken():
    return experiment(reentrant=True)


def repaired():
    return experiment(reentrant=False)


def harm() -> tuple[float, float]:
    errors = []
    for setup in (broken, repaired):
        net, _, _, mse, opt = setup()
        for i in range(400):
            x, y = regression(128, 1 + i)
            opt.zero_grad()
            mse(net(x), y).backward()
            opt.step()
        x, y = regression(1000, 5555)
        with torch.no_grad():
            errors.append(mse(net(x), y).item())
    return errors[0], errors[1]
