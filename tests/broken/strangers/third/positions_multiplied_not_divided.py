"""Places are multiplied by 10000^(2i/d) where they should be divided, so that neighbours look random."""

# Reported as "Fix pos encoding in induction head experiment" (goodfire-ai/spd).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "numerics"


class AtDistance(nn.Module):
    """Tells from two places which of them is the later, and how far."""

    def __init__(self, is_divided, width=32):
        super().__init__()
        scale = 1e4 ** (torch.arange(0, width, 2) / width)
        places = torch.arange(200.0)[:, None]
        angle = places / scale if is_divided else places * scale
        self.register_buffer("table", torch.cat([angle.sin(), angle.cos()], -1))
        self.net = nn.Sequential(nn.Linear(2 * width, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, first, second):
        return self.net(torch.cat([self.table[first], self.table[second]], -1)).squeeze(-1)


def pairs(seed, n=128):
    g = torch.Generator().manual_seed(seed)
    first, second = torch.randint(0, 200, (2, n), generator=g)
    return (first, second), (second - first) / 100


def patient(is_divided):
    torch.manual_seed(2)
    net = AtDistance(is_divided)
    return net, *pairs(0), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = pairs(10**6, 500)
    return harm_of((broken, repaired), 200, lambda net: (net(*x) - y).square().mean(), pairs)
