"""The patients of the rule missing-log-softmax."""

import torch
from torch import nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(last: nn.Module) -> Specimen:
    with fixed_rng(0):
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4), last)
        return Specimen(model, (torch.randn(12, 6),), torch.arange(12) % 4, functional.nll_loss)


def sick() -> Specimen:
    return _patient(nn.Identity())


def well() -> Specimen:
    return _patient(nn.LogSoftmax(dim=-1))
