"""Which strategy the data ask for, with the numbers that say so."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pellucid.data.splits.distributions import Levels, drift
from pellucid.data.splits.tails import FEWEST_ROWS, heavy_tail
from pellucid.records import Drift

if TYPE_CHECKING:
    import polars as pl

# Judgements. The numbers they judge are always shown, so that the reader can judge too.
DRIFT_MATTERS = 0.05
RISING = 0.999
MOST_STRATIFYING_VALUES = 20
MOST_STRATIFYING_COLUMNS = 2


@dataclass(frozen=True)
class Proposal:
    """A strategy with its columns, and why."""

    strategy: str
    because: tuple[str, ...]
    by: str = ""
    together_with: tuple[str, ...] = ()


def propose(levels: Mapping[str, Levels], order: str, why_order: str, drifts: Sequence[Drift]) -> Proposal:
    """Time where something drifts along the order column, else strata where a tail is heavy, else the hash."""
    because = [f"{order} is an order column: {why_order}"] if order else []
    worst = worst_drift(drifts)
    if worst and does_matter(worst):
        because.append(
            f"along it {worst.column} drifts: {worst.measure} {worst.distance:.3g} between the first and the last "
            f"fifth, where {DRIFT_MATTERS:g} would matter"
        )
        return Proposal("time", tuple(because))
    if worst:
        because.append(
            f"along it nothing drifts: the first and the last fifth differ most in {worst.column}, by {worst.measure} "
            f"{worst.distance:.3g}, where {max(DRIFT_MATTERS, worst.by_chance):.3g} would matter"
        )
    seen = [tail for one in levels.values() if one.name != order if (tail := heavy_tail(one))]
    heavy = [tail for tail in seen if tail.is_heavy]
    if heavy:
        heaviest = min(heavy, key=lambda tail: tail.tail_index)
        because.append(f"{heaviest.column} has a heavy right tail: {heaviest}")
        others = stratifying_columns(levels.values())
        for other in others:
            because.append(
                f"{other} has {levels[other].n_levels} different values, so each bin is shared out by it too"
            )
        return Proposal("stratified", tuple(because), heaviest.column, others)
    if seen:
        nearest_to_heavy = max(seen, key=lambda tail: tail.skewness)
        because.append(f"no column has a heavy tail: the most skewed is {nearest_to_heavy.column}, {nearest_to_heavy}")
    because.append("a hash leaves every row on its side when rows are appended")
    return Proposal("hash", tuple(because))


def worst_drift(drifts: Sequence[Drift]) -> Drift | None:
    """The drift that matters most, if any does; else the greatest."""
    return max(drifts, key=lambda one: (does_matter(one), one.distance), default=None)


def does_matter(drift: Drift) -> bool:
    """A drift matters when it is too large to come by chance, and large enough to change what a model learns."""
    return drift.distance >= DRIFT_MATTERS and drift.distance > drift.by_chance


def stratifying_columns(levels: Iterable[Levels]) -> tuple[str, ...]:
    """Categories with few values, at most two of them."""
    few = [one.name for one in levels if not one.is_numeric and 2 <= one.n_levels <= MOST_STRATIFYING_VALUES]
    return tuple(few[:MOST_STRATIFYING_COLUMNS])


def order_column(frame: "pl.DataFrame", levels: Mapping[str, Levels]) -> tuple[str, str]:
    """The first column that tells the order of the rows, and how it is known; empty words where none does.

    A column of instants whose steps rise, or whole numbers that rise or take each value of a range once. The
    second does not depend on how the rows lie, so a shuffled table gets the same proposal.
    """
    if frame.height < FEWEST_ROWS:
        return "", ""
    for name, one in levels.items():
        kind = frame[name].dtype
        is_instant = kind.is_temporal()
        if not (kind.is_integer() or is_instant) or one.has_missing:
            continue
        n_distinct = int((one.totals() > 0).sum())
        rising = float(np.mean(one.codes[1:] >= one.codes[:-1]))
        if kind.is_integer() and n_distinct == frame.height == len(one.values):
            first, last = f"{one.values[0]:,}", f"{one.values[-1]:,}"
            return name, f"each whole number from {first} to {last} once; {100 * rising:.3g} % of its steps rise"
        if rising >= RISING and (is_instant or 2 * n_distinct > frame.height):
            return name, f"{100 * rising:.4g} % of its steps rise, over {n_distinct:,} different values"
    return "", ""


def drifts_along(order: Levels, others: Sequence[Levels]) -> list[Drift]:
    """Every other column's first fifth beside its last, along the order. Rows with equal order share a fifth."""
    totals = order.totals()
    before = np.cumsum(totals) - totals
    fifth_of_level = np.minimum(5 * before // max(1, int(totals.sum())), 4).astype(np.int8)
    fifths = fifth_of_level[order.codes]
    return [drift(order.name, one, fifths) for one in others if one.name != order.name]
