"""The patients of the rule inputs-unnormalised."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(scale: float, shift: float) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
        return Specimen(model, (torch.rand(32, 1, 8, 8) * scale + shift,))


def sick() -> Specimen:
    """Pixels from 0 to 255."""
    return _network(scale=255.0, shift=0.0)


def well() -> Specimen:
    return _network(scale=3.4, shift=-1.7)
