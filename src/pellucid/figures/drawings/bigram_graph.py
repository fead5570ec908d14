"""The bigram multigraph: of one word step by step, or of a whole data set with darker arrows for frequent bigrams."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pellucid.errors import printable
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, PAPER, QUIET, depth, depth_marks, escape_text, shade
from pellucid.figures.drawings.bigram_matrix import sums_line
from pellucid.figures.picture import FigureCard, Picture, sheet
from pellucid.figures.words.notation import (
    count_of,
    cut_middle,
    most_frequent,
    percent,
    spoken_label,
    symbol_labels,
    wrap_text,
)
from pellucid.records import BigramCount, BigramCounts

MOST_SYMBOLS = 40
STRONGEST = 50  # arrows whose share of all bigrams is told
# Of a word's walk: the circles, and how far they and the arrows above each other stand apart.
RADIUS, GAP, LEVEL = 34.0, 170.0, 48.0
MOST_PARALLEL = 3  # arrows between the same two symbols that are drawn one by one
# Of a whole data set on a circle, with room for the loops outside of it.
CIRCLE_RADIUS, ROOM, LEGEND = 430.0, 96.0, 150.0
CIRCLE_SIZE = 2 * (CIRCLE_RADIUS + ROOM)
THINNEST, THICKEST = 0.7, 8.0
HEAD = 11.0  # the length of an arrow's head, for a line of width 2


def draw_bigram_graph(seen: BigramCounts) -> Picture:
    """The walk of a word where the record holds one, else the circle."""
    return _of_word(seen) if seen.walk else _of_data(seen)


def _of_word(seen: BigramCounts) -> Picture:
    names = symbol_labels(seen.symbols, seen.has_boundary)
    order = [spoken_label(names[place]) for place in seen.walk]
    found = list(dict.fromkeys(order))
    n_loops = sum([bigram.n for bigram in seen.bigrams if bigram.first == bigram.second])
    loops = f"{count_of(n_loops, 'self-loop')}, orange" if n_loops else "no self-loop"
    title = f"The bigrams of {cut_middle(printable(''.join([seen.symbols[place] for place in seen.walk[1:-1]])), 60)}"
    merged = ", ×n a bigram that comes n times" if seen.bigrams[0].n > MOST_PARALLEL else ""
    vertices = count_of(len(found), "vertex").replace("vertexs", "vertices")
    caption = (
        f"{count_of(seen.total, 'edge')} between {vertices}: V = {{{', '.join(found)}}}; {loops}.",
        *wrap_text(f"Numbers tell the order{merged}: {cut_middle(' → '.join(order), 200)}", 100),
        sums_line(seen),
    )
    picture = _draw_walk(names, seen.walk)
    return Picture(title, caption, sheet(title, caption, picture.marks, picture.width, picture.height))


def _of_data(seen: BigramCounts) -> Picture:
    names = symbol_labels(seen.symbols, seen.has_boundary)
    sums = seen.row_sums()
    shown = most_frequent([max(pair) for pair in zip(sums, seen.column_sums(), strict=True)], MOST_SYMBOLS)
    drawn = [bigram for bigram in seen.bigrams if {bigram.first, bigram.second} <= set(shown)]
    title = "What follows what: darker arrows are more frequent bigrams"
    lines = [
        f"{seen.total:,} bigrams in {seen.source}, {len(seen.bigrams):,} different ones.",
        sums_line(seen),
    ]
    if len(drawn) > STRONGEST:
        strongest = sum([bigram.n for bigram in drawn[:STRONGEST]])
        lines[0] += f" The {STRONGEST} darkest arrows hold {percent(strongest, seen.total)} of all."
    if len(drawn) < len(seen.bigrams):
        held = percent(sum([bigram.n for bigram in drawn]), seen.total)
        lines.append(f"Drawn: the {len(shown)} most frequent of {len(names):,} symbols, which hold {held} of all.")
    # A closing boundary is never followed by any, and yet as frequent as the opening one.
    sizes = [max(pair) for pair in zip(sums, seen.column_sums(), strict=True)] if seen.closing else sums
    marks = _draw_circle(names, sums, sizes, shown, drawn)
    svg = sheet(title, lines, marks, CIRCLE_SIZE + LEGEND, CIRCLE_SIZE, _circle_style(shown))
    return Picture(title, tuple(lines), svg)


class Point(NamedTuple):
    x: float
    y: float

    def toward(self, other: "Point", distance: float) -> "Point":
        """The point that far away in the direction of the other."""
        length = math.dist(self, other) or 1.0
        return Point(
            self.x + (other.x - self.x) * distance / length,
            self.y + (other.y - self.y) * distance / length,
        )


class Arrow(NamedTuple):
    """A cubic curve with a head at its end."""

    start: Point
    bend: Point
    last_bend: Point
    end: Point

    def middle(self) -> Point:
        """The point of the curve halfway along."""
        a, b, c, d = self
        return Point((a.x + 3 * b.x + 3 * c.x + d.x) / 8, (a.y + 3 * b.y + 3 * c.y + d.y) / 8)

    def marks(self, colour: str, width: float) -> str:
        """The line and its head."""
        size = HEAD * (0.6 + 0.2 * width)
        # The line ends inside the head, whose tip touches the circle.
        neck = self.end.toward(self.last_bend, size * 0.8)
        line = f"M{_at(self.start)} C{_at(self.bend)} {_at(self.last_bend)} {_at(neck)}"
        foot = self.end.toward(self.last_bend, size)
        across = Point((self.end.y - foot.y) * 0.42, (foot.x - self.end.x) * 0.42)
        wings = [Point(foot.x + side * across.x, foot.y + side * across.y) for side in (1, -1)]
        head = f"M{_at(self.end)} L{_at(wings[0])} L{_at(wings[1])}Z"
        return (
            f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="{width:.2f}"/>'
            f'<path d="{head}" fill="{colour}"/>'
        )


def bent_arrow(start: Point, start_radius: float, bends: tuple[Point, Point], end: Point, end_radius: float) -> Arrow:
    """An arrow from circle to circle that leaves and arrives in the direction of its bends."""
    first, last = bends
    return Arrow(start.toward(first, start_radius), first, last, end.toward(last, end_radius))


def loop_arrow(centre: Point, radius: float, away: float, reach: float, spread: float = 0.42) -> Arrow:
    """An arrow from a circle back to itself; away: the angle at which it stands off, reach: how far it goes."""

    def at(angle: float, distance: float) -> Point:
        return Point(centre.x + distance * math.cos(angle), centre.y + distance * math.sin(angle))

    bends = at(away - spread * 1.6, radius + reach), at(away + spread * 1.6, radius + reach)
    return Arrow(at(away - spread, radius), *bends, at(away + spread, radius + 1))


def _at(point: Point) -> str:
    return f"{point.x:.1f},{point.y:.1f}"


class WalkStep(NamedTuple):
    """One arrow: a step of the walk, or several alike that are drawn as one."""

    start: int  # places on the line
    end: int
    nth: int  # among the arrows between the same two symbols
    numbers: tuple[int, ...]  # counted from 1

    @property
    def apart(self) -> int:
        return abs(self.end - self.start)

    @property
    def is_straight(self) -> bool:
        return self.end - self.start == 1 and self.nth == 0


class WalkPicture(NamedTuple):
    marks: list[str]
    width: float
    height: float


def _draw_walk(labels: Sequence[str], walk: Sequence[int]) -> WalkPicture:
    """labels: of all symbols; walk: their places in the order of the word."""
    line = list(dict.fromkeys(walk))
    steps = _steps([line.index(place) for place in walk])
    levels, ports = _levels(steps), _ports(steps)
    arrows = [_walk_arrow(step, levels[step], ports) for step in steps]
    heights = [arrow.middle().y for arrow in arrows]
    top, bottom = min([*heights, -RADIUS]) - 24, max([*heights, RADIUS]) + 24
    marks = [f'<g transform="translate({RADIUS + 12} {-top:.1f})">']
    for step, arrow in zip(steps, arrows, strict=True):
        names = [spoken_label(labels[line[place]]) for place in (step.start, step.end)]
        is_single = len(step.numbers) == 1
        said = f"{names[0]} → {names[1]}, {f'step {step.numbers[0]}' if is_single else f'{len(step.numbers)} times'}"
        drawn = arrow.marks(BLUE if step.apart else ORANGE, 2.6 if is_single else 5.0)
        marks.append(f'<g class="edge"><title>{escape_text(said)}</title>{drawn}</g>')
    for i, place in enumerate(line):
        marks.append(
            f'<g class="vertex"><circle cx="{i * GAP:.0f}" cy="0" r="{RADIUS}" fill="{PAPER}" stroke="{INK}" '
            f'stroke-width="2.4"/>{_label_mark(labels[place], Point(i * GAP, 0), 34, INK)}</g>'
        )
    # Numbers last, so that no arrow crosses one.
    for step, arrow in zip(steps, arrows, strict=True):
        several = len(step.numbers) > 1
        marks.append(_badge(arrow.middle(), f"×{len(step.numbers)}" if several else str(step.numbers[0])))
    return WalkPicture([*marks, "</g>"], (len(line) - 1) * GAP + 2 * RADIUS + 24, bottom - top)


def _label_mark(label: str, at: Point, size: float, colour: str) -> str:
    """A symbol's label in its circle, smaller when it is long."""
    size = size if len(label) < 2 else size * 1.7 / max(2.6, len(label))
    # The middle dot is small in every font; it stands for the boundary and has to be seen.
    if label == "·":
        return f'<circle cx="{at.x:.1f}" cy="{at.y:.1f}" r="{size / 7:.1f}" fill="{colour}"/>'
    return (
        f'<text x="{at.x:.1f}" y="{at.y + size * 0.34:.1f}" font-size="{size:.1f}" font-weight="600" '
        f'text-anchor="middle" fill="{colour}">{escape_text(label)}</text>'
    )


