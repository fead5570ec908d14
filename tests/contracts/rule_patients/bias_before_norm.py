"""The patients of the rule bias-before-norm."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(has_bias: bool) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3, bias=has_bias), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
        )
        return Specimen(model, (torch.randn(8, 1, 8, 8),), torch.randint(3, (8,)), nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _network(has_bias=True)


def well() -> Specimen:
    return _network(has_bias=False)
