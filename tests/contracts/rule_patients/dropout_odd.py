"""The patients of the rule dropout-odd."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Classifier(nn.Module):
    def __init__(self, is_always_on: bool) -> None:
        super().__init__()
        self.hidden, self.head, self.is_always_on = nn.Linear(8, 32), nn.Linear(32, 3), is_always_on

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.dropout(self.hidden(x).relu(), 0.5, self.training or self.is_always_on)
        return self.head(hidden)


def _patient(is_always_on: bool) -> Specimen:
    with fixed_rng():
        return Specimen(_Classifier(is_always_on), (torch.randn(16, 8),))


def sick() -> Specimen:
    """A functional dropout that knows nothing of eval()."""
    return _patient(is_always_on=True)


def well() -> Specimen:
    return _patient(is_always_on=False)
