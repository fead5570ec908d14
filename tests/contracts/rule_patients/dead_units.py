"""The patients of the rule dead-units."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def sick() -> Specimen:
    """A bias so low that no example lifts any unit above 0."""
    with fixed_rng():
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
        nn.init.constant_(model[0].bias, -10.0)
        return Specimen(model, (torch.randn(64, 8),))


def well() -> Specimen:
    with fixed_rng():
        return Specimen(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)), (torch.randn(64, 8),))
