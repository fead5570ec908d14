"""The patients of the rule crossed-view."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Images(nn.Module):
    """Reads images (batch, height, width, channels), which a convolution wants with the channels in front."""

    def __init__(self, is_moved: bool) -> None:
        super().__init__()
        self.is_moved = is_moved
        self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 2)

    def forward(self, images: Tensor) -> Tensor:
        n_rows, height, width, channels = images.shape
        x = images.permute(0, 3, 1, 2) if self.is_moved else images.view(n_rows, channels, height, width)
        scores: Tensor = self.head(self.conv(x).relu().flatten(2).mean(-1))
        return scores


def _patient(is_moved: bool) -> Specimen:
    with fixed_rng(0):
        return Specimen(_Images(is_moved), (torch.randn(5, 8, 6, 3),), torch.arange(5) % 2, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(is_moved=False)


def well() -> Specimen:
    return _patient(is_moved=True)
