"""The patients of the rule log-determinant."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Stretch(nn.Module):
    """z = x · exp(s) + t, each number by its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(4) / 2), nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * self.scale.exp() + self.shift, self.scale.sum().expand(len(x))


def _flow(sign: int) -> Specimen:
    def loss(outputs: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
        z, log = outputs
        return (z.square().sum(-1) / 2 - sign * log).mean()

    with fixed_rng():
        x = torch.randn(16, 4)
        return Specimen(_Stretch(), (x,), x.clone(), loss)


def sick() -> Specimen:
    return _flow(-1)


def well() -> Specimen:
    return _flow(1)
