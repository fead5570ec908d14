"""The patients of the rule unasked-targets."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(ignored: int) -> Specimen:
    with fixed_rng(0):
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        loss = nn.CrossEntropyLoss(ignore_index=ignored)
        return Specimen(model, (torch.randn(12, 6),), torch.arange(12) % 4, loss)


def sick() -> Specimen:
    return _patient(ignored=0)


def well() -> Specimen:
    return _patient(ignored=-100)
