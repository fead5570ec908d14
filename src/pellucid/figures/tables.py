"""One table value, for a terminal and for a page, and how words and tables reach a terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as ConsoleTable
from rich.text import Text

from pellucid.errors import printable

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH = 120  # columns assumed where the output is no terminal
INDENT = (0, 0, 0, 2)
GAP = 2  # between two columns
BAR = 9  # how spare a column is that only shows what a number beside it says
SHORT = 10  # the least width of a column whose words are broken


class Cell(NamedTuple):
    """One cell of a table, where it is more than its text."""

    text: str
    style: str = ""  # bold, dim, yellow, red or green in a terminal; of a page only what its style sheet knows
    is_code: bool = False  # set in letters of one width on a page


class TableRow(NamedTuple):
    cells: tuple[Cell, ...]
    style: str = ""


class TableColumn(NamedTuple):
    """A heading, and where the cells below it stand."""

    heading: str
    side: str = "left"  # or "right", or "wrap": left, and broken where it is long
    spare: int = 0  # where there is no room, columns go from the highest of these numbers down; 0: it never goes


def right(*headings: str) -> list[TableColumn]:
    """Columns whose cells stand at the right, as numbers do."""
    return [TableColumn(heading, "right") for heading in headings]


class Table:
    """Headings and rows of words; numbers are written by whoever fills it. Render it by one of the functions below.

    >>> listing = Table("model", *right("dev nats"))
    >>> listing.add("bigram", "2.4543")
    >>> print(parts_text([listing]))
    model   dev nats
    bigram    2.4543
    """

    def __init__(self, *columns: str | TableColumn, n_keys: int = 1) -> None:
        """n_keys: of the first columns, those that say what a row is of."""
        self.n_keys = n_keys
        self.columns = [TableColumn(column) if isinstance(column, str) else column for column in columns]
        self.rows: list[TableRow] = []

    def add(self, *cells: str | Cell, style: str = "") -> None:
        """One more row; style: of all its cells."""
        assert len(cells) == len(self.columns), f"{len(cells)} cells for {len(self.columns)} columns"
        self.rows.append(TableRow(tuple([cell if isinstance(cell, Cell) else Cell(cell) for cell in cells]), style))


Part = RenderableType | Table


class FittedTable:
    """The table for a terminal, without lines, as wide as the terminal lets it be; no number is ever cut.

    Where there is no room, columns that matter least go. What then does not fit side by side is folded: the first
    columns, which say what a row is of, stand again before the rest of them.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        n = len(table.columns)
        self.natural = [
            max([cell_len(text) for text in (heading_of(table, i), *column_texts(table, i))], default=0)
            for i in range(n)
        ]
        # A number is never broken, and what else is broken keeps room for a short word.
        self.least = [
            self.natural[i]
            if table.columns[i].side == "right"
            else min(self.natural[i], max(SHORT, _longest_number(table, i)))
            for i in range(n)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        for number, columns in enumerate(self.blocks(options.max_width)):
            if number:
                yield Text("")
            widths = self.shrink(columns, options.max_width)
            if sum(widths) + GAP * (len(columns) - 1) > options.max_width:
                yield from self.rows_as_lines(columns)
            else:
                yield self.console_table(columns, widths)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        width = min(options.max_width, self.width_of(range(len(self.natural))))
        return Measurement(width, width)

    def width_of(self, columns: Iterable[int], widths: Sequence[int] | None = None) -> int:
        chosen = [(widths or self.natural)[i] for i in columns]
        return sum(chosen) + GAP * (len(chosen) - 1)

    def blocks(self, width: int) -> list[list[int]]:
        """The columns that stand side by side, one list for each time that the rows are gone through."""
        every, table = list(range(len(self.natural))), self.table
        if self.width_of(every) <= width:
            return [every]
        told = [i for i in every if any(column_texts(table, i)) or i < table.n_keys]
        kept = told.copy()
        for i in sorted(told, key=lambda i: -table.columns[i].spare):
            if table.columns[i].spare and self.width_of(kept) > width:
                kept.remove(i)
        if self.width_of(kept) <= width:
            return [kept]
        # Then more may be told, one after another, if the rows need not be gone through once more for it.
        return min(
            [self.fold([i for i in told if table.columns[i].spare < BAR], width), self.fold(kept, width)], key=len
        )

    def fold(self, kept: list[int], width: int) -> list[list[int]]:
        """As many columns side by side as there is room for, again and again."""
        table, every = self.table, range(len(self.natural))
        # Where there are no headings, the cells of a row are one sentence: its words may be broken, not its columns.
        is_sentence = not any(column.heading for column in table.columns)
        soft = [self.least[i] if table.columns[i].side == "wrap" or is_sentence else self.natural[i] for i in every]
        if is_sentence or self.width_of(kept, soft) <= width:
            return [kept]
        keys = kept[: table.n_keys]
        room = max(width // 2, min(width, self.width_of(keys, self.least)))
        soft = [min(soft[i], max(self.least[i], room)) if i in keys else soft[i] for i in every]
        blocks = [keys.copy()]
        for i in kept[table.n_keys :]:
            if len(blocks[-1]) > len(keys) and self.width_of([*blocks[-1], i], soft) > width:
                blocks.append(keys.copy())
            blocks[-1].append(i)
        return blocks

    def shrink(self, columns: Sequence[int], width: int) -> list[int]:
        """The width of each of these columns: the widest that may be broken give way first, down to their least."""
        widths = [self.natural[i] for i in columns]
        order = sorted(
            range(len(columns)), key=lambda at: (self.table.columns[columns[at]].side != "wrap", -widths[at])
        )
        for at in order:
            over = sum(widths) + GAP * (len(columns) - 1) - width
            widths[at] = max(self.least[columns[at]], widths[at] - max(0, over))
        return widths

    def console_table(self, columns: Sequence[int], widths: Sequence[int]) -> ConsoleTable:
        table = self.table
        made = ConsoleTable(
            box=None,
            pad_edge=False,
            padding=(0, GAP, 0, 0),
            header_style="dim",
            show_header=any(column.heading for column in table.columns),
        )
        for i, width in zip(columns, widths, strict=True):
            made.add_column(
                Text(heading_of(table, i)),
                justify="right" if table.columns[i].side == "right" else "left",
                no_wrap=width == self.natural[i],
                width=width,
                overflow="fold",
            )
        for row in table.rows:
            cells = [row.cells[i] for i in columns]
            made.add_row(*[Text(printable(cell.text), cell.style) for cell in cells], style=row.style)
        return made

    def rows_as_lines(self, columns: Sequence[int]) -> Iterator[Text]:
        """Where not even numbers fit side by side: the cells of a row one after another, with their headings."""
        for row in self.table.rows:
            words = [
                f"{heading_of(self.table, i)} {printable(row.cells[i].text)}".strip()
                for i in columns
                if row.cells[i].text
            ]
            yield Text("  ".join(words), row.style)


def heading_of(table: Table, column: int) -> str:
    return printable(table.columns[column].heading)


def column_texts(table: Table, column: int) -> list[str]:
    """What stands in a column, as a terminal shows it."""
    return [printable(row.cells[column].text) for row in table.rows]


class FittedLines:
    """Lines that depend on how wide the terminal is, such as a picture of letters."""

    def __init__(self, make: Callable[[int], Sequence[str]]) -> None:
        self.make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield Text("\n".join(self.make(options.max_width)))


def _longest_number(table: Table, column: int) -> int:
    """The length of the longest word with a digit in it."""
    words = [word for text in column_texts(table, column) for word in text.split() if any(map(str.isdigit, word))]
    return max(map(cell_len, words), default=0)


def plain_table(table: Table) -> dict[str, object]:
    """The table as what JSON can hold, for pages that draw it themselves.

    >>> listing = Table("model", *right("dev nats"))
    >>> listing.add("bigram", "2.4543")
    >>> plain_table(listing)["columns"]
    [{'heading': 'model', 'side': 'left'}, {'heading': 'dev nats', 'side': 'right'}]
    """
    return {
        "columns": [{"heading": column.heading, "side": column.side} for column in table.columns],
        "rows": [{"style": row.style, "cells": [cell._asdict() for cell in row.cells]} for row in table.rows],
    }


def html_table(table: Table) -> Markup:
    """The table for a page, as markup in which nothing of the data is read as such."""
    from pellucid.figures.picture import render

    return render("table.html", table=table)


def show_parts(parts: Iterable[Part]) -> None:
    """Print on stdout: with colours in a terminal, else as plain lines without blanks at their ends."""
    # Brackets in a text of the data are no markup.
    console = Console(highlight=False, markup=False, force_jupyter=False)
    if console.is_terminal:
        # What may not be broken, such as a command, is broken by the terminal itself, and copied whole.
        console.print(Group(*[_renderable(part) for part in parts]), crop=False)
    else:
        print(parts_text(parts))


def show_lines(lines: Iterable[str]) -> None:
    """Print lines at once: in a terminal broken between words, elsewhere, as in a log, as they are."""
    console = Console(highlight=False, markup=False, force_jupyter=False)
    if console.is_terminal:
        console.print(Text("\n".join(lines)))
    else:
        print("\n".join(lines))
    sys.stdout.flush()


def parts_text(parts: Iterable[Part], width: int = WIDTH) -> str:
    """The same as plain text, without colours and without blanks at the ends of lines."""
    # In a notebook, rich would show an empty cell beside the text.
    console = Console(
        file=io.StringIO(), width=width, highlight=False, markup=False, color_system=None, force_jupyter=False
    )
    with console.capture() as capture:
        console.print(Group(*[_renderable(part) for part in parts]), crop=False)
    return "\n".join([line.rstrip() for line in capture.get().splitlines()])


def _renderable(part: Part) -> RenderableType:
    return FittedTable(part) if isinstance(part, Table) else part


def heading(text: str) -> Text:
    """A heading with a free line above it."""
    return Text(f"\n{printable(text)}", style="bold")


def indent(*parts: Part) -> Padding:
    """The parts two columns farther in."""
    return Padding(Group(*[_renderable(part) for part in parts]), INDENT, expand=False)


def note_lines(sentences: Iterable[str]) -> list[Text]:
    """A line for each note."""
    return [Text(f"note: {printable(sentence)}", "yellow") for sentence in sentences]
