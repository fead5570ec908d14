"""One chart of our own: an axis below, one at the left, and lines, points and words between them.

Not by Vega-Lite, which takes a second to start and half a megabyte in a page: a report has a dozen of these, is written
when a training ends, and should open at once.
"""

from collections.abc import Sequence

from pellucid.figures.charts.axes import Axis
from pellucid.figures.charts.series import Point, thinned
from pellucid.figures.charts.svg import INK, LINE, PAPER, QUIET
from pellucid.figures.graph.frame import safe

LEFT, BOTTOM = 88.0, 60.0  # room for the numbers and the title of an axis
SIZE = 16.0  # of letters
APART = 20.0  # between the lines of labels


class Panel:
    """A chart that is drawn mark by mark; what leaves its frame is cut off."""

    def __init__(self, x: Axis, y: Axis, width: float, height: float) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self._inside: list[str] = []  # cut at the frame
        self._above: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where in the panel a point stands, from its upper left corner."""
        return self.width * self.x.part(x), self.height * (1 - self.y.part(y))

    def line(
        self,
        points: Sequence[Point],
        colour: str,
        *,
        width: float = 3.0,
        dash: str = "",
        fade: float = 1.0,
        says: str = "",
    ) -> None:
        """A line through the points, thinned where there are too many; it breaks where a number is not finite."""
        words = f"<title>{safe(says)}</title>" if says else ""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        faded = f' opacity="{fade:g}"' if fade < 1 else ""
        pen = f'fill="none" stroke="{colour}" stroke-width="{width:g}" stroke-linejoin="round" stroke-linecap="round"'
        for piece in thinned(points):
            if len(piece) == 1:
                x, y = self.at(*piece[0])
                self._inside.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width:g}" fill="{colour}"{faded}/>')
                continue
            places = " ".join(["{:.1f},{:.1f}".format(*self.at(*point)) for point in piece])
            self._inside.append(f'<polyline {pen}{dashes}{faded} points="{places}">{words}</polyline>')

    def dot(
        self, x: float, y: float, colour: str, *, size: float = 6.0, is_hollow: bool = False, says: str = ""
    ) -> None:
        """A point; its words are told under the pointer."""
        left, top = self.at(x, y)
        fill = PAPER if is_hollow else colour
        words = f"<title>{safe(says)}</title>" if says else ""
        # One on the frame is shown whole, one beyond it not at all.
        is_in = -1 <= left <= self.width + 1 and -1 <= top <= self.height + 1
        (self._above if is_in else self._inside).append(
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="{size:g}" fill="{fill}" stroke="{colour}" stroke-width="2.5">'
            f"{words}</circle>"
        )

    def mark(self, x: float, y: float, shape: str, colour: str, says: str = "") -> None:
        """A shape that is told from others without its colour: a triangle or a diamond."""
        left, top = self.at(x, y)
        path = {"triangle": "M-9 8H9L0 -9Z", "diamond": "M0 -11L9 0L0 11L-9 0Z"}[shape]
        words = f"<title>{safe(says)}</title>" if says else ""
        self._inside.append(
            f'<path transform="translate({left:.1f} {top:.1f})" d="{path}" fill="{colour}" stroke="{PAPER}" '
            f'stroke-width="1.5">{words}</path>'
        )

    def across(self, y: float, colour: str = QUIET, dash: str = "7 5") -> None:
        """A rule from the left to the right."""
        top = self.at(self.x.low, y)[1]
        self._inside.append(_rule(0, top, self.width, top, colour, dash))

    def upright(self, x: float, colour: str = QUIET, dash: str = "7 5") -> None:
        """A rule from the bottom to the top."""
        left = self.at(x, self.y.low)[0]
        self._inside.append(_rule(left, 0, left, self.height, colour, dash))

    def words(
        self, x: float, y: float, text: str, colour: str = INK, *, align: str = "start", is_bold: bool = False
    ) -> None:
        """Words at a place in the panel, in its own units from the upper left corner."""
        self._above.append(lettered(x, y, text, colour, align=align, is_bold=is_bold))

    def ends(self, labels: Sequence[tuple[float, str, str]]) -> None:
        """Labels at the right of the frame, each beside its height: (y, words, colour). None covers another."""
        placed = sorted([(self.at(self.x.low, y)[1], text, colour) for y, text, colour in labels])
        for (wanted, text, colour), top in zip(
            placed, spread([wanted for wanted, _, _ in placed], APART, 0.0, self.height), strict=True
        ):
            points = f"{self.width + 2:.1f},{wanted:.1f} {self.width + 14:.1f},{top:.1f}"
            self._above.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
            self._above.append(lettered(self.width + 19, top + SIZE * 0.35, text, colour))

    def drawn(self, left: float = 0.0, top: float = 0.0, *, has_numbers_below: bool = True) -> list[str]:
        """The marks of the panel, whose frame begins LEFT to the right of the given place."""
        return [
            f'<g transform="translate({left + LEFT:.1f} {top:.1f})">',
            *self._grid(has_numbers_below),
            # Cut without a name, so that several pictures can stand in one page.
            f'<svg width="{self.width:.1f}" height="{self.height:.1f}" overflow="hidden">',
            *self._inside,
            "</svg>",
            *self._above,
            "</g>",
        ]

    def _grid(self, has_numbers_below: bool) -> list[str]:
        marks = []
        for tick in self.y.ticks(max(3, int(self.height / 50))):
            top = self.at(self.x.low, tick)[1]
            marks.append(f'<path d="M0 {top:.1f}H{self.width:.1f}" stroke="#e6e9ec"/>')
            marks.append(_number(-10, top + SIZE * 0.35, self.y.written(tick), "end"))
        for tick in self.x.ticks(max(2, int(self.width / 90))):
            left = self.at(tick, self.y.low)[0]
            marks.append(f'<path d="M{left:.1f} {self.height:.1f}v6" stroke="{LINE}"/>')
            if has_numbers_below:
                marks.append(_number(left, self.height + 24, self.x.written(tick), "middle"))
        marks.append(f'<path d="M0 0V{self.height:.1f}H{self.width:.1f}" fill="none" stroke="{LINE}"/>')
        if has_numbers_below:
            marks.append(lettered(self.width / 2, self.height + 50, self.x.title, QUIET, align="middle"))
        marks.append(
            f'<g transform="translate({18 - LEFT:.0f} {self.height / 2:.1f}) rotate(-90)">'
            f"{lettered(0, 0, self.y.title, QUIET, align='middle')}</g>"
        )
        return marks


def lettered(
    x: float, y: float, text: str, colour: str = INK, *, align: str = "start", is_bold: bool = False, size: float = SIZE
) -> str:
    """Words as SVG."""
    weight = ' font-weight="600"' if is_bold else ""
    anchor = f' text-anchor="{align}"' if align != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}"{weight}{anchor}>{safe(text)}</text>'


def _number(x: float, y: float, written: str, align: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{SIZE:g}" fill="{INK}" text-anchor="{align}">{written}</text>'


def _rule(x: float, y: float, to_x: float, to_y: float, colour: str, dash: str) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{colour}" stroke-width="2"{dashes}/>'


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Places in the same order as the wanted ones, near to them, at least that far apart and if possible in bounds.

    >>> spread([10.0, 12.0, 90.0], apart=20.0, low=0.0, high=100.0)
    [1.0, 21.0, 90.0]
    """
    groups: list[tuple[list[int], float]] = []  # neighbours that touch, and where the first of them stands
    for place, height in enumerate(wanted):
        groups.append(([place], min(max(height, low), max(low, high))))
        while len(groups) > 1 and groups[-1][1] < groups[-2][1] + apart * len(groups[-2][0]):
            members = groups[-2][0] + groups[-1][0]
            del groups[-2:]
            middle = sum([wanted[i] - apart * n for n, i in enumerate(members)]) / len(members)
            groups.append((members, max(low, min(middle, high - apart * (len(members) - 1)))))
    return [first + apart * i for members, first in groups for i in range(len(members))]
