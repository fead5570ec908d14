"""The record of the gates that the balance term is made of is detached, so that the term teaches the router nothing."""

# Reported as "How is load balance loss calculated when gates gradients are detached?"
# (yushuiwx/Mixture-of-LoRA-Experts).
import torch
from tests.broken.strangers.third._proof import train
from torch import nn
from torch.nn import functional

KIND = "gradients"


class Adapters(nn.Module):
    """Gates begin with one adapter far ahead."""

    def __init__(self, is_detached):
        super().__init__()
        self.is_detached = is_detached
        self.gate = nn.Linear(5, 3)
        self.parts = nn.ModuleList(nn.Linear(5, 2) for _ in range(3))
        with torch.no_grad():
            self.gate.bias[0] += 2

    def forward(self, x):
        gates = self.gate(x).softmax(-1)
        mixed = sum(gates[:, [i]] * part(x) for i, part in enumerate(self.parts))
        used = gates.detach() if self.is_detached else gates
        return mixed, used.mean(0)


def loss(outputs, y):
    mixed, used = outputs
    return functional.cross_entropy(mixed, y) + 10 * (used - 1 / 3).square().sum()


def items(seed, n=64):
    x = torch.randn(n, 5, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] * x[:, 1] > 0).long()


def patient(is_detached):
    torch.manual_seed(0)
    net = Adapters(is_detached)
    return net, *items(0), loss, torch.optim.Adam(net.parameters(), lr=2e-2)


def broken():
    return patient(True)


def repaired():
    return patient(False)


def harm():
    """The share of the gate that is used most."""
    x, _ = items(10**6, 500)
    most = [train(setup(), 200, items)(x)[1].max().item() for setup in (broken, repaired)]
    return most[0], most[1]
