"""The patients of the rule linear-in-a-row."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(between: list[nn.Module]) -> Specimen:
    with fixed_rng():
        return Specimen(nn.Sequential(nn.Linear(8, 32), *between, nn.Linear(32, 3)), (torch.randn(16, 8),))


def sick() -> Specimen:
    """The activation was forgotten."""
    return _network([])


def well() -> Specimen:
    return _network([nn.ReLU(inplace=True)])
