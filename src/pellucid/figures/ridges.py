"""Histograms of many layers above each other, all on one axis: how numbers spread or vanish on their way."""

from collections.abc import Sequence
from typing import NamedTuple

from pellucid.figures.axes import Axis
from pellucid.figures.frame import safe
from pellucid.figures.house_theme import INK, LINE, QUIET, shade
from pellucid.figures.panel import SIZE, lettered
from pellucid.records import Histogram

ROW = 46.0
HIGHEST = 40.0  # of a ridge
COVERED = 0.999  # of the values of the widest layer; a few far ones would press all others together


class Ridge(NamedTuple):
    """One layer: its name, its histogram, and a few words at its right."""

    name: str
    histogram: Histogram
    note: str


def ridges(rows: Sequence[Ridge], axis: Axis, width: float, label_width: float) -> list[str]:
    """The rows from the first layer down, each as high as its own most frequent value; darker is deeper."""
    marks = []
    for i, row in enumerate(rows):
        base = (i + 1) * ROW
        colour = shade(0.35 + 0.5 * (i / max(1, len(rows) - 1)))
        marks.append(lettered(label_width - 12, base - 10, row.name, align="end"))
        marks.append(f'<g transform="translate({label_width:.1f} {base:.1f})">')
        marks.append(f'<path d="M0 0H{width:.1f}" stroke="{LINE}"/>')
        marks.append(_shape(row, axis, width, colour))
        marks.append("</g>")
        if row.note:
            marks.append(lettered(label_width + width + 10, base - 10, row.note, QUIET, size=15))
    bottom = len(rows) * ROW
    for tick in axis.ticks(max(3, int(width / 65))):
        x = label_width + width * axis.part(tick)
        marks.append(f'<path d="M{x:.1f} {bottom:.1f}v6" stroke="{LINE}"/>')
        marks.append(
            f'<text x="{x:.1f}" y="{bottom + 23:.1f}" font-size="{SIZE - 1:g}" fill="{INK}" text-anchor="middle">'
            f"{axis.written(tick)}</text>"
        )
    marks.append(lettered(label_width + width / 2, bottom + 45, axis.title, QUIET, align="middle"))
    return marks


def height(n_rows: int) -> float:
    """What `ridges` needs from top to bottom."""
    return n_rows * ROW + 54


def _shape(row: Ridge, axis: Axis, width: float, colour: str) -> str:
    counts = row.histogram.counts
    most = max(counts, default=0)
    reach = f"{sum(counts):,} values from {row.histogram.low:.3g} to {row.histogram.high:.3g}"
    words = f"<title>{safe(f'{row.name}: {reach}')}</title>"
    step = (row.histogram.high - row.histogram.low) / max(1, len(counts))
    path = []
    for i, n in enumerate(counts):
        left, right = [axis.part(row.histogram.low + step * j) for j in (i, i + 1)]
        left, right = max(0.0, left), min(1.0, right)
        if n and left < right:
            # Never thinner than what can be seen.
            wide = max(width * (right - left), 1.5)
            path.append(f"M{width * left:.1f} 0v{-HIGHEST * n / most:.1f}h{wide:.1f}V0z")
    return f'<path d="{"".join(path)}" fill="{colour}">{words}</path>'


def shared_axis(histograms: Sequence[Histogram], title: str) -> Axis:
    """An axis, symmetric about zero, on which the widest of them has room for nearly all of its values.

    >>> shared_axis([Histogram(-1.0, 1.0, (5, 5)), Histogram(-8.0, 8.0, (1, 1))], "value")
    Axis(low=-8.0, high=8.0, title='value', is_log=False)
    """
    reach = max([_reach(histogram) for histogram in histograms], default=1.0) or 1.0
    return Axis(-reach, reach, title)


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
