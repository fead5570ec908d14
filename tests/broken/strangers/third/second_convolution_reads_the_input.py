"""The second convolution of a residual block is given the block's input again; the first one's output is dropped."""

# Reported as "implementation of residual block" (shaohua0116/Multiview2Novelview).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "shapes-and-views"


class Block(nn.Module):
    def __init__(self, width, is_chained):
        super().__init__()
        self.is_chained = is_chained
        self.conv1 = nn.Conv1d(width, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x):
        h = torch.relu(self.conv1(x))
        h = self.conv2(h if self.is_chained else x)
        return torch.relu(h + x)


class Flow(nn.Module):
    def __init__(self, is_chained, width=24):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, width, 1), Block(width, is_chained), Block(width, is_chained))
        self.out = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        return self.out(self.body(x))


def signals(seed, n=32, length=24):
    x = torch.randn(n, 1, length + 8, generator=torch.Generator().manual_seed(seed))
    y = x.unfold(-1, 9, 1).prod(-1).tanh() + x.unfold(-1, 9, 1)[..., [0, 8]].sum(-1)
    return x[..., 4:-4], y


def patient(is_chained):
    torch.manual_seed(0)
    net = Flow(is_chained)
    return net, *signals(0), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = signals(10**6, 300)
    return harm_of((broken, repaired), 250, lambda net: (net(x) - y).square().mean(), signals)
