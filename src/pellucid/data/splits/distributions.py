"""How the values of a column are distributed: how alike two sides are, beside what chance alone would give; whether
the column tells an order, and what drifts along it. tails.py has how heavy its upper end is.

A column is its different values in order, and the place of each row among them. Distances, quantiles and bins all need
nothing but how many rows of each side stand on each level, so rows are sorted at most once, and not at all where the
values are whole numbers in a range of moderate size.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import TableData
from pellucid.data.splits import SIDES
from pellucid.data.splits.hashing import MISSING, PIECE, WordPieces, Words, item_hashes, number_pieces, whole_numbers
from pellucid.errors import PellucidError, quoted
from pellucid.records import Agreement, Drift, OrderColumn

if TYPE_CHECKING:
    import polars as pl

Counts = NDArray[np.int64]

# A range of whole numbers up to this many times the rows is counted, not sorted.
WIDEST_RANGE = 4
LEVEL = 0.01  # of the one test over all columns and sides: how often a random split is called different
RISING = 0.999  # the part of its steps by which a column tells an order
FEWEST_ROWS = 100  # to speak of an order or of a tail at all
FEWEST_INSTANTS = 10  # different dates, to divide rows by them
MOSTLY = 0.95  # a column with one value this often may stand in two pieces by chance
_BIRTH = re.compile(r"birth|born|dob")
_YEAR = re.compile(r"year|yr")
YEARS, FEWEST_YEARS = (1700, 2100), 3  # as whole numbers, and how many different ones tell an order
_TIME = re.compile(r"date|time|year|month|week|day|hour|period|quarter|season|era")


@dataclass(frozen=True)
class Levels:
    """values: the different values, rising; missing ones, if any, are a level of their own behind the last."""

    name: str
    is_numeric: bool
    values: NDArray[Any]  # (level,)
    codes: NDArray[Any]  # (row,) -> level
    has_missing: bool

    @property
    def n_levels(self) -> int:
        return len(self.values) + self.has_missing

    def counts(self, parts: NDArray[Any], n_parts: int) -> Counts:
        """(level, part): how many rows of each part stand on each level. parts: (row,), in 0..n_parts-1."""
        if self.is_one_each:
            part_of_level = parts
            if not self.counts_rows:
                part_of_level = np.empty_like(parts)
                part_of_level[self.codes] = parts
            # 0 and 1 in a byte each: numbers of eight would take longer to write than everything else here.
            one_each: Counts = (part_of_level == np.arange(n_parts, dtype=parts.dtype)[:, None]).view(np.int8).T
            return one_each
        n_places = self.n_levels * n_parts
        piece = PIECE if n_places < PIECE else max(1, len(parts))
        found = np.zeros(n_places, dtype=np.int64)
        for start in range(0, len(parts), piece):
            flat = parts[start : start + piece].astype(np.int64)
            flat *= self.n_levels
            flat += self.codes[start : start + piece]
            found += np.bincount(flat, minlength=n_places)
        return found.reshape(n_parts, -1).T

    @cached_property
    def totals(self) -> Counts:
        """(level,): how many rows stand on each level."""
        if self.counts_rows:
            return np.broadcast_to(np.int64(1), (self.n_levels,))  # one number, seen everywhere
        return count_codes(self.codes, self.n_levels)

    @property
    def n_present(self) -> int:
        """How many levels some row stands on."""
        return self.n_levels if self.counts_rows else int(np.count_nonzero(self.totals))

    @cached_property
    def counts_rows(self) -> bool:
        """Whether it rises by one from row to row: then nothing has to be counted."""
        return self.n_levels == len(self.codes) and bool((self.codes[1:] > self.codes[:-1]).all())

    @cached_property
    def is_one_each(self) -> bool:
        """Whether every level has exactly one row, as the numbers of the rows have."""
        return self.counts_rows or (self.n_levels == len(self.codes) and int(self.totals.max(initial=1)) == 1)

    def text_words(self) -> WordPieces:
        """What stands for each cell of a text column in the hash of its row."""
        assert not self.is_numeric
        of_level = item_hashes([*self.values.tolist(), *([""] * self.has_missing)])
        if self.has_missing:
            of_level[-1] = MISSING
        for start in range(0, len(self.codes), PIECE):
            yield start, of_level[self.codes[start : start + PIECE]]


def count_codes(codes: NDArray[Any], n_levels: int) -> Counts:
    """(level,): how many of the codes are each. Few are counted piece by piece, as they become numbers of eight bytes.

    >>> count_codes(np.array([2, 0, 2], np.uint8), 4).tolist()
    [1, 0, 2, 0]
    """
    if n_levels >= PIECE:
        return np.bincount(codes, minlength=n_levels)
    found = np.zeros(n_levels, dtype=np.int64)
    for start in range(0, len(codes), PIECE):
        found += np.bincount(codes[start : start + PIECE], minlength=n_levels)
    return found


def levels_of(column: "pl.Series") -> Levels:
    """The levels of a numeric, truth, time or text column."""
    import polars as pl

    kind = column.dtype
    if kind.is_numeric() and not kind.is_integer():
        values = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return _sorted_levels(column.name, values, np.isnan(values))
    if kind.is_integer() or kind.is_temporal() or kind == pl.Boolean:
        return _whole_levels(column, is_numeric=kind != pl.Boolean)
    if kind == pl.String or isinstance(kind, pl.Enum | pl.Categorical):
        levels = text_levels(column.cast(pl.String), max(1, len(column)))
        assert levels is not None
        return levels
    raise PellucidError(
        f"column {quoted(column.name)} holds {kind}, which cannot be compared", fix="Leave it out or write it as text"
    )


def _whole_levels(column: "pl.Series", *, is_numeric: bool) -> Levels:
    values = whole_numbers(column)
    is_missing = column.is_null().to_numpy() if column.null_count() else None
    if is_missing is not None and is_missing.all():
        return Levels(column.name, is_numeric, values[:0].to_numpy(), np.zeros(len(values), dtype=np.uint8), True)
    present = values if is_missing is None else values.filter(column.is_not_null())
    low, high = cast("int", present.min()), cast("int", present.max())
    if high - low > WIDEST_RANGE * max(len(values), 1 << 16):
        return _sorted_levels(column.name, values.to_numpy(), is_missing)
    codes = np.empty(len(values), dtype=_smallest(high - low + 2))
    for start, some in number_pieces(values):
        codes[start : start + len(some)] = some.astype(np.int64) - low
    if is_missing is not None:
        codes[is_missing] = high - low + 1
    return Levels(column.name, is_numeric, np.arange(low, high + 1), codes, is_missing is not None)


def _sorted_levels(name: str, values: NDArray[Any], is_missing: NDArray[np.bool_] | None) -> Levels:
    present = values if is_missing is None else values[~is_missing]
    distinct, places = np.unique(present, return_inverse=True)
    codes = np.full(len(values), len(distinct), dtype=np.int32)
    codes[slice(None) if is_missing is None else ~is_missing] = places
    return Levels(name, True, distinct, codes, len(present) < len(values))


def text_levels(column: "pl.Series", most: int) -> Levels | None:
    """The levels of a text column; None where it has more different values than `most`."""
    import polars as pl

    # A sample of the rows often tells at once that there are too many, and mostly what there is.
    some = column.gather_every(max(1, len(column) // (2 * most))).unique()
    if len(some) > most + 1:
        return None
    distinct, n_missing = some.drop_nulls().sort(), column.null_count()
    has_missing = n_missing > 0
    found = column.cast(pl.Enum(distinct), strict=False)
    if found.null_count() > n_missing:
        others = column.filter(found.is_null() & column.is_not_null()).unique()
        distinct = pl.concat([distinct, others]).sort()
        if len(distinct) > most:
            return None
        found = column.cast(pl.Enum(distinct))
    codes = found.to_physical()
    if has_missing:
        codes = codes.cast(pl.UInt32).fill_null(len(distinct))
    return Levels(column.name, False, distinct.to_numpy(), codes.to_numpy(), has_missing)


def _smallest(largest: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if largest <= 0xFF else np.uint16 if largest <= 0xFFFF else np.uint32


def ks_distance(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """The greatest difference between two cumulative distributions, given the counts of each on the same levels.

    >>> ks_distance(np.array([1, 1, 0]), np.array([0, 1, 1]))
    0.5
    """
    n_first, n_second = int(first.sum()), int(second.sum())
    if not n_first or not n_second:
        return 0.0
    greatest, below_first, below_second = 0.0, 0, 0
    # Piece by piece, so that every pass finds its numbers in the processor's cache.
    for start in range(0, len(first), PIECE):
        here, there = first[start : start + PIECE], second[start : start + PIECE]
        # From one level that the second has to the next the gap only grows, so it is greatest or least beside them.
        steps = np.flatnonzero(there)
        upto_first = np.cumsum(here)
        upto_second = np.cumsum(there[steps])
        upto_first += below_first
        upto_second += below_second
        if len(steps):
            reached, before = upto_first[steps], np.concatenate([[below_second], upto_second[:-1]])
            least = float((reached / n_first - upto_second / n_second).min())
            greatest = max(greatest, float(((reached - here[steps]) / n_first - before / n_second).max()), -least)
            below_second = int(upto_second[-1])
        below_first = int(upto_first[-1])
    return greatest


def total_variation(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Half the summed difference of shares: the part of one side that would have to change to match the other."""
    if not first.sum() or not second.sum():
        return 0.0
    return float(np.abs(first / first.sum() - second / second.sum()).sum() / 2)


