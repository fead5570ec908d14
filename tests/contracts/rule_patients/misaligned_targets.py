"""The patients of the rule misaligned-targets."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(by: int) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
        x = torch.randn(32, 6)
    return Specimen(model, (x,), x[:, :3].argmax(1).roll(by), nn.CrossEntropyLoss())


def sick() -> Specimen:
    """Each row has the label of the one before it."""
    return _network(1)


def well() -> Specimen:
    return _network(0)
