"""One table value, for a terminal and for a page, and how words and tables reach a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as ConsoleTable
from rich.text import Text

from pellucid.errors import printable

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH = 120  # columns assumed where the output is no terminal
INDENT = (0, 0, 0, 2)


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

    def __init__(self, *columns: str | TableColumn) -> None:
        self.columns = [TableColumn(column) if isinstance(column, str) else column for column in columns]
        self.rows: list[TableRow] = []

    def add(self, *cells: str | Cell, style: str = "") -> None:
        """One more row; style: of all its cells."""
        assert len(cells) == len(self.columns), f"{len(cells)} cells for {len(self.columns)} columns"
        self.rows.append(TableRow(tuple([cell if isinstance(cell, Cell) else Cell(cell) for cell in cells]), style))


Part = RenderableType | Table


def console_table(table: Table) -> ConsoleTable:
    """The table for a terminal, without lines; without a heading where all are empty."""
    made = ConsoleTable(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
        show_header=any(heading for heading, _ in table.columns),
    )
    for heading, side in table.columns:
        made.add_column(
            Text(printable(heading)), justify="right" if side == "right" else "left", no_wrap=side != "wrap"
        )
    for row in table.rows:
        made.add_row(*[Text(printable(cell.text), cell.style) for cell in row.cells], style=row.style)
    return made


def html_table(table: Table) -> Markup:
    """The table for a page, as markup in which nothing of the data is read as such."""
    from pellucid.figures.picture import render

    return render("table.html", table=table)


def show_parts(parts: Iterable[Part]) -> None:
    """Print on stdout: with colours in a terminal, else as plain lines without blanks at their ends."""
    # Brackets in a text of the data are no markup.
    console = Console(highlight=False, markup=False)
    if console.is_terminal:
        console.print(Group(*[_renderable(part) for part in parts]))
    else:
        print(parts_text(parts))


def parts_text(parts: Iterable[Part], width: int = WIDTH) -> str:
    """The same as plain text, without colours and without blanks at the ends of lines."""
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, color_system=None)
    with console.capture() as capture:
        console.print(Group(*[_renderable(part) for part in parts]))
    return "\n".join([line.rstrip() for line in capture.get().splitlines()])


def _renderable(part: Part) -> RenderableType:
    return console_table(part) if isinstance(part, Table) else part


def heading(text: str) -> Text:
    """A heading with a free line above it."""
    return Text(f"\n{printable(text)}", style="bold")


def indent(*parts: Part) -> Padding:
    """The parts two columns farther in."""
    return Padding(Group(*[_renderable(part) for part in parts]), INDENT, expand=False)


def note_lines(notes: Iterable[str]) -> list[Text]:
    """A line for each note."""
    return [Text(f"note: {printable(note)}", "yellow") for note in notes]
