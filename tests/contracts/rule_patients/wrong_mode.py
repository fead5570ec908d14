"""The patients of the rule wrong-mode."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Dropping(nn.Module):
    """Drops units by a function, which is told the mode or not."""

    def __init__(self, is_told: bool) -> None:
        super().__init__()
        self.is_told = is_told
        self.first, self.second = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, rows: Tensor) -> Any:
        hidden = self.first(rows).relu()
        return self.second(functional.dropout(hidden, 0.5, training=self.training or not self.is_told))


def _patient(is_told: bool) -> Specimen:
    with fixed_rng(0):
        return Specimen(_Dropping(is_told), (torch.randn(8, 6),), torch.arange(8) % 3)


def sick() -> Specimen:
    return _patient(is_told=False)


def well() -> Specimen:
    return _patient(is_told=True)
