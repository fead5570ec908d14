"""Splitting data into train, dev and test: which side each row stands on, and the report on what came out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import ListData, PairsData, TableData
from pellucid.data.splits import SIDES, STABLE, SplitRequest, three_shares
from pellucid.data.splits.assignment import SideNumbers, Strata, at_random, by_hash, by_strata, strata_of
from pellucid.data.splits.distributions import Levels, agreements, clumping, count_codes
from pellucid.data.splits.duplicates import Twins, find_twins, near_items, near_rows, straddles
from pellucid.data.splits.groups import FEW_NUMBERS
from pellucid.data.splits.hashing import Words, item_hashes, mix, numbered_hashes, row_hashes, seed_word
from pellucid.data.splits.leaks import find_leaks
from pellucid.data.splits.proposal import (
    hash_fills_sides,
    level_of,
    most_skewed,
    propose_split,
    require_columns,
    sides_by,
)
from pellucid.data.splits.tails import most_telling, quantile, tails
from pellucid.errors import PellucidError, printable
from pellucid.records import Agreement, HeavyTail, Leak, SplitReport, Statement, Straddle, Wander, make_note
from pellucid.records.splitting import worst_drift

if TYPE_CHECKING:
    import polars as pl

DEEPEST = 0.02  # only this upper part of the rows is looked at for wandering: every number comes from it
FEWEST_TO_WANDER = 2000

Splittable = ListData | PairsData | TableData


@dataclass(frozen=True)
class Division:
    """sides: (row,), places in SIDES."""

    sides: SideNumbers
    report: SplitReport


def split_data(data: Splittable, request: SplitRequest | None = None) -> Division:
    """Split a list, pairs or a table as asked, or as the data propose, and look at what came out."""
    request = request or SplitRequest()
    division = _split_table(data, request) if isinstance(data, TableData) else _split_items(data, request)
    for side, size in division.report.sizes.items():
        if not size:
            raise PellucidError(
                f"the {side} side of {len(division.sides):,} rows, {division.report.n_distinct:,} different ones, "
                "came out empty",
                where=f"in {data.name}",
                fix="Give more rows, a larger fraction or another {seed}",
                options={"seed": None},
            )
    return division


def _split_items(data: ListData | PairsData, request: SplitRequest) -> Division:
    for name in ("by", "together_with", "key", "group", "order"):
        if getattr(request, name):
            raise PellucidError(
                f"{{{name}}} names a column, and {data.name} has none", fix="Leave it out", options={name: None}
            )
    if request.strategy not in ("", "hash", "random"):
        raise PellucidError(
            f"the strategy {request.strategy} needs columns, and {data.name} has none",
            fix="Take {strategy}",
            options={"strategy": "hash"},
        )
    items = data.items if isinstance(data, ListData) else [source for source, _ in data.pairs]
    noun = "items" if isinstance(data, ListData) else "sources"
    chosen = replace(request, strategy=request.strategy or "hash")
    hashes = item_hashes(items, request.seed)
    if chosen.strategy == "hash":
        sides = by_hash(hashes, request.fractions)
    else:
        sides = at_random(len(items), request.fractions, request.seed)
    twins = find_twins(hashes, sides)
    near, notes = near_items(items, sides, noun)
    lengths = np.array([len(item) for item in items])
    length = Levels("length", True, np.arange(int(lengths.max(initial=0)) + 1), lengths, False)
    equal = straddles(twins, sides, f"equal {noun}", is_leak=True, show=lambda row: printable(items[row][:60]))
    compared = agreements(length, length.counts(sides, len(SIDES)), sides=request.sides)
    return Division(sides, _report(data, request, chosen, sides, twins, [*equal, *near], compared, notes))


def _split_table(data: TableData, asked: SplitRequest) -> Division:
    import polars as pl

    _require_rows_and_columns(data, asked)
    frame = data.frame
    proposal = propose_split(data, asked)
    request, levels, notes, found = proposal.request, proposal.levels, proposal.notes, proposal.order
    order = found.name if found else ""
    known = {name: one.text_words for name, one in levels.items() if frame[name].dtype == pl.String}
    hashed = [request.key] if request.key else hashed_columns(data, request.target)
    hashes = row_hashes(frame, hashed, request.seed, known)
    strata = None
    if request.strategy == "stratified":
        others = [level_of(levels, data, name) for name in request.together_with]
        strata = strata_of(level_of(levels, data, request.by), others, request.fractions)
    sides = sides_by(data, request, levels, hashes, strata)

    if any(one.is_one_each for one in levels.values()):
        twins = Twins(frame.height, (0, 0), ())  # a column that numbers the rows leaves no two of them equal
    else:
        twins = find_twins(row_hashes(frame, known=known) if len(hashed) else hashes, sides)
    straddling = straddles(twins, sides, "equal rows", is_leak=True, show=lambda row: _show_row(data, row))
    named = request.key or request.group or (proposal.group.name if proposal.group else "")
    if named:
        straddling += _torn(data, named, sides)
    left_out = [name for name in dict.fromkeys((request.key, order)) if name]
    near, about_near = near_rows(frame, levels, sides, left_out, lambda row: _show_row(data, row))
    compared, tail_rows = [], []
    clump = _clump(request, frame, hashes, twins)
    skewed = proposal.skewed
    for name, one in levels.items():
        counts = one.counts(sides, len(SIDES))
        # By time and by group the column itself differs because it was asked to.
        if name != {"time": order, "group": request.group}.get(request.strategy, ""):
            compared += agreements(one, counts, len(levels), clump, request.sides)
        if name == request.by or (not request.by and name in skewed and skewed[name].is_heavy):
            tail_rows += tails(one, counts, request.sides)
    if strata:
        notes.append(_about(strata))
    if request.target and (n_missing := frame[request.target].null_count()):
        notes.append(make_note("target-missing", n=n_missing, n_all=frame.height, target=request.target))
    if order and request.strategy != "time" and found and not found.sorted_by:
        notes.append(make_note("tells-order", column=order))
    report = _report(data, asked, request, sides, twins, [*straddling, *near], compared, [*notes, *about_near])
    worst = worst_drift(proposal.drifts)
    looks_ahead = worst is not None and worst.matters and request.strategy not in ("time", "group")
    by_group = row_hashes(frame, [request.group], request.seed) if request.strategy == "group" else None
    report = replace(
        report,
        is_stable=report.is_stable and (by_group is None or hash_fills_sides(by_group, request.fractions)),
        tails=tail_rows,
        drifts=proposal.drifts,
        wanders=_wanders(request, levels, skewed, strata, hashes),
        has_found_something_wrong=report.has_found_something_wrong or looks_ahead,
        order=found,
        group=proposal.group,
        target=request.target,
        leaks=_leaks(data, request.target),
        heavy_tail=most_telling(skewed.values()),
        n_values={name: level_of(levels, data, name).n_levels for name in request.together_with},
    )
    return Division(sides, report)


def _report(
    data: Splittable,
    asked: SplitRequest,
    request: SplitRequest,
    sides: SideNumbers,
    twins: Twins,
    straddles: Sequence[Straddle],
    agreements: Sequence[Agreement],
    notes: Sequence[Statement],
) -> SplitReport:
    sizes = dict(zip(SIDES, count_codes(sides, len(SIDES)).tolist(), strict=True))
    return SplitReport(
        name=data.name,
        kind=data.kind,
        description=data.description,
        is_file=data.is_file,
        strategy=request.strategy,
        asked=asked.settings(),
        settings=request.settings(),
        is_proposed=not asked.strategy,
        is_stable=request.strategy in STABLE,
        fractions=request.fractions,
        sizes={side: sizes[side] for side in request.sides},
        n_distinct=twins.n_distinct,
        agreements=agreements,
        straddles=[one for one in straddles if one.side in request.sides],
        notes=(*data.notes, *notes),
        has_found_something_wrong=any(one.is_leak and one.n_shared for one in straddles),
    )


def _require_rows_and_columns(data: TableData, request: SplitRequest) -> None:
    n_sides = len(request.sides)
    if data.frame.height < n_sides:
        raise PellucidError(
            f"{data.frame.height} rows cannot be divided in {'three' if n_sides > 2 else 'two'}",
            where=f"in {data.name}",
            fix=f"Give at least {n_sides}",
        )
    require_columns(data, request)


def hashed_columns(data: TableData, target: str) -> list[str]:
    """What the side of a row is told by where a column is to be predicted: all but it, and but what numbers the rows.

    Equal rows with two targets share a side then, and none is asked for in dev that train gave away. Without a target
    nothing is named, which means all columns.
    """
    if not target:
        return []
    others = [one for one in data.columns if one.name != target]
    return [one.name for one in others if one.kind != "order"] or [one.name for one in others]


def _leaks(data: TableData, target: str) -> tuple[Leak, ...]:
    """What gives the target away, among the rows that have one."""
    if not target:
        return ()
    frame = data.frame.drop_nulls(target)
    names = [one.name for one in data.columns if one.name != target and one.kind in ("numeric", "category")]
    is_class = not frame[target].dtype.is_numeric() or frame[target].n_unique() <= FEW_NUMBERS
    return find_leaks(frame, names, target, is_class=is_class)


def _clump(request: SplitRequest, frame: "pl.DataFrame", hashes: Words, twins: Twins) -> float:
    """How many rows change sides together, on average."""
    if request.strategy == "group":
        return clumping(row_hashes(frame, [request.group]))
    is_divided = request.strategy in ("random", "time")
    return 1.0 if is_divided or (twins.n_distinct == len(hashes) and not request.key) else clumping(hashes)


def _torn(data: TableData, column: str, sides: SideNumbers) -> list[Straddle]:
    """Values of the key or group column that stand on two sides."""
    found = find_twins(row_hashes(data.frame, [column]), sides)
    values = data.frame[column]
    return straddles(
        found, sides, f"rows with the same {column}", is_leak=True, show=lambda row: printable(str(values[row]))[:60]
    )


def _about(strata: Strata) -> Statement:
    tops = [1 - float(mark) for mark in strata.marks if mark > 0.95]
    return make_note("strata", n=strata.n_strata, tops=tops, n_too_small=strata.n_too_small, n_sides=strata.n_sides)


def _show_row(data: TableData, row: int) -> str:
    cells = ", ".join(printable(str(cell))[:24] for cell in data.frame.row(row)[:6])
    return f"{data.place_of(row)}: {cells}"


def _wanders(
    request: SplitRequest,
    levels: Mapping[str, Levels],
    skewed: Mapping[str, HeavyTail],
    strata: Strata | None,
    hashes: Words,
) -> list[Wander]:
    """Numbers about the test side's tail over so many random splits as were asked for, and as many stratified ones.

    Strata are divided independently of each other but for what rounding carries along, so it is enough to divide
    those that reach into the tail.
    """
    name, fractions = request.by or most_skewed(skewed), request.fractions
    if not request.repeats or name not in levels or not (request.by or skewed[name].is_heavy):
        return []
    by, n = levels[name], len(hashes)
    if n < FEWEST_TO_WANDER or by.has_missing:
        return []
    strata = strata or strata_of(by, [], fractions)
    totals = by.totals
    train, dev, test = three_shares(fractions)
    n_test = n - int((train + dev) * n + 0.5)
    from_top = np.cumsum(totals[::-1])[::-1]
    is_deep = from_top <= max(DEEPEST * n, from_top[-1])
    tail = np.flatnonzero(is_deep[by.codes])
    # Rows of the tail, greatest first; among equal values the order says nothing.
    tail = tail[np.argsort(by.codes[tail], kind="stable")[::-1]]
    codes = by.codes[tail]
    near = np.flatnonzero(strata.bins >= strata.bins[tail].min())
    place_in_near = np.searchsorted(near, tail)

    shuffled, stratified = [], []
    for number in range(request.repeats):
        again = f"{request.seed}#{number}"
        keys = numbered_hashes(n, again)
        shuffled.append(keys[tail] >= np.partition(keys, n - n_test)[n - n_test])
        moved = mix(hashes[near] + np.uint64(seed_word(again)))
        stratified.append((by_strata(strata.codes[near], moved, fractions) == 2)[place_in_near])

    part = 0.999 if n_test >= 1000 else 0.99
    top = by.values > quantile(by, totals, 0.99)
    extreme = by.values > quantile(by, totals, 0.999)
    rank = max(1, n_test - int(np.ceil(part * n_test - 1e-9)) + 1)  # counted from the greatest

    def value_at_rank(chosen: NDArray[np.bool_]) -> float:
        found = np.flatnonzero(chosen)[rank - 1 : rank]
        return float(by.values[codes[found[0]]]) if len(found) else float("nan")

    def largest(chosen: NDArray[np.bool_]) -> float:
        return float(by.values[codes[np.argmax(chosen)]]) if chosen.any() else float("nan")

    def share_of(is_in: NDArray[np.bool_]) -> Callable[[NDArray[np.bool_]], float]:
        n_all = max(1, int(totals[is_in].sum()))
        return lambda chosen: float(is_in[codes[chosen]].sum()) / n_all

    rows: list[tuple[str, bool, float | None, Callable[[NDArray[np.bool_]], float]]] = [
        (f"{100 * part:g} % quantile", False, quantile(by, totals, part), value_at_rank),
        ("largest", False, quantile(by, totals, 1.0), largest),
        ("part of the top 1 %", True, test, share_of(top)),
        ("part of the top 0.1 %", True, test, share_of(extreme)),
    ]
    return [
        Wander(
            name,
            statistic,
            is_share,
            whole,
            tuple(measure(chosen) for chosen in shuffled),
            tuple(measure(chosen) for chosen in stratified),
        )
        for statistic, is_share, whole, measure in rows
        if not is_share or n_test >= 1000
    ]
