"""The patients of the rule not-in-optimizer."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(is_replaced: bool) -> Specimen:
    with fixed_rng(0):
        model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if is_replaced:
            model[2] = nn.Linear(8, 4)
        return Specimen(model, (torch.randn(8, 5),), torch.arange(8) % 4, nn.CrossEntropyLoss(), optimizer)


def sick() -> Specimen:
    return _patient(is_replaced=True)


def well() -> Specimen:
    return _patient(is_replaced=False)