def distance_between(
    levels: Levels,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    n_compared: int = 1,
    clump: float = 1.0,
) -> tuple[str, float, float]:
    """The measure that suits the column, the distance, and what chance alone exceeds once in 100.

    n_compared: distances that are looked at together, so that one of all of them exceeds it once in 100 (Bonferroni,
    which is where Holm's procedure begins). clump: how many rows change sides together, on average over the rows.
    """
    n, m = int(first.sum()), int(second.sum())
    if not n or not m:
        return ("KS" if levels.is_numeric else "TV"), 0.0, 0.0
    level = LEVEL / max(1, n_compared)
    spread = math.sqrt(clump / n + clump / m)
    if levels.is_numeric:
        present = len(levels.values)  # a missing value stands nowhere in the order
        # Kolmogorov's distribution, by its first term.
        return (
            "KS",
            ks_distance(first[:present], second[:present]),
            min(1.0, math.sqrt(math.log(2 / level) / 2) * spread),
        )
    shares = (first + second) / (n + m)
    # The mean of a normal deviation's size is sqrt(2/pi) times its standard deviation.
    usual = float(np.sqrt(shares * (1 - shares)).sum()) * spread * math.sqrt(2 / math.pi) / 2
    # By McDiarmid's inequality a total variation lies this far above its mean at most so often.
    return "TV", total_variation(first, second), min(1.0, usual + math.sqrt(math.log(1 / level) / 2) * spread)


