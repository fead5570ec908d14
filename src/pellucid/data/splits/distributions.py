"""How the values of a column are distributed, and how alike two sides are, beside what chance alone would give.

A column is its different values in order, and the place of each row among them. Distances, quantiles and bins all need
nothing but how many rows of each side stand on each level, so rows are sorted at most once, and not at all where the
values are whole numbers in a range of moderate size.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits.hashing import MISSING, Words, item_hashes, whole_numbers
from pellucid.data.splits.request import SIDES
from pellucid.errors import PellucidError, quoted
from pellucid.records import Agreement, Drift

if TYPE_CHECKING:
    import polars as pl

Counts = NDArray[np.int64]

# A range of whole numbers up to this many times the rows is counted, not sorted.
WIDEST_RANGE = 4
# A random split exceeds KS_LIMIT * sqrt(1/n + 1/m) once in 100: Kolmogorov's distribution.
KS_LIMIT = 1.6276
# By McDiarmid's inequality a total variation lies this far above its mean at most once in 100.
TV_EXCESS = math.sqrt(math.log(100) / 2)


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
        flat = parts.astype(np.int64)
        flat *= self.n_levels
        flat += self.codes
        return np.bincount(flat, minlength=self.n_levels * n_parts).reshape(n_parts, -1).T

    def totals(self) -> Counts:
        """(level,): how many rows stand on each level."""
        return self._totals

    @cached_property
    def _totals(self) -> Counts:
        return np.bincount(self.codes, minlength=self.n_levels)

    def text_words(self) -> Words:
        """(row,): what stands for each cell of a text column in the hash of its row."""
        assert not self.is_numeric
        of_level = item_hashes([*self.values.tolist(), *([""] * self.has_missing)])
        if self.has_missing:
            of_level[-1] = MISSING
        words: Words = of_level[self.codes]
        return words


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
        return Levels(column.name, is_numeric, values[:0], np.zeros(len(values), dtype=np.uint8), True)
    present = values if is_missing is None else values[~is_missing]
    low, high = int(present.min()), int(present.max())
    if high - low > WIDEST_RANGE * max(len(values), 1 << 16):
        return _sorted_levels(column.name, values, is_missing)
    codes = (values.astype(np.int64) - low).astype(_smallest(high - low + 2))
    if is_missing is not None:
        codes[is_missing] = high - low + 1
    return Levels(column.name, is_numeric, np.arange(low, high + 1), codes, is_missing is not None)


def _sorted_levels(name: str, values: NDArray[Any], is_missing: NDArray[np.bool_] | None) -> Levels:
    rows = np.argsort(values)
    ranked = values[rows]
    n_missing = 0 if is_missing is None else int(is_missing.sum())
    if n_missing and not np.issubdtype(values.dtype, np.floating):
        assert is_missing is not None
        rows = np.concatenate([rows[~is_missing[rows]], rows[is_missing[rows]]])
        ranked = values[rows]
    n_present = len(values) - n_missing  # nan sorts behind every number
    is_new = np.ones(len(values), dtype=bool)
    is_new[1:n_present] = ranked[1:n_present] != ranked[: n_present - 1][: max(n_present - 1, 0)]
    is_new[n_present + 1 :] = False
    places = np.cumsum(is_new, dtype=np.int32)
    places -= 1
    codes = np.empty(len(values), dtype=np.int32)
    codes[rows] = places
    return Levels(name, True, ranked[:n_present][is_new[:n_present]], codes, n_missing > 0)


def text_levels(column: "pl.Series", most: int) -> Levels | None:
    """The levels of a text column; None where it has more different values than `most`."""
    import polars as pl

    # A sample of the rows often tells at once that there are too many.
    if column.gather_every(max(1, len(column) // (2 * most))).n_unique() > most + 1:
        return None
    distinct = column.drop_nulls().unique().sort()
    if len(distinct) > most:
        return None
    codes = column.cast(pl.Enum(distinct)).to_physical()
    has_missing = column.null_count() > 0
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
    below_first, below_second = np.cumsum(first), np.cumsum(second)
    if not len(first) or not below_first[-1] or not below_second[-1]:
        return 0.0
    gaps = below_first / below_first[-1]
    gaps -= below_second / below_second[-1]
    return float(max(gaps.max(), -gaps.min()))


def total_variation(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Half the summed difference of shares: the part of one side that would have to change to match the other."""
    if not first.sum() or not second.sum():
        return 0.0
    return float(np.abs(first / first.sum() - second / second.sum()).sum() / 2)


def distance_between(levels: Levels, first: NDArray[np.int64], second: NDArray[np.int64]) -> tuple[str, float, float]:
    """The measure that suits the column, the distance, and what chance alone exceeds once in 100."""
    n, m = int(first.sum()), int(second.sum())
    if not n or not m:
        return ("KS" if levels.is_numeric else "TV"), 0.0, 0.0
    spread = math.sqrt(1 / n + 1 / m)
    if levels.is_numeric:
        present = len(levels.values)  # a missing value stands nowhere in the order
        return "KS", ks_distance(first[:present], second[:present]), KS_LIMIT * spread
    shares = (first + second) / (n + m)
    # The mean of a normal deviation's size is sqrt(2/pi) times its standard deviation.
    usual = float(np.sqrt(shares * (1 - shares)).sum()) * spread * math.sqrt(2 / math.pi) / 2
    return "TV", total_variation(first, second), min(1.0, usual + TV_EXCESS * spread)


def agreements(levels: Levels, counts: Counts) -> list[Agreement]:
    """Dev and test beside train. counts: (level, side)."""
    kind = "numeric" if levels.is_numeric else "category"
    found = []
    for number, side in enumerate(SIDES[1:], 1):
        measure, distance, by_chance = distance_between(levels, counts[:, 0], counts[:, number])
        found.append(Agreement(levels.name, kind, measure, side, distance, by_chance))
    return found


def drift(order: str, levels: Levels, fifths: NDArray[np.int8]) -> Drift:
    """The first fifth of the order beside the last. fifths: (row,) in 0..4."""
    counts = levels.counts(fifths, 5)
    return Drift(order, levels.name, *distance_between(levels, counts[:, 0], counts[:, 4]))
