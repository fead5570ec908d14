"""The hashing layer binarises with torch.sign, whose derivative is zero: nothing before it is ever trained."""

import torch
import torch.nn as nn

KIND = "gradients"


def documents(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, 16, generator=g)
    y = 2 * (x[:, 0, 0] * x[:, 0, 1] > 0).long() + (x[:, 1, 2] * x[:, 1, 3] > 0).long()
    return x.flatten(1), y


class HashNet(nn.Module):
    def __init__(self, bits=12, straight_through=True):
        super().__init__()
        self.straight_through = straight_through
        self.project = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, bits))
        self.readout = nn.Sequential(nn.Linear(bits, 32), nn.ReLU(), nn.Linear(32, 4))

    def binarise(self, h):
        code = torch.sign(h)
        if self.straight_through:
            soft = torch.tanh(h)
            code = soft + (code - soft).detach()
        return code

    def forward(self, x):
        return self.readout(self.binarise(self.project(x)))


def _build(straight_through):
    torch.manual_seed(0)
    net = HashNet(straight_through=straight_through)
    x, y = documents(128, seed=0)
    return net, x, y, nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return _build(straight_through=False)


def repaired():
    return _build(straight_through=True)


def _error(straight_through):
    net, _, _, ce, opt = _build(straight_through)
    for step in range(600):
        x, y = documents(128, seed=50 + step)
        opt.zero_grad()
        ce(net(x), y).backward()
        opt.step()
    x, y = documents(1000, seed=1)
    with torch.no_grad():
        return (net(x).argmax(1) != y).float().mean().item()


def harm() -> tuple[float, float]:
    return _error(False), _error(True)
