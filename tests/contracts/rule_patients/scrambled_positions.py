"""The patients of the rule scrambled-positions."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Tagger(nn.Module):
    """Tags each token by itself; tokens are taken apart into two halves, which are put together again, or not."""

    def __init__(self, is_interleaved: bool) -> None:
        super().__init__()
        self.is_interleaved = is_interleaved
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        even, odd = tokens[:, ::2], tokens[:, 1::2]
        together = torch.stack([even, odd], 2).flatten(1) if self.is_interleaved else torch.cat([even, odd], 1)
        scores: Tensor = self.head(self.embedding(together).tanh())
        return scores


def _patient(is_interleaved: bool) -> Specimen:
    with fixed_rng(0):
        return Specimen(_Tagger(is_interleaved), (torch.randint(0, 11, (4, 12)),))


def sick() -> Specimen:
    return _patient(is_interleaved=False)


def well() -> Specimen:
    return _patient(is_interleaved=True)
