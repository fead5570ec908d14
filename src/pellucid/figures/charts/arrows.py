"""Curved arrows in SVG: where they start and end on their circles, their heads, and where a label stands on them."""

import math
from typing import NamedTuple

HEAD = 11.0  # the length of an arrow's head, for a line of width 2


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


def bent(start: Point, start_radius: float, bends: tuple[Point, Point], end: Point, end_radius: float) -> Arrow:
    """An arrow from circle to circle that leaves and arrives in the direction of its bends."""
    first, last = bends
    return Arrow(start.toward(first, start_radius), first, last, end.toward(last, end_radius))


def loop(centre: Point, radius: float, away: float, reach: float, spread: float = 0.42) -> Arrow:
    """An arrow from a circle back to itself; away: the angle at which it stands off, reach: how far it goes."""

    def at(angle: float, distance: float) -> Point:
        return Point(centre.x + distance * math.cos(angle), centre.y + distance * math.sin(angle))

    bends = at(away - spread * 1.6, radius + reach), at(away + spread * 1.6, radius + reach)
    return Arrow(at(away - spread, radius), *bends, at(away + spread, radius + 1))


def _at(point: Point) -> str:
    return f"{point.x:.1f},{point.y:.1f}"
