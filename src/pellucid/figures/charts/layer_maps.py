"""What was seen of layers: histograms above each other on one axis, and maps with a column for each unit."""

from collections.abc import Sequence
from typing import NamedTuple

from pellucid.figures.charts.panel import Axis
from pellucid.figures.charts.svg import (
    INK,
    LINE,
    ORANGE,
    QUIET,
    SIZE,
    escape_text,
    move_marks,
    pixel_grid,
    shade,
    svg_text,
)
from pellucid.records import Histogram, LayerStats

ROW, LOW_ROW, FEW = 46.0, 30.0, 12  # where there are more than a few, they stand closer
MOST_TIMES = 4.0  # wider than the middle one
COVERED = 0.999  # of the values of the widest layer; a few far ones would press all others together
FREE = "#eef2f5"  # a unit that can still move
WIDEST, TALLEST = 520.0, 340.0
HEADING = 34.0
LARGEST_CELL = 16.0


class Ridge(NamedTuple):
    """One layer: its name, its histogram, and a few words at its right."""

    name: str
    histogram: Histogram
    note: str


def _ridge(name: str, layer: LayerStats, is_gradient: bool) -> Ridge:
    """A layer's activations, or the gradients that come back to it, with their deviation as its note."""
    if is_gradient:
        histogram, mean, deviation = layer.gradients, layer.gradient_mean, layer.gradient_deviation
    else:
        histogram, mean, deviation = layer.values, layer.mean, layer.deviation
    return Ridge(name, histogram_of_one(histogram, mean, deviation), f"σ {deviation:.2g}")


def _draw_ridges(rows: Sequence[Ridge], axis: Axis, width: float, label_width: float) -> list[str]:
    """The rows from the first layer down, each as high as its own most frequent value; darker is deeper."""
    marks = []
    apart = _apart(len(rows))
    for i, row in enumerate(rows):
        base = (i + 1) * apart
        colour = shade(0.35 + 0.5 * (i / max(1, len(rows) - 1)))
        marks.append(svg_text(label_width - 12, base - apart / 4, row.name, align="end"))
        marks.append(f'<g transform="translate({label_width:.1f} {base:.1f})">')
        marks.append(f'<path d="M0 0H{width:.1f}" stroke="{LINE}"/>')
        marks.append(_shape(row, axis, width, apart - 6, colour))
        marks.append("</g>")
        if row.note:
            marks.append(svg_text(label_width + width + 10, base - apart / 4, row.note, QUIET, size=15))
    bottom = len(rows) * apart
    for tick in axis.ticks(max(3, int(width / 65))):
        x = label_width + width * axis.part(tick)
        marks.append(f'<path d="M{x:.1f} {bottom:.1f}v6" stroke="{LINE}"/>')
        marks.append(
            f'<text x="{x:.1f}" y="{bottom + 23:.1f}" font-size="{SIZE - 1:g}" fill="{INK}" text-anchor="middle">'
            f"{axis.tick_label(tick)}</text>"
        )
    marks.append(svg_text(label_width + width / 2, bottom + 45, axis.title, QUIET, align="middle"))
    return marks


def ridge_column(
    layers: Sequence[tuple[str, LayerStats]], heading: str, colour: str, width: float, label_width: float
) -> list[str]:
    """What the layers put out, each with its name, and below it the gradients that come back to them."""
    marks = [svg_text(label_width, 18, heading, colour, is_bold=True, size=19)]
    for is_gradient, top in ((False, HEADING), (True, HEADING + _ridges_height(len(layers)) + 24)):
        rows = [_ridge(name, layer, is_gradient) for name, layer in layers]
        title = "gradient of the activation" if is_gradient else "activation"
        axis = shared_axis([row.histogram for row in rows], title)
        marks += move_marks(_draw_ridges(rows, axis, width, label_width), 0, top)
    return marks


def column_height(n_layers: int) -> float:
    """What a `ridge_column` of so many layers needs from top to bottom."""
    return HEADING + 2 * _ridges_height(n_layers) + 24


def _ridges_height(n_rows: int) -> float:
    """What `_draw_ridges` needs from top to bottom."""
    return n_rows * _apart(n_rows) + 54


def _apart(n_rows: int) -> float:
    return ROW if n_rows <= FEW else LOW_ROW


