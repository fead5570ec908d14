"""The road to attention: the average of the past as a matrix, as the softmax of a mask, then with a say of the data."""

import math

from pellucid.errors import PellucidError
from pellucid.figures.charts.matrix import (
    Rows,
    added_colour,
    added_written,
    difference,
    heat,
    hundredths,
    weight_colour,
)
from pellucid.figures.charts.svg import INK, QUIET, lettered, moved
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.text import share, token_label
from pellucid.records import RoadShown

SIDE, LARGEST_CELL, GAP = 330.0, 48.0, 40.0
MOST_TOKENS = 16


def draw_road(seen: RoadShown) -> Picture:
    """Four matrices from left to right, each a small step from the one before."""
    if len(seen.tokens) > MOST_TOKENS:
        raise PellucidError(
            f"the text has {len(seen.tokens):,} characters, and {MOST_TOKENS} can be drawn", fix="Give a shorter one"
        )
    names = [token_label(token) for token in seen.tokens]
    cell = min(LARGEST_CELL, SIDE / len(names))
    stations = (
        ("L", "averages the past", heat(seen.averaging, weight_colour, cell, names, names, written=hundredths)),
        ("wei", "0: look, −∞: do not", heat(seen.wei, added_colour, cell, names, names, written=added_written)),
        (
            "softmax(wei)",
            "the same average again",
            heat(seen.softmax_of_wei, weight_colour, cell, names, names, written=hundredths),
        ),
        (
            "softmax(q·k/√d + wei)",
            "the data have a say",
            heat(seen.weights, weight_colour, cell, names, names, written=hundredths),
        ),
    )
    marks: list[str] = []
    left = height = 0.0
    for heading, words, drawn in stations:
        marks.append(lettered(left + drawn.left, 20, heading, INK, is_bold=True, size=20))
        if heading == "L":
            # The bar is drawn: with one from a font, the whole line would be set in the one font that has it.
            marks.append(f'<path d="M{left + drawn.left + 1:.1f} 2h11" stroke="{INK}" stroke-width="2"/>')
        marks.append(lettered(left + drawn.left, 46, words, QUIET))
        marks += moved(drawn.marks, left, 62)
        left, height = left + max(drawn.width, drawn.left + 230.0) + GAP, 62 + drawn.height
    return picture("The road from an average to attention", _captions(seen), marks, left - GAP, height)


def _captions(seen: RoadShown) -> list[str]:
    apart = _apart(seen.averaging, seen.softmax_of_wei)
    said = [
        "Each row is a position and how much it takes of itself and of those before it.",
        f"softmax(wei) is the averaging matrix again: the largest difference is {difference(apart)}.",
    ]
    moves = [
        (weight - even, i, j)
        for i, (row, average) in enumerate(zip(seen.weights, seen.averaging, strict=True))
        for j, (weight, even) in enumerate(zip(row, average, strict=True))
    ]
    most, i, j = max(moves)
    if most > 0:
        # Characters by their place too, since a text has most of them more than once.
        said.append(
            f"With scores of the data position {i + 1} ({token_label(seen.tokens[i])}) gives "
            f"{share(seen.weights[i][j], 1.0)} to position {j + 1} ({token_label(seen.tokens[j])}), "
            f"in place of {share(seen.averaging[i][j], 1.0)}."
        )
    return said


def _apart(one: Rows, other: Rows) -> float:
    """The largest difference of two matrices."""
    pairs = [(a, b) for row, twin in zip(one, other, strict=True) for a, b in zip(row, twin, strict=True)]
    return max([abs(a - b) for a, b in pairs])


FIGURE = FigureCard(
    name="road",
    says="The road to attention over a text (--input): an averaging matrix, wei, its softmax, and weights by the data.",
    needs=RoadShown,
    draw=draw_road,
    options=("--input", "--seed"),
    tiny=RoadShown(
        tokens=("b", "a"),
        averaging=((1.0, 0.0), (0.5, 0.5)),
        wei=((0.0, -math.inf), (0.0, 0.0)),
        softmax_of_wei=((1.0, 0.0), (0.5, 0.5)),
        weights=((1.0, 0.0), (0.8, 0.2)),
    ),
)
