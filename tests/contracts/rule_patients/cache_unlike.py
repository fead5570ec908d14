"""The patients of the rule cache-unlike."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Recurrent(nn.Module):
    """Reads tokens with a GRU whose state can be given back, and which heeds it or not."""

    def __init__(self, is_heeded: bool) -> None:
        super().__init__()
        self.is_heeded = is_heeded
        self.embedding = nn.Embedding(9, 8)
        self.cell = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 9)

    def forward(self, tokens: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        read, state = self.cell(self.embedding(tokens), state if self.is_heeded else None)
        return self.head(read), state


def _patient(is_heeded: bool) -> Specimen:
    with fixed_rng(0):
        return Specimen(_Recurrent(is_heeded), (torch.randint(0, 9, (3, 8)),))


def sick() -> Specimen:
    return _patient(is_heeded=False)


def well() -> Specimen:
    return _patient(is_heeded=True)
