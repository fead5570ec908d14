"""A map of units: a row for each example of a batch, a column for each unit, a colour for what was seen there."""

from collections.abc import Sequence
from typing import NamedTuple

from pellucid.figures.charts.images import pixel_image
from pellucid.figures.charts.svg import INK, LINE, ORANGE, PAPER, QUIET, SIZE, shade, svg_text

FREE = "#eef2f5"  # a unit that can still move
WIDEST, TALLEST = 520.0, 340.0
LARGEST_CELL = 16.0


class Grid(NamedTuple):
    """A map that was drawn."""

    marks: list[str]
    width: float
    height: float
    cell: float


def grid(
    rows: Sequence[str],
    colours: Sequence[str],
    marked: Sequence[int] = (),
    widest: float = WIDEST,
    tallest: float = TALLEST,
) -> Grid:
    """The map, each digit in its colour; the marked columns get a triangle above them.

    >>> drawn = grid(("09", "99"), value_colours())
    >>> drawn.width, drawn.height
    (32.0, 52.0)
    """
    n_units = max([len(row) for row in rows], default=0)
    wide = min(LARGEST_CELL, widest / max(1, n_units))
    tall = min(LARGEST_CELL, tallest / max(1, len(rows)), 4 * wide)
    top = 20.0
    width, height = n_units * wide, len(rows) * tall
    marks = [
        f'<g transform="translate(0 {top:.0f})">',
        pixel_image([[colours[int(digit)] for digit in row] for row in rows], width, height),
    ]
    if wide >= 8:
        lines = "".join([f"M{x * wide:.1f} 0v{height:.1f}" for x in range(1, n_units)])
        lines += "".join([f"M0 {y * tall:.1f}h{width:.1f}" for y in range(1, len(rows))])
        marks.append(f'<path stroke="{PAPER}" stroke-width="1" d="{lines}"/>')
    marks.append(f'<rect width="{width:.1f}" height="{height:.1f}" fill="none" stroke="{LINE}"/>')
    marks.append("</g>")
    for unit in marked:
        middle = (unit + 0.5) * wide
        marks.append(f'<path d="M{middle - 7:.1f} 3h14l-7 13z" fill="{INK}"><title>unit {unit}</title></path>')
    return Grid(marks, width, height + top, wide)


def value_colours() -> list[str]:
    """For the digits of `UnitMap.values`: pale where the unit can move, orange where it is saturated or flat."""
    return [FREE] * 5 + [ORANGE] * 5


def gradient_colours() -> list[str]:
    """For the digits of `UnitMap.gradients`: darker is larger; white is next to nothing."""
    return ["#ffffff", *[shade(i / 9) for i in range(1, 10)]]


def flat_columns(rows: Sequence[str]) -> list[int]:
    """The units that are saturated or flat on every example.

    >>> flat_columns(("099", "909"))
    [2]
    """
    return [place for place, column in enumerate(zip(*rows, strict=True)) if set(column) == {"9"}]


def called(path: str, kind: str) -> str:
    """A layer by its path, and by its kind where the path does not tell it.

    >>> called("blocks.0.attention", "Attention"), called("layers.1", "Tanh")
    ('blocks.0.attention', 'layers.1 Tanh')
    """
    return path if kind.lower() in path.lower().replace("_", "") else f"{path} {kind}"


def value_key(word: str) -> list[str]:
    """What the colours of a map of values mean; 24 units high."""
    second = 26 + 8.2 * len(word) + 30
    return [
        f'<rect y="2" width="18" height="18" fill="{ORANGE}"/>',
        svg_text(26, 17, word, QUIET, size=SIZE),
        f'<rect x="{second:.0f}" y="2" width="18" height="18" fill="{FREE}" stroke="{LINE}"/>',
        svg_text(second + 26, 17, "can still move", QUIET, size=SIZE),
    ]


def gradient_key() -> list[str]:
    """What the colours of a map of gradients mean; 24 units high."""
    return [
        svg_text(0, 17, "gradient: none", QUIET),
        *[
            f'<rect x="{118 + 16 * i}" y="2" width="16" height="18" fill="{colour}" stroke="{LINE}"/>'
            for i, colour in enumerate(gradient_colours())
        ],
        svg_text(118 + 16 * 10 + 8, 17, "largest", QUIET),
    ]