def _shape(row: Ridge, axis: Axis, width: float, highest: float, colour: str) -> str:
    counts = row.histogram.counts
    most = max(counts, default=0)
    reach = f"{sum(counts):,} values from {row.histogram.low:.3g} to {row.histogram.high:.3g}"
    words = f"<title>{escape_text(f'{row.name}: {reach}')}</title>"
    step = (row.histogram.high - row.histogram.low) / max(1, len(counts))
    path = []
    for i, n in enumerate(counts):
        left, right = [axis.part(row.histogram.low + step * j) for j in (i, i + 1)]
        left, right = max(0.0, left), min(1.0, right)
        if n and left <= right:
            # Never thinner than what can be seen, even where all values are one.
            wide = max(width * (right - left), 1.5)
            path.append(f"M{width * left:.1f} 0v{-highest * n / most:.1f}h{wide:.1f}V0z")
    return f'<path d="{"".join(path)}" fill="{colour}">{words}</path>'


def shared_axis(histograms: Sequence[Histogram], title: str) -> Axis:
    """An axis, symmetric about zero, on which the widest of them has room for nearly all of its values.

    >>> narrow, wide = Histogram(-1.0, 1.0, (5, 5)), Histogram(-8.0, 8.0, (1, 1))
    >>> shared_axis([narrow, wide], "value")
    Axis(low=-8.0, high=8.0, title='value', is_log=False)
    >>> shared_axis([narrow, narrow, wide], "value")
    Axis(low=-4.0, high=4.0, title='value, the widest cut', is_log=False)
    """
    reaches = sorted([_reach(histogram) for histogram in histograms])
    widest = reaches[-1] if reaches else 1.0
    # One that is far wider than most would make spikes of all others: then it is cut, and said to be.
    usual = MOST_TIMES * reaches[len(reaches) // 2] if reaches else 1.0
    reach = usual if 0 < usual < widest else widest or 1.0
    return Axis(-reach, reach, f"{title}, the widest cut" if reach < widest else title)


def histogram_of_one(histogram: Histogram, mean: float, deviation: float) -> Histogram:
    """The histogram; where all values are one, without the width that its one part was given.

    >>> histogram_of_one(Histogram(-0.5, 0.5, (0, 9)), mean=0.0, deviation=0.0)
    Histogram(low=0.0, high=0.0, counts=(9,))
    """
    return histogram if deviation else Histogram(mean, mean, (sum(histogram.counts),))


def _reach(histogram: Histogram) -> float:
    """How far from zero nearly all values stay."""
    step = (histogram.high - histogram.low) / max(1, len(histogram.counts))
    ends = [
        (max(abs(histogram.low + step * i), abs(histogram.low + step * (i + 1))), n)
        for i, n in enumerate(histogram.counts)
    ]
    total, held = sum(histogram.counts), 0
    for end, n in sorted(ends):
        held += n
        if held >= COVERED * total:
            return end
    return 0.0


class UnitGrid(NamedTuple):
    """A map that was drawn."""

    marks: list[str]
    width: float
    height: float
    cell: float


def unit_grid(
    rows: Sequence[str],
    colours: Sequence[str],
    marked: Sequence[int] = (),
    widest: float = WIDEST,
    tallest: float = TALLEST,
) -> UnitGrid:
    """The map, each digit in its colour; the marked columns get a triangle above them.

    >>> drawn = unit_grid(("09", "99"), value_colours())
    >>> drawn.width, drawn.height
    (32.0, 52.0)
    """
    n_units = max([len(row) for row in rows], default=0)
    wide = min(LARGEST_CELL, widest / max(1, n_units))
    tall = min(LARGEST_CELL, tallest / max(1, len(rows)), 4 * wide)
    top = 20.0
    width, height = n_units * wide, len(rows) * tall
    cells = pixel_grid([[colours[int(digit)] for digit in row] for row in rows], wide, tall)
    marks = move_marks(cells, 0, top)
    for unit in marked:
        middle = (unit + 0.5) * wide
        marks.append(f'<path d="M{middle - 7:.1f} 3h14l-7 13z" fill="{INK}"><title>unit {unit}</title></path>')
    return UnitGrid(marks, width, height + top, wide)


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


def layer_name(path: str, kind: str) -> str:
    """A layer by its path, and by its kind where the path does not tell it.

    >>> layer_name("blocks.0.attention", "Attention"), layer_name("layers.1", "Tanh")
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
