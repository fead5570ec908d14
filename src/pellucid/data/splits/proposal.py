"""Which strategy the data ask for: by time where something drifts, by strata where a tail is heavy, else by hash."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pellucid.data.splits.distributions import Levels, drift
from pellucid.data.splits.request import SplitRequest
from pellucid.data.splits.tails import FEWEST_ROWS
from pellucid.errors import PellucidError
from pellucid.records import Drift, HeavyTail, OrderColumn
from pellucid.records.splitting import worst_drift

if TYPE_CHECKING:
    import polars as pl

RISING = 0.999
MOST_STRATIFYING_VALUES = 20
MOST_STRATIFYING_COLUMNS = 2


def choose_strategy(
    request: SplitRequest,
    levels: Mapping[str, Levels],
    order: OrderColumn | None,
    drifts: Sequence[Drift],
    skewed: Mapping[str, HeavyTail],
) -> SplitRequest:
    """The request with its strategy and columns filled in, where the user left them to the data."""
    if not request.strategy:
        request = _propose(request, levels, drifts, skewed)
    if request.strategy == "time" and not request.order:
        if not order:
            raise PellucidError(
                "no column tells the order of the rows", fix="Name one with {order}", options={"order": None}
            )
        request = replace(request, order=order.name)
    if request.strategy == "stratified" and not request.by:
        if not skewed:
            raise PellucidError(
                "no numeric column has a tail to stratify by", fix="Name one with {by}", options={"by": None}
            )
        request = replace(request, by=most_skewed(skewed))
    return request


def _propose(
    request: SplitRequest, levels: Mapping[str, Levels], drifts: Sequence[Drift], skewed: Mapping[str, HeavyTail]
) -> SplitRequest:
    if request.group or request.key:
        return replace(request, strategy="group" if request.group else "hash")
    if request.by or request.together_with:
        return replace(request, strategy="stratified")
    worst = worst_drift(drifts)
    if worst and worst.matters:
        return replace(request, strategy="time")
    heaviest = most_telling(skewed.values())
    if heaviest and heaviest.is_heavy:
        others = stratifying_columns(levels.values())
        return replace(request, strategy="stratified", by=heaviest.column, together_with=others)
    return replace(request, strategy="hash")


def most_telling(tails: Iterable[HeavyTail]) -> HeavyTail | None:
    """The heaviest tail; the most skewed one where none is heavy."""
    found = list(tails)
    heavy = [tail for tail in found if tail.is_heavy]
    if heavy:
        return min(heavy, key=lambda tail: tail.tail_index)
    return max(found, key=lambda tail: tail.skewness, default=None)


def most_skewed(skewed: Mapping[str, HeavyTail]) -> str:
    """The column to stratify by where none is named; "" where no column has a tail."""
    return max(skewed, key=lambda name: skewed[name].skewness, default="")


def stratifying_columns(levels: Iterable[Levels]) -> tuple[str, ...]:
    """Categories with few values, at most two of them."""
    few = [one.name for one in levels if not one.is_numeric and 2 <= one.n_levels <= MOST_STRATIFYING_VALUES]
    return tuple(few[:MOST_STRATIFYING_COLUMNS])


def find_order(frame: "pl.DataFrame", levels: Mapping[str, Levels]) -> OrderColumn | None:
    """The first column that tells the order of the rows.

    A column of instants whose steps rise, or whole numbers that rise or take each value of a range once. The
    second does not depend on how the rows lie, so a shuffled table gets the same proposal.
    """
    if frame.height < FEWEST_ROWS:
        return None
    for name, one in levels.items():
        kind = frame[name].dtype
        is_instant = kind.is_temporal()
        if not (kind.is_integer() or is_instant) or one.has_missing:
            continue
        n_distinct = int((one.totals() > 0).sum())
        rising = float(np.mean(one.codes[1:] >= one.codes[:-1]))
        if kind.is_integer() and n_distinct == frame.height == len(one.values):
            return OrderColumn(name, False, rising, n_distinct, (int(one.values[0]), int(one.values[-1])))
        if rising >= RISING and (is_instant or 2 * n_distinct > frame.height):
            return OrderColumn(name, False, rising, n_distinct)
    return None


def drifts_along(order: Levels, others: Sequence[Levels]) -> list[Drift]:
    """Every other column's first fifth beside its last, along the order. Rows with equal order share a fifth."""
    totals = order.totals()
    before = np.cumsum(totals) - totals
    fifth_of_level = np.minimum(5 * before // max(1, int(totals.sum())), 4).astype(np.int8)
    fifths = fifth_of_level[order.codes]
    return [drift(order.name, one, fifths) for one in others if one.name != order.name]
