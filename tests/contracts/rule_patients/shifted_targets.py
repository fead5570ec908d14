"""The patients of the rule shifted-targets."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(by: int) -> Specimen:
    with fixed_rng(0):
        tokens = torch.randint(0, 13, (4, 12))
        model = nn.Sequential(nn.Embedding(13, 8), nn.Linear(8, 13))

    def loss(scores: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())

    return Specimen(model, (tokens[:, :8],), tokens[:, by : 8 + by], loss, is_causal=True)


def sick() -> Specimen:
    return _patient(by=0)


def well() -> Specimen:
    return _patient(by=1)
