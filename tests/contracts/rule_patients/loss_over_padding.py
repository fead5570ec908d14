"""The patients of the rule loss-over-padding."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


def _patient(ignored: int) -> Specimen:
    with fixed_rng(0):
        texts = torch.randint(1, 13, (8, 11))
        model = nn.Sequential(nn.Embedding(13, 8), nn.Linear(8, 13))
    texts = texts * (torch.arange(11) < 4 + torch.arange(8)[:, None])

    def loss(scores: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=ignored)

    return Specimen(model, (texts[:, :-1],), texts[:, 1:], loss, is_causal=True)


def sick() -> Specimen:
    return _patient(ignored=-100)


def well() -> Specimen:
    return _patient(ignored=0)
