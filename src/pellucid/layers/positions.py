"""Where a token stands: attention alone could not tell, it sees a set of tokens and not a row.

Rotary positions (Su et al. 2021) turn each pair of a query's and a key's numbers by an angle that grows with the
position, so that their product depends on the distance alone. Learned positions are added to the tokens' embeddings.
"""

from __future__ import annotations

import torch
from torch import Tensor

SLOWEST = 10_000.0  # how much slower the last pair turns than the first


def turns(length: int, head_width: int) -> Tensor:
    """The cosine and the sine by which each pair of each position is turned: (length, head_width / 2, 2).

    Position 0 is not turned at all.

    >>> turns(2, 4)[0]
    tensor([[1., 0.],
            [1., 0.]])
    """
    pairs = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    angles = torch.arange(length, dtype=torch.float64)[:, None] * SLOWEST**-pairs
    return torch.stack([angles.cos(), angles.sin()], dim=-1).to(torch.get_default_dtype())


def turned(vectors: Tensor, by: Tensor) -> Tensor:
    """vectors: (..., time, head_width) -> the same shape, each pair of numbers turned by its angle.

    by: (time, head_width / 2, 2), cosines and sines. A turn in the plane is the product with a complex number, which
    is one pass over the numbers where sines and cosines written out are five.

    >>> turned(torch.tensor([[1.0, 0.0]]), by=torch.tensor([[[0.0, 1.0]]]))
    tensor([[0., 1.]])
    """
    pairs = torch.view_as_complex(vectors.reshape(*vectors.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.view_as_complex(by)).flatten(-2)