def _steps(walk: Sequence[int]) -> list[WalkStep]:
    """The arrows of the walk, the near ones first."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, ends in enumerate(pairwise(walk), start=1):
        found.setdefault(ends, []).append(number)
    steps: list[WalkStep] = []
    for (start, end), numbers in found.items():
        drawn = [(number,) for number in numbers] if len(numbers) <= MOST_PARALLEL else [tuple(numbers)]
        steps += [WalkStep(start, end, nth, together) for nth, together in enumerate(drawn)]
    return sorted(steps, key=lambda step: (step.apart, step.nth))


def _levels(steps: Sequence[WalkStep]) -> dict[WalkStep, int]:
    """How high each arrow stands off the line: over all that it spans on its side, the loops on top included."""
    levels: dict[WalkStep, int] = {}
    for step in steps:
        left, right = sorted((step.start, step.end))
        is_above = step.end >= step.start
        under = [
            levels[other] + (other.apart == 0)
            for other in levels
            if left <= min(other.start, other.end)
            and max(other.start, other.end) <= right
            and (other.end >= other.start) == is_above
            and not (other.apart == 0 and other.start in (left, right) and step.apart == 1)
        ]
        least = 0 if step.is_straight else 2 if step.apart > 1 else 1
        levels[step] = max(least, 1 + max(under)) if under and not step.is_straight else least
    return levels


def _ports(steps: Sequence[WalkStep]) -> dict[tuple[WalkStep, int], float]:
    """The angle above or below the line at which each arrow leaves (0) and reaches (1) its circle.

    Low arrows stand nearer to the line, so that none has to cross another at once.
    """
    corners: dict[tuple[int, bool, bool], list[tuple[WalkStep, int]]] = {}
    for step in steps:
        if step.apart and not step.is_straight:
            is_forward = step.end > step.start
            corners.setdefault((step.start, is_forward, is_forward), []).append((step, 0))
            corners.setdefault((step.end, not is_forward, is_forward), []).append((step, 1))
    ports: dict[tuple[WalkStep, int], float] = {}
    for ends in corners.values():
        for i, end in enumerate(ends):
            ports[end] = math.radians(44 if len(ends) == 1 else 26 + 36 * i / (len(ends) - 1))
    return ports


def _walk_arrow(step: WalkStep, level: int, ports: dict[tuple[WalkStep, int], float]) -> Arrow:
    """Forward above the line and backward below it; a symbol's own loop on top of it."""
    start, end = Point(step.start * GAP, 0), Point(step.end * GAP, 0)
    if step.apart == 0:
        return loop_arrow(start, RADIUS, -math.pi / 2, 74 + 46 * step.nth, spread=0.36)
    if step.is_straight:
        return bent_arrow(start, RADIUS, (Point(start.x + GAP / 3, 0), Point(end.x - GAP / 3, 0)), end, RADIUS + 1)
    way, side = (1, -1) if end.x > start.x else (-1, 1)
    # A cubic curve reaches three quarters of the height of its bends.
    rise, run = side * LEVEL * (level + 0.2) / 0.75, way * (0.24 if step.apart > 1 else 0.36) * GAP * step.apart
    leaves, arrives = ports[step, 0], ports[step, 1]
    return Arrow(
        Point(start.x + way * RADIUS * math.cos(leaves), side * RADIUS * math.sin(leaves)),
        Point(start.x + run, rise),
        Point(end.x - run, rise),
        Point(end.x - way * (RADIUS + 1) * math.cos(arrives), side * (RADIUS + 1) * math.sin(arrives)),
    )


