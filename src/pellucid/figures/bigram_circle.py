"""The multigraph of a whole data set: its symbols on a circle, an arrow for every bigram, darker if frequent."""

import math
from collections.abc import Sequence

from pellucid.figures.charts.arrows import Arrow, Point, bent, loop
from pellucid.figures.charts.svg import INK, PAPER, QUIET, depth, depth_marks, shade
from pellucid.figures.graph.frame import safe
from pellucid.figures.word_walk import label_mark
from pellucid.figures.words.text import spoken
from pellucid.records import Bigram

RADIUS = 430.0
ROOM = 96.0  # for the loops outside the circle
SIZE = 2 * (RADIUS + ROOM)
LEGEND = 150.0
THINNEST, THICKEST = 0.7, 8.0


def draw_circle(
    labels: Sequence[str], sums: Sequence[int], shown: Sequence[int], bigrams: Sequence[Bigram]
) -> list[str]:
    """The marks; SIZE + LEGEND wide and SIZE high. shown: the places of the symbols that are drawn."""
    most = max([bigram.n for bigram in bigrams], default=1)
    frequent = max([sums[place] for place in shown], default=1)
    at = {place: _on_circle(i, len(shown)) for i, place in enumerate(shown)}
    radii = {place: 17 + 15 * depth(sums[place], frequent) for place in shown}
    marks = [f'<g transform="translate({SIZE / 2} {SIZE / 2})">']
    # The frequent ones last, so that no rare one hides them.
    for bigram in sorted(bigrams, key=lambda bigram: bigram.n):
        part = depth(bigram.n, most)
        arrow = _arrow(bigram, at, radii)
        said = f"{spoken(labels[bigram.first])} → {spoken(labels[bigram.second])}: {bigram.n:,}"
        marks.append(
            f'<g class="edge from{bigram.first} to{bigram.second}"><title>{safe(said)}</title>'
            f"{arrow.marks(shade(part), THINNEST + (THICKEST - THINNEST) * part * part)}</g>"
        )
    for place in shown:
        said = f"{spoken(labels[place])}: followed {sums[place]:,} times"
        centre = f'cx="{at[place].x:.1f}" cy="{at[place].y:.1f}"'
        marks.append(
            f'<g class="vertex" id="symbol{place}" tabindex="0"><title>{safe(said)}</title>'
            f'<circle {centre} r="{radii[place]:.1f}" fill="{PAPER}" stroke="{INK}" stroke-width="2"/>'
            f"{label_mark(labels[place], at[place], 1.15 * radii[place], INK)}</g>"
        )
    return [*marks, "</g>", *_legend(most)]


def circle_style(shown: Sequence[int]) -> str:
    """Under the pointer a symbol keeps only the arrows that leave it, in a browser."""
    looked_at = {place: f"svg:has(#symbol{place}:is(:hover, :focus))" for place in shown}
    others = ", ".join([f"{svg} .edge:not(.from{place})" for place, svg in looked_at.items()])
    own = ", ".join([f"{svg} .from{place}" for place, svg in looked_at.items()])
    return f".vertex {{ outline: none; }} {others} {{ opacity: .04; }} {own} {{ filter: saturate(3) brightness(.6); }}"


def _on_circle(i: int, n: int) -> Point:
    angle = 2 * math.pi * i / n - math.pi / 2
    return Point(RADIUS * math.cos(angle), RADIUS * math.sin(angle))


def _arrow(bigram: Bigram, at: dict[int, Point], radii: dict[int, float]) -> Arrow:
    start, end = at[bigram.first], at[bigram.second]
    if bigram.first == bigram.second:
        return loop(start, radii[bigram.first], math.atan2(start.y, start.x), 52, spread=0.5)
    # Bent toward the middle, and a little to the right of its way, so that there and back are two arrows.
    apart = math.dist(start, end)
    aside = 0.06 + 14 / apart
    right = Point(-(end.y - start.y) * aside, (end.x - start.x) * aside)
    pull = 0.86 - 0.3 * min(1.0, apart / RADIUS)
    bends = [Point(near.x * pull + right.x, near.y * pull + right.y) for near in (start, end)]
    return bent(start, radii[bigram.first], (bends[0], bends[1]), end, radii[bigram.second] + 1)


def _legend(most: int) -> list[str]:
    """Arrows of known counts, from the most frequent down."""
    marks = [f'<text x="{SIZE}" y="40" font-size="17" fill="{QUIET}">count</text>']
    for i, count in enumerate(reversed(depth_marks(most))):
        part, y = depth(count, most), 70 + 34 * i
        line = Arrow(Point(SIZE, y), Point(SIZE + 20, y), Point(SIZE + 36, y), Point(SIZE + 60, y))
        marks.append(line.marks(shade(part), THINNEST + (THICKEST - THINNEST) * part * part))
        marks.append(f'<text x="{SIZE + 72}" y="{y + 6}" font-size="17" fill="{INK}">{count:,}</text>')
    return marks
