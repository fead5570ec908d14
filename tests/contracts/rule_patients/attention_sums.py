"""The patients of the rule attention-sums."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Lookup(nn.Module):
    """Questions read a memory; the softmax runs over its slots, or over the questions."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.queries, self.keys, self.head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(6, 2)

    def forward(self, questions: Tensor, memory: Tensor) -> Tensor:
        scores = self.queries(questions) @ self.keys(memory).transpose(1, 2)
        answers: Tensor = self.head(scores.softmax(self.axis) @ memory)
        return answers


def _patient(axis: int) -> Specimen:
    with fixed_rng(0):
        return Specimen(_Lookup(axis), (torch.randn(4, 3, 6), torch.randn(4, 5, 6)), torch.randn(4, 3, 2), nn.MSELoss())


def sick() -> Specimen:
    return _patient(axis=1)


def well() -> Specimen:
    return _patient(axis=2)
