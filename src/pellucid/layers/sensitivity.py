"""How weights and outputs of attention move when one key or one query does, measured and by the derivative.

With weights a_ij = softargmax_j(β q_i · k_j) and outputs h_i = Σ_j a_ij v_j, to first order:

    key k_j + ε         h_i moves by  β (q_i · ε) a_ij (v_j - h_i)             every output that sees the key
    query q_i + ε       h_i moves by  β Σ_j a_ij (ε · (k_j - k̄_i)) v_j         its own output and no other
    key α · k_j         h_i moves by  (α - 1) β (q_i · k_j) a_ij (v_j - h_i)   towards v_j where the score is positive

where k̄_i = Σ_j a_ij k_j. Tests hold these formulas, the derivatives and the measured changes against one another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.layers.attention import Scale, attend, inverse_root
from pellucid.layers.masks import EVERYTHING, Mask


class Moved(NamedTuple):
    """What was added to the weights, (n, m), and to the outputs, (n, t)."""

    weights: Tensor
    outputs: Tensor


class Sensitivity(NamedTuple):
    """What a change of one vector does to the attention of n queries to m keys."""

    before: Moved  # the weights and outputs themselves, from nothing
    measured: Moved  # what the change really adds
    predicted: Moved  # what the derivative says that it adds; the smaller the change, the nearer
    reach: Tensor  # (n,) the most that each output moves for a change of length 1; exactly 0 where it cannot move

    @property
    def can_move(self) -> Tensor:
        """Which outputs depend on that vector at all: (n,)."""
        return self.reach > 0


def key_moved(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    which: int,
    by: Tensor,
    scale: Scale = inverse_root,
    mask: Mask = EVERYTHING,
) -> Sensitivity:
    """Add `by` to one key: one score of every query changes, and all its weights with it.

    queries: (n, d); keys: (m, d); values: (m, t); by: (d,).

    >>> one, zero = torch.ones(1, 1), torch.zeros(1, 1)
    >>> found = key_moved(one, torch.cat([zero, zero]), torch.cat([zero, one]), which=1, by=torch.tensor([0.1]))
    >>> [round(found.measured.outputs.item(), 4), round(found.predicted.outputs.item(), 4)]
    [0.025, 0.025]
    """

    def at(key: Tensor) -> Moved:
        return _attended(queries, _replaced(keys, which, key), values, scale, mask)

    return _sensitivity(at, keys[which], by)


def query_moved(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    which: int,
    by: Tensor,
    scale: Scale = inverse_root,
    mask: Mask = EVERYTHING,
) -> Sensitivity:
    """Add `by` to one query: it alone asks otherwise, so its own row is all that changes.

    >>> draw = torch.Generator().manual_seed(0)
    >>> queries, keys, values = (torch.randn(3, 2, generator=draw) for _ in range(3))
    >>> query_moved(queries, keys, values, which=1, by=torch.ones(2)).can_move
    tensor([False,  True, False])
    """

    def at(query: Tensor) -> Moved:
        return _attended(_replaced(queries, which, query), keys, values, scale, mask)

    return _sensitivity(at, queries[which], by)


def key_scaled(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    which: int,
    factor: float,
    scale: Scale = inverse_root,
    mask: Mask = EVERYTHING,
) -> Sensitivity:
    """Make one key `factor` times as long: scores above 0 rise, those below 0 fall, each in proportion to itself.

    Queries that point its way are drawn to it, in the end wholly; those that point away turn from it.

    >>> towards, away = torch.tensor([[1.0], [-1.0]]), torch.tensor([[1.0], [0.0]])
    >>> key_scaled(towards, away, away, which=0, factor=2.0).measured.weights[:, 0]
    tensor([ 0.1497, -0.1497])
    """
    return key_moved(queries, keys, values, which=which, by=(factor - 1) * keys[which], scale=scale, mask=mask)


def _attended(queries: Tensor, keys: Tensor, values: Tensor, scale: Scale, mask: Mask) -> Moved:
    outputs, weights = attend(queries, keys, values, scale=scale, mask=mask, with_weights=True)
    return Moved(weights, outputs)


def _replaced(vectors: Tensor, which: int, vector: Tensor) -> Tensor:
    is_that_one = torch.arange(len(vectors), device=vectors.device)[:, None] == which
    return torch.where(is_that_one, vector, vectors)


def _sensitivity(at: Callable[[Tensor], Moved], here: Tensor, by: Tensor) -> Sensitivity:
    before, after = at(here), at(here + by)
    slopes = torch.func.jacrev(at)(here)  # of the weights (n, m, d), of the outputs (n, t, d)
    return Sensitivity(
        before,
        measured=Moved(after.weights - before.weights, after.outputs - before.outputs),
        predicted=Moved(slopes.weights @ by, slopes.outputs @ by),
        reach=torch.linalg.matrix_norm(slopes.outputs, ord=2),
    )
