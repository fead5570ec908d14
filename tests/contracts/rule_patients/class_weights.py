"""The patients of the rule class-weights."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(is_inverse: bool) -> Specimen:
    labels = torch.tensor([0] * 40 + [1] * 8 + [2] * 4)
    counts = torch.bincount(labels).float()
    with fixed_rng():
        model, rows = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3)), torch.randn(len(labels), 5)
    return Specimen(model, (rows,), labels, nn.CrossEntropyLoss(weight=1 / counts if is_inverse else counts))


def sick() -> Specimen:
    return _patient(is_inverse=False)


def well() -> Specimen:
    return _patient(is_inverse=True)
