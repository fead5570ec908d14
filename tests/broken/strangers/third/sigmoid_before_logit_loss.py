"""The network ends in a sigmoid and the loss takes logits, so that it is applied twice."""

# Reported as "bug: bceloss not decrease" (avBuffer/UNet3plus_pth).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "loss"


def scans(seed, n=16, size=12):
    g = torch.Generator().manual_seed(seed)
    at = torch.rand(2, n, 1, 1, generator=g) * size
    y = ((torch.arange(size)[:, None] - at[0]).square() + (torch.arange(size) - at[1]).square() < 6).float()
    return (y + 0.7 * torch.randn(n, size, size, generator=g))[:, None], y[:, None]


def patient(last):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1), last())
    return net, *scans(0), nn.BCEWithLogitsLoss(), torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return patient(nn.Sigmoid)


def repaired():
    return patient(nn.Identity)


def harm():
    x, y = scans(10**6, 100)
    lost = [nn.BCEWithLogitsLoss()(train(setup(), 150, scans)(x), y).item() for setup in (broken, repaired)]
    return lost[0], lost[1]