def clumping(hashes: Words) -> float:
    """How many rows change sides with a row, itself included, on average: the sum of squared sizes over the rows.

    >>> clumping(np.array([1, 1, 2], dtype=np.uint64)) == 5 / 3
    True
    """
    _, sizes = np.unique(hashes, return_counts=True)
    return float((sizes.astype(np.float64) ** 2).sum() / max(1, len(hashes)))


def agreements(
    levels: Levels, counts: Counts, n_columns: int = 1, clump: float = 1.0, sides: Sequence[str] = SIDES
) -> list[Agreement]:
    """Dev and test beside train. counts: (level, side). n_columns: that are compared at all. sides: that there are."""
    kind = "numeric" if levels.is_numeric else "category"
    found = []
    for side in sides[1:]:
        measure, distance, by_chance = distance_between(
            levels, counts[:, 0], counts[:, SIDES.index(side)], n_columns * (len(sides) - 1), clump
        )
        found.append(Agreement(levels.name, kind, measure, side, distance, by_chance))
    return found


def drifts_along(order: Levels, others: Sequence[Levels]) -> list[Drift]:
    """Every other column's first fifth beside its last, along the order. Rows with equal order share a fifth."""
    first, last = _ends_along(order)
    found = []
    for one in others:
        if one.name != order.name:
            at_first, at_last = (count_codes(one.codes[rows], one.n_levels) for rows in (first, last))
            found.append(Drift(order.name, one.name, *distance_between(one, at_first, at_last, len(others))))
    return found


