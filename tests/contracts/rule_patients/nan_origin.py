"""The patients of the rule nan-origin."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Ratio(nn.Module):
    """Divides by the deviation, with or without a small number."""

    def __init__(self, small: float) -> None:
        super().__init__()
        self.head, self.small = nn.Linear(4, 3), small

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x / (x.std(1, keepdim=True) + self.small))


def _patient(small: float) -> Specimen:
    with fixed_rng():
        inputs = torch.randn(8, 4)
        inputs[5] = 2.0  # a row without any deviation
        return Specimen(_Ratio(small), (inputs,), torch.randint(3, (8,)), nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(small=0.0)


def well() -> Specimen:
    # A plain deviation has no slope where it is 0, so the healthy one has no such row.
    specimen = _patient(small=1e-5)
    specimen.inputs[0][5] = torch.arange(4.0)
    return specimen
