"""Grid partition: into how few rectangles a square grid falls when one cell of each row and each column is removed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.svg import COLOURS, INK, LINE, QUIET, move_marks, svg_text, tooltip
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option

SIDE, GAP, TOP = 360.0, 64.0, 34.0
LARGEST_SEARCHED = 6  # sides of a grid all of whose orders are tried
NARROWEST = 760.0


@dataclass(frozen=True)
class GridKnobs:
    removed: tuple[float, ...] = option(
        (1, 2, 3, 4),
        "The column of the cell that is removed, row by row, counted from 1; so many are the sides of the grid.",
        minimum=1,
        maximum=8,
        example="2,4,1,3",
    )

    def __post_init__(self) -> None:
        check_options(self)
        n = len(self.removed)
        if n < 2 or sorted(self.removed) != [*range(1, n + 1)]:
            raise PellucidError(
                f"{','.join([f'{column:g}' for column in self.removed])} is not one column for each of {n} rows",
                fix="Name each of 1 to the number of rows once, such as 2,4,1,3",
            )


class Rectangle(NamedTuple):
    """Cells of a grid; rows and columns are counted from 0, and the last ones are inside."""

    top: int
    left: int
    bottom: int
    right: int


class GridPartition(NamedTuple):
    """A grid without its removed cells, cut into as few rectangles as can be."""

    removed: tuple[int, ...]  # a column for each row, counted from 0
    rectangles: tuple[Rectangle, ...]


class GridStudy(NamedTuple):
    """One choice of removed cells, and the best of all choices."""

    asked: GridPartition
    best: GridPartition | None  # None: the grid is too large to try all orders
    orders: tuple[tuple[int, int], ...]  # how many rectangles, and how many orders need so many


def measure(knobs: GridKnobs) -> GridStudy:
    """The fewest rectangles for the cells that were removed, and for every other order of them.

    >>> study = measure(GridKnobs((1, 2, 3, 4)))
    >>> len(study.asked.rectangles), len(study.best.rectangles), study.orders
    (6, 5, ((5, 2), (6, 22)))
    """
    removed = tuple([int(column) - 1 for column in knobs.removed])
    asked = fewest_rectangles(removed)
    if len(removed) > LARGEST_SEARCHED:
        return GridStudy(asked, None, ())
    # A grid that is turned or mirrored needs as many: one of up to eight is cut, and stands for all.
    found: dict[tuple[int, ...], GridPartition] = {}
    n_needed: Counter[int] = Counter()
    for order in itertools.permutations(range(len(removed))):
        same = min(_symmetries(order))
        if same not in found:
            found[same] = fewest_rectangles(same)
        n_needed[len(found[same].rectangles)] += 1
    best = min(found.values(), key=lambda partition: len(partition.rectangles))
    return GridStudy(asked, best, tuple(sorted(n_needed.items())))


def fewest_rectangles(removed: Sequence[int]) -> GridPartition:
    """A partition of the other cells into as few rectangles as can be, by an exhaustive search.

    The first cell that is left is the upper left corner of some rectangle; each that fits is tried. What is left is
    remembered as a number with a bit for each cell, so that nothing is searched twice.

    >>> len(fewest_rectangles((1, 3, 0, 2)).rectangles)
    5
    """
    n = len(removed)
    whole = sum([1 << (row * n + column) for row in range(n) for column in range(n) if column != removed[row]])
    best: dict[int, tuple[int, int]] = {0: (0, 0)}  # of what is left: rectangles, and the first of them

    def search(left: int) -> int:
        if left in best:
            return best[left][0]
        fewest, first = n * n + 1, 0
        for rectangle in _fitting(left, n):
            needed = 1 + search(left & ~rectangle)
            if needed < fewest:
                fewest, first = needed, rectangle
        best[left] = fewest, first
        return fewest

    search(whole)
    rectangles = []
    left = whole
    while left:
        first = best[left][1]
        rectangles.append(_corners(first, n))
        left &= ~first
    return GridPartition(tuple(removed), tuple(rectangles))


def _fitting(left: int, n: int) -> list[int]:
    """Every rectangle of cells that are left whose upper left corner is the first of them; the largest first."""
    start = (left & -left).bit_length() - 1
    row, column = divmod(start, n)
    found = []
    widest = n - column
    for height in range(1, n - row + 1):
        width = 0
        while width < widest and left >> (start + (height - 1) * n + width) & 1:
            width += 1
        widest = width
        if not widest:
            break
        for across in range(1, widest + 1):
            line = (1 << across) - 1
            found.append(sum([line << (start + down * n) for down in range(height)]))
    return sorted(found, key=lambda cells: -cells.bit_count())


def _corners(cells: int, n: int) -> Rectangle:
    first, last = (cells & -cells).bit_length() - 1, cells.bit_length() - 1
    return Rectangle(*divmod(first, n), *divmod(last, n))


def _symmetries(order: Sequence[int]) -> list[tuple[int, ...]]:
    """The same removed cells after each turn and mirroring of the grid."""
    n = len(order)
    found = []
    for turned in (tuple(order), tuple(sorted(range(n), key=lambda row: order[row]))):  # as it is, and transposed
        for mirrored in (turned, tuple([n - 1 - column for column in turned])):
            found += [mirrored, mirrored[::-1]]
    return found


def draw(record: GridStudy) -> Picture:
    """The grid with each rectangle in a colour of its own; beside it a best one."""
    marks: list[str] = []
    left = 0.0
    shown = [("as asked", record.asked)] + ([("fewest of all orders", record.best)] if record.best else [])
    for words, partition in shown:
        n = len(partition.rectangles)
        marks.append(svg_text(left, 18, f"{words}: {count_of(n, 'rectangle')}", INK, is_bold=True, size=19))
        marks += move_marks(_grid_marks(partition), left, TOP)
        columns = " ".join([str(column + 1) for column in partition.removed])
        marks.append(svg_text(left, TOP + SIDE + 28, f"removed: {columns}", QUIET))
        left += SIDE + GAP
    title = "A grid without one cell of each row and column, cut into rectangles"
    return picture(title, _captions(record), marks, max(left - GAP, NARROWEST), TOP + SIDE + 40)


def _grid_marks(partition: GridPartition) -> list[str]:
    n = len(partition.removed)
    cell = SIDE / n
    marks = []
    for i, (top, left, bottom, right) in enumerate(partition.rectangles):
        wide, tall = (right - left + 1) * cell, (bottom - top + 1) * cell
        colour = COLOURS[i % len(COLOURS)]
        says = f"rectangle {i + 1}: {bottom - top + 1}×{right - left + 1} cells"
        marks.append(
            f'<rect x="{left * cell + 3:.1f}" y="{top * cell + 3:.1f}" width="{wide - 6:.1f}" height="{tall - 6:.1f}" '
            f'rx="6" fill="{colour}" fill-opacity="0.75">{tooltip(says)}</rect>'
        )
        marks.append(
            svg_text(left * cell + wide / 2, top * cell + tall / 2 + 7, str(i + 1), "#ffffff", align="middle", size=20)
        )
    for row, column in enumerate(partition.removed):
        x, y, reach = (column + 0.5) * cell, (row + 0.5) * cell, cell * 0.22
        marks.append(
            f'<path d="M{x - reach:.1f} {y - reach:.1f}l{2 * reach:.1f} {2 * reach:.1f}m0 {-2 * reach:.1f}'
            f'l{-2 * reach:.1f} {2 * reach:.1f}" stroke="{INK}" stroke-width="3"/>'
        )
    lines = "".join([f"M{i * cell:.1f} 0V{SIDE:.0f}M0 {i * cell:.1f}H{SIDE:.0f}" for i in range(n + 1)])
    return [f'<path d="{lines}" stroke="{LINE}" fill="none"/>', *marks]


def _captions(record: GridStudy) -> list[str]:
    n = len(record.asked.removed)
    lines = [
        f"{n}×{n} cells, {n} of them removed (×), one in each row and column; {n * n - n} are left. "
        f"As asked, {count_of(len(record.asked.rectangles), 'rectangle')} cover them, and no fewer can: "
        "every way was tried."
    ]
    if record.best is None:
        lines.append("The grid is too large to try every order of the removed cells.")
        return lines
    fewest, ways = record.orders[0]
    total = sum([times for _, times in record.orders])
    spread = ", ".join([f"{needed} for {times}" for needed, times in record.orders])
    lines.append(
        f"Over all {total:,} orders the fewest is {fewest}, for {ways:,} of them. Rectangles needed, and orders that "
        f"need them: {spread}."
    )
    return lines


LESSON = Lesson(
    name="grid-partition",
    summary="The fewest rectangles that cover a grid without one cell of each row and column, and the best such grid.",
    measure=measure,
    draw=draw,
    knobs=GridKnobs,
)
