"""The patients of the rule double-softmax."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(last: nn.Module) -> Specimen:
    with fixed_rng(0):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10), last)
        return Specimen(model, (torch.randn(20, 8),), torch.arange(20) % 10, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(nn.Softmax(dim=-1))


def well() -> Specimen:
    return _patient(nn.Identity())
