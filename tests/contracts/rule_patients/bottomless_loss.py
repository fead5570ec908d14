"""The patients of the rule bottomless-loss."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(sign: int) -> Specimen:
    with fixed_rng(0):
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        rows = torch.randn(12, 6)

    def loss(scores: Tensor, labels: Tensor) -> Tensor:
        return sign * functional.log_softmax(scores, -1).gather(1, labels[:, None]).mean()

    return Specimen(model, (rows,), torch.arange(12) % 4, loss)


def sick() -> Specimen:
    return _patient(sign=1)


def well() -> Specimen:
    return _patient(sign=-1)
