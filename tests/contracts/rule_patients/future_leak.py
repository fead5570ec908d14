"""The patients of the rule future-leak."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Reader(nn.Module):
    """A small transformer that reads tokens, with or without its mask."""

    def __init__(self, is_masked: bool) -> None:
        super().__init__()
        self.is_masked = is_masked
        self.embedding = nn.Embedding(11, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        ahead = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        read = self.block(self.embedding(tokens), src_mask=ahead if self.is_masked else None)
        scores: Tensor = self.head(read)
        return scores


def _patient(is_masked: bool) -> Specimen:
    with fixed_rng(0):
        tokens = torch.randint(0, 11, (4, 9))
        model = _Reader(is_masked)
    return Specimen(model, (tokens[:, :-1],), tokens[:, 1:], is_causal=True)


def sick() -> Specimen:
    return _patient(is_masked=False)


def well() -> Specimen:
    return _patient(is_masked=True)
