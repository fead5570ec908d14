"""The patients of the rule misjudged-spread."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _MiddleAndSpread(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.middle, self.spread = nn.Linear(3, 16), nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(rows).tanh()
        return self.middle(hidden), self.spread(hidden)


def _patient(share: float) -> Specimen:
    with fixed_rng():
        model, rows, targets = _MiddleAndSpread(), torch.randn(24, 3), torch.randn(24, 1)

    def loss(outputs: tuple[Tensor, Tensor], wanted: Tensor) -> Tensor:
        middle, log_variance = outputs
        return (0.5 * (wanted - middle).square() / log_variance.exp() + share * log_variance).mean()

    return Specimen(model, (rows,), targets, loss)


def sick() -> Specimen:
    """Half of the error, and the whole of the log-variance."""
    return _patient(share=1.0)


def well() -> Specimen:
    return _patient(share=0.5)