def _badge(at: Point, text: str) -> str:
    width = 14 + 10 * len(text)
    return (
        f'<rect x="{at.x - width / 2:.1f}" y="{at.y - 13:.1f}" width="{width}" height="26" rx="13" fill="{PAPER}"/>'
        f'<text x="{at.x:.1f}" y="{at.y + 6:.1f}" font-size="17" text-anchor="middle" fill="{INK}">{text}</text>'
    )


def _draw_circle(
    labels: Sequence[str],
    sums: Sequence[int],
    sizes: Sequence[int],
    shown: Sequence[int],
    bigrams: Sequence[BigramCount],
) -> list[str]:
    """The marks; CIRCLE_SIZE + LEGEND wide and CIRCLE_SIZE high. shown: the places of the symbols that are drawn."""
    most = max([bigram.n for bigram in bigrams], default=1)
    frequent = max([sizes[place] for place in shown], default=1)
    at = {place: _on_circle(i, len(shown)) for i, place in enumerate(shown)}
    radii = {place: 17 + 15 * depth(sizes[place], frequent) for place in shown}
    marks = [f'<g transform="translate({CIRCLE_SIZE / 2} {CIRCLE_SIZE / 2})">']
    # The frequent ones last, so that no rare one hides them.
    for bigram in sorted(bigrams, key=lambda bigram: bigram.n):
        part = depth(bigram.n, most)
        arrow = _circle_arrow(bigram, at, radii)
        said = f"{spoken_label(labels[bigram.first])} → {spoken_label(labels[bigram.second])}: {bigram.n:,}"
        marks.append(
            f'<g class="edge from{bigram.first} to{bigram.second}"><title>{escape_text(said)}</title>'
            f"{arrow.marks(shade(part), THINNEST + (THICKEST - THINNEST) * part * part)}</g>"
        )
    for place in shown:
        said = f"{spoken_label(labels[place])}: followed {sums[place]:,} times"
        centre = f'cx="{at[place].x:.1f}" cy="{at[place].y:.1f}"'
        marks.append(
            f'<g class="vertex" id="symbol{place}" tabindex="0"><title>{escape_text(said)}</title>'
            f'<circle {centre} r="{radii[place]:.1f}" fill="{PAPER}" stroke="{INK}" stroke-width="2"/>'
            f"{_label_mark(labels[place], at[place], 1.15 * radii[place], INK)}</g>"
        )
    return [*marks, "</g>", *_legend(most)]


