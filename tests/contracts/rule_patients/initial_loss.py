"""The patients of the rule initial-loss."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(spread: float) -> Specimen:
    with fixed_rng(0):
        head = nn.Linear(32, 10)
        nn.init.normal_(head.weight, std=spread)
        nn.init.zeros_(head.bias)
        model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.LayerNorm(32), head)
        return Specimen(model, (torch.randn(40, 12),), torch.arange(40) % 10, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(spread=1.0)


def well() -> Specimen:
    return _patient(spread=0.02)
