"""Which side each row stands on, for every strategy. Rows come as hashes, strata or order; sides go out as 0, 1, 2.

Strata are quantile bins of a numeric column, the tail in bins of its own, jointly with other columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits import FRACTIONS, SIDES, require_fractions
from pellucid.data.splits.distributions import Levels
from pellucid.data.splits.hashing import Words, item_hashes, numbered_hashes
from pellucid.errors import PellucidError

SideNumbers = NDArray[np.int8]

SMALLEST_STRATUM = len(SIDES)  # fewer rows than sides cannot be shared out; they train
MOST_STRATA = 1 << 16
DECILES = tuple(tenth / 10 for tenth in range(1, 10))
ROWS_FOR_A_SIDE = 10  # the fewest that the smallest side shall get of a tail bin
MOST_VALUES = 100  # of a column that divides bins further


@dataclass(frozen=True)
class ListSplit:
    """A list divided into three."""

    train: list[str]
    dev: list[str]
    test: list[str]


def sides_of(items: Sequence[str], fractions: Sequence[float] = FRACTIONS, seed: str = "") -> SideNumbers:
    """The side of each item by its hash alone: equal items share a side, and no item moves when others are added.

    >>> sides_of(["emma", "charlotte", "mia", "emma"]).tolist()
    [0, 1, 1, 0]
    """
    return by_hash(item_hashes(items, seed), require_fractions(fractions))


def split_list(
    items: Sequence[str],
    fractions: Sequence[float] = FRACTIONS,
    seed: str = "",
    *,
    divided: SideNumbers | None = None,
) -> ListSplit:
    """The items of each side, in the order they came. divided: their sides, where they were divided before."""
    sides = (sides_of(items, fractions, seed) if divided is None else divided).tolist()
    parts: list[list[str]] = [[], [], []]
    for item, side in zip(items, sides, strict=True):
        parts[side].append(item)
    return ListSplit(*parts)


def by_hash(hashes: Words, fractions: Sequence[float]) -> SideNumbers:
    """A hash below fractions[0] of the whole range trains, the next part is dev, the rest test."""
    sides = np.zeros(len(hashes), dtype=np.int8)
    for cut in (fractions[0], fractions[0] + fractions[1]):
        sides += hashes >= np.uint64(min(int(cut * 2.0**64), 2**64 - 1))
    return sides


def by_strata(strata: NDArray[Any], hashes: Words, fractions: Sequence[float]) -> SideNumbers:
    """The same part of every stratum: inside each, the rows with the lowest hashes train, and so on.

    What rounding leaves over is carried from each stratum to the next, so that the sizes as a whole are right to a row.
    Rows with equal hashes stay together. strata counts from 0.
    """
    assert len(strata) == 0 or int(strata.max()) < MOST_STRATA
    # Stratum and hash in one word, so that sorting needs no index: 48 bits of hash tell 10^7 rows apart.
    keys = (strata.astype(np.uint64) << np.uint64(48)) | (hashes >> np.uint64(16))
    ranked = np.sort(keys)
    sizes = np.bincount(strata)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    shared = np.where(sizes >= SMALLEST_STRATUM, sizes, 0)
    n_train = _shared_out(shared, fractions[0])
    n_dev = _shared_out(shared - n_train, fractions[1] / (fractions[1] + fractions[2]))
    sides = np.zeros(len(keys), dtype=np.int8)
    for n_below in (n_train, n_train + n_dev):
        is_open = n_below < shared
        least = np.full(len(sizes), np.iinfo(np.uint64).max, dtype=np.uint64)
        least[is_open] = ranked[(starts + n_below)[is_open]]
        sides += keys >= least[strata]
    return sides


def _shared_out(sizes: NDArray[np.int64], part: float) -> NDArray[np.int64]:
    """A part of each size in whole numbers, with what rounding leaves over carried to the next."""
    after = np.floor(np.cumsum(sizes) * part + 0.5).astype(np.int64)
    shares: NDArray[np.int64] = np.diff(after, prepend=0)
    return shares


def by_order(values: NDArray[Any], fractions: Sequence[float], name: str) -> SideNumbers:
    """The lowest values train, the highest test. Rows with equal values stay on one side, whichever is nearer."""
    ranked = np.sort(values)
    n = len(ranked)
    sides = np.zeros(n, dtype=np.int8)
    cuts = []
    for part in (fractions[0], fractions[0] + fractions[1]):
        wanted = part * n
        value = ranked[min(n - 1, int(wanted + 0.5))]
        first, last = int(np.searchsorted(ranked, value, "left")), int(np.searchsorted(ranked, value, "right"))
        cuts.append(first if wanted - first <= last - wanted else last)
        sides += values >= value if cuts[-1] == first else values > value
    if not 0 < cuts[0] < cuts[1] < n:
        raise PellucidError(
            f"{name} has too few different values to divide {n:,} rows in three by it",
            fix="Choose another order column or {strategy}",
            options={"strategy": "hash"},
        )
    return sides


def at_random(n: int, fractions: Sequence[float], seed: str) -> SideNumbers:
    """A seeded shuffle of the row numbers, cut at the fractions. It does not look at what the rows hold."""
    keys = numbered_hashes(n, seed)
    places = [min(n - 1, int(part * n + 0.5)) for part in (fractions[0], fractions[0] + fractions[1])]
    ranked = np.partition(keys, sorted(set(places)))
    sides = np.zeros(n, dtype=np.int8)
    for place in places:
        sides += keys >= ranked[place]
    return sides


@dataclass(frozen=True)
class Strata:
    """codes: (row,) -> stratum. bins: (row,) -> quantile bin, rising with the value."""

    codes: NDArray[Any]
    bins: NDArray[Any]
    marks: tuple[float, ...]  # the parts of the rows at which bins end, such as 0.1 ... 0.9, 0.99
    n_strata: int
    n_too_small: int  # strata with fewer rows than sides; their rows train


def class_strata(of: Levels) -> Strata:
    """A stratum for each value of a column."""
    sizes = np.bincount(of.codes)
    n_too_small = int(((sizes > 0) & (sizes < SMALLEST_STRATUM)).sum())
    return Strata(of.codes.astype(np.uint32), of.codes, (), int((sizes > 0).sum()), n_too_small)


def strata_of(by: Levels, together_with: Sequence[Levels], smallest_fraction: float) -> Strata:
    """Deciles of `by`, then the top 1 %, 0.1 %, ... while every side gets rows of them, times the other columns."""
    if not by.is_numeric:
        raise PellucidError(
            f"{by.name} is no numeric column, so it has no quantiles",
            fix="Name another with {by}",
            options={"by": None},
        )
    totals = by.totals
    cumulated = np.cumsum(totals[: len(by.values)])
    n = int(cumulated[-1]) if len(cumulated) else 0
    marks = [*DECILES, *_tail_marks(n, smallest_fraction)]
    ends = {int(np.searchsorted(cumulated, math.ceil(mark * n - 1e-9))): mark for mark in reversed(marks)} if n else {}
    # Bins are bounded by values, so equal values share a bin, and bins without rows of their own vanish.
    bin_of_level = np.searchsorted(np.array(sorted(ends)), np.arange(by.n_levels), "left")
    if by.has_missing:
        bin_of_level[-1] = bin_of_level.max() + 1
    bins = bin_of_level.astype(np.uint16)[by.codes]
    codes = bins.astype(np.uint32)
    n_cells = int(bin_of_level.max()) + 1
    for other in together_with:
        if other.n_levels > MOST_VALUES:
            raise PellucidError(
                f"{other.name} has {other.n_levels:,} different values, too many to stratify by",
                fix=f"Name a column with at most {MOST_VALUES}",
            )
        n_cells *= other.n_levels
        if n_cells > MOST_STRATA:
            raise PellucidError(f"these columns make {n_cells:,} strata", fix="Leave one out")
        codes *= np.uint32(other.n_levels)
        codes += other.codes.astype(np.uint32)
    sizes = np.bincount(codes)
    n_too_small = int(((sizes > 0) & (sizes < SMALLEST_STRATUM)).sum())
    return Strata(codes, bins, tuple(ends[end] for end in sorted(ends)), int((sizes > 0).sum()), n_too_small)


def _tail_marks(n: int, smallest_fraction: float) -> list[float]:
    """
    >>> _tail_marks(1_700_000, 0.1)
    [0.99, 0.999, 0.9999]
    """
    marks = []
    for digits in range(2, 10):
        if n * 10.0**-digits * smallest_fraction < ROWS_FOR_A_SIDE:
            break
        marks.append(round(1 - 10.0**-digits, digits))
    return marks
