"""The patients of the rule gradients-over-depth."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _stack(activation: type[nn.Module], depth: int = 12, gain: float = 1.0) -> Specimen:
    with fixed_rng():
        layers: list[nn.Module] = []
        for _ in range(depth):
            linear = nn.Linear(16, 16)
            nn.init.normal_(linear.weight, std=gain / 4)
            layers += [linear, activation()]
        targets = torch.randint(3, (32,))
        return Specimen(
            nn.Sequential(*layers, nn.Linear(16, 3)), (torch.randn(32, 16),), targets, nn.CrossEntropyLoss()
        )


def sick() -> Specimen:
    """Twelve sigmoids: each multiplies the gradient by a quarter at most."""
    return _stack(nn.Sigmoid)


def well() -> Specimen:
    return _stack(nn.ReLU, gain=2**0.5)
