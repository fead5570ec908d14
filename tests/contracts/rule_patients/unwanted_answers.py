"""The patients of the rule unwanted-answers."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _regression(sign: float) -> Specimen:
    with fixed_rng():
        model, inputs = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)), torch.randn(48, 6)
    targets = inputs[:, :1] * 2 + inputs[:, 1:2]
    return Specimen(model, (inputs,), targets, lambda outputs, wanted: (outputs + sign * wanted).square().mean())


def sick() -> Specimen:
    """A residual with a plus where a minus belongs: it is 0 for the opposite of each target."""
    return _regression(sign=1.0)


def well() -> Specimen:
    return _regression(sign=-1.0)
