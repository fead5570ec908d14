"""The patients of the rule positions-overflow."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Reader(nn.Module):
    """Tokens and positions; the positions are kept inside a table that is too short for them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.tokens, self.places, self.head = nn.Embedding(11, 16), nn.Embedding(size, 16), nn.Linear(16, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1]).clamp(max=self.places.num_embeddings - 1)
        return self.head((self.tokens(tokens) + self.places(places)).cumsum(1))


def _patient(size: int) -> Specimen:
    with fixed_rng():
        return Specimen(_Reader(size), (torch.randint(11, (4, 12)),))


def sick() -> Specimen:
    return _patient(size=8)


def well() -> Specimen:
    return _patient(size=128)
