"""The patients of the rule ties."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Reader(nn.Module):
    """An embedding, some layers, and a head tied to the embedding."""

    def __init__(self, layers: list[nn.Linear]) -> None:
        super().__init__()
        self.tokens, self.layers, self.head = nn.Embedding(11, 16), nn.ModuleList(layers), nn.Linear(16, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = x + layer(x).relu()
        return self.head(x)


def sick() -> Specimen:
    """Three names of one layer."""
    with fixed_rng():
        return Specimen(_Reader([nn.Linear(16, 16)] * 3), (torch.randint(11, (4, 6)),))


def well() -> Specimen:
    with fixed_rng():
        return Specimen(_Reader([nn.Linear(16, 16) for _ in range(3)]), (torch.randint(11, (4, 6)),))
