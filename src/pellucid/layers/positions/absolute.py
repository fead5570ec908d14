"""Positions that are added to the embeddings: the index itself, waves of many lengths, or one learned row for each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pellucid.layers.positions.interface import Positions
from pellucid.layers.positions.resizing import resized_row
from pellucid.layers.positions.rotary import SLOWEST


def sinusoids(length: int, width: int, start: int = 0) -> Tensor:
    """The original transformer's: PE(p, 2i) = sin(p / 10000^(2i / width)), and the cosine beside it: (length, width).

    For any length, without training, and all numbers within [-1, 1]. PE(p + k) is PE(p) with each pair of numbers
    turned by an angle that depends on k alone, so a distance is one linear map wherever it is measured.

    >>> sinusoids(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    pairs = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = torch.arange(start, start + length, dtype=torch.float64)[:, None] * SLOWEST**-pairs
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return waves[:, :width].to(torch.get_default_dtype())  # of an odd width the last cosine has no place


class IndexPositions(Positions):
    """p = i: the index, added to the first number of each embedding. It is here to show why nobody does it.

    It grows without end, so far from the start it drowns the token beside it, while 512 and 513 are hardly told apart.
    Added to all numbers alike it would not even be seen: layer norm takes away what all have in common.

    >>> IndexPositions(width=3).added(4, 6)
    tensor([[4., 0., 0.],
            [5., 0., 0.]])
    """

    acts_on = "input"
    first: Tensor  # (width,), 1 and then zeros

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("first", torch.eye(1, width)[0], persistent=False)

    @classmethod
    def for_attention(cls, *, length: int, width: int, n_heads: int, is_causal: bool) -> IndexPositions:
        return cls(width)

    def added(self, start: int, end: int) -> Tensor:
        return torch.arange(start, end, dtype=self.first.dtype, device=self.first.device)[:, None] * self.first


class SinusoidalPositions(Positions):
    """Waves of many lengths, from 2π to 10000·2π tokens. Nothing is learned, and no length is the last.

    length: how far they are kept ready; past it they are computed when asked for.

    >>> positions = SinusoidalPositions(length=2, width=4)
    >>> torch.equal(positions.added(1, 5)[0], positions.added(1, 2)[0])
    True
    """

    acts_on = "input"
    table: Tensor  # (length, width)

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        # What follows from the configuration is not saved.
        self.register_buffer("table", sinusoids(length, width), persistent=False)

    @classmethod
    def for_attention(cls, *, length: int, width: int, n_heads: int, is_causal: bool) -> SinusoidalPositions:
        return cls(length, width)

    def added(self, start: int, end: int) -> Tensor:
        length, width = self.table.shape
        return self.table[start:end] if end <= length else sinusoids(end - start, width, start).to(self.table)


class LearnedPositions(Positions):
    """One row for each position, drawn at random and learned. There are `length` of them and no more.

    >>> LearnedPositions(length=6, width=4).added(2, 5).shape
    torch.Size([3, 4])
    """

    acts_on = "input"

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(length, width)

    @classmethod
    def for_attention(cls, *, length: int, width: int, n_heads: int, is_causal: bool) -> LearnedPositions:
        return cls(length, width)

    def added(self, start: int, end: int) -> Tensor:
        return self.table.weight[start:end]

    @torch.no_grad()
    def resized(self, length: int) -> LearnedPositions:
        """Other positions for another length, read off between these; these stay as they are.

        >>> LearnedPositions(length=6, width=4).resized(9).added(0, 9).shape
        torch.Size([9, 4])
        """
        rows = self.table.weight
        other = LearnedPositions(length, rows.shape[1]).to(rows)
        other.table.weight.copy_(resized_row(rows, length))
        return other
