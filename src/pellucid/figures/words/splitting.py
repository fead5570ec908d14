"""A split's report as words and tables for a terminal."""

import math
import shlex
from collections.abc import Iterator

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Cell, Part, Table, heading, indent
from pellucid.figures.words.numbers import percent, short
from pellucid.records import SplitReport

MOST_COLUMNS = 20  # of a table that are listed one by one


def split_parts(report: SplitReport) -> Iterator[Part]:
    """What a terminal shows of a split."""
    yield Text(printable(report.said))
    yield from _strategy(report)
    yield heading("Sides")
    yield _sides(report)
    if report.agreements:
        yield heading("How far each column is from train")
        yield from _agreements(report)
    for column in dict.fromkeys(tail.column for tail in report.tails):
        yield heading(f"The tail of {column}")
        yield _tails(report, column)
    if report.wanders:
        first = report.wanders[0]
        yield heading(f"How far the tail of test wanders over {len(first.at_random)} splits by other seeds")
        yield _wanders(report)
    if report.drifts:
        yield heading(f"Along {report.drifts[0].order}: how far the last fifth is from the first")
        yield _drifts(report)
    yield heading("Twins in train")
    yield _straddles(report)
    if report.notes:
        yield heading("Notes")
        for note in report.notes:
            yield indent(Text(printable(note)))
    yield heading("Verdict")
    for number, sentence in enumerate(report.verdict):
        is_grave = report.has_found_something_wrong and number == 0
        yield indent(Text(printable(sentence), style="bold red" if is_grave else "bold"))


def _strategy(report: SplitReport) -> Iterator[Part]:
    yield heading(f"Strategy: {report.strategy}{', proposed and used' if report.is_proposed else ''}")
    for number, reason in enumerate(report.because):
        yield indent(Text(f"{'and' if number else 'because'} {printable(reason)}"))
    options = " ".join(f"--{name} {shlex.quote(value)}" for name, value in report.settings.items())
    yield indent(Text(f"again  {printable(options)}", "dim"))
    stays = (
        "old rows keep their sides when rows are appended"
        if report.is_stable
        else "appending rows may move old ones; of all strategies only hash and group never do that"
    )
    yield indent(Text(stays, "dim"))


def _sides(report: SplitReport) -> Part:
    n = sum(report.sizes.values())
    table = Table([("side", "left"), ("rows", "right"), ("share", "right"), ("asked", "right")])
    for (side, size), part in zip(report.sizes.items(), report.fractions, strict=True):
        table.add(side, f"{size:,}", percent(size / n), percent(part))
    return indent(table)


def _agreements(report: SplitReport) -> Iterator[Part]:
    table = Table(
        [("column", "left"), ("measure", "left"), ("dev", "right"), ("test", "right"), ("chance, 1 in 100", "right")]
    )
    rows: dict[str, dict[str, float]] = {}
    words: dict[str, tuple[str, float]] = {}
    for one in report.agreements:
        rows.setdefault(one.column, {})[one.side] = one.distance
        words[one.column] = (one.measure, max(one.by_chance, words.get(one.column, ("", 0.0))[1]))
    for column, distances in list(rows.items())[:MOST_COLUMNS]:
        measure, by_chance = words[column]
        cells = [_distance_cell(distances[side], by_chance) for side in ("dev", "test")]
        table.add(column, measure, *cells, f"{by_chance:.4f}")
    yield indent(table)
    if len(rows) > MOST_COLUMNS:
        yield indent(Text(f"… and {len(rows) - MOST_COLUMNS:,} more columns; --json has them all", "dim"))


def _tails(report: SplitReport, column: str) -> Part:
    table = Table(
        [
            ("side", "left"),
            ("90 %", "right"),
            ("99 %", "right"),
            ("99.9 %", "right"),
            ("largest", "right"),
            ("rows in the top 1 % of all", "right"),
        ]
    )
    for tail in report.tails:
        if tail.column == column:
            marks = [_number_words(mark) for mark in (tail.q90, tail.q99, tail.q999, tail.largest)]
            share = "not known" if tail.top_share is None else f"{100 * tail.top_share:.3f} %"
            table.add(tail.side, *marks, share)
    return indent(table)


def _wanders(report: SplitReport) -> Part:
    table = Table(
        [
            ("on test", "left"),
            ("all rows", "right"),
            ("random, from", "right"),
            ("to", "right"),
            ("stratified, from", "right"),
            ("to", "right"),
        ]
    )
    for one in report.wanders:
        write = percent if one.is_share else _number_words
        ends = [min(one.at_random), max(one.at_random), min(one.stratified), max(one.stratified)]
        whole = "" if one.is_share else _number_words(one.whole)
        table.add(f"{one.statistic} of {one.column}", whole, *(write(end) for end in ends))
    return indent(table)


def _drifts(report: SplitReport) -> Part:
    table = Table([("column", "left"), ("measure", "left"), ("distance", "right"), ("chance, 1 in 100", "right")])
    for one in report.drifts[:MOST_COLUMNS]:
        table.add(one.column, one.measure, _distance_cell(one.distance, one.by_chance), f"{one.by_chance:.4f}")
    return indent(table)


def _straddles(report: SplitReport) -> Part:
    table = Table([("what", "left"), ("of dev", "right"), ("of test", "right"), ("such as", "left")])
    for what in dict.fromkeys(one.what for one in report.straddles):
        both = {one.side: one for one in report.straddles if one.what == what}
        examples = dict.fromkeys(example for one in both.values() for example in one.examples)
        table.add(
            Cell(what, "red" if any(one.is_leak and one.n_shared for one in both.values()) else ""),
            *(f"{both[side].n_shared:,}" for side in ("dev", "test")),
            Cell("; ".join(list(examples)[:3]), "dim"),
        )
    return indent(table)


def _distance_cell(distance: float, by_chance: float) -> Cell:
    return Cell(f"{distance:.4f}", "yellow" if distance > by_chance else "")


def _number_words(number: float | None) -> str:
    return "not known" if number is None or math.isnan(number) else short(number)
