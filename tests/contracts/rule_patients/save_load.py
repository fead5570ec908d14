"""The patients of the rule save-load."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Scaled(nn.Module):
    """A linear layer on inputs times a scale that was drawn once."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.scale = nn.Linear(8, 3), 0.5 + torch.rand(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * self.scale)


class _ScaledAndSaved(nn.Module):
    """The same with the scale in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 3)
        self.register_buffer("scale", 0.5 + torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * self.get_buffer("scale"))


def sick() -> Specimen:
    with fixed_rng():
        return Specimen(_Scaled(), (torch.randn(4, 8),))


def well() -> Specimen:
    with fixed_rng():
        return Specimen(_ScaledAndSaved(), (torch.randn(4, 8),))
