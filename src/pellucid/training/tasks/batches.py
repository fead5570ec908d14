"""Batches for each step: a pure function of the seed and the step, so that a resumed run needs no state of them.

Where several processes train together, each takes its share of the rows of the same batch.

An epoch is a pass over everything, in an order of its own. Which items of a list meet in a batch is left to chance
where the network computes no padding. For others they are put together with items of about their length, so that hardly
anything is padded, or, where they are seen seldom, with all but the longest; and which of those, chance decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from pellucid.data.prepare import Examples
from pellucid.data.prepare.tokens import Corpus, label_ends
from pellucid.models.pairs.padding import pad_rows
from pellucid.training.distributed import WHOLE, Share
from pellucid.training.rng import numpy_rng

POOL = 4  # batches of pairs that are sorted by length together
LONGEST_OF = 8  # batches of a list that is mixed, of which one has the longest items
IGNORED = -100  # the target of padding, which torch's cross-entropy passes over
Ints = npt.NDArray[Any]
Pairs = Sequence[tuple[list[int], list[int]]]  # tokens of source and target, without boundaries


class Epochs:
    """Rows in batches, each row once in an epoch."""

    def __init__(self, n_rows: int, batch_size: int, seed: int) -> None:
        self.n_rows, self.seed = n_rows, seed
        self.per_epoch = -(-n_rows // batch_size)
        self._epoch = -1
        self._order: list[Ints] = []

    def rows(self, step: int) -> Ints:
        """The rows of this step; the first step is 1."""
        epoch, place = divmod(step - 1, self.per_epoch)
        if epoch != self._epoch:
            self._order, self._epoch = self.shuffle(numpy_rng(self.seed, epoch, "batches")), epoch
        return self._order[place]

    def has_rows(self, step: int, share: Share) -> bool:
        """Whether the share has rows of its own; else it is given one that counts for nothing."""
        return share.index < len(self.rows(step))

    def shuffle(self, rng: np.random.Generator) -> list[Ints]:
        """The rows of each batch of an epoch."""
        return np.array_split(_permutation(rng, self.n_rows), self.per_epoch)


def _permutation(rng: np.random.Generator, n_rows: int) -> Ints:
    """Rows in an order by chance; they are held for an epoch, and may be millions."""
    rows = rng.permutation(n_rows)
    return rows.astype(np.int32) if n_rows < 1 << 31 else rows


class Batch(NamedTuple):
    """tokens, targets: (batch, time); the target of each token is the one after it, of padding `IGNORED`."""

    tokens: Tensor
    targets: Tensor
    n_tokens: int  # targets that count
    counted: Tensor | None = None  # what counts say comes after each token that is no padding, (n, vocab)

    def counted_in_place(self) -> Tensor | None:
        """The same where the tokens stand, (batch, time, vocab), with zeros where padding is."""
        if self.counted is None:
            return None
        shape = (*self.targets.shape, self.counted.shape[-1])
        if self.n_tokens == self.targets.numel():
            return self.counted.view(shape)
        spread = self.counted.new_zeros(shape)
        spread[self.targets != IGNORED] = self.counted
        return spread


Counted = Callable[[Ints], Tensor]  # places of tokens -> log-probabilities of what comes after each, (…, vocab)


def make_batches(
    side: Corpus,
    batch_size: int,
    context: int,
    seed: int,
    *,
    by_length: bool = True,
    is_mixed: bool = False,
    counted: Counted | None = None,
) -> ListBatches | TextBatches:
    """Batches of a list's items or of a text's windows, whichever the side is.

    by_length: items of about one length meet, which saves padding; with is_mixed only the longest do. Without it each
    batch is a fair sample. counted: what comes after each token by counting, for a network that learns on top.
    """
    if side.has_boundary:
        items = Items(side.tokens, side.boundaries, counted, side.closing)
        return ListBatches(items, batch_size, seed, by_length=by_length, is_mixed=is_mixed)
    return TextBatches(side.tokens, batch_size, context, seed, counted)


class Items:
    """The items of a list, any of which can be put together.

    tokens: the stream `0 a… 0 b… 0`; boundaries: the places of the 0; closing: the token that is predicted where an
    item ends.
    """

    def __init__(self, tokens: Ints, boundaries: Ints, counted: Counted | None = None, closing: int = 0) -> None:
        self.tokens, self.counted, self.closing = tokens, counted, closing
        self.starts = boundaries[:-1]
        self.lengths: Ints = np.diff(boundaries)  # of an item and one boundary

    def __len__(self) -> int:
        return len(self.starts)

    def collate(self, rows: Ints, width: int = 0) -> Batch:
        """These items as one batch, padded to the longest of them, or to a width."""
        lengths = self.lengths[rows, None]
        places = np.arange(width or lengths.max())
        is_real = places < lengths
        # Past the end of the stream there is nothing to read; what is read there instead is masked.
        at = np.minimum(self.starts[rows, None] + places, len(self.tokens) - 2)
        tokens = np.where(is_real, self.tokens[at].astype(np.int64), 0)
        targets = np.where(is_real, label_ends(self.tokens[at + 1].astype(np.int64), self.closing), IGNORED)
        counted = self.counted(at[is_real]) if self.counted else None
        return Batch(torch.from_numpy(tokens), torch.from_numpy(targets), int(lengths.sum()), counted)


def list_items(side: Corpus) -> Items:
    """The items of a list's side."""
    return Items(side.tokens, side.boundaries, closing=side.closing)


