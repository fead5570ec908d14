"""The patients of the rule sigmoid-before-logits."""

import torch
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(last: nn.Module) -> Specimen:
    with fixed_rng(0):
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1), last)
        targets = (torch.arange(12) % 2).float().unsqueeze(1)
        return Specimen(model, (torch.randn(12, 6),), targets, functional.binary_cross_entropy_with_logits)


def sick() -> Specimen:
    return _patient(nn.Sigmoid())


def well() -> Specimen:
    return _patient(nn.Identity())
