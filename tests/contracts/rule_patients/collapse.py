"""The patients of the rule collapse."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(margin: float) -> Specimen:
    with fixed_rng():
        model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 4))
        rows = torch.randn(24, 6)

    def contrastive(points: Tensor, labels: Tensor) -> Tensor:
        apart = (points[:, None] - points[None]).square().sum(-1)
        same = labels[:, None] == labels[None]
        return torch.where(same, apart, (margin - apart).relu()).mean()

    return Specimen(model, (rows,), torch.arange(24) % 3, contrastive)


def sick() -> Specimen:
    """A margin of 0: pairs of unlike rows cost nothing, wherever they are."""
    return _patient(margin=0.0)


def well() -> Specimen:
    return _patient(margin=1.0)
