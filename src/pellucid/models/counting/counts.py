"""How often each gram stood in the data, for every order up to n.

A gram of order k is one token and the k - 1 before it. It has one integer for its code: its tokens as the digits of a
number to the base |V|, the newest last. So a context's grams stand beside each other, and the code of a context is
the code of its grams without the last digit. Small tables are dense, the code being the index; large ones are sorted.

In a list the boundary is token 0 and a context sees nothing before it, so that what stands there counts as more
boundaries: the digits are zeros, and an item's first context has the code 0 in every order. Where items are closed by a
token of their own, it is only ever the last digit. In running text a context that would reach back before the beginning
has a code below 0.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pellucid.data.prepare.tokens import label_ends
from pellucid.errors import PellucidError, TooLarge
from pellucid.models.counting.code_index import CodeIndex
from pellucid.models.counting.count_model import FloatArray, IntArray, Stream

MOST_DENSE = 1 << 20  # entries of a table that is kept dense
MOST_BINS = 16_000_000  # entries of a table that is counted by bins; beyond it, or with few tokens, by sorting
MOST_ORDERS = 100
_MOST_CODE = 1 << 62
_CHUNK = 1 << 20  # tokens counted at a time
MOST_APART = 1 << 22  # entries of tables that were counted by chunks and are not joined yet
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Level:
    """The counts of one order. Dense: counts[code]. Sparse: counts[i] for the i-th of the sorted `codes`."""

    order: int
    vocab_size: int
    codes: IntArray  # of the grams seen; empty when dense
    counts: IntArray
    is_dense: bool
    rows: IntArray  # of the contexts seen, sorted; empty when dense
    row_starts: IntArray  # where the grams of each context begin; empty when dense
    shorter: "Level | None" = field(repr=False)  # the order below
    # Each gram's code without its oldest token, where that cannot be read from a code that holds a rank; else empty.
    tails: IntArray

    @cached_property
    def suffixes(self) -> IntArray:
        """For each gram seen, where the gram without its oldest token stands one order below."""
        assert self.shorter is not None, "a gram of one token has no suffix"
        if len(self.tails):
            return self.shorter.find(self.tails)
        codes = np.flatnonzero(self.counts) if self.is_dense else self.codes
        return self.shorter.find(codes % self.vocab_size ** (self.order - 1))

    @cached_property
    def row_lengths(self) -> IntArray:
        """How many grams each context has, where they are sorted."""
        return np.diff(self.row_starts, append=len(self.codes))

    @cached_property
    def index(self) -> CodeIndex:
        return CodeIndex(self.codes)

    @cached_property
    def _row_index(self) -> CodeIndex:
        return CodeIndex(self.rows)

    def without_counts(self) -> "Level":
        """The same grams, to be found but no more to be smoothed. A dense table stays: its place is its code."""
        counts = self.counts if self.is_dense else _NONE
        return dataclasses.replace(self, counts=counts, shorter=None, tails=_NONE)

    def find(self, codes: IntArray) -> IntArray:
        """Where each gram's count stands; len(counts) for one that was never seen."""
        return codes if self.is_dense else self.index.find(codes)

    def find_rows(self, rows: IntArray) -> IntArray:
        """Where each context stands among those of this order; n_rows for one that was never seen."""
        return rows if self.is_dense else self._row_index.find(rows)

    @property
    def n_rows(self) -> int:
        return len(self.counts) // self.vocab_size if self.is_dense else len(self.rows)

    @property
    def n_seen(self) -> int:
        """How many different grams were seen."""
        return int(np.count_nonzero(self.counts))

    def table(self) -> IntArray:
        """The counts of all grams there could be: |V|^order of them."""
        if self.is_dense:
            return self.counts
        whole = np.zeros(self.vocab_size**self.order, np.int64)
        whole[self.codes] = self.counts
        return whole

    def row_sums(self, values: FloatArray | IntArray) -> FloatArray:
        """The sum over the grams of each context of values that stand as the counts do."""
        sums: FloatArray
        if self.is_dense:
            sums = values.reshape(-1, self.vocab_size).sum(axis=1, dtype=np.float64)
        else:
            sums = np.add.reduceat(values.astype(np.float64), self.row_starts)
        return sums

    def by_row(self, values: FloatArray) -> FloatArray:
        """A value of each context, repeated for each of its grams."""
        if self.is_dense:
            return np.repeat(values, self.vocab_size)
        return np.repeat(values, self.row_lengths)


