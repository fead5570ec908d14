"""The patients of the rule flat-loss."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(is_clamped: bool) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        rows, labels = torch.randn(32, 4), (torch.arange(32) % 2).float()[:, None]

    def hinge(scores: Tensor, wanted: Tensor) -> Tensor:
        margin = (2 * wanted - 1) * 8 * scores
        cost = 1 - margin.clamp(-1, 1) if is_clamped else (1 - margin).relu()
        return cost.mean()

    return Specimen(model, (rows,), labels, hinge)


def sick() -> Specimen:
    """Cut on both sides: a row that is far off costs no more than one that is just off, and is told nothing."""
    return _patient(is_clamped=True)


def well() -> Specimen:
    return _patient(is_clamped=False)
