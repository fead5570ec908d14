"""The patients of the rule attention-unscaled."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Head(nn.Module):
    """One head of attention, its scores divided by `divisor`."""

    def __init__(self, width: int, divisor: float) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.divisor = divisor

    def forward(self, x: Tensor) -> Tensor:
        scores = self.queries(x) @ self.keys(x).mT / self.divisor
        return scores.softmax(-1) @ self.values(x)


def _network(divisor: float, width: int = 256) -> Specimen:
    with fixed_rng():
        return Specimen(_Head(width, divisor), (torch.randn(4, 16, width),))


def sick() -> Specimen:
    return _network(divisor=1.0)


def well() -> Specimen:
    return _network(divisor=16.0)
