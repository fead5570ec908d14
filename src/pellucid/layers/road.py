"""The road to attention: the average of the past, four times, each a small step from the one before.

by a loop            for each position, add up what was read so far and divide
by a matrix          the same as one product with L̄, a lower-triangular matrix whose rows sum to one
by a softmax         L̄ as the softmax of "wei", which is 0 where one may look and -∞ where not
by the data          the zeros become scores: what each position asks for, times what each one offers

Only the last one lets a position choose. All four are products of weights with values.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def average_by_loop(values: Tensor) -> Tensor:
    """The mean of each position and all before it, added up one by one: (time, width) -> (time, width).

    >>> average_by_loop(torch.tensor([[1.0], [3.0], [5.0]])).flatten()
    tensor([1., 2., 3.])
    """
    total = torch.zeros_like(values[0])
    averages = []
    for n_read, value in enumerate(values, start=1):
        total = total + value
        averages.append(total / n_read)
    return torch.stack(averages)


def averaging_matrix(time: int) -> Tensor:
    """L̄: 1/i in the first i places of row i, and 0 behind them: (time, time).

    >>> averaging_matrix(3)
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """
    lower = torch.ones(time, time).tril()
    return lower / lower.sum(dim=1, keepdim=True)


def average_by_matrix(values: Tensor) -> Tensor:
    """The same as one product, L̄ · values, for all positions at once.

    >>> average_by_matrix(torch.tensor([[1.0], [3.0], [5.0]])).flatten()
    tensor([1., 2., 3.])
    """
    return averaging_matrix(len(values)).to(values) @ values


def wei(time: int) -> Tensor:
    """Scores that know nothing but the order: 0 where one may look, -∞ at what comes later: (time, time).

    >>> wei(3)
    tensor([[0., -inf, -inf],
            [0., 0., -inf],
            [0., 0., 0.]])
    """
    return torch.full((time, time), -math.inf).triu(diagonal=1)


def average_by_softmax(values: Tensor) -> Tensor:
    """The same with L̄ as softmax(wei): equal scores are equal weights, and exp(-∞) is none.

    >>> average_by_softmax(torch.tensor([[1.0], [3.0], [5.0]])).flatten()
    tensor([1., 2., 3.])
    """
    return wei(len(values)).to(values).softmax(dim=-1) @ values


def weights_by_data(queries: Tensor, keys: Tensor) -> Tensor:
    """softmax(queries · keysᵀ / √d + wei): where wei was 0, how well a key answers a query: (time, d) -> (time, time).

    >>> weights_by_data(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [-1.0]]))
    tensor([[1.0000, 0.0000],
            [0.9820, 0.0180]])
    """
    time, width = queries.shape
    scores = queries @ keys.t() / math.sqrt(width)
    return (scores + wei(time).to(scores)).softmax(dim=-1)


def average_by_data(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """An average of the past in which each position chooses: that is attention.

    Without a preference, when all queries are zero, it is the plain average again.

    >>> average_by_data(torch.zeros(3, 2), torch.ones(3, 2), torch.tensor([[1.0], [3.0], [5.0]])).flatten()
    tensor([1., 2., 3.])
    """
    return weights_by_data(queries, keys) @ values
