"""The multigraph of one word: its symbols on a line in the order they come, an arrow for every step of the walk."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pellucid.figures.charts.arrows import Arrow, Point, bent, loop
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, PAPER
from pellucid.figures.graph.frame import safe
from pellucid.figures.words.text import spoken

RADIUS, GAP, LEVEL = 34.0, 170.0, 48.0
MOST_PARALLEL = 3  # arrows between the same two symbols that are drawn one by one


class Step(NamedTuple):
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


def draw_walk(labels: Sequence[str], walk: Sequence[int]) -> WalkPicture:
    """labels: of all symbols; walk: their places in the order of the word."""
    line = list(dict.fromkeys(walk))
    steps = _steps([line.index(place) for place in walk])
    levels, ports = _levels(steps), _ports(steps)
    arrows = [_arrow(step, levels[step], ports) for step in steps]
    heights = [arrow.middle().y for arrow in arrows]
    top, bottom = min([*heights, -RADIUS]) - 24, max([*heights, RADIUS]) + 24
    marks = [f'<g transform="translate({RADIUS + 12} {-top:.1f})">']
    for step, arrow in zip(steps, arrows, strict=True):
        names = [spoken(labels[line[place]]) for place in (step.start, step.end)]
        is_single = len(step.numbers) == 1
        said = f"{names[0]} → {names[1]}, {f'step {step.numbers[0]}' if is_single else f'{len(step.numbers)} times'}"
        drawn = arrow.marks(BLUE if step.apart else ORANGE, 2.6 if is_single else 5.0)
        marks.append(f'<g class="edge"><title>{safe(said)}</title>{drawn}</g>')
    for i, place in enumerate(line):
        marks.append(
            f'<g class="vertex"><circle cx="{i * GAP:.0f}" cy="0" r="{RADIUS}" fill="{PAPER}" stroke="{INK}" '
            f'stroke-width="2.4"/>{label_mark(labels[place], Point(i * GAP, 0), 34, INK)}</g>'
        )
    # Numbers last, so that no arrow crosses one.
    for step, arrow in zip(steps, arrows, strict=True):
        several = len(step.numbers) > 1
        marks.append(_badge(arrow.middle(), f"×{len(step.numbers)}" if several else str(step.numbers[0])))
    return WalkPicture([*marks, "</g>"], (len(line) - 1) * GAP + 2 * RADIUS + 24, bottom - top)


def label_mark(label: str, at: Point, size: float, colour: str) -> str:
    """A symbol's label in its circle, smaller when it is long."""
    size = size if len(label) < 2 else size * 1.7 / max(2.6, len(label))
    # The middle dot is small in every font; it stands for the boundary and has to be seen.
    if label == "·":
        return f'<circle cx="{at.x:.1f}" cy="{at.y:.1f}" r="{size / 7:.1f}" fill="{colour}"/>'
    return (
        f'<text x="{at.x:.1f}" y="{at.y + size * 0.34:.1f}" font-size="{size:.1f}" font-weight="600" '
        f'text-anchor="middle" fill="{colour}">{safe(label)}</text>'
    )


def _steps(walk: Sequence[int]) -> list[Step]:
    """The arrows of the walk, the near ones first."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, ends in enumerate(pairwise(walk), start=1):
        found.setdefault(ends, []).append(number)
    steps: list[Step] = []
    for (start, end), numbers in found.items():
        drawn = [(number,) for number in numbers] if len(numbers) <= MOST_PARALLEL else [tuple(numbers)]
        steps += [Step(start, end, nth, together) for nth, together in enumerate(drawn)]
    return sorted(steps, key=lambda step: (step.apart, step.nth))


def _levels(steps: Sequence[Step]) -> dict[Step, int]:
    """How high each arrow stands off the line: over all that it spans on its side, the loops on top included."""
    levels: dict[Step, int] = {}
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


def _ports(steps: Sequence[Step]) -> dict[tuple[Step, int], float]:
    """The angle above or below the line at which each arrow leaves (0) and reaches (1) its circle.

    Low arrows stand nearer to the line, so that none has to cross another at once.
    """
    corners: dict[tuple[int, bool, bool], list[tuple[Step, int]]] = {}
    for step in steps:
        if step.apart and not step.is_straight:
            is_forward = step.end > step.start
            corners.setdefault((step.start, is_forward, is_forward), []).append((step, 0))
            corners.setdefault((step.end, not is_forward, is_forward), []).append((step, 1))
    ports: dict[tuple[Step, int], float] = {}
    for ends in corners.values():
        for i, end in enumerate(ends):
            ports[end] = math.radians(44 if len(ends) == 1 else 26 + 36 * i / (len(ends) - 1))
    return ports


def _arrow(step: Step, level: int, ports: dict[tuple[Step, int], float]) -> Arrow:
    """Forward above the line and backward below it; a symbol's own loop on top of it."""
    start, end = Point(step.start * GAP, 0), Point(step.end * GAP, 0)
    if step.apart == 0:
        return loop(start, RADIUS, -math.pi / 2, 74 + 46 * step.nth, spread=0.36)
    if step.is_straight:
        return bent(start, RADIUS, (Point(start.x + GAP / 3, 0), Point(end.x - GAP / 3, 0)), end, RADIUS + 1)
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
