"""Which strategy suits a table, and which side each of its rows stands on then: for `split` and for `train`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import TableData, unknown_column
from pellucid.data.splits import TWO_SIDES, SplitRequest
from pellucid.data.splits.assignment import (
    SideNumbers,
    Strata,
    at_random,
    by_hash,
    by_order,
    by_strata,
    class_strata,
    count_sides,
    hold_out_by_hash,
    hold_out_dev,
    lacks_dev,
    strata_of,
)
from pellucid.data.splits.distributions import (
    Levels,
    drifts_along,
    find_order,
    find_years,
    levels_of,
    text_levels,
)
from pellucid.data.splits.duplicates import is_in_train
from pellucid.data.splits.groups import find_group
from pellucid.data.splits.hashing import Words, row_hashes
from pellucid.data.splits.tails import heavy_tail, most_telling
from pellucid.errors import PellucidError, quoted
from pellucid.records import Drift, GroupColumn, HeavyTail, OrderColumn, SplitChoice, Statement, make_note
from pellucid.records.splitting import worst_drift

MOST_CATEGORIES = 1000  # a text column with more different values is no category, and is not compared
MOST_STRATIFYING_VALUES = 20
MOST_STRATIFYING_COLUMNS = 2
FEW_GROUPS = 500
LONG = 100_000  # rows from which on two columns are ranked at the same time
MOST_DRIFTING = 200  # columns that are compared along the dates of a table to be trained on


@dataclass(frozen=True)
class SplitProposal:
    """A request with its strategy and columns filled in, and everything that was seen on the way."""

    request: SplitRequest
    levels: Mapping[str, Levels]  # of each column that has a distribution to compare
    notes: list[Statement]
    order: OrderColumn | None
    drifts: list[Drift]
    skewed: Mapping[str, HeavyTail]
    group: GroupColumn | None


def propose_split(data: TableData, asked: SplitRequest) -> SplitProposal:
    """Look for an order, for what drifts along it, for groups and for tails; take what was not asked for from them."""
    levels, notes = _comparable(data)
    order = _named_order(asked) or find_order(data, {**levels, **date_levels(data)})
    tells_time = order is not None and not order.sorted_by
    drifts = drifts_along(level_of(levels, data, order.name), list(levels.values())) if order and tells_time else []
    skewed = {
        name: tail for name, one in levels.items() if not (order and name == order.name) and (tail := heavy_tail(one))
    }
    group = find_group(data, asked.target, levels)
    request = choose_strategy(asked, levels, order, drifts, skewed, group)
    return SplitProposal(request, levels, notes, order, drifts, skewed, group)


def _named_order(asked: SplitRequest) -> OrderColumn | None:
    return OrderColumn(asked.order, is_named=True) if asked.order else None


def date_levels(data: TableData) -> dict[str, Levels]:
    """The levels of each column of dates, which are texts that sort in time."""
    import polars as pl

    dates = [one.name for one in data.columns if one.kind == "order" and data.frame[one.name].dtype == pl.String]
    return {name: levels_of(data.frame[name]) for name in dates}


class ChosenSides(NamedTuple):
    """The sides of a table that is to be trained on. words: (row,); rows with equal ones cannot be divided."""

    sides: SideNumbers
    words: Words
    choice: SplitChoice


def choose_sides(table: TableData, target: str, asked: SplitRequest, hashes: Words) -> ChosenSides:
    """Divide the rows that have a target, as asked or as suits them. hashes: (row,), of what a network reads.

    By group where a column is one, by time where a column of dates has something drift along it, else by hash.
    """
    require_columns(table, asked)
    if table.sides is not None:
        return _divided_before(table, target, asked, hashes)
    group = find_group(table, target)
    order, drift = _dates_of(table, asked)
    strategy = asked.strategy or (
        "group" if asked.group else "time" if asked.order else "stratified" if asked.by or asked.together_with else ""
    )
    if not strategy:
        strategy = "group" if group else "time" if drift and drift.matters else "hash"
    chosen = SplitRequest(
        strategy,
        by=asked.by if strategy == "stratified" else "",
        together_with=asked.together_with if strategy == "stratified" else (),
        group=(asked.group or (group.name if group else "")) if strategy == "group" else "",
        order=(asked.order or (order.name if order else "")) if strategy == "time" else "",
        fractions=asked.fractions,
        seed=asked.seed,
    )
    divider = _divider(table, target, chosen, hashes)
    column, words = divider.column, divider.words
    sides = divider.divide(np.arange(len(table)), asked.fractions)
    if asked.sides == TWO_SIDES:
        divider.hold_out(sides)
    n_twins = int(is_in_train(hashes, sides).sum()) if strategy != "hash" else 0
    is_proposed = not (asked.strategy or asked.group or asked.order or asked.by)
    choice = SplitChoice(
        strategy, is_proposed, column, group, order, drift, n_twins, int(np.count_nonzero(sides)), target
    )
    return ChosenSides(sides, words, choice)


class _Divider(NamedTuple):
    """How the rows of a table are divided, and some of them again. words: (row,); equal ones cannot be divided."""

    column: str  # whose values or order the sides follow
    words: Words
    divide: Callable[[NDArray[np.int64], Sequence[float]], SideNumbers]  # the sides of these rows, by fractions
    is_hashed: bool = False  # the side of a row depends on nothing but its word

    def hold_out(self, sides: SideNumbers) -> None:
        """Take dev from train, in the same way as test was taken from all rows."""
        if self.is_hashed:
            hold_out_by_hash(sides, self.words)
        else:
            hold_out_dev(sides, self.divide)


def _divider(table: TableData, target: str, asked: SplitRequest, hashes: Words) -> _Divider:
    """For a strategy that is known. hashes: (row,), of what a network reads."""
    frame = table.frame
    if asked.strategy == "group":
        words = row_hashes(frame, [asked.group], asked.seed)
        # Of a few groups a hash alone may leave dev or test nearly without any.
        if frame[asked.group].n_unique() < FEW_GROUPS:
            return _Divider(asked.group, words, lambda rows, parts: by_order(words[rows], parts, asked.group))
        return _Divider(asked.group, words, lambda rows, parts: by_hash(words[rows], parts), is_hashed=True)
    if asked.strategy == "time":
        if not asked.order:
            raise no_order()
        order = levels_of(frame[asked.order])
        _require_no_gap(table, order)
        return _Divider(asked.order, hashes, lambda rows, parts: by_order(order.codes[rows], parts, order.name))
    if asked.strategy == "stratified":
        column = asked.by or target
        if not column:
            raise PellucidError(
                "there is no target to stratify by", fix="Name a column with {by}", options={"by": None}
            )
        by = levels_of(frame[column])
        others = [levels_of(frame[name]) for name in asked.together_with]
        is_class = column == target and (not by.is_numeric or by.n_levels <= MOST_STRATIFYING_VALUES)
        codes = (class_strata(by) if is_class else strata_of(by, others, asked.fractions)).codes
        return _Divider(column, hashes, lambda rows, parts: by_strata(codes[rows], hashes[rows], parts))
    if asked.strategy == "random":
        return _Divider(
            "",
            row_hashes(frame.with_row_index("\0row"), ["\0row"]),
            lambda rows, parts: at_random(len(rows), parts, asked.seed),
        )
    return _Divider("", hashes, lambda rows, parts: by_hash(hashes[rows], parts), is_hashed=True)


def _divided_before(table: TableData, target: str, asked: SplitRequest, hashes: Words) -> ChosenSides:
    """The sides that the rows came with. What was torn apart then is told now."""
    for name in ("strategy", "group", "order", "by"):
        if getattr(asked, name):
            raise PellucidError(
                f"{table.name} was divided before, so {{{name}}} changes nothing",
                fix="Leave it out",
                options={name: None},
            )
    assert table.sides is not None
    sides = table.sides.copy()
    if lacks_dev(sides):
        _divider(table, target, table.divided_by or SplitRequest("hash"), hashes).hold_out(sides)
    group = find_group(table, target)
    if group and not is_in_train(row_hashes(table.frame, [group.name]), sides).any():
        group = None
    n_twins, n_held = int(is_in_train(hashes, sides).sum()), int(np.count_nonzero(sides))
    choice = SplitChoice("given", False, "", group, None, None, n_twins, n_held, target)
    return ChosenSides(sides, hashes, choice)


def _dates_of(table: TableData, asked: SplitRequest) -> tuple[OrderColumn | None, Drift | None]:
    """The order that was named, or the first column of dates, and the worst drift along it."""
    dates = date_levels(table)
    order = _named_order(asked) or (find_order(table, dates) if dates else None)
    if order is None:
        # Years may be when a row was written as well as when a car was built: they are told, and nothing is decided.
        return find_years(table), None
    some = [one.name for one in table.columns if one.kind in ("numeric", "category")][:MOST_DRIFTING]
    others = [levels_of(table.frame[name]) for name in some]
    return order, worst_drift(drifts_along(level_of(dates, table, order.name), others))


def require_columns(data: TableData, request: SplitRequest) -> None:
    """Refuse a column that the table does not have."""
    for name in (request.by, *request.together_with, request.key, request.group, request.order, request.target):
        if name and name not in data.frame.columns:
            raise unknown_column(name, data.frame.columns, data.name)


def _comparable(data: TableData) -> tuple[dict[str, Levels], list[Statement]]:
    """The levels of each column that has a distribution to compare, and a note on those that have not."""
    import polars as pl

    def comparable_levels(column: pl.Series) -> Levels | None:
        if column.dtype == pl.String:
            return text_levels(column, MOST_CATEGORIES)
        return None if column.dtype == pl.Null else levels_of(column)

    columns = data.frame.get_columns()
    with ThreadPoolExecutor(2) as threads:
        # What is done to a long column leaves Python to the other thread; short ones would wait for each other.
        each = threads.map if data.frame.height >= LONG else map
        found = dict(zip(data.frame.columns, each(comparable_levels, columns), strict=True))
    others = [name for name, one in found.items() if one is None]
    notes = [make_note("not-compared", columns=others)] if others else []
    return {name: one for name, one in found.items() if one is not None}, notes


def level_of(levels: Mapping[str, Levels], data: TableData, name: str) -> Levels:
    """The levels of a column, known already or not."""
    return levels[name] if name in levels else levels_of(data.frame[name])


def sides_by(
    data: TableData, request: SplitRequest, levels: Mapping[str, Levels], hashes: Words, strata: Strata | None
) -> SideNumbers:
    """The side of each row. hashes: of its key, or of the whole row."""
    if request.strategy == "time":
        order = level_of(levels, data, request.order)
        _require_no_gap(data, order)
        return by_order(order.codes, request.fractions, order.name)
    if strata:
        return by_strata(strata.codes, hashes, request.fractions)
    if request.strategy == "random":
        return at_random(data.frame.height, request.fractions, request.seed)
    if request.group and request.strategy == "group":
        words = row_hashes(data.frame, [request.group], request.seed)
        # Of a few groups a hash alone may leave a side without any; then they are shared out in the hash's order.
        if not hash_fills_sides(words, request.fractions):
            return by_order(words, request.fractions, request.group)
        return by_hash(words, request.fractions)
    return by_hash(hashes, request.fractions)


def hash_fills_sides(words: Words, fractions: Sequence[float]) -> bool:
    """Whether some rows of each side that is asked for come out by these hashes alone. words: (row,)."""
    return len(np.unique(by_hash(words, fractions))) == count_sides(fractions)


def _require_no_gap(data: TableData, order: Levels) -> None:
    """Refuse an order in which some rows have no place."""
    if order.has_missing:
        n_missing = int(order.totals[-1])
        raise PellucidError(
            f"{n_missing:,} rows have no {quoted(order.name)}", where=f"in {data.name}", fix="Fill it in first"
        )


def choose_strategy(
    request: SplitRequest,
    levels: Mapping[str, Levels],
    order: OrderColumn | None,
    drifts: Sequence[Drift],
    skewed: Mapping[str, HeavyTail],
    group: GroupColumn | None = None,
) -> SplitRequest:
    """The request with its strategy and columns filled in, where the user left them to the data."""
    if not request.strategy:
        request = _propose(request, levels, drifts, skewed, group)
    if request.strategy == "time" and not request.order:
        if not order or order.sorted_by:
            raise no_order()
        request = replace(request, order=order.name)
    if request.strategy == "stratified" and not request.by:
        if not skewed:
            raise PellucidError(
                "no numeric column has a tail to stratify by", fix="Name one with {by}", options={"by": None}
            )
        request = replace(request, by=most_skewed(skewed))
    return request


def no_order() -> PellucidError:
    """The error for a table that is to be divided by time and tells none."""
    return PellucidError("no column tells the order of the rows", fix="Name one with {order}", options={"order": None})


def _propose(
    request: SplitRequest,
    levels: Mapping[str, Levels],
    drifts: Sequence[Drift],
    skewed: Mapping[str, HeavyTail],
    group: GroupColumn | None,
) -> SplitRequest:
    if request.group or request.key:
        return replace(request, strategy="group" if request.group else "hash")
    if request.by or request.together_with:
        return replace(request, strategy="stratified")
    if group:
        return replace(request, strategy="group", group=group.name)
    worst = worst_drift(drifts)
    if worst and worst.matters:
        return replace(request, strategy="time")
    heaviest = most_telling(skewed.values())
    if heaviest and heaviest.is_heavy:
        others = stratifying_columns(levels.values())
        return replace(request, strategy="stratified", by=heaviest.column, together_with=others)
    return replace(request, strategy="hash")


def most_skewed(skewed: Mapping[str, HeavyTail]) -> str:
    """The column to stratify by where none is named; "" where no column has a tail."""
    return max(skewed, key=lambda name: skewed[name].skewness, default="")


def stratifying_columns(levels: Iterable[Levels]) -> tuple[str, ...]:
    """Categories with few values, at most two of them."""
    few = [one.name for one in levels if not one.is_numeric and 2 <= one.n_levels <= MOST_STRATIFYING_VALUES]
    return tuple(few[:MOST_STRATIFYING_COLUMNS])
