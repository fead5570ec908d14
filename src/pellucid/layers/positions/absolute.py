"""Positions that are added to the embeddings: the index itself, waves of many lengths, or one learned row for each.

Learned ones can be read off for lengths and resolutions that they were not learned for.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.layers.positions.interface import Positions
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

    >>> IndexPositions(width=3).embeddings(4, 6)
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

    def embeddings(self, start: int, end: int) -> Tensor:
        return torch.arange(start, end, dtype=self.first.dtype, device=self.first.device)[:, None] * self.first


class SinusoidalPositions(Positions):
    """Waves of many lengths, from 2π to 10000·2π tokens. Nothing is learned, and no length is the last.

    length: how far they are kept ready; past it they are computed when asked for.

    >>> positions = SinusoidalPositions(length=2, width=4)
    >>> torch.equal(positions.embeddings(1, 5)[0], positions.embeddings(1, 2)[0])
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

    def embeddings(self, start: int, end: int) -> Tensor:
        length, width = self.table.shape
        return self.table[start:end] if end <= length else sinusoids(end - start, width, start).to(self.table)


class LearnedPositions(Positions):
    """One row for each position, drawn at random and learned. There are `length` of them and no more.

    >>> LearnedPositions(length=6, width=4).embeddings(2, 5).shape
    torch.Size([3, 4])
    """

    acts_on = "input"

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(length, width)

    @classmethod
    def for_attention(cls, *, length: int, width: int, n_heads: int, is_causal: bool) -> LearnedPositions:
        return cls(length, width)

    def embeddings(self, start: int, end: int) -> Tensor:
        return self.table.weight[start:end]

    @torch.no_grad()
    def resize(self, length: int) -> LearnedPositions:
        """Other positions for another length, read off between these; these stay as they are.

        >>> LearnedPositions(length=6, width=4).resize(9).embeddings(0, 9).shape
        torch.Size([9, 4])
        """
        rows = self.table.weight
        other = LearnedPositions(length, rows.shape[1]).to(rows)
        other.table.weight.copy_(resize_row(rows, length))
        return other


def resize_row(positions: Tensor, length: int) -> Tensor:
    """positions: (old length, width) -> (length, width), on the straight lines between neighbours.

    The first stays the first and the last the last.

    >>> resize_row(torch.tensor([[0.0], [3.0]]), length=4).flatten()
    tensor([0., 1., 2., 3.])
    """
    _require_places((length,))
    lines = positions.t()[None]  # (1, width, old length)
    return functional.interpolate(lines, size=length, mode="linear", align_corners=True)[0].t()


def resize_grid(positions: Tensor, old_grid: tuple[int, int], new_grid: tuple[int, int], n_apart: int = 0) -> Tensor:
    """positions: (n_apart + old rows · old columns, width) -> the same for the rows and columns of the new grid.

    n_apart: how many rows stand before the grid and are kept as they are, as that of a class token, which has no place
    in the picture. Between neighbours it is linear in both directions; corners stay corners, as in the vision
    transformer's own code.

    >>> resize_grid(torch.tensor([[9.0], [0.0], [2.0]]), (1, 2), (1, 3), n_apart=1).flatten()
    tensor([9., 0., 1., 2.])
    """
    _require_places(old_grid)
    _require_places(new_grid)
    rows, columns = old_grid
    if len(positions) != n_apart + rows * columns:
        raise PellucidError(
            f"{len(positions)} positions came, and a grid of {rows} × {columns} with {n_apart} apart has "
            f"{n_apart + rows * columns}",
            fix="Give the grid that they were learned for",
        )
    apart, grid = positions[:n_apart], positions[n_apart:]
    picture = grid.t().reshape(1, -1, rows, columns)  # width as channels
    larger = functional.interpolate(picture, size=new_grid, mode="bilinear", align_corners=True)
    return torch.cat([apart, larger[0].flatten(1).t()])


def _require_places(grid: tuple[int, ...]) -> None:
    if min(grid) < 1:
        raise PellucidError(f"there is no place in {' × '.join(map(str, grid))}", fix="Choose at least 1")
