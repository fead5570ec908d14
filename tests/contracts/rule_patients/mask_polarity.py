"""The patients of the rule mask-polarity."""

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.specimen import Specimen


class _Reader(nn.Module):
    """A learned question attends to the tokens that the mask keeps, or to those that it hides."""

    def __init__(self, is_turned: bool) -> None:
        super().__init__()
        self.is_turned = is_turned
        self.embedding, self.question = nn.Embedding(11, 16), nn.Parameter(torch.randn(1, 1, 16))
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor, is_real: Tensor) -> Tensor:
        x = torch.cat([self.question.expand(len(tokens), 1, 16), self.embedding(tokens)], 1)
        hidden = is_real if self.is_turned else ~is_real
        hidden = nn.functional.pad(hidden, (1, 0))
        read = self.attention(x[:, :1], x, x, key_padding_mask=hidden, need_weights=False)[0]
        scores: Tensor = self.head(read[:, 0])
        return scores


def _patient(is_turned: bool) -> Specimen:
    with fixed_rng(0):
        is_real = torch.arange(9) < torch.tensor([9, 3, 5, 4, 6, 7])[:, None]
        tokens = torch.randint(1, 11, (6, 9)) * is_real
        return Specimen(_Reader(is_turned), (tokens, is_real), torch.arange(6) % 3, nn.CrossEntropyLoss())


def sick() -> Specimen:
    return _patient(is_turned=True)


def well() -> Specimen:
    return _patient(is_turned=False)
