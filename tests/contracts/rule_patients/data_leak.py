"""The patients of the rule data-leak."""

from dataclasses import replace

import torch
from torch import nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(is_leaking: bool) -> Specimen:
    with fixed_rng(0):
        rows = torch.randn(24, 5)
        targets = rows @ torch.randn(5, 1) + 0.1 * torch.randn(24, 1)
        specimen = Specimen(nn.Linear(6, 1), (torch.cat([rows, torch.randn(24, 1)], 1),), targets, nn.MSELoss())
    return replace(specimen, inputs=(torch.cat([rows, 3 * targets - 1], 1),)) if is_leaking else specimen


def sick() -> Specimen:
    return _patient(is_leaking=True)


def well() -> Specimen:
    return _patient(is_leaking=False)
