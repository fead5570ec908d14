"""The patients of the rule squared-error-on-probabilities."""

import torch
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(last: nn.Module) -> Specimen:
    with fixed_rng(0):
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3), last)
        targets = functional.one_hot(torch.arange(12) % 3, 3).float()
        return Specimen(model, (torch.randn(12, 6),), targets, functional.mse_loss)


def sick() -> Specimen:
    return _patient(nn.Softmax(dim=-1))


def well() -> Specimen:
    return _patient(nn.Identity())