class ListBatches(Epochs):
    """Items of a list, padded to the longest of their batch.

    batch_size: how many are put together on average; of short ones more, of long ones fewer.

    >>> items = Items(np.array([0, 1, 2, 0, 3, 0]), boundaries=np.array([0, 3, 5]))
    >>> one = ListBatches(items, batch_size=8, seed=0).batch(1)
    >>> sorted(zip(one.tokens.tolist(), one.targets.tolist()))
    [([0, 1, 2], [1, 2, 0]), ([0, 3, 0], [3, 0, -100])]
    """

    def __init__(
        self, items: Items, batch_size: int, seed: int, *, by_length: bool = True, is_mixed: bool = False
    ) -> None:
        super().__init__(len(items), batch_size, seed)
        self.items = items
        self.by_length, self.is_mixed = by_length, is_mixed

    def batch(self, step: int, share: Share = WHOLE) -> Batch:
        rows = self.rows(step)
        # Every share as wide as the whole batch: to batch norm, padding is a row like others.
        return self.items.collate(share.rows(rows), width=int(self.items.lengths[rows].max()))

    def shuffle(self, rng: np.random.Generator) -> list[Ints]:
        """Shuffled, sorted by length, cut, and the batches shuffled."""
        if not self.by_length:
            return super().shuffle(rng)
        if self.is_mixed:
            return self._mix(rng)
        shuffled = _permutation(rng, self.n_rows)
        by_length = shuffled[np.argsort(self.items.lengths[shuffled], kind="stable")]
        batches = np.split(by_length, _even_cuts(self.items.lengths[by_length], self.per_epoch))
        return [batches[i] for i in rng.permutation(self.per_epoch)]

    def _mix(self, rng: np.random.Generator) -> list[Ints]:
        """Dealt to pools of a few batches; of each pool one has the longest items, and the others any of the rest.

        Steps of one length undo those of another: one teaches that items end after two letters, and the next that they
        end after four. In many epochs that evens out; in few it does not. With 300 steps on Chinese words, most of
        which have two to four letters, dev is at 5.63 with every four batches sorted by length, and at 5.52 so, in the
        same time.
        """
        found: list[Ints] = []
        for n_batches, rows in _pools(rng, self.n_rows, self.per_epoch, LONGEST_OF):
            by_length = rows[np.argsort(self.items.lengths[rows], kind="stable")]
            *_, first = 0, *_even_cuts(self.items.lengths[by_length], n_batches)  # of the longest
            others = np.array_split(rng.permutation(by_length[:first]), n_batches - 1) if first else []
            batches = [*others, by_length[first:]]
            found += [batches[i] for i in rng.permutation(n_batches)]
        return found


