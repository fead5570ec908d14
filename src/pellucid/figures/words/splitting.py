"""A split's report as words and tables for a terminal."""

import io
import math
import shlex
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.words.numbers import short
from pellucid.records import SplitReport

NARROWEST = 120  # columns assumed where the output is no terminal
MOST_COLUMNS = 20  # of a table that are listed one by one


def show(report: SplitReport) -> None:
    """Print the report on stdout."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(Group(*_parts(report)))
    else:
        print(report_text(report))


def report_text(report: SplitReport, width: int = NARROWEST) -> str:
    """The same as plain text, without colours and without blanks at the ends of lines."""
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(Group(*_parts(report)))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _parts(report: SplitReport) -> Iterator[RenderableType]:
    yield Text(printable(report.said))
    yield from _strategy(report)
    yield _heading("Sides")
    yield _sides(report)
    if report.agreements:
        yield _heading("How far each column is from train")
        yield from _agreements(report)
    for column in dict.fromkeys(tail.column for tail in report.tails):
        yield _heading(f"The tail of {printable(column)}")
        yield _tails(report, column)
    if report.wanders:
        first = report.wanders[0]
        yield _heading(f"How far the tail of test wanders over {len(first.at_random)} splits by other seeds")
        yield _wanders(report)
    if report.drifts:
        yield _heading(f"Along {printable(report.drifts[0].order)}: how far the last fifth is from the first")
        yield _drifts(report)
    yield _heading("Twins in train")
    yield _straddles(report)
    if report.notes:
        yield _heading("Notes")
        for note in report.notes:
            yield _indented(Text(printable(note)))
    yield _heading("Verdict")
    for number, sentence in enumerate(report.verdict):
        is_grave = report.has_found_something_wrong and number == 0
        yield _indented(Text(printable(sentence), style="bold red" if is_grave else "bold"))


def _strategy(report: SplitReport) -> Iterator[RenderableType]:
    yield _heading(f"Strategy: {report.strategy}{', proposed and used' if report.is_proposed else ''}")
    for number, reason in enumerate(report.because):
        yield _indented(Text(f"{'and' if number else 'because'} {printable(reason)}"))
    options = " ".join(f"--{name} {shlex.quote(value)}" for name, value in report.settings.items())
    yield _indented(Text(f"again  {printable(options)}", "dim"))
    stays = (
        "old rows keep their sides when rows are appended"
        if report.is_stable
        else "appending rows may move old ones; of all strategies only hash and group never do that"
    )
    yield _indented(Text(stays, "dim"))


def _heading(text: str) -> RenderableType:
    return Text(f"\n{text}", style="bold")


def _indented(*parts: RenderableType) -> RenderableType:
    return Padding(Group(*parts), (0, 0, 0, 2), expand=False)


def _table(*headings: str) -> Table:
    """A table without lines; a heading that begins with > is for numbers, which are flush right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        is_number = heading.startswith(">")
        table.add_column(heading.removeprefix(">"), justify="right" if is_number else "left")
    return table


def _sides(report: SplitReport) -> RenderableType:
    n = sum(report.sizes.values())
    table = _table("side", ">rows", ">share", ">asked")
    for (side, size), part in zip(report.sizes.items(), report.fractions, strict=True):
        table.add_row(side, f"{size:,}", _percent(size / n), _percent(part))
    return _indented(table)


def _agreements(report: SplitReport) -> Iterator[RenderableType]:
    table = _table("column", "measure", ">dev", ">test", ">chance, 1 in 100")
    rows: dict[str, dict[str, float]] = {}
    words: dict[str, tuple[str, float]] = {}
    for one in report.agreements:
        rows.setdefault(one.column, {})[one.side] = one.distance
        words[one.column] = (one.measure, max(one.by_chance, words.get(one.column, ("", 0.0))[1]))
    for column, distances in list(rows.items())[:MOST_COLUMNS]:
        measure, by_chance = words[column]
        cells = [_against(distances[side], by_chance) for side in ("dev", "test")]
        table.add_row(printable(column), measure, *cells, f"{by_chance:.4f}")
    yield _indented(table)
    if len(rows) > MOST_COLUMNS:
        yield _indented(Text(f"… and {len(rows) - MOST_COLUMNS:,} more columns; --json has them all", "dim"))


def _tails(report: SplitReport, column: str) -> RenderableType:
    table = _table("side", ">90 %", ">99 %", ">99.9 %", ">largest", ">rows in the top 1 % of all")
    for tail in report.tails:
        if tail.column == column:
            marks = [_known(mark) for mark in (tail.q90, tail.q99, tail.q999, tail.largest)]
            share = "not known" if tail.top_share is None else f"{100 * tail.top_share:.3f} %"
            table.add_row(tail.side, *marks, share)
    return _indented(table)


def _wanders(report: SplitReport) -> RenderableType:
    table = _table("on test", ">all rows", ">random, from", ">to", ">stratified, from", ">to")
    for one in report.wanders:
        write = _percent if one.is_share else _known
        ends = [min(one.at_random), max(one.at_random), min(one.stratified), max(one.stratified)]
        whole = "" if one.is_share else _known(one.whole)
        table.add_row(f"{one.statistic} of {printable(one.column)}", whole, *(write(end) for end in ends))
    return _indented(table)


def _drifts(report: SplitReport) -> RenderableType:
    table = _table("column", "measure", ">distance", ">chance, 1 in 100")
    for one in report.drifts[:MOST_COLUMNS]:
        table.add_row(printable(one.column), one.measure, _against(one.distance, one.by_chance), f"{one.by_chance:.4f}")
    return _indented(table)


def _straddles(report: SplitReport) -> RenderableType:
    table = _table("what", ">of dev", ">of test", "such as")
    for what in dict.fromkeys(one.what for one in report.straddles):
        both = {one.side: one for one in report.straddles if one.what == what}
        examples = dict.fromkeys(example for one in both.values() for example in one.examples)
        table.add_row(
            Text(printable(what), "red" if any(one.is_leak and one.n_shared for one in both.values()) else ""),
            *(f"{both[side].n_shared:,}" for side in ("dev", "test")),
            Text("; ".join(map(printable, list(examples)[:3])), "dim"),
        )
    return _indented(table)


def _against(distance: float, by_chance: float) -> Text:
    return Text(f"{distance:.4f}", "yellow" if distance > by_chance else "")


def _known(number: float | None) -> str:
    return "not known" if number is None or math.isnan(number) else short(number)


def _percent(share: float) -> str:
    return f"{100 * share:.{1 if share >= 0.0995 else 2}f} %"