def _circle_style(shown: Sequence[int]) -> str:
    """Under the pointer a symbol keeps only the arrows that leave it, in a browser."""
    looked_at = {place: f"svg:has(#symbol{place}:is(:hover, :focus))" for place in shown}
    others = ", ".join([f"{svg} .edge:not(.from{place})" for place, svg in looked_at.items()])
    own = ", ".join([f"{svg} .from{place}" for place, svg in looked_at.items()])
    return f".vertex {{ outline: none; }} {others} {{ opacity: .04; }} {own} {{ filter: saturate(3) brightness(.6); }}"


def _on_circle(i: int, n: int) -> Point:
    angle = 2 * math.pi * i / n - math.pi / 2
    return Point(CIRCLE_RADIUS * math.cos(angle), CIRCLE_RADIUS * math.sin(angle))


def _circle_arrow(bigram: BigramCount, at: dict[int, Point], radii: dict[int, float]) -> Arrow:
    start, end = at[bigram.first], at[bigram.second]
    if bigram.first == bigram.second:
        return loop_arrow(start, radii[bigram.first], math.atan2(start.y, start.x), 52, spread=0.5)
    # Bent toward the middle, and a little to the right of its way, so that there and back are two arrows.
    apart = math.dist(start, end)
    aside = 0.06 + 14 / apart
    right = Point(-(end.y - start.y) * aside, (end.x - start.x) * aside)
    pull = 0.86 - 0.3 * min(1.0, apart / CIRCLE_RADIUS)
    bends = [Point(near.x * pull + right.x, near.y * pull + right.y) for near in (start, end)]
    return bent_arrow(start, radii[bigram.first], (bends[0], bends[1]), end, radii[bigram.second] + 1)


def _legend(most: int) -> list[str]:
    """Arrows of known counts, from the most frequent down."""
    marks = [f'<text x="{CIRCLE_SIZE}" y="40" font-size="17" fill="{QUIET}">count</text>']
    for i, count in enumerate(reversed(depth_marks(most))):
        part, y = depth(count, most), 70 + 34 * i
        line = Arrow(
            Point(CIRCLE_SIZE, y), Point(CIRCLE_SIZE + 20, y), Point(CIRCLE_SIZE + 36, y), Point(CIRCLE_SIZE + 60, y)
        )
        marks.append(line.marks(shade(part), THINNEST + (THICKEST - THINNEST) * part * part))
        marks.append(f'<text x="{CIRCLE_SIZE + 72}" y="{y + 6}" font-size="17" fill="{INK}">{count:,}</text>')
    return marks


FIGURE = FigureCard(
    name="bigram-graph",
    summary="Symbols and what follows them as a graph: of one word, or of all data, darker where frequent.",
    needs=BigramCounts,
    draw=draw_bigram_graph,
    options=("word", "boundary"),
)
