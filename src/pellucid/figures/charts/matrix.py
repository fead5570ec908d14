"""A matrix as a heat map: a square for each number, words beside the rows and above the columns.

The squares are one small image, so that sixteen maps stay a small file; what a row holds is told under the pointer, and
where the squares are large enough their numbers are written into them.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pellucid.figures.charts.svg import (
    INK,
    LINE,
    PAPER,
    QUIET,
    SIZE,
    WIDE,
    pixel_grid,
    shade,
    svg_text,
    text_width,
    tooltip,
)

Rows = Sequence[Sequence[float]]

BARRED = "#ffffff"  # a weight of exactly nothing
SMALLEST_WRITTEN = 34.0  # the side of a square that has room for a number
GAP = 6.0  # between a label and what it names


class HeatMap(NamedTuple):
    """A heat map that was drawn; its squares begin `left` and `top` inside of it."""

    marks: list[str]
    width: float
    height: float
    left: float
    top: float


def heat_map(
    values: Rows,
    colour: Callable[[float], str],
    cell: float,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    written: Callable[[float], str] | None = None,
    says: Sequence[str] = (),
) -> HeatMap:
    """The map with its labels; those of rows or columns may be left out, and take no room then.

    >>> drawn = heat_map([[1.0, 0.0], [0.5, 0.5]], weight_colour, 20.0, rows=(), columns=())
    >>> drawn.width, drawn.height
    (40.0, 40.0)
    """
    size = max(11.0, min(SIZE, 0.85 * _room(cell, rows), 0.85 * _room(cell, columns)))
    lies = any([text_width(label, size) > _room(cell, columns) + 2 for label in columns])
    left = max([text_width(label, size) for label in rows], default=-GAP) + GAP
    top = (max([text_width(label, size) for label in columns], default=0.0) if lies else size) + GAP if columns else 0.0
    width, height = cell * max([len(row) for row in values], default=0), cell * len(values)
    marks = [
        f'<g transform="translate({left:.1f} {top:.1f})">',
        *pixel_grid([[colour(value) for value in row] for row in values], cell, cell),
    ]
    if written is not None and cell >= SMALLEST_WRITTEN:
        marks += _numbers(values, colour, written, cell)
    for i, words in enumerate(says):
        marks.append(
            f'<rect y="{i * cell:.1f}" width="{width:.1f}" height="{cell:.1f}" fill="none" pointer-events="all">'
            f"{tooltip(words)}</rect>"
        )
    for i, label in enumerate(rows):
        marks.append(svg_text(-GAP, (i + 0.5) * cell + size * 0.35, label, align="end", size=size))
    for i, label in enumerate(columns):
        middle = (i + 0.5) * cell
        if lies:
            marks.append(f'<g transform="translate({middle + size * 0.35:.1f} {-GAP:.1f}) rotate(-90)">')
            marks += [svg_text(0, 0, label, size=size), "</g>"]
        else:
            marks.append(svg_text(middle, -GAP, label, align="middle", size=size))
    marks.append("</g>")
    return HeatMap(marks, left + width, top + height, left, top)


def weight_map(values: Rows, cell: float, names: Sequence[str]) -> HeatMap:
    """Weights from 0 to 1 with their numbers; rows and columns have the same names."""
    return heat_map(values, weight_colour, cell, names, names, written=hundredths)


def added_map(values: Rows, cell: float, names: Sequence[str]) -> HeatMap:
    """The same for what a mask adds to the scores."""
    return heat_map(values, added_colour, cell, names, names, written=added_written)


def largest_difference(one: Rows, other: Rows) -> float:
    """How far apart two matrices are where they differ most.

    >>> largest_difference([[1.0, 0.5]], [[1.0, 0.25]])
    0.25
    """
    rows = zip(one, other, strict=True)
    return max([abs(a - b) for row, twin in rows for a, b in zip(row, twin, strict=True)])


def _room(cell: float, labels: Sequence[str]) -> float:
    """What each label has; where only some are written, these have more."""
    written = len([label for label in labels if label])
    return cell * len(labels) / written if written else math.inf


def _numbers(values: Rows, colour: Callable[[float], str], written: Callable[[float], str], cell: float) -> list[str]:
    marks = []
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            text = written(value)
            size = min(SIZE, (cell - 6) / (0.56 * max(1, len(text))))
            ink = PAPER if is_dark(colour(value)) else INK
            middle = (x + 0.5) * cell
            marks.append(svg_text(middle, (y + 0.5) * cell + size * 0.35, text, ink, align="middle", size=round(size)))
    return marks


def weight_colour(weight: float) -> str:
    """Darker is more; white is exactly nothing, as of what may not be seen.

    >>> weight_colour(0.0), weight_colour(1.0)
    ('#ffffff', '#08284f')
    """
    return shade(min(1.0, weight)) if weight > 0 else BARRED


def added_colour(score: float) -> str:
    """Of what a mask adds to the scores: white for nothing, gray for -∞.

    >>> added_colour(0.0), added_colour(-math.inf)
    ('#ffffff', '#d5dade')
    """
    return LINE if score == -math.inf else BARRED


def added_written(score: float) -> str:
    """
    >>> added_written(0.0), added_written(-math.inf)
    ('0', '−∞')
    """
    return "−∞" if score == -math.inf else f"{score:.0f}"


def balanced_colours(most: float) -> Callable[[float], str]:
    """Colours for numbers from -most to most: blue below 0, white at 0, orange above, deeper for larger.

    >>> balanced_colours(2.0)(0.0), balanced_colours(2.0)(-2.0), balanced_colours(2.0)(-math.inf)
    ('#ffffff', '#2a6db0', '#d5dade')
    """

    def colour(value: float) -> str:
        if not math.isfinite(value):
            return LINE  # no number has this one
        part = min(1.0, abs(value) / most) if most > 0 else 0.0
        end = (194, 106, 22) if value > 0 else (42, 109, 176)
        return "#" + "".join([f"{round(255 + (channel - 255) * part):02x}" for channel in end])

    return colour


def is_dark(colour: str) -> bool:
    """Whether light letters are read better on it than dark ones.

    >>> is_dark("#08284f"), is_dark("#ffffff")
    (True, False)
    """
    red, green, blue = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140


def hundredths(weight: float) -> str:
    """A weight in two digits, as it fits into a square; what is not quite 0 or 1 does not look like it.

    >>> hundredths(0.25), hundredths(1.0), hundredths(0.0), hundredths(0.999), hundredths(1e-4)
    ('.25', '1', '0', '1.0', '.00')
    """
    if weight in (0.0, 1.0):
        return f"{weight:.0f}"
    return "1.0" if weight >= 0.995 else f"{weight:.2f}".removeprefix("0")


def difference(x: float) -> str:
    """How far two numbers are apart, for a sentence.

    >>> difference(0.0), difference(1.2e-16), difference(0.25)
    ('0', '1e-16', '0.25')
    """
    return "0" if not x else f"{x:.0e}" if x < 1e-3 else f"{x:.3g}"


STEP, STEPS = 16.0, 11


def weight_key(barred: str = "") -> list[str]:
    """Of weights from 0 to 1; barred: what white means, where there is any."""
    marks, right = _strip("weight: 0", "1", shade)
    if barred:
        marks.append(f'<rect x="{right + 36:.0f}" y="2" width="18" height="18" fill="{BARRED}" stroke="{LINE}"/>')
        marks.append(svg_text(right + 62, 17, barred, QUIET))
    return marks


def part_key(least: str, largest: str) -> list[str]:
    """Of numbers from 0 to the largest there is."""
    return _strip(least, largest, shade)[0]


def balance_key(least: str, largest: str) -> list[str]:
    """Of numbers below and above 0."""
    colour = balanced_colours(1.0)
    return _strip(least, largest, lambda part: colour(2 * part - 1))[0]


def _strip(least: str, largest: str, colour: Callable[[float], str]) -> tuple[list[str], float]:
    """The strip between its two words, and where it ends."""
    left = len(least) * SIZE * WIDE + 6
    right = left + STEP * STEPS + 8
    marks = [svg_text(0, 17, least, QUIET)]
    marks += [
        f'<rect x="{left + STEP * i:.0f}" y="2" width="{STEP:.0f}" height="18" fill="{colour(i / (STEPS - 1))}" '
        f'stroke="{LINE}"/>'
        for i in range(STEPS)
    ]
    return [*marks, svg_text(right, 17, largest, QUIET)], right + text_width(largest, SIZE)


AT = {"itself": 0, "the one before": -1, "the one after": 1}


class Habit(NamedTuple):
    """Where a head looks most, of the places that have a name."""

    place: str
    share: float  # of its weight, in the mean over those who could choose
    even: float  # what it would be if all weights were equal


def attention_habit(weights: Rows) -> Habit:
    """Of self-attention: itself, the one before, the one after or the first, whichever gets the most.

    Only those who see more than one are asked: whoever sees one thing alone has no choice.

    >>> attention_habit([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.9, 0.1]])
    Habit(place='the one before', share=0.9, even=0.5)
    """
    found = []
    places = {word: [i + step for i in range(len(weights))] for word, step in AT.items()}
    for place, targets in {**places, "the first": [0] * len(weights)}.items():
        pairs = [(row, target) for row, target in zip(weights, targets, strict=True) if _can_choose(row, target)]
        if pairs:
            share = sum([row[target] for row, target in pairs]) / len(pairs)
            found.append(Habit(place, share, sum([1 / n_seen(row) for row, _ in pairs]) / len(pairs)))
    return max(found, key=lambda one: one.share, default=Habit("itself", 1.0, 1.0))


def _can_choose(row: Sequence[float], target: int) -> bool:
    return n_seen(row) > 1 and 0 <= target < len(row) and row[target] > 0


def n_seen(row: Sequence[float]) -> int:
    """How many have any weight at all; a mask leaves the others none."""
    return sum([weight > 0 for weight in row])


def attention_breadth(weights: Rows) -> float:
    """At how many a head looks at once: 2 to the mean entropy in bits of those who could choose.

    >>> attention_breadth([[1.0, 0.0], [0.5, 0.5]]), attention_breadth([[1.0]])
    (2.0, 1.0)
    """
    bits = [-sum([weight * math.log2(weight) for weight in row if weight > 0]) for row in weights if n_seen(row) > 1]
    return 2 ** (sum(bits) / len(bits)) if bits else 1.0
