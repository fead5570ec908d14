"""The patients of the rule saturated."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(deviation: float) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 3))
        nn.init.normal_(model[0].weight, std=deviation)
        return Specimen(model, (torch.randn(64, 16),))


def sick() -> Specimen:
    """Weights of deviation 2 where a quarter is usual: what tanh reads has a deviation of 8."""
    return _network(deviation=2.0)


def well() -> Specimen:
    return _network(deviation=0.25)