@dataclass(frozen=True)
class Grams:
    """The counts of every order from 1 up to `order`."""

    vocab_size: int
    has_boundary: bool
    levels: tuple[Level, ...]
    ranked: frozenset[int]  # after these orders a code becomes a rank among those seen, to leave room for more digits
    closing: int = 0  # the newest token of a gram where an item ends; as an older one the boundary is always 0

    @property
    def order(self) -> int:
        return len(self.levels)

    def up_to(self, order: int) -> "Grams":
        """The same counts without the orders above this one."""
        ranked = frozenset(k for k in self.ranked if k < order)
        return Grams(self.vocab_size, self.has_boundary, self.levels[:order], ranked, self.closing)

    def walk(self, tokens: IntArray, order: int = 0) -> Iterator[tuple[IntArray, IntArray]]:
        """For each order, the code of the context before each token and of the gram that the two make.

        tokens: (..., time) -> two arrays of that shape, for the orders from 1 up to `order`, or to our own for 0.
        """
        tokens = tokens.astype(np.int64)
        newest = label_ends(tokens, self.closing)
        before = np.zeros_like(tokens)
        last = order or self.order
        for k in range(1, last + 1):
            grams = before * self.vocab_size + newest
            yield before, grams
            if k == last:
                return
            before = np.empty_like(grams)
            before[..., :1] = 0 if self.has_boundary else -1
            before[..., 1:] = self._contexts(k, grams[..., :-1], tokens[..., :-1])

    def codes(self, tokens: IntArray) -> IntArray:
        """The code of the gram of the highest order that ends with each token but the first order - 1.

        tokens: (time,) -> (time - order + 1,). What `walk` says, at once: two operations for each order.
        """
        assert not self.ranked, "ranks have to be looked up order by order"
        n = len(tokens) - self.order + 1
        digits = tokens.astype(np.int64)
        newest = label_ends(digits, self.closing)
        # A boundary takes away all that stands before it.
        bases = (tokens != 0) * np.int64(self.vocab_size)
        code = (digits if self.order > 1 else newest)[:n].copy()
        for k in range(1, self.order):
            code *= bases[k : k + n] if self.has_boundary and k < self.order - 1 else self.vocab_size
            code += (digits if k < self.order - 1 else newest)[k : k + n]
        return code

    def _contexts(self, order: int, grams: IntArray, tokens: IntArray) -> IntArray:
        """The codes of grams, made to be the contexts of the next order."""
        codes = grams * (tokens != 0) if self.has_boundary else grams
        if order not in self.ranked:
            return codes
        # 0 stays the context of boundaries alone, which as a gram was perhaps never seen.
        ranks = 1 + self.levels[order - 1].find(codes)
        return np.where(codes < 0, codes, ranks * (tokens != 0) if self.has_boundary else ranks)


def count(stream: Stream, vocab_size: int, order: int) -> Grams:
    """Count every gram of the orders 1 to `order`.

    >>> from types import SimpleNamespace
    >>> stream = SimpleNamespace(tokens=np.array([0, 1, 2, 2, 0, 1, 0]), has_boundary=True, closing=0)
    >>> count(stream, vocab_size=3, order=2).levels[1].counts.reshape(3, 3)
    array([[0, 2, 0],
           [1, 0, 1],
           [1, 0, 1]])
    """
    tokens = stream.tokens
    if order < 1:
        raise PellucidError(f"n is {order}", fix="Choose n = 1 or more")
    if order > MOST_ORDERS:
        raise TooLarge(f"n is {order:,}, past the limit of {MOST_ORDERS}", fix="Choose a smaller n, such as 5")
    if len(tokens) < 2:
        raise PellucidError(f"there is nothing to count in {len(tokens)} tokens", fix="Give more data")
    runs = _runs(vocab_size, order, len(tokens))
    grams = Grams(vocab_size, stream.has_boundary, (), frozenset(run[-1] for run in runs[:-1]), stream.closing)
    for run in runs:
        tallies = {k: _Tally(k, vocab_size, len(tokens), has_ranks=run is not runs[0]) for k in run}
        for began in range(0, len(tokens), _CHUNK):
            overlap = min(began, order)
            chunk = tokens[began - overlap : began + _CHUNK]
            tails = chunk
            for k, (_, codes) in enumerate(grams.walk(chunk, run[-1]), start=1):
                # Counted is a list's every token but the first boundary, a text's wherever the context is whole.
                first = max(overlap, 1 if stream.has_boundary else k - 1)
                if k in tallies:
                    tallies[k].add(codes[first:], tails[first:])
                tails = codes
        levels = list(grams.levels)
        for tally in tallies.values():
            levels.append(tally.level(levels[-1] if levels else None))
        grams = Grams(vocab_size, stream.has_boundary, tuple(levels), grams.ranked, stream.closing)
    return grams


