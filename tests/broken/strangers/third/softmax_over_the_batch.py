"""Probabilities are normalised along axis 0, over the examples of the batch and not over the classes."""

# Reported as "Issue with softmax dimension on example models" (perone/euclidesdb).
import torch
from tests.broken.strangers.third._proof import harm_of
from torch import nn

KIND = "shapes-and-views"

CENTRES = torch.randn(6, 10, generator=torch.Generator().manual_seed(5))


def points(seed, n=64):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, generator=g) ** 3 * 6).long()
    return CENTRES[y] + torch.randn(n, 10, generator=g), y


def patient(dim):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 6), nn.LogSoftmax(dim=dim))
    return net, *points(0), nn.NLLLoss(), torch.optim.Adam(net.parameters(), lr=3e-3)


def broken():
    return patient(0)


def repaired():
    return patient(1)


def harm():
    x, y = points(10**6, 500)
    return harm_of((broken, repaired), 200, lambda net: (net(x).argmax(1) != y).float().mean(), points)
