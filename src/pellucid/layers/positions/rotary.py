"""Rotary positions (Su et al. 2021): queries and keys are turned, and their product keeps the distance alone.

Each pair of a query's and a key's numbers is turned by an angle that grows with the position. A turn of both by the
same angle changes no product, so what is left of two positions is their difference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.layers.positions.interface import Positions

SLOWEST = 10_000.0  # how much slower the last pair turns than the first


def rotary_angles(length: int, head_width: int) -> Tensor:
    """The cosine and the sine by which each pair of each position is turned: (length, head_width / 2, 2).

    Position 0 is not turned at all.

    >>> rotary_angles(2, 4)[0]
    tensor([[1., 0.],
            [1., 0.]])
    """
    pairs = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    angles = torch.arange(length, dtype=torch.float64)[:, None] * SLOWEST**-pairs
    return torch.stack([angles.cos(), angles.sin()], dim=-1).to(torch.get_default_dtype())


def rotate(vectors: Tensor, angles: Tensor) -> Tensor:
    """vectors: (..., time, head_width) -> the same shape, each pair of numbers turned by its angle.

    angles: (time, head_width / 2, 2), cosines and sines. A turn in the plane is the product with a complex number,
    which is one pass over the numbers where sines and cosines written out are five.

    >>> rotate(torch.tensor([[1.0, 0.0]]), angles=torch.tensor([[[0.0, 1.0]]]))
    tensor([[0., 1.]])
    """
    pairs = torch.view_as_complex(vectors.reshape(*vectors.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.view_as_complex(angles)).flatten(-2)


class RotaryPositions(Positions):
    """Queries and keys turned by their positions, up to `length` of them; nothing is learned.

    >>> RotaryPositions(length=8, head_width=4).angles(2, 5).shape
    torch.Size([3, 2, 2])
    """

    acts_on = "queries and keys"
    table: Tensor  # (length, head_width / 2, 2)
    qkv_angles: Tensor  # (length, 3, 1, head_width / 2, 2): the same for queries and keys; values are not turned

    def __init__(self, length: int, head_width: int) -> None:
        super().__init__()
        # What follows from the configuration is not saved.
        angles = rotary_angles(length, head_width)
        self.register_buffer("table", angles, persistent=False)
        still = angles[:1].expand_as(angles)
        self.register_buffer("qkv_angles", torch.stack([angles, angles, still], dim=1)[:, :, None], persistent=False)

    @classmethod
    def for_attention(cls, *, length: int, width: int, n_heads: int, is_causal: bool) -> RotaryPositions:
        return cls(length, width // n_heads)

    def angles(self, start: int, end: int) -> Tensor:
        return self.table[start:end]
