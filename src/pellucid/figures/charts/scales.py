"""What the colours of a heat map mean, as a strip from its least to its largest; each is 24 units high."""

from collections.abc import Callable

from pellucid.figures.charts.matrix import BARRED, balanced
from pellucid.figures.charts.panel import SIZE, lettered
from pellucid.figures.charts.svg import LINE, QUIET, shade
from pellucid.figures.graph.frame import text_width
from pellucid.figures.sheet import WIDE

STEP, STEPS = 16.0, 11


def weight_key(barred: str = "") -> list[str]:
    """Of weights from 0 to 1; barred: what white means, where there is any."""
    marks, right = _strip("weight: 0", "1", shade)
    if barred:
        marks.append(f'<rect x="{right + 36:.0f}" y="2" width="18" height="18" fill="{BARRED}" stroke="{LINE}"/>')
        marks.append(lettered(right + 62, 17, barred, QUIET))
    return marks


def part_key(least: str, largest: str) -> list[str]:
    """Of numbers from 0 to the largest there is."""
    return _strip(least, largest, shade)[0]


def balance_key(least: str, largest: str) -> list[str]:
    """Of numbers below and above 0."""
    colour = balanced(1.0)
    return _strip(least, largest, lambda part: colour(2 * part - 1))[0]


def _strip(least: str, largest: str, colour: Callable[[float], str]) -> tuple[list[str], float]:
    """The strip between its two words, and where it ends."""
    left = len(least) * SIZE * WIDE + 6
    right = left + STEP * STEPS + 8
    marks = [lettered(0, 17, least, QUIET)]
    marks += [
        f'<rect x="{left + STEP * i:.0f}" y="2" width="{STEP:.0f}" height="18" fill="{colour(i / (STEPS - 1))}" '
        f'stroke="{LINE}"/>'
        for i in range(STEPS)
    ]
    return [*marks, lettered(right, 17, largest, QUIET)], right + text_width(largest, SIZE)
