"""The tail of a column: how heavy it is, where each side's lies, and how far the test side's wanders with the seed."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits.assignment import Strata, by_strata
from pellucid.data.splits.distributions import Counts, Levels
from pellucid.data.splits.hashing import Words, mix, numbered_hashes, seed_word
from pellucid.data.splits.request import SIDES
from pellucid.records import HeavyTail, Tail, Wander

FEWEST_ROWS = 100  # to speak of a tail at all
DEEPEST = 0.02  # only this upper part of the rows is looked at for wandering: every number comes from it
FEWEST_TO_WANDER = 2000


def heavy_tail(levels: Levels) -> HeavyTail | None:
    """Skewness and Hill's tail index of a numeric column; None where there is no positive tail to speak of."""
    counts = levels.totals()[: len(levels.values)]
    n = int(counts.sum())
    if not levels.is_numeric or n < FEWEST_ROWS or len(levels.values) < 3:
        return None
    values = levels.values.astype(np.float64)
    if not np.isfinite(values).all():
        return None
    centred = values - np.dot(values, counts) / n
    variance = float(np.dot(centred**2, counts) / n)
    skewness = float(np.dot(centred**3, counts) / n) / variance**1.5 if variance > 0 else 0.0
    tail_index = hill(values, counts, max(10, n // 100))
    if not math.isfinite(skewness) or tail_index is None:
        return None
    return HeavyTail(levels.name, skewness, tail_index)


def hill(values: NDArray[np.float64], counts: NDArray[np.int64], n_top: int) -> float | None:
    """Hill's estimate of the tail index from the n_top greatest: 1 / mean(log(x / x_next)).

    The lower, the heavier: below 2 the variance does not settle as rows are added, below 1 not even the mean.
    values rise; counts says how often each occurs.

    >>> hill(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 1]), 2) == 1 / (1.5 * math.log(2))
    True
    """
    from_top = np.cumsum(counts[::-1])
    last = int(np.searchsorted(from_top, n_top))
    below = int(np.searchsorted(from_top, n_top + 1))
    if below >= len(values) or values[::-1][below] <= 0:
        return None
    weights = counts[::-1][: last + 1].astype(np.float64)
    weights[-1] -= from_top[last] - n_top
    excess = float(np.dot(np.log(values[::-1][: last + 1] / values[::-1][below]), weights)) / n_top
    return 1 / excess if excess > 0 else math.inf


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


def wanders(
    levels: Levels, strata: Strata, hashes: Words, fractions: Sequence[float], seed: str, repeats: int
) -> list[Wander]:
    """Numbers about the test side's tail over `repeats` random splits and as many stratified ones.

    Strata are divided independently of each other but for what rounding carries along, so it is enough to divide
    those that reach into the tail.
    """
    n = len(levels.codes)
    if not repeats or n < FEWEST_TO_WANDER or levels.has_missing:
        return []
    totals = levels.totals()
    n_test = n - int((fractions[0] + fractions[1]) * n + 0.5)
    from_top = np.cumsum(totals[::-1])[::-1]
    is_deep = from_top <= max(DEEPEST * n, from_top[-1])
    tail = np.flatnonzero(is_deep[levels.codes])
    # Rows of the tail, greatest first; among equal values the order says nothing.
    tail = tail[np.argsort(levels.codes[tail], kind="stable")[::-1]]
    codes = levels.codes[tail]
    near = np.flatnonzero(strata.bins >= strata.bins[tail].min())
    place_in_near = np.searchsorted(near, tail)

    at_random, stratified = [], []
    for number in range(repeats):
        name = f"{seed}#{number}"
        keys = numbered_hashes(n, name)
        at_random.append(keys[tail] >= np.partition(keys, n - n_test)[n - n_test])
        again = mix(hashes[near] + np.uint64(seed_word(name)))
        stratified.append((by_strata(strata.codes[near], again, fractions) == 2)[place_in_near])

    part = 0.999 if n_test >= 1000 else 0.99
    top = levels.values > quantile(levels, totals, 0.99)
    extreme = levels.values > quantile(levels, totals, 0.999)
    rank = max(1, n_test - int(np.ceil(part * n_test - 1e-9)) + 1)  # counted from the greatest

    def value_at_rank(chosen: NDArray[np.bool_]) -> float:
        found = np.flatnonzero(chosen)[rank - 1 : rank]
        return float(levels.values[codes[found[0]]]) if len(found) else float("nan")

    def largest(chosen: NDArray[np.bool_]) -> float:
        return float(levels.values[codes[np.argmax(chosen)]]) if chosen.any() else float("nan")

    def share_of(is_in: NDArray[np.bool_]) -> Callable[[NDArray[np.bool_]], float]:
        n_all = max(1, int(totals[is_in].sum()))
        return lambda chosen: float(is_in[codes[chosen]].sum()) / n_all

    rows: list[tuple[str, bool, float | None, Callable[[NDArray[np.bool_]], float]]] = [
        (f"{100 * part:g} % quantile", False, quantile(levels, totals, part), value_at_rank),
        ("largest", False, quantile(levels, totals, 1.0), largest),
        ("part of the top 1 %", True, fractions[2], share_of(top)),
        ("part of the top 0.1 %", True, fractions[2], share_of(extreme)),
    ]
    return [
        Wander(
            levels.name,
            statistic,
            is_share,
            whole,
            tuple(measure(chosen) for chosen in at_random),
            tuple(measure(chosen) for chosen in stratified),
        )
        for statistic, is_share, whole, measure in rows
        if not is_share or n_test >= 1000
    ]
