"""Which side each row stands on, for every strategy. Rows come as hashes, strata or order; sides go out as 0, 1, 2."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits.hashing import Words, item_hashes, numbered_hashes
from pellucid.data.splits.request import FRACTIONS, SIDES, require_fractions
from pellucid.errors import PellucidError

Sides = NDArray[np.int8]

SMALLEST_STRATUM = len(SIDES)  # fewer rows than sides cannot be shared out; they train
MOST_STRATA = 1 << 16


@dataclass(frozen=True)
class Split:
    """A list divided into three."""

    train: list[str]
    dev: list[str]
    test: list[str]


def sides_of(items: Sequence[str], fractions: Sequence[float] = FRACTIONS, seed: str = "") -> Sides:
    """The side of each item by its hash alone: equal items share a side, and no item moves when others are added.

    >>> sides_of(["emma", "charlotte", "mia", "emma"]).tolist()
    [0, 1, 1, 0]
    """
    return by_hash(item_hashes(items, seed), require_fractions(fractions))


def split_list(items: Sequence[str], fractions: Sequence[float] = FRACTIONS, seed: str = "") -> Split:
    """The items of each side, in the order they came."""
    sides = sides_of(items, fractions, seed).tolist()
    parts: list[list[str]] = [[], [], []]
    for item, side in zip(items, sides, strict=True):
        parts[side].append(item)
    return Split(*parts)


def by_hash(hashes: Words, fractions: Sequence[float]) -> Sides:
    """A hash below fractions[0] of the whole range trains, the next part is dev, the rest test."""
    sides = np.zeros(len(hashes), dtype=np.int8)
    for cut in (fractions[0], fractions[0] + fractions[1]):
        sides += hashes >= np.uint64(min(int(cut * 2.0**64), 2**64 - 1))
    return sides


def by_strata(strata: NDArray[Any], hashes: Words, fractions: Sequence[float]) -> Sides:
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


def by_order(values: NDArray[Any], fractions: Sequence[float], name: str) -> Sides:
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
            fix="Choose another order column or --strategy hash",
        )
    return sides


def at_random(n: int, fractions: Sequence[float], seed: str) -> Sides:
    """A seeded shuffle of the row numbers, cut at the fractions. It does not look at what the rows hold."""
    keys = numbered_hashes(n, seed)
    places = [min(n - 1, int(part * n + 0.5)) for part in (fractions[0], fractions[0] + fractions[1])]
    ranked = np.partition(keys, sorted(set(places)))
    sides = np.zeros(n, dtype=np.int8)
    for place in places:
        sides += keys >= ranked[place]
    return sides
