"""The patients of the rule target-broadcast."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(shape: tuple[int, ...]) -> Specimen:
    with fixed_rng(0):
        rows = torch.randn(16, 4)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        targets = rows.sum(1).reshape(shape)

    def squared_error(outputs: Tensor, wanted: Tensor) -> Tensor:
        return (outputs - wanted).square().mean()

    return Specimen(model, (rows,), targets, squared_error)


def sick() -> Specimen:
    return _patient((16,))


def well() -> Specimen:
    return _patient((16, 1))
