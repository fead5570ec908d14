"""The sinusoidal table is indexed by the length and not sliced up to it, so that every position gets the same row."""

# Reported as "Critical bug in the implementation of the PositionalEncoding class" (DiffPoseTalk).
import math

import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "attention-and-masks"


class Gestures(nn.Module):
    """Which of two marked frames came first."""

    def __init__(self, is_sliced, width=32):
        super().__init__()
        self.is_sliced = is_sliced
        at = torch.arange(64.0)[:, None] * torch.exp(-math.log(1e4) * torch.arange(0, width, 2) / width)
        self.register_buffer("table", torch.stack([at.sin(), at.cos()], -1).flatten(1)[None])
        self.embed = nn.Linear(3, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        h = self.embed(x)
        h = h + (self.table[:, : x.shape[1]] if self.is_sliced else self.table[:, x.shape[1]].unsqueeze(1))
        return self.out(self.encoder(h).mean(1))


def frames(seed, n=64, length=10):
    g = torch.Generator().manual_seed(seed)
    x = 0.1 * torch.randn(n, length, 3, generator=g)
    where = torch.rand(n, length, generator=g).argsort(1)[:, :2]
    rows = torch.arange(n)
    x[rows, where[:, 0], 0] += 2
    x[rows, where[:, 1], 1] += 2
    return x, (where[:, 0] < where[:, 1]).long()


def patient(is_sliced):
    torch.manual_seed(1)
    net = Gestures(is_sliced)
    return net, *frames(0), nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), lr=2e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = frames(10**6, 500)
    return harm_of((broken, repaired), 150, lambda net: (net(x).argmax(1) != y).float().mean(), frames)
