"""The hidden layer is made anew in every forward pass, with other weights each time, and is never trained."""

# Reported as "`list(model.Parameters())` behaves differently for custom `nn.module`" (pytorch/pytorch).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "optimizer-and-loop"


class Net(nn.Module):
    def __init__(self, is_kept):
        super().__init__()
        self.one, self.out = nn.Linear(6, 32), nn.Linear(32, 3)
        if is_kept:
            self.two = nn.Linear(32, 32)
        self.is_kept = is_kept

    def forward(self, x):
        h = torch.relu(self.one(x))
        h = torch.relu(self.two(h) if self.is_kept else nn.Linear(32, 32)(h))
        return self.out(h)


def points(seed, n=64):
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :3].argmax(1)


def patient(is_kept):
    torch.manual_seed(0)
    net = Net(is_kept)
    return net, *points(0), nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = points(10**6, 500)
    return harm_of((broken, repaired), 200, lambda net: (net(x).argmax(1) != y).float().mean(), points)
