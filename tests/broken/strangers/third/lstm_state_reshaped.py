"""Stored states (sequence, layer, width) are reshaped to (layer, sequence, width) and so handed to other sequences."""

# Reported as "Recurrent lstm state being reshaped incorrectly" (Stable-Baselines-Team/stable-baselines3-contrib).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "recurrence"


class Policy(nn.Module):
    """Goes on from the state that was stored when the sequence was cut."""

    def __init__(self, is_swapped, layers=2, width=12):
        super().__init__()
        self.is_swapped, self.layers = is_swapped, layers
        self.gru = nn.GRU(4, width, layers, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, x, stored):
        swapped = stored.swapaxes(0, 1).contiguous() if self.is_swapped else stored.reshape(self.layers, len(x), -1)
        return self.out(self.gru(x, swapped)[0][:, -1]).squeeze(-1)


def cuts(seed, n=48, time=4):
    g = torch.Generator().manual_seed(seed)
    stored = torch.randn(n, 2, 12, generator=g).tanh()
    x = torch.randn(n, time, 4, generator=g)
    return (x, stored), stored[:, 0, :3].sum(1) + 2 * stored[:, 1, 3] + x[:, -1, 0]


def patient(is_swapped):
    torch.manual_seed(0)
    net = Policy(is_swapped)
    return net, *cuts(0), nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=1e-2)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = cuts(10**6, 48)
    return harm_of((broken, repaired), 250, lambda net: (net(*x) - y).square().mean(), cuts)
