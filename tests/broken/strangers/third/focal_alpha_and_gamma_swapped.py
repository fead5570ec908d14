"""Focal loss is called with gamma and alpha in each other's place: (1 − p)^0.25, and negatives weigh −1."""

# Reported as "The confusing positional arguments in the definition of focal loss" (qubvel/segmentation_models).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn
from torch.nn import functional

KIND = "loss"


def focal(logits, y, gamma, alpha):
    p = logits.sigmoid().clamp(1e-6, 1 - 1e-6)
    positive = -y * alpha * (1 - p) ** gamma * p.log()
    negative = -(1 - y) * (1 - alpha) * p**gamma * (1 - p).log()
    return (positive + negative).mean()


def as_called(logits, y):
    return focal(logits, y, 0.25, 2.0)


def as_meant(logits, y):
    return focal(logits, y, 2.0, 0.25)


def pixels(seed, n=256):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, 1, generator=g) < 0.2).float()
    return torch.randn(n, 6, generator=g) + 1.2 * y, y


def patient(loss):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    return net, *pixels(0), loss, torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(as_called)


def repaired():
    return patient(as_meant)


def harm():
    x, y = pixels(10**6, 1000)
    losses = []
    for setup in (broken, repaired):
        losses.append(functional.binary_cross_entropy_with_logits(train(setup(), 200, pixels)(x), y).item())
    return losses[0], losses[1]
