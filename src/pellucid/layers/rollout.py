"""What attention maps say when they are put together: through all layers, and of positions beside one another."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def rollout(maps: Tensor) -> Tensor:
    """maps: (depth, batch, heads, n, n), each row summing to one -> (batch, n, n): what each position is made of.

    Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers": the mean of the heads is what a layer moves,
    and as much again stays where it is, since the layer only adds to the stream: (A + I) / 2. Layers follow one another
    as matrices do. Row i says how much of each input is in position i after the last of them, if values were handed on
    as they are; so it is no measure of what a network would answer without an input.

    >>> half = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    >>> rollout(half.expand(2, 1, 1, 2, 2))
    tensor([[[0.2500, 0.7500],
             [0.0000, 1.0000]]])
    """
    moved = maps.mean(2)
    layers = (moved + torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)) / 2
    through = layers[0]
    for layer in layers[1:]:
        through = layer @ through
    return through


def similarity(vectors: Tensor) -> Tensor:
    """vectors: (n, width) -> (n, n): the cosine of the angle between any two of them.

    Of learned positions it shows what a network found out about neighbourhood without being told.

    >>> similarity(torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, -3.0]]))
    tensor([[ 1.0000,  0.7071,  0.0000],
            [ 0.7071,  1.0000, -0.7071],
            [ 0.0000, -0.7071,  1.0000]])
    """
    directions = functional.normalize(vectors, dim=-1)
    return directions @ directions.T
