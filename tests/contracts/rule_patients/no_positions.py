"""The patients of the rule no-positions."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Reader(nn.Module):
    """One layer of attention over embedded tokens, with positions or without."""

    def __init__(self, has_positions: bool) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 16), nn.Embedding(12, 16) if has_positions else None
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        if self.places is not None:
            x = x + self.places(torch.arange(tokens.shape[1]))
        return self.head(x + self.attention(x, x, x, need_weights=False)[0])


def _reader(has_positions: bool) -> Specimen:
    with fixed_rng():
        tokens = torch.randint(11, (4, 12))
        return Specimen(_Reader(has_positions), (tokens,), tokens.flip(1))


def sick() -> Specimen:
    """It is asked for the tokens backwards, and cannot know which was last."""
    return _reader(has_positions=False)


def well() -> Specimen:
    return _reader(has_positions=True)
