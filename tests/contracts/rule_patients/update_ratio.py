"""The patients of the rule update-ratio."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _network(rate: float) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
        inputs, targets = torch.randn(64, 8), torch.randint(3, (64,))
        return Specimen(model, (inputs,), targets, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=rate))


def sick() -> Specimen:
    return _network(rate=5.0)


def well() -> Specimen:
    return _network(rate=1e-3)