def _ends_along(order: Levels) -> tuple[slice | NDArray[np.int64], slice | NDArray[np.int64]]:
    """The rows of the first fifth and those of the last. The level that crosses a fifth belongs to the one it began in.

    >>> codes = np.array([2, 0, 1, 0, 0, 3])
    >>> [rows.tolist() for rows in _ends_along(Levels("year", True, np.arange(4), codes, False))]
    [[1, 3, 4], [5]]
    """
    n = len(order.codes)
    if order.counts_rows:
        return slice(0, -(-n // 5)), slice(-(-4 * n // 5), n)
    # The level on which the first fifth of the rows is reached, and the one on which four are.
    upto = np.cumsum(order.totals)
    ends = [int(np.searchsorted(upto, -(-fifths * n // 5))) for fifths in (1, 4)]
    return np.flatnonzero(order.codes <= ends[0]), np.flatnonzero(order.codes > ends[1])


def find_order(table: TableData, levels: Mapping[str, Levels]) -> OrderColumn | None:
    """The first column that tells the order of the rows: a column of dates, or whole numbers.

    Dates tell when, however the rows lie; but for dates of birth. Whole numbers tell an order when they rise, or take
    each value of a range once, which does not depend on how the rows lie either. If the rows were sorted by another
    column that is no time, numbers only count them: `sorted_by` names it.
    """
    frame = table.frame
    if frame.height < FEWEST_ROWS:
        return None
    numbered = None
    for name, one in levels.items():
        kind = frame[name].dtype
        is_date = kind.is_temporal() or (table.column(name).kind == "order" and kind == _text_type())
        if not (kind.is_integer() or is_date) or one.has_missing:
            continue
        n_distinct = one.n_present
        n_rising = len(one.codes) - 1 if one.counts_rows else np.count_nonzero(one.codes[1:] >= one.codes[:-1])
        rising = n_rising / (len(one.codes) - 1)
        if is_date and n_distinct >= FEWEST_INSTANTS and not _BIRTH.search(name.lower()):
            return OrderColumn(name, False, rising, n_distinct, is_date=True)
        if numbered is not None or not kind.is_integer():
            continue
        if n_distinct == frame.height == len(one.values):
            numbered = OrderColumn(name, False, rising, n_distinct, (int(one.values[0]), int(one.values[-1])))
        elif rising >= RISING and 2 * n_distinct > frame.height:
            numbered = OrderColumn(name, False, rising, n_distinct)
    if numbered is None:
        return None
    return numbered._replace(sorted_by=_sorted_by(levels[numbered.name], levels.values()))


def find_years(table: TableData) -> OrderColumn | None:
    """The column that holds years as whole numbers, and is called so."""
    for name in table.frame.columns:
        column = table.frame[name]
        if not _YEAR.fullmatch(name.lower()) or not column.dtype.is_integer() or column.null_count() == len(column):
            continue
        if column.drop_nulls().is_between(*YEARS).all() and column.n_unique() >= FEWEST_YEARS:
            return OrderColumn(name, False, n_distinct=column.n_unique())
    return None


def _sorted_by(order: Levels, others: Iterable[Levels]) -> str:
    """The column that the rows are sorted by along an order, if it is no time; "" where there is none."""
    is_rising = order.counts_rows or bool((order.codes[1:] >= order.codes[:-1]).all())
    along = slice(None) if is_rising else np.argsort(order.codes, kind="stable")
    n = len(order.codes)
    for other in others:
        n_values = other.n_present
        if other.name == order.name or n_values < 2 or other.totals.max() > MOSTLY * n:
            continue
        # Each value stands in one piece: nothing but sorting does that to values that repeat.
        codes = other.codes[along]
        n_pieces = 1 + int(np.count_nonzero(codes[1:] != codes[:-1]))
        if n_pieces == n_values <= n // 2 and not _TIME.search(other.name.lower()):
            return other.name
    return ""


def _text_type() -> Any:
    import polars as pl

    return pl.String
