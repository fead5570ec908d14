"""Which side each row stands on, for every strategy. Rows come as hashes, strata or order; sides go out as 0, 1, 2.

Strata are quantile bins of a numeric column, the tail in bins of its own, jointly with other columns.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits import (
    DEV_OF_TRAIN,
    FRACTIONS,
    SIDES,
    TWO_SIDES,
    SplitRequest,
    require_fractions,
    three_shares,
)
from pellucid.data.splits.distributions import Levels, count_codes
from pellucid.data.splits.hashing import PIECE, Words, item_hashes, mix, numbered_hashes, seed_word
from pellucid.errors import PellucidError
from pellucid.records.packed_texts import PackedTexts

SideNumbers = NDArray[np.int8]

TRAIN, DEV, TEST = range(len(SIDES))
UNDECIDED = -1
MOST_STRATA = 1 << 16
BUCKET_BITS = 14  # of the stratum and the hash of a row: so many counters stay in the processor's cache
DECILES = tuple(tenth / 10 for tenth in range(1, 10))
ROWS_FOR_A_SIDE = 10  # the fewest that the smallest side shall get of a tail bin
MOST_VALUES = 100  # of a column that divides bins further
_NUMBERS = {2: "two", 3: "three"}


@dataclass(frozen=True)
class ListSplit:
    """A list divided into three; dev is empty where only train and test were asked for."""

    train: Sequence[str]
    dev: Sequence[str]
    test: Sequence[str]


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
    sides = sides_of(items, fractions, seed) if divided is None else divided
    packed = PackedTexts.of(items)
    return ListSplit(*(packed.where(sides == side) for side in (TRAIN, DEV, TEST)))


def lacks_dev(sides: SideNumbers) -> bool:
    """Whether some rows are to be tested on, and none to choose by."""
    return bool(not (sides == DEV).any() and (sides == TEST).any())


def hold_out_dev(sides: SideNumbers, divide: Callable[[NDArray[np.int64], tuple[float, ...]], SideNumbers]) -> None:
    """Turn a tenth of train into dev. divide(rows, fractions): the sides of these rows alone."""
    rows = np.flatnonzero(sides == TRAIN)
    sides[rows] = divide(rows, (1 - DEV_OF_TRAIN, DEV_OF_TRAIN, 0.0))


def hold_out_by_hash(sides: SideNumbers, hashes: Words) -> None:
    """The same by a hash of the hash, so that what shares one stays together and no other row plays a part.

    >>> sides = by_hash(item_hashes(["emma", "mia", "ava", "zoe"]), (0.8, 0.2))
    >>> hold_out_by_hash(sides, item_hashes(["emma", "mia", "ava", "zoe"]))
    >>> sides.tolist()
    [0, 2, 1, 0]
    """
    hold_out_dev(sides, lambda rows, fractions: by_hash(mix(hashes[rows] + np.uint64(seed_word("dev"))), fractions))


def training_sides(
    items: Sequence[str], request: SplitRequest | None, divided: SideNumbers | None = None
) -> SideNumbers:
    """The sides of items that are to be trained on; without a dev side, that is taken from train.

    request: how they are to be divided, where it was said. divided: their sides, where they were divided before.
    """
    sides = sides_of(items, request.fractions if request else FRACTIONS) if divided is None else divided.copy()
    if lacks_dev(sides) if divided is not None else request and request.sides == TWO_SIDES:
        hold_out_by_hash(sides, item_hashes(items))
    return sides


def by_hash(hashes: Words, fractions: Sequence[float]) -> SideNumbers:
    """A hash below the share of train in the whole range trains, the next part is dev, the rest test."""
    train, dev, _ = three_shares(fractions)
    sides = np.zeros(len(hashes), dtype=np.int8)
    for cut in (train, train + dev):
        if cut < 1:
            sides += hashes >= np.uint64(min(int(cut * 2.0**64), 2**64 - 1))
    return sides


def by_strata(strata: NDArray[Any], hashes: Words, fractions: Sequence[float]) -> SideNumbers:
    """The same part of every stratum: inside each, the rows with the lowest hashes train, and so on.

    What rounding leaves over is carried from each stratum to the next, so that the sizes as a whole are right to a row.
    Rows with equal hashes stay together, on the side where they leave the sizes nearest to what was asked for. A
    stratum with fewer rows than there are sides trains. strata counts from 0.
    """
    train, dev, test = three_shares(fractions)
    assert len(strata) == 0 or int(strata.max()) < MOST_STRATA
    sizes = count_codes(strata, 1 + int(strata.max()) if len(strata) else 0)
    shared = np.where(sizes >= count_sides(fractions), sizes, 0)
    n_train = _shared_out(shared, train)
    n_dev = _shared_out(shared - n_train, dev / (dev + test))
    cuts = [np.where(shared > 0, n_below, sizes) for n_below in (n_train, n_train + n_dev)]
    sides = _cut_in_buckets(strata, hashes, sizes, cuts)
    return _cut_beside_equals(strata, hashes, sizes, cuts) if sides is None else sides


def _cut_in_buckets(
    strata: NDArray[Any], hashes: Words, sizes: NDArray[np.int64], cuts: Sequence[NDArray[np.int64]]
) -> SideNumbers | None:
    """The side of each row; None where a cut would divide rows with equal hashes. cuts: rows below each, by stratum.

    Rows are counted in buckets, by stratum and the first bits of their hash, and the bucket tells the side of all but
    the rows that share one with a cut. Only those are sorted.
    """
    bits = max(0, BUCKET_BITS - max(0, len(sizes) - 1).bit_length())
    buckets = np.empty(len(hashes), dtype=np.uint16)  # (row,)
    counts = np.zeros(len(sizes) << bits, dtype=np.int64)
    for start in range(0, len(hashes), PIECE):
        piece = slice(start, start + PIECE)
        here = (hashes[piece] >> np.uint64(64 - bits)).view(np.int64)
        here += strata[piece].astype(np.int64) << bits
        buckets[piece] = here
        counts += np.bincount(here, minlength=len(counts))
    ends, starts = np.cumsum(counts), np.cumsum(sizes) - sizes
    side_of_bucket = np.zeros(len(counts), dtype=np.int8)
    is_cut = np.zeros(len(counts), dtype=bool)
    bucket_of_cut = []
    for n_below in cuts:
        is_open = n_below < sizes
        found = np.searchsorted(ends, (starts + n_below)[is_open], "right")
        is_cut[found] = True
        bucket_of_cut.append(found)
        last_below = np.full(len(sizes), len(counts))
        last_below[is_open] = found
        side_of_bucket += np.arange(len(counts)) > np.repeat(last_below, 1 << bits)
    side_of_bucket[is_cut] = UNDECIDED
    sides = side_of_bucket[buckets]
    near = np.flatnonzero(sides == UNDECIDED)
    strata_near, keys = strata[near], _keys(strata[near], hashes[near])
    ranked = np.sort(keys)
    near_ends = np.cumsum(np.where(is_cut, counts, 0))
    sides[near] = 0
    for n_below, found in zip(cuts, bucket_of_cut, strict=True):
        is_open = n_below < sizes
        places = (starts + n_below)[is_open] - ends[found] + near_ends[found]
        if ((ranked[places] == ranked[places - 1]) & (places > 0)).any():
            return None
        least = np.full(len(sizes), np.iinfo(np.uint64).max, dtype=np.uint64)
        least[is_open] = ranked[places]
        sides[near] += keys >= least[strata_near]
    return sides


def _cut_beside_equals(
    strata: NDArray[Any], hashes: Words, sizes: NDArray[np.int64], cuts: Sequence[NDArray[np.int64]]
) -> SideNumbers:
    """The same, with cuts moved to where no equal rows are divided; all rows are sorted."""
    keys = _keys(strata, hashes)
    ranked = np.sort(keys)
    starts = np.cumsum(sizes) - sizes
    sides = np.zeros(len(keys), dtype=np.int8)
    n_below = np.zeros(len(sizes), dtype=np.int64)
    for wanted in cuts:
        n_below = _between_equals(ranked, starts, sizes, wanted, n_below)
        is_open = n_below < sizes
        least = np.full(len(sizes), np.iinfo(np.uint64).max, dtype=np.uint64)
        least[is_open] = ranked[(starts + n_below)[is_open]]
        for start in range(0, len(keys), PIECE):
            piece = slice(start, start + PIECE)
            sides[piece] += keys[piece] >= least.take(strata[piece])
    return sides


def _keys(strata: NDArray[Any], hashes: Words) -> Words:
    """Stratum and hash in one word, so that sorting needs no index: 48 bits of hash tell 10^7 rows apart."""
    keys = hashes >> np.uint64(16)
    for start in range(0, len(keys), PIECE):
        keys[start : start + PIECE] |= strata[start : start + PIECE].astype(np.uint64) << np.uint64(48)
    return keys


def _between_equals(
    ranked: Words, starts: NDArray[Any], sizes: NDArray[Any], n_below: NDArray[Any], least: NDArray[Any]
) -> NDArray[Any]:
    """How many rows of each stratum stand below a cut that is moved to where no equal rows are divided.

    ranked: keys, by stratum; n_below: as wanted; least: that stand below the cut before it. By how many rows the cut of
    one stratum is moved, those of the next are moved back as far as equal rows allow.

    >>> ranked = np.array([1, 1, 1, 2, 2, 3], dtype=np.uint64)
    >>> _between_equals(ranked, np.array([0]), np.array([6]), np.array([4]), np.array([0])).tolist()
    [3]
    """
    found: NDArray[np.int64] = np.maximum(n_below, least)
    inside, surplus = (n_below > 0) & (n_below < sizes), 0
    places = (starts + n_below)[inside]
    if not (ranked[places] == ranked[places - 1]).any():
        return found
    for stratum in np.flatnonzero(inside):
        start, size = int(starts[stratum]), int(sizes[stratum])
        wanted = min(size, max(0, int(n_below[stratum]) - surplus))
        found[stratum] = max(least[stratum], _nearest_cut(ranked[start : start + size], wanted))
        surplus += int(found[stratum] - n_below[stratum])
    return found


def count_sides(fractions: Sequence[float]) -> int:
    """
    >>> count_sides((0.8, 0.1, 0.1)), count_sides((0.8, 0.2)), count_sides((0.9, 0.1, 0.0))
    (3, 2, 2)
    """
    return sum(part > 0 for part in fractions)


def _shared_out(sizes: NDArray[np.int64], part: float) -> NDArray[np.int64]:
    """A part of each size in whole numbers, with what rounding leaves over carried to the next."""
    after = np.floor(np.cumsum(sizes) * part + 0.5).astype(np.int64)
    shares: NDArray[np.int64] = np.diff(after, prepend=0)
    return shares


def by_order(values: NDArray[Any], fractions: Sequence[float], name: str) -> SideNumbers:
    """The lowest values train, the highest test. Rows with equal values stay on one side, whichever is nearer.

    Where that would leave a side without rows, and there are values enough, each side gets one at least.

    >>> by_order(np.array([2007] * 110 + [2008] * 114 + [2009] * 120), (0.8, 0.1, 0.1), "year")[[0, 110, 224]].tolist()
    [0, 1, 2]
    """
    ranked = np.sort(values)
    n = len(ranked)
    shares = three_shares(fractions)
    asked = [number for number, share in enumerate(shares) if share]
    wanted = [end * n for end in accumulate(shares[number] for number in asked[:-1])]  # where each but the last ends
    cuts = [_nearest_cut(ranked, end) for end in wanted]
    if any(before >= after for before, after in pairwise([0, *cuts, n])):
        cuts = _cuts_apart(1 + np.flatnonzero(np.diff(ranked)), wanted)
    if not cuts:
        raise PellucidError(
            f"{name} has too few different values to divide {n:,} rows in {_NUMBERS[count_sides(fractions)]} by it",
            fix="Choose another column or {strategy}",
            options={"strategy": "hash"},
        )
    sides = np.full(n, asked[0], dtype=np.int8)
    for side, cut in zip(asked[1:], cuts, strict=True):
        sides[values >= ranked[cut]] = side
    return sides


def _nearest_cut(ranked: NDArray[Any], wanted: float) -> int:
    """The place nearest to the wanted one at which another value begins, or the end."""
    value = ranked[min(len(ranked) - 1, int(wanted + 0.5))]
    first, last = (int(np.searchsorted(ranked, value, side)) for side in ("left", "right"))
    return first if wanted - first <= last - wanted else last


def _cuts_apart(places: NDArray[np.int64], wanted: Sequence[float]) -> list[int]:
    """Of the places where another value begins those that are nearest to the wanted ones, all different.

    None where they are too few. Only the neighbours of the nearest ones can be the best.
    """
    if len(places) < len(wanted):
        return []
    near = {int(np.abs(places - end).argmin()) + step for end in wanted for step in range(-1, 2)}
    some = [int(places[place]) for place in sorted(near) if 0 <= place < len(places)]
    return list(
        min(
            combinations(some, len(wanted)), key=lambda cuts: sum(abs(a - b) for a, b in zip(cuts, wanted, strict=True))
        )
    )


def at_random(n: int, fractions: Sequence[float], seed: str) -> SideNumbers:
    """A seeded shuffle of the row numbers, cut at the fractions. It does not look at what the rows hold."""
    keys = numbered_hashes(n, seed)
    train, dev, test = three_shares(fractions)
    # Of a side that was asked for one row at least is left.
    places = [min(n - (test > 0), int(part * n + 0.5)) for part in (train, train + dev)]
    ranked = np.partition(keys, sorted({place for place in places if place < n}))
    sides = np.zeros(n, dtype=np.int8)
    for place in places:
        if place < n:
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
    n_sides: int = len(SIDES)


def class_strata(of: Levels, fractions: Sequence[float] = FRACTIONS) -> Strata:
    """A stratum for each value of a column."""
    return _strata(of.codes.astype(np.uint32), of.codes, (), fractions)


def _strata(codes: NDArray[Any], bins: NDArray[Any], marks: tuple[float, ...], fractions: Sequence[float]) -> Strata:
    sizes = count_codes(codes, 1 + int(codes.max()) if len(codes) else 0)
    n_sides = count_sides(fractions)
    n_too_small = int(((sizes > 0) & (sizes < n_sides)).sum())
    return Strata(codes, bins, marks, int((sizes > 0).sum()), n_too_small, n_sides)


def strata_of(by: Levels, together_with: Sequence[Levels], fractions: Sequence[float]) -> Strata:
    """Deciles of `by`, then the top 1 %, 0.1 %, ... while every side gets rows of them, times the other columns."""
    if not by.is_numeric:
        raise PellucidError(
            f"{by.name} is no numeric column, so it has no quantiles",
            fix="Name another with {by}",
            options={"by": None},
        )
    n = int(by.totals[: len(by.values)].sum())
    bins, marks = quantile_bins(by, [*DECILES, *_tail_marks(n, min(part for part in fractions if part))])
    codes = bins.copy()
    n_cells = int(bins.max(initial=0)) + 1
    for other in together_with:
        if other.n_levels > MOST_VALUES:
            raise PellucidError(
                f"{other.name} has {other.n_levels:,} different values, too many to stratify by",
                fix=f"Name a column with at most {MOST_VALUES}",
            )
        n_cells *= other.n_levels
        if n_cells > MOST_STRATA:
            raise PellucidError(f"these columns make {n_cells:,} strata", fix="Leave one out")
        codes *= np.uint16(other.n_levels)
        codes += other.codes.astype(np.uint16)
    return _strata(codes, bins, marks, fractions)


def quantile_bins(by: Levels, marks: Sequence[float]) -> tuple[NDArray[np.uint16], tuple[float, ...]]:
    """(row,): the quantile bin of each row, rising with its value; and the marks, of those given, at which bins end.

    Bins are bounded by values, so equal values share a bin, and bins without rows of their own vanish. Missing values
    are a bin behind the last.
    """
    cumulated = np.cumsum(by.totals[: len(by.values)])
    n = int(cumulated[-1]) if len(cumulated) else 0
    ends = {int(np.searchsorted(cumulated, math.ceil(mark * n - 1e-9))): mark for mark in reversed(marks)} if n else {}
    bin_of_level = np.searchsorted(np.array(sorted(ends)), np.arange(by.n_levels), "left")
    if by.has_missing:
        bin_of_level[-1] = bin_of_level.max() + 1
    return bin_of_level.astype(np.uint16)[by.codes], tuple(ends[end] for end in sorted(ends))


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
