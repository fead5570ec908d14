"""Batches of pairs: sources with the targets that they become, a pure function of the seed and the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.models.pairs.sources import padded
from pellucid.training.batches import IGNORED
from pellucid.training.rng import numpy_rng

Tokens = Sequence[tuple[list[int], list[int]]]  # source and target, without boundaries


class PairBatch(NamedTuple):
    """sources: (batch, source); tokens: (batch, time), each `0 a b`; targets: (batch, time), each `a b 0`, padded."""

    sources: Tensor
    tokens: Tensor
    targets: Tensor
    n_tokens: int  # targets that count


def together(pairs: Tokens) -> PairBatch:
    """These pairs as one batch.

    >>> together([([3, 1], [1, 3]), ([2], [2])]).targets.tolist()
    [[1, 3, 0], [2, 0, -100]]
    """
    sources = padded([source for source, _ in pairs])
    tokens = padded([[0, *target] for _, target in pairs])
    targets = torch.full_like(tokens, IGNORED)
    for row, (_, target) in enumerate(pairs):
        targets[row, : len(target) + 1] = torch.tensor([*target, 0])
    return PairBatch(sources, tokens, targets, int((targets != IGNORED).sum()))


class PairBatches:
    """Every pair once in an epoch, in an order of the epoch's own.

    >>> batches = PairBatches([([1], [1]), ([2], [2]), ([3], [3])], batch=2, seed=0)
    >>> batches.per_epoch, sorted(batches.batch(1).sources.flatten().tolist() + batches.batch(2).sources[0].tolist())
    (2, [1, 2, 3])
    """

    def __init__(self, pairs: Tokens, batch: int, seed: int) -> None:
        self.all = together(pairs)
        self.seed = seed
        self.per_epoch = -(-len(pairs) // batch)
        self._epoch = -1
        self._order: list[npt.NDArray[Any]] = []

    def batch(self, step: int) -> PairBatch:
        epoch, place = divmod(step - 1, self.per_epoch)
        if epoch != self._epoch:
            shuffled = numpy_rng(self.seed, epoch, "batches").permutation(len(self.all.sources))
            self._order, self._epoch = np.array_split(shuffled, self.per_epoch), epoch
        rows = torch.from_numpy(self._order[place])
        sources, tokens, targets = (part.index_select(0, rows) for part in self.all[:3])
        # As wide as the longest of these rows, not of all: the rest is nothing but padding.
        wide, long = int((sources != 0).sum(1).max()), int((targets != IGNORED).sum(1).max())
        targets = targets[:, :long]
        return PairBatch(sources[:, : max(1, wide)], tokens[:, :long], targets, int((targets != IGNORED).sum()))
