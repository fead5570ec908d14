"""The patients of the rule scrambled-scores."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(is_viewed: bool) -> Specimen:
    with fixed_rng(0):
        tokens = torch.randint(0, 7, (4, 6))
        model = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))

    def loss(scores: Tensor, targets: Tensor) -> Tensor:
        batch, length, width = scores.shape
        laid = scores.view(batch, width, length) if is_viewed else scores.transpose(1, 2)
        return functional.cross_entropy(laid, targets)

    return Specimen(model, (tokens[:, :-1],), tokens[:, 1:], loss, is_causal=True)


def sick() -> Specimen:
    return _patient(is_viewed=True)


def well() -> Specimen:
    return _patient(is_viewed=False)