def share_of_tokens(side: Corpus, batch_size: int) -> float:
    """Of the places in batches of a mixed list, those that are tokens; the others are padding."""
    items = list_items(side)
    batches = ListBatches(items, batch_size, seed=0, is_mixed=True)
    drawn = [items.lengths[batches.rows(step)] for step in range(1, batches.per_epoch + 1)]
    return float(items.lengths.sum() / sum(len(lengths) * lengths.max() for lengths in drawn))


def _pools(rng: np.random.Generator, n_rows: int, per_epoch: int, size: int) -> Iterator[tuple[int, Ints]]:
    """The rows of an epoch, dealt by chance to pools of about `size` batches: of each how many batches it is to be."""
    pools = np.array_split(np.arange(per_epoch), max(1, round(per_epoch / size)))
    ends = [(pool[-1] + 1) * n_rows // per_epoch for pool in pools]
    for pool, rows in zip(pools, np.split(_permutation(rng, n_rows), ends[:-1]), strict=True):
        yield len(pool), rows


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


class TextBatches(Epochs):
    """Windows of a text. In each epoch they follow one another from a new first token, and come in a new order.

    >>> TextBatches(np.arange(7), batch_size=2, context=3, seed=0).batch(1).n_tokens
    6
    """

    def __init__(self, tokens: Ints, batch_size: int, context: int, seed: int, counted: Counted | None = None) -> None:
        self.tokens, self.counted = tokens, counted
        self.context = min(context, len(tokens) - 1)
        super().__init__((len(tokens) - 1) // self.context, batch_size, seed)

    def batch(self, step: int, share: Share = WHOLE) -> Batch:
        return self.collate(share.rows(self.rows(step)))

    def collate(self, rows: Ints) -> Batch:
        """The windows that begin there."""
        at = rows[:, None] + np.arange(self.context)
        tokens, targets = (torch.from_numpy(self.tokens[where].astype(np.int64)) for where in (at, at + 1))
        return Batch(tokens, targets, targets.numel(), self.counted(at.reshape(-1)) if self.counted else None)

    def shuffle(self, rng: np.random.Generator) -> list[Ints]:
        """The first tokens of the windows of each batch."""
        shift = int(rng.integers(self.context))
        # The last window ends with the text, so it may share tokens with the one before it.
        firsts = np.minimum(shift + np.arange(self.n_rows) * self.context, len(self.tokens) - 1 - self.context)
        return np.array_split(rng.permutation(firsts), self.per_epoch)


class ExampleBatch(NamedTuple):
    """numbers: (batch, …), codes: (batch, columns), targets: (batch,)."""

    numbers: Tensor
    codes: Tensor
    targets: Tensor

    @property
    def n_tokens(self) -> int:
        """Predictions: one for each example."""
        return len(self.targets)


def make_example_batch(examples: Examples) -> ExampleBatch:
    """All examples as one batch."""
    parts = (examples.numbers, examples.codes, examples.targets)
    return ExampleBatch(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))


class ExampleBatches(Epochs):
    """Rows of a table, or images.

    shift: images are moved by up to so many pixels up, down and sideways, by chance; what comes in is the edge again.

    >>> rows = Examples(np.ones((5, 2), np.float32), np.zeros((5, 0), np.int64), np.arange(5))
    >>> batches = ExampleBatches(rows, batch_size=2, seed=0)
    >>> sorted(target for step in (1, 2, 3) for target in batches.batch(step).targets.tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, examples: Examples, batch_size: int, seed: int, shift: int = 0) -> None:
        super().__init__(len(examples), batch_size, seed)
        self.all = make_example_batch(examples)
        self.shift = shift

    def batch(self, step: int, share: Share = WHOLE) -> ExampleBatch:
        rows = torch.from_numpy(share.rows(self.rows(step)))
        batch = ExampleBatch(*(part.index_select(0, rows) for part in self.all))
        if not self.shift:
            return batch
        by = numpy_rng(self.seed, step, "shift").integers(-self.shift, self.shift + 1, (2, len(self.rows(step))))
        return batch._replace(numbers=shift_images(batch.numbers, torch.from_numpy(share.rows(by.T).T)))


def shift_images(images: Tensor, by: Tensor) -> Tensor:
    """images: (batch, channels, height, width), each moved by its own whole pixels; by: (2, batch), down and right.

    >>> shift_images(torch.tensor([[[[1.0, 2.0, 3.0]]]]), torch.tensor([[0], [1]]))
    tensor([[[[1., 1., 2.]]]])
    """
    most = int(by.abs().max())
    if not most:
        return images
    height, width = images.shape[2:]
    wide = functional.pad(images, (most,) * 4, mode="replicate")
    rows = (torch.arange(height) + most - by[0][:, None])[:, None, :, None]
    columns = (torch.arange(width) + most - by[1][:, None])[:, None, None, :]
    which = torch.arange(len(images))[:, None, None, None]
    channels = torch.arange(images.shape[1])[None, :, None, None]
    return wide[which, channels, rows, columns]


class PairBatch(NamedTuple):
    """sources: (batch, source); tokens: (batch, time), each `0 a b`; targets: (batch, time), each `a b 0`, padded."""

    sources: Tensor
    tokens: Tensor
    targets: Tensor
    n_tokens: int  # targets that count


def make_pair_batch(pairs: Pairs) -> PairBatch:
    """These pairs as one batch.

    >>> make_pair_batch([([3, 1], [1, 3]), ([2], [2])]).targets.tolist()
    [[1, 3, 0], [2, 0, -100]]
    """
    sources = pad_rows([source for source, _ in pairs])
    tokens = pad_rows([[0, *target] for _, target in pairs])
    lengths = torch.tensor([len(target) + 1 for _, target in pairs], dtype=torch.int64)
    is_padding = torch.arange(tokens.shape[1]) >= lengths[:, None]
    targets = functional.pad(tokens[:, 1:], (0, 1)).masked_fill_(is_padding, IGNORED)  # a row that ends is 0 there
    return PairBatch(sources, tokens, targets, int(lengths.sum()))


class PairBatches(Epochs):
    """Sources with the targets that they become.

    Of every few batches, one has the shortest pairs and one the longest, so that little is padded: of words of 4 to 31
    letters it was half. All of an epoch sorted at once would save a little more, and was learned from more slowly: the
    steps of one length undo those of another. by_length=False: each batch is a fair sample.

    >>> batches = PairBatches([([1], [1]), ([2], [2]), ([3], [3])], batch_size=2, seed=0)
    >>> sorted(source for step in (1, 2) for source in batches.batch(step).sources.flatten().tolist())
    [1, 2, 3]
    """

    def __init__(self, pairs: Pairs, batch_size: int, seed: int, *, by_length: bool = True) -> None:
        super().__init__(len(pairs), batch_size, seed)
        self.by_length = by_length
        self.all = make_pair_batch(pairs)
        self.lengths = np.array([(len(source), len(target) + 1) for source, target in pairs]).reshape(-1, 2)

    def batch(self, step: int, share: Share = WHOLE) -> PairBatch:
        rows = share.rows(self.rows(step))
        sources, tokens, targets = (part.index_select(0, torch.from_numpy(rows)) for part in self.all[:3])
        # As wide as the longest of these rows, not of all: the rest is nothing but padding.
        wide, long = self.lengths[rows].max(0).tolist()
        return PairBatch(
            sources[:, : max(1, wide)], tokens[:, :long], targets[:, :long], int(self.lengths[rows, 1].sum())
        )

    def shuffle(self, rng: np.random.Generator) -> list[Ints]:
        """Dealt to pools of a few batches, and each pool sorted by length, cut, and its batches shuffled."""
        if not self.by_length:
            return super().shuffle(rng)
        found: list[Ints] = []
        for n_batches, rows in _pools(rng, self.n_rows, self.per_epoch, POOL):
            sources, targets = self.lengths[rows].T
            by_length = rows[np.lexsort((sources, targets))]
            batches = np.split(by_length, _even_cuts(self.lengths[by_length].sum(1), n_batches))
            found += [batches[i] for i in rng.permutation(n_batches)]
        return found