def _runs(vocab_size: int, order: int, n_tokens: int) -> list[list[int]]:
    """The orders, in runs whose codes fit into 64 bits; each run but the first begins with ranks."""
    runs: list[list[int]] = [[]]
    size = 1
    for k in range(1, order + 1):
        if size * vocab_size > _MOST_CODE:
            runs.append([])
            size = n_tokens + 2
        runs[-1].append(k)
        size *= vocab_size
    return runs


class _Tally:
    """Adds up the counts of one order, chunk by chunk."""

    def __init__(self, order: int, vocab_size: int, n_tokens: int, *, has_ranks: bool) -> None:
        self.order = order
        self.vocab_size = vocab_size
        self.has_ranks = has_ranks
        n_entries = vocab_size**order
        self.is_dense = n_entries <= MOST_DENSE
        # Bins that stay empty cost as much as full ones, so few tokens are better sorted.
        has_bins = n_entries <= min(MOST_BINS, 16 * n_tokens) or self.is_dense
        self.bins = np.zeros(n_entries if has_bins else 0, np.int64)
        self.parts: list[tuple[IntArray, IntArray, IntArray]] = []

    def add(self, codes: IntArray, tails: IntArray) -> None:
        """Count the codes of grams; tails are theirs without the oldest token."""
        if len(self.bins):
            self.bins += np.bincount(codes, minlength=len(self.bins))
        elif self.has_ranks:
            found, where, counts = np.unique(codes, return_index=True, return_counts=True)
            self._keep((found, counts, tails[where]))
        else:
            found, counts = np.unique(codes, return_counts=True)
            self._keep((found, counts, _NONE))

    def _keep(self, part: tuple[IntArray, IntArray, IntArray]) -> None:
        """Most grams of a chunk were in an earlier one: parts are joined once they are twice as many as the joined."""
        self.parts.append(part)
        n_joined = len(self.parts[0][0])
        if sum(len(one) for one, _, _ in self.parts) > max(MOST_APART, 3 * n_joined):
            self.parts = [_merge(self.parts)]

    def level(self, shorter: Level | None) -> Level:
        if self.is_dense:
            return Level(self.order, self.vocab_size, _NONE, self.bins, True, _NONE, _NONE, shorter, _NONE)
        if len(self.bins):
            codes, tails = np.flatnonzero(self.bins), _NONE
            counts = self.bins[codes]
        else:
            codes, counts, tails = self.parts[0] if len(self.parts) == 1 else _merge(self.parts)
        rows, starts = np.unique(codes // self.vocab_size, return_index=True)
        return Level(self.order, self.vocab_size, codes, counts, False, rows, starts, shorter, tails)


def _merge(parts: list[tuple[IntArray, IntArray, IntArray]]) -> tuple[IntArray, IntArray, IntArray]:
    """Tables as one. Column by column: there may be millions of entries, and memory for few columns."""
    codes = np.concatenate([part[0] for part in parts])
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    firsts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))
    counts = np.add.reduceat(np.concatenate([part[1] for part in parts])[order], firsts)
    tails = np.concatenate([part[2] for part in parts])
    return codes[firsts], counts, tails[order[firsts]] if len(tails) else _NONE
