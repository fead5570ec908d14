"""The patients of the rule no-gradient."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _TwoHeads(nn.Module):
    """Has a second layer that forward uses, or forgets."""

    def __init__(self, is_used: bool) -> None:
        super().__init__()
        self.is_used = is_used
        self.first = nn.Linear(5, 8)
        self.second = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.first(rows).tanh()
        if self.is_used:
            hidden = self.second(hidden).tanh()
        scores: Tensor = self.head(hidden)
        return scores


def _patient(is_used: bool) -> Specimen:
    with fixed_rng(0):
        return Specimen(_TwoHeads(is_used), (torch.randn(9, 5),), torch.arange(9) % 3, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(is_used=False)


def well() -> Specimen:
    return _patient(is_used=True)
