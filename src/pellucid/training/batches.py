"""What is learned from in each step: a pure function of the seed and the step.

An epoch is a pass over everything, in an order of its own. Items of a list are put together with others of about
their length, so that hardly anything is padded; which of them meet, and which batch comes first, is left to chance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.data.sides import Side
from pellucid.training.rng import numpy_rng
from pellucid.training.task import Batches

IGNORED = -100  # the target of padding, which torch's cross-entropy passes over
Ints = npt.NDArray[Any]


class Batch(NamedTuple):
    """tokens, targets: (batch, time); the target of each token is the one after it, of padding `IGNORED`."""

    tokens: Tensor
    targets: Tensor
    n_tokens: int  # targets that count


def batches_of(side: Side, batch: int, context: int, seed: int, *, by_length: bool = True) -> Batches:
    """Batches of a list's items or of a text's windows, whichever the side is.

    by_length: items of about one length meet, which saves padding. Not for a model whose rows meet in training.
    """
    if side.has_boundary:
        return ListBatches(side.tokens, np.flatnonzero(side.tokens == 0)[:-1], batch, seed, by_length=by_length)
    return TextBatches(side.tokens, batch, context, seed)


class Items:
    """The items of a list, any of which can be put together.

    tokens: the stream `0 a… 0 b… 0`; starts: where each item's opening boundary stands.
    """

    def __init__(self, tokens: Ints, starts: Ints) -> None:
        self.tokens = tokens
        self.starts = starts.astype(np.int64)
        self.lengths = np.diff(self.starts, append=len(tokens) - 1)  # of an item and one boundary

    def __len__(self) -> int:
        return len(self.starts)

    def together(self, rows: Ints) -> Batch:
        """These items as one batch, padded to the longest of them."""
        lengths = self.lengths[rows, None]
        places = np.arange(lengths.max())
        is_real = places < lengths
        # Past the end of the stream there is nothing to read; what is read there instead is masked.
        at = np.minimum(self.starts[rows, None] + places, len(self.tokens) - 2)
        tokens = np.where(is_real, self.tokens[at].astype(np.int64), 0)
        targets = np.where(is_real, self.tokens[at + 1].astype(np.int64), IGNORED)
        return Batch(torch.from_numpy(tokens), torch.from_numpy(targets), int(lengths.sum()))


def items_of(side: Side) -> Items:
    """The items of a list's side."""
    return Items(side.tokens, np.flatnonzero(side.tokens == 0)[:-1])


class ListBatches:
    """Items of a list, each once in an epoch, padded to the longest of their batch.

    batch: how many are put together on average; of short ones more, of long ones fewer.

    >>> one = ListBatches(np.array([0, 1, 2, 0, 3, 0]), np.array([0, 3]), batch=8, seed=0).batch(1)
    >>> sorted(zip(one.tokens.tolist(), one.targets.tolist()))
    [([0, 1, 2], [1, 2, 0]), ([0, 3, 0], [3, 0, -100])]
    """

    def __init__(self, tokens: Ints, starts: Ints, batch: int, seed: int, *, by_length: bool = True) -> None:
        self.items = Items(tokens, starts)
        self.seed, self.by_length = seed, by_length
        self.per_epoch = -(-len(starts) // batch)
        self._epoch = -1
        self._order: list[Ints] = []

    def batch(self, step: int) -> Batch:
        return self.items.together(self._rows(step))

    def _rows(self, step: int) -> Ints:
        epoch, place = divmod(step - 1, self.per_epoch)
        if epoch != self._epoch:
            self._order, self._epoch = self._batched(epoch), epoch
        return self._order[place]

    def _batched(self, epoch: int) -> list[Ints]:
        """The rows of each batch of an epoch: shuffled, sorted by length, cut, and the batches shuffled."""
        draw = numpy_rng(self.seed, epoch, "batches")
        shuffled = draw.permutation(len(self.items))
        if not self.by_length:
            return np.array_split(shuffled, self.per_epoch)
        by_length = shuffled[np.argsort(self.items.lengths[shuffled], kind="stable")]
        batches = np.split(by_length, _even_cuts(self.items.lengths[by_length], self.per_epoch))
        return [batches[i] for i in draw.permutation(self.per_epoch)]


def _even_cuts(lengths: Ints, n_parts: int) -> Ints:
    """Where to cut so that every part has about as many tokens, and at least one item: (n_parts - 1,).

    Batches of as many items would give a token of a short item more weight than one of a long item.

    >>> _even_cuts(np.array([1, 1, 1, 1, 2, 2]), 2), _even_cuts(np.array([1, 1, 9]), 3)
    (array([4]), array([1, 2]))
    """
    read = np.cumsum(lengths)
    parts = np.arange(1, n_parts)
    cuts = np.searchsorted(read, read[-1] * parts / n_parts, side="right")
    kept: Ints = np.clip(cuts, parts, len(lengths) - n_parts + parts)
    return kept


class TextBatches:
    """Windows of a text. In each epoch they follow one another from a new first token, and come in a new order.

    >>> TextBatches(np.arange(7), batch=2, context=3, seed=0).batch(1).n_tokens
    6
    """

    def __init__(self, tokens: Ints, batch: int, context: int, seed: int) -> None:
        self.tokens = tokens
        self.context = min(context, len(tokens) - 1)
        self.n_windows = (len(tokens) - 1) // self.context
        self.per_epoch = -(-self.n_windows // batch)
        self.seed = seed
        self._epoch = -1
        self._order: list[Ints] = []

    def batch(self, step: int) -> Batch:
        epoch, place = divmod(step - 1, self.per_epoch)
        if epoch != self._epoch:
            self._order, self._epoch = self._batched(epoch), epoch
        at = self._order[place][:, None] + np.arange(self.context)
        tokens, targets = (torch.from_numpy(self.tokens[where].astype(np.int64)) for where in (at, at + 1))
        return Batch(tokens, targets, targets.numel())

    def _batched(self, epoch: int) -> list[Ints]:
        """The first tokens of the windows of each batch of an epoch."""
        draw = numpy_rng(self.seed, epoch, "batches")
        shift = int(draw.integers(self.context))
        # The last window ends with the text, so it may share tokens with the one before it.
        firsts = np.minimum(shift + np.arange(self.n_windows) * self.context, len(self.tokens) - 1 - self.context)
        return np.array_split(draw.permutation(firsts), self.per_epoch)
