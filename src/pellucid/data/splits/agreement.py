"""How alike two sides are: distances between distributions, quantiles of the tail, and what chance alone would give."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits.levels import Counts, Levels
from pellucid.data.splits.request import SIDES
from pellucid.records import Agreement, Drift, Tail

# A random split exceeds KS_LIMIT * sqrt(1/n + 1/m) once in 100: Kolmogorov's distribution.
KS_LIMIT = 1.6276
# By McDiarmid's inequality a total variation lies this far above its mean at most once in 100.
TV_EXCESS = math.sqrt(math.log(100) / 2)


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


def compared(levels: Levels, first: NDArray[np.int64], second: NDArray[np.int64]) -> tuple[str, float, float]:
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
        measure, distance, by_chance = compared(levels, counts[:, 0], counts[:, number])
        found.append(Agreement(levels.name, kind, measure, side, distance, by_chance))
    return found


def drift(order: str, levels: Levels, fifths: NDArray[np.int8]) -> Drift:
    """The first fifth of the order beside the last. fifths: (row,) in 0..4."""
    counts = levels.counts(fifths, 5)
    return Drift(order, levels.name, *compared(levels, counts[:, 0], counts[:, 4]))


def tails(levels: Levels, counts: Counts) -> list[Tail]:
    """The tail of the whole table and of each side. counts: (level, side)."""
    present = counts[: len(levels.values)]
    whole = present.sum(axis=1)
    threshold = quantile(levels, whole, 0.99)
    found = []
    for side, column in zip(("all", *SIDES), (whole, *present.T), strict=True):
        above = None
        if threshold is not None and column.sum():
            above = float(column[levels.values > threshold].sum() / column.sum())
        q90, q99, q999, largest = (quantile(levels, column, part) for part in (0.9, 0.99, 0.999, 1.0))
        found.append(Tail(levels.name, side, q90, q99, q999, largest, above))
    return found


def quantile(levels: Levels, counts: NDArray[np.int64], part: float) -> float | None:
    """The least value that at least this part of the rows does not exceed; None where there are no rows."""
    n = int(counts.sum())
    if not n:
        return None
    return float(levels.values[int(np.searchsorted(np.cumsum(counts), math.ceil(part * n - 1e-9)))])


def largest_distance(found: Sequence[Agreement | Drift]) -> Agreement | Drift | None:
    """The one that exceeds chance by most, as a ratio."""
    return max(found, key=lambda one: one.distance / one.by_chance if one.by_chance else 0.0, default=None)
