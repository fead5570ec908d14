"""The flag is read the wrong way round: Dice is taken of raw logits, which no one bounds."""

# Reported as "DiceLoss question in pretrained-backbones-unet" (mberkay0/pretrained-backbones-unet).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn

KIND = "loss"


class Dice(nn.Module):
    def __init__(self, is_read_right):
        super().__init__()
        self.from_logits, self.is_read_right = True, is_read_right

    def forward(self, predicted, wanted):
        if self.from_logits == self.is_read_right:
            predicted = predicted.sigmoid()
        both = (predicted * wanted).sum((1, 2, 3))
        return (1 - (2 * both + 1) / (predicted.sum((1, 2, 3)) + wanted.sum((1, 2, 3)) + 1)).mean()


def scans(seed, n=16, size=12):
    g = torch.Generator().manual_seed(seed)
    at = torch.rand(2, n, 1, 1, generator=g) * size
    y = ((torch.arange(size)[:, None] - at[0]).square() + (torch.arange(size) - at[1]).square() < 9).float()
    return (y + 0.7 * torch.randn(n, size, size, generator=g))[:, None], y[:, None]


def patient(is_read_right):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1))
    return net, *scans(0), Dice(is_read_right), torch.optim.Adam(net.parameters(), lr=5e-3)


def broken():
    return patient(False)


def repaired():
    return patient(True)


def harm():
    x, y = scans(10**6, 100)
    wrong = [((train(setup(), 150, scans)(x) > 0) != (y > 0)).float().mean().item() for setup in (broken, repaired)]
    return wrong[0], wrong[1]
