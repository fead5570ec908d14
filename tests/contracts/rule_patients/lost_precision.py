"""The patients of the rule lost-precision."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Pixels(nn.Module):
    """Centres bytes around 0, as bytes or as floats."""

    def __init__(self, is_cast_first: bool) -> None:
        super().__init__()
        self.is_cast_first = is_cast_first
        self.head = nn.Linear(16, 3)

    def forward(self, pixels: Tensor) -> Tensor:
        centred = pixels.float() - 128 if self.is_cast_first else (pixels - 128).float()
        scores: Tensor = self.head(centred.flatten(1) / 128)
        return scores


def _patient(is_cast_first: bool) -> Specimen:
    with fixed_rng(0):
        pixels = torch.randint(0, 256, (6, 4, 4), dtype=torch.uint8)
        return Specimen(_Pixels(is_cast_first), (pixels,), torch.arange(6) % 3, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(is_cast_first=False)


def well() -> Specimen:
    return _patient(is_cast_first=True)
