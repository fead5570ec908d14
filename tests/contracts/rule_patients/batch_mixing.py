"""The patients of the rule batch-mixing."""

from typing import Any

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Glimpses(nn.Module):
    """Scores rows by their similarity to learned ones; the softmax is over the right axis or over the batch."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.similarity = nn.Linear(6, 5)
        self.pick = nn.Softmax(dim=axis)
        self.head = nn.Linear(5, 3)

    def forward(self, rows: Tensor) -> Any:
        return self.head(self.pick(self.similarity(rows)))


def _patient(axis: int) -> Specimen:
    with fixed_rng(0):
        return Specimen(_Glimpses(axis), (torch.randn(8, 6),), torch.arange(8) % 3)


def sick() -> Specimen:
    return _patient(axis=0)


def well() -> Specimen:
    return _patient(axis=1)
