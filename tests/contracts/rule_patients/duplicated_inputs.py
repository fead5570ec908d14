"""The patients of the rule duplicated-inputs."""

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(is_leaking: bool) -> Specimen:
    with fixed_rng(0):
        rows, other = torch.randn(12, 5), torch.randn(12, 5)
        further = torch.cat([rows[:4], other[4:]]) if is_leaking else other
        targets = torch.arange(12) % 3
        return Specimen(nn.Linear(5, 3), (rows,), targets, nn.CrossEntropyLoss(), more=(((further,), targets),))


def sick() -> Specimen:
    return _patient(is_leaking=True)


def well() -> Specimen:
    return _patient(is_leaking=False)
