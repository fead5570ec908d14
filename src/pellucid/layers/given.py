"""Attention that is told what to do: the identity, a permutation and a convolution, from given positions and a scale.

Keys are the positions, so attention goes where a query points, whatever the tokens are; values are left to the caller.
With the scale the best answer takes all: of n orthonormal positions, β leaves e^β / (e^β + n - 1) on the one meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.layers.attention import attention_weights
from pellucid.layers.masks import EVERYTHING


def identity_attention(positions: Tensor, scale: float) -> Tensor:
    """Each position asks for itself: (time, width) -> the attention matrix, (time, time), near the identity.

    It needs rows of one length, none twice: then no other has as large a product with a row as the row itself.

    >>> identity_attention(torch.eye(3), scale=20.0).round(decimals=4)
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """
    return permutation_attention(positions, range(len(positions)), scale)


def permutation_attention(positions: Tensor, order: Sequence[int], scale: float) -> Tensor:
    """Position i asks for position order[i]: (time, width) -> (time, time), near a permutation matrix.

    >>> permutation_attention(torch.eye(3), order=[2, 0, 1], scale=20.0).round(decimals=4)
    tensor([[0., 0., 1.],
            [1., 0., 0.],
            [0., 1., 0.]])
    """
    if sorted(order) != list(range(len(positions))):
        raise PellucidError(
            f"{', '.join(map(str, order))} does not name each of {len(positions)} positions once",
            fix="Give each number from 0 on once",
        )
    return attention_weights(positions[list(order)], positions, scale=scale, mask=EVERYTHING)


def convolution_attention(positions: Tensor, kernel: Sequence[float], scale: float) -> Tensor:
    """Each position takes of its neighbours by the kernel: (time, width) -> (time, time), near a banded matrix.

    kernel: an odd number of shares above 0 that sum to 1, as .25 .5 .25. A softargmax cannot give weights but through
    exp, so a query is made whose product with the key at distance δ is 1 + ln(share) / β, and with all others 0. At
    the ends what would fall outside is missing, and softargmax shares it among the rest.

    >>> convolution_attention(torch.eye(4), kernel=(0.25, 0.5, 0.25), scale=20.0).round(decimals=4)
    tensor([[0.6667, 0.3333, 0.0000, 0.0000],
            [0.2500, 0.5000, 0.2500, 0.0000],
            [0.0000, 0.2500, 0.5000, 0.2500],
            [0.0000, 0.0000, 0.3333, 0.6667]])
    """
    if len(kernel) % 2 == 0 or min(kernel) <= 0 or not math.isclose(sum(kernel), 1):
        raise PellucidError(
            f"a kernel of {', '.join(f'{share:g}' for share in kernel)} is no average around its middle",
            fix="Give an odd number of shares above 0 that sum to 1, as .25 .5 .25",
        )
    time, width = positions.shape
    if torch.linalg.matrix_rank(positions) < time:
        raise PellucidError(
            f"{time} positions of {width} numbers are not independent, so not every product can be chosen",
            fix=f"Give positions of at least {time} numbers, such as the rows of the identity",
        )
    wanted = torch.zeros(time, time, dtype=positions.dtype)
    for offset, share in enumerate(kernel, start=-(len(kernel) // 2)):
        n_there = time - abs(offset)
        if n_there > 0:
            wanted += torch.diag(torch.full((n_there,), 1 + math.log(share) / scale, dtype=positions.dtype), offset)
    queries = wanted @ torch.linalg.pinv(positions.t())
    return attention_weights(queries, positions, scale=scale, mask=EVERYTHING)
