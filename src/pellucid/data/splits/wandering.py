"""How far the tail of the test side wanders when nothing but the seed changes: at random, and stratified."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits.agreement import quantile
from pellucid.data.splits.hashing import Words, mix, numbered_hashes, seed_word
from pellucid.data.splits.levels import Levels
from pellucid.data.splits.sides import by_strata
from pellucid.data.splits.strata import Strata
from pellucid.records import Wander

if TYPE_CHECKING:
    from collections.abc import Callable

DEEPEST = 0.02  # only this upper part of the rows is looked at: every number below comes from it
FEWEST_ROWS = 2000


def wanders(
    levels: Levels, strata: Strata, hashes: Words, fractions: Sequence[float], seed: str, repeats: int
) -> list[Wander]:
    """Numbers about the test side's tail over `repeats` random splits and as many stratified ones.

    Strata are divided independently of each other but for what rounding carries along, so it is enough to divide
    those that reach into the tail.
    """
    n = len(levels.codes)
    if not repeats or n < FEWEST_ROWS or levels.has_missing:
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

    def share_of(is_in: NDArray[np.bool_]) -> "Callable[[NDArray[np.bool_]], float]":
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
