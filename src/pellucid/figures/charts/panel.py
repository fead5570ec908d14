"""One chart: an axis below, one at the left, and lines, points and words between them; in a picture or as text."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pellucid.figures.charts.svg import INK, LINE, PAPER, QUIET, SIZE, dashes, line_style, move_marks, svg_text, tooltip
from pellucid.figures.words.notation import cut_end, join_words

Point = tuple[float, float]

LEFT, BOTTOM = 88.0, 60.0  # room for the numbers and the title of an axis
APART = 20.0  # between the lines of labels
LONGEST_NAME = 30
MOST_POINTS = 2000
# Of a canvas of letters: the bit of each dot in the letter, from the upper left; as Unicode has it.
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
EMPTY = 0x2800
LABELS = 8  # letters for the numbers at the left


class Axis(NamedTuple):
    """A range of numbers, linear or by powers of ten, and what they are."""

    low: float
    high: float
    title: str = ""
    is_log: bool = False

    def part(self, x: float) -> float:
        """Where x stands between the ends: 0 at the low one, 1 at the high one; outside it goes on.

        >>> Axis(1, 100, is_log=True).part(10), Axis(0, 4).part(1)
        (0.5, 0.25)
        """
        if self.is_log:
            # Nothing below zero has a place on it; the smallest there is stands far outside.
            x, low, high = [math.log10(max(value, 1e-300)) for value in (x, self.low, self.high)]
        else:
            low, high = self.low, self.high
        return (x - low) / (high - low)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers inside the range, at most that many.

        >>> Axis(1.9, 3.3).ticks(), Axis(2e-4, 3.0, is_log=True).ticks()
        ([2.0, 2.25, 2.5, 2.75, 3.0, 3.25], [0.001, 0.01, 0.1, 1.0])
        """
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            if last - first < 1:
                digits = [float(f"{digit}e{power}") for power in range(first - 1, last + 2) for digit in (1, 2, 5)]
                inside = [tick for tick in digits if self.low <= tick <= self.high]
                if len(inside) >= 2:
                    return inside[:: math.ceil(len(inside) / most)]
            else:
                every = max(1, math.ceil((last - first + 1) / most))
                return [float(f"1e{power}") for power in range(first, last + 1, every)]
        for step in _steps((self.high - self.low) / most):
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first < most:
                return [float(f"{i * step:.12g}") for i in range(first, last + 1)]
        return []

    def tick_label(self, tick: float) -> str:
        """The tick as SVG text: powers of ten raised, all others as they are.

        >>> Axis(0.1, 1e6, is_log=True).tick_label(1000.0), Axis(0, 2000).tick_label(1500.0)
        ('10<tspan dy="-7" font-size="12">3</tspan>', '1,500')
        """
        power = math.log10(tick) if self.is_log and tick > 0 else 0.5
        if power == round(power) and not 0 <= power <= 1:
            return f'10<tspan dy="-7" font-size="12">{power:.0f}</tspan>'.replace(">-", ">−")
        if tick and not 1e-4 <= abs(tick) < 1e9:
            return f"{tick:.2g}".replace("e-0", "e-").replace("-", "−").replace("e+0", "e").replace("e+", "e")
        return f"{tick:,.10g}".replace("-", "−")


def _steps(least: float) -> Iterable[float]:
    """Round steps from the given one up."""
    power = math.floor(math.log10(least)) if least > 0 else 0
    for exponent in (power, power + 1):
        for digit in (1, 2, 2.5, 5):
            if digit * 10.0**exponent >= least * (1 - 1e-9):
                yield digit * 10.0**exponent
    yield 10.0 ** (power + 2)


def axis_spanning(numbers: Iterable[float], title: str, *, is_log: bool = False, margin: float = 0.04) -> Axis:
    """An axis with room for all the finite numbers, and a little around them.

    >>> axis_spanning([2.0, 3.0, float("inf")], "loss", margin=0.1)
    Axis(low=1.9, high=3.1, title='loss', is_log=False)
    """
    found = [x for x in numbers if math.isfinite(x) and (x > 1e-290 or not is_log)]
    low, high = (min(found), max(found)) if found else (1.0, 10.0)
    if is_log:
        if high <= low * 1.01:
            low, high = low / 3, high * 3
        room = (high / low) ** margin
        return Axis(low / room, high * room, title, is_log=True)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-300):
        low, high = low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)
    room = (high - low) * margin
    return Axis(low - room, high + room, title)


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
        faded = f' opacity="{fade:g}"' if fade < 1 else ""
        line_style = (
            f'fill="none" stroke="{colour}" stroke-width="{width:g}" stroke-linejoin="round" stroke-linecap="round"'
        )
        for piece in thin_series(points):
            if len(piece) == 1:
                x, y = self.at(*piece[0])
                self._inside.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width:g}" fill="{colour}"{faded}/>')
                continue
            places = " ".join(["{:.1f},{:.1f}".format(*self.at(*point)) for point in piece])
            self._inside.append(
                f'<polyline {line_style}{dashes(dash)}{faded} points="{places}">{tooltip(says)}</polyline>'
            )

    def dot(
        self, x: float, y: float, colour: str, *, size: float = 6.0, is_hollow: bool = False, says: str = ""
    ) -> None:
        """A point; its words are told under the pointer."""
        left, top = self.at(x, y)
        fill = PAPER if is_hollow else colour
        # One on the frame is shown whole, one beyond it not at all.
        is_in = -1 <= left <= self.width + 1 and -1 <= top <= self.height + 1
        (self._above if is_in else self._inside).append(
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="{size:g}" fill="{fill}" stroke="{colour}" stroke-width="2.5">'
            f"{tooltip(says)}</circle>"
        )

    def mark(self, x: float, y: float, shape: str, colour: str, says: str = "") -> None:
        """A shape that is told from others without its colour: a triangle, a diamond or a circle."""
        left, top = self.at(x, y)
        path = {
            "triangle": "M-9 8H9L0 -9Z",
            "diamond": "M0 -11L9 0L0 11L-9 0Z",
            "circle": "M-8 0A8 8 0 1 0 8 0A8 8 0 1 0 -8 0Z",
        }[shape]
        self._inside.append(
            f'<path transform="translate({left:.1f} {top:.1f})" d="{path}" fill="{colour}" stroke="{PAPER}" '
            f'stroke-width="1.5">{tooltip(says)}</path>'
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
        self._above.append(svg_text(x, y, text, colour, align=align, is_bold=is_bold))

    def mark_at(self, x: float, y: float, mark: str) -> None:
        """A mark of SVG at a place in the panel, in its own units from the upper left corner."""
        self._above += move_marks([mark], x, y)

    def ends(self, labels: Sequence[tuple[float, str, str]]) -> None:
        """Labels at the right of the frame, each beside its height: (y, words, colour). None covers another."""
        placed = sorted([(self.at(self.x.low, y)[1], text, colour) for y, text, colour in labels])
        for (wanted, text, colour), top in zip(
            placed, spread_labels([wanted for wanted, _, _ in placed], APART, 0.0, self.height), strict=True
        ):
            points = f"{self.width + 2:.1f},{wanted:.1f} {self.width + 14:.1f},{top:.1f}"
            self._above.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
            self._above.append(svg_text(self.width + 19, top + SIZE * 0.35, text, colour))

    def draw(self, left: float = 0.0, top: float = 0.0, *, has_numbers_below: bool = True) -> list[str]:
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
            marks.append(_number(-10, top + SIZE * 0.35, self.y.tick_label(tick), "end"))
        for tick in self.x.ticks(max(2, int(self.width / 90))):
            left = self.at(tick, self.y.low)[0]
            marks.append(f'<path d="M{left:.1f} {self.height:.1f}v6" stroke="{LINE}"/>')
            if has_numbers_below:
                marks.append(_number(left, self.height + 24, self.x.tick_label(tick), "middle"))
        marks.append(f'<path d="M0 0V{self.height:.1f}H{self.width:.1f}" fill="none" stroke="{LINE}"/>')
        if has_numbers_below:
            marks.append(svg_text(self.width / 2, self.height + 50, self.x.title, QUIET, align="middle"))
        marks.append(
            f'<g transform="translate({18 - LEFT:.0f} {self.height / 2:.1f}) rotate(-90)">'
            f"{svg_text(0, 0, self.y.title, QUIET, align='middle')}</g>"
        )
        return marks


def _number(x: float, y: float, written: str, align: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{SIZE:g}" fill="{INK}" text-anchor="{align}">{written}</text>'


def _rule(x: float, y: float, to_x: float, to_y: float, colour: str, dash: str) -> str:
    return f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{colour}" stroke-width="2"{dashes(dash)}/>'


def draw_lines(panel: Panel, lines: Mapping[str, Sequence[Point]], rules: Sequence[tuple[float, str]] = ()) -> int:
    """Draw the lines with their names; beyond what fits, the highest and lowest at the end keep theirs.

    rules: numbers with a dashed rule across the frame, and what they are.

    Gives how many were named.
    """
    most = int(panel.height / APART) + 1 - len(rules)
    ends = {name: _last(points) for name, points in lines.items()}
    ranked = sorted([name for name, end in ends.items() if math.isfinite(end)], key=lambda name: -ends[name])
    half = most // 2
    named = ranked if len(ranked) <= most else [*ranked[:half], *ranked[-half:]]
    for number, _ in rules:
        panel.across(number)
    labels = [(number, says, QUIET) for number, says in rules]
    pens = {name: line_style(i) for i, name in enumerate([name for name in lines if name in set(named)])}
    for name, points in lines.items():
        if name not in pens:
            panel.line(points, QUIET, width=1.2, fade=0.5, says=name)
    for name, (colour, dash) in pens.items():
        panel.line(lines[name], colour, width=2.5, dash=dash, says=name)
        labels.append((ends[name], cut_end(name.removesuffix(".weight"), LONGEST_NAME), colour))
    panel.ends(labels)
    return len(named)


def _last(points: Sequence[Point]) -> float:
    return next((value for _, value in reversed(points) if math.isfinite(value)), math.nan)


def thin_series(points: Sequence[Point], most: int = MOST_POINTS) -> list[list[Point]]:
    """The series as unbroken pieces, with at most that many points in all.

    Where there are more, each stretch keeps its lowest and its highest point, so that no spike is lost. What is not a
    finite number is a gap between two pieces.

    >>> thin_series([(1, 5.0), (2, float("nan")), (3, 4.0), (4, 3.0)])
    [[(1, 5.0)], [(3, 4.0), (4, 3.0)]]
    >>> thin_series([(i, float(i == 70)) for i in range(1000)], most=4)
    [[(0, 0.0), (70, 1.0), (500, 0.0), (501, 0.0)]]
    """
    stretch = 1 if len(points) <= most else math.ceil(len(points) / (most // 2))
    kept: list[Point | None] = []
    for begin in range(0, len(points), stretch):
        places = range(begin, min(begin + stretch, len(points)))
        finite = [place for place in places if math.isfinite(points[place][1])]
        gaps = [place for place in places if not math.isfinite(points[place][1])]
        chosen = set(gaps[:1])
        if finite:
            lowest = min(finite, key=lambda place: points[place][1])
            highest = max(finite, key=lambda place: points[place][1])
            # A level stretch still shows where it begins and where it goes on.
            chosen |= {lowest, highest} if lowest != highest else {lowest, finite[min(1, len(finite) - 1)]}
        kept += [points[place] if place not in gaps else None for place in sorted(chosen)]
    pieces: list[list[Point]] = [[]]
    for point in kept:
        if point is None:
            pieces.append([])
        else:
            pieces[-1].append(point)
    return [piece for piece in pieces if piece]


def block_means(points: Sequence[Point], blocks: int = 200, least: int = 1) -> tuple[list[Point], int]:
    """The means of equal stretches, each at its last place, and how many points a stretch has: at least so many.

    A stretch with a number that is not finite has no mean: it is a gap.

    >>> block_means([(1, 4.0), (2, 2.0), (3, 1.0), (4, 1.0), (5, 7.0)], blocks=2)
    ([(3, 2.3333333333333335), (5, 4.0)], 3)
    """
    length = max(1, min(least, len(points)), math.ceil(len(points) / blocks))
    begins = list(range(0, len(points), length))
    # A few that are left over belong to the last stretch; their mean alone would be a jump that never was.
    if len(begins) > 1 and len(points) - begins[-1] < length / 2:
        begins.pop()
    means = []
    for begin, end in pairwise([*begins, len(points)]):
        part = points[begin:end]
        means.append((part[-1][0], sum([value for _, value in part]) / len(part)))
    return means, length


def even_places(n: int, most: int) -> list[int]:
    """The places of at most that many of n items, the first and the last among them, as evenly spread as can be.

    >>> even_places(7, most=3)
    [0, 3, 6]
    """
    return list(range(n)) if n <= most else [round(i * (n - 1) / (most - 1)) for i in range(most)]


def gap_words_of(points: Sequence[Point], noun: str) -> str:
    """A sentence on the gaps, or nothing where there are none.

    >>> gap_words_of([(1, 2.0), (2, float("nan"))], "loss")
    'At step 2 the loss was not a finite number: a gap.'
    """
    places = [f"{place:,g}" for place, value in points if not math.isfinite(value)]
    if not places:
        return ""
    shown = places if len(places) < 5 else [*places[:3], f"{len(places) - 3:,} more"]
    at = f"step{'s' * (len(places) > 1)} {join_words(shown)}"
    return f"At {at} the {noun} was not a finite number: {'gaps' if len(places) > 1 else 'a gap'}."


def spread_labels(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Places in the same order as the wanted ones, near to them, at least that far apart and if possible in bounds.

    >>> spread_labels([10.0, 12.0, 90.0], apart=20.0, low=0.0, high=100.0)
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


class TextCanvas:
    """A frame of letters that lines are drawn into. What leaves it is not drawn."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], width: int = 64, height: int = 9) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self._letters = [[0] * width for _ in range(height)]

    def line(self, points: Sequence[Point]) -> None:
        """Straight from point to point; it breaks where a number is not finite."""
        for (x, y), (to_x, to_y) in pairwise(points):
            if not all(math.isfinite(number) for number in (x, y, to_x, to_y)):
                continue
            left, right = self._column(x), self._column(to_x)
            top, bottom = self._row(y), self._row(to_y)
            # A far leap, as of a loss that flies apart, is drawn only where it can be seen.
            n = max(1, math.ceil(min(max(abs(right - left), abs(bottom - top)), 4.0 * self.height + 2.0 * self.width)))
            for i in range(n + 1):
                self._dot(left + (right - left) * i / n, top + (bottom - top) * i / n)

    def across(self, y: float) -> None:
        """A dotted rule from the left to the right."""
        for column in range(0, 2 * self.width, 4):
            self._dot(column, self._row(y))

    def upright(self, x: float) -> None:
        """A dotted rule from the top to the bottom."""
        for row in range(0, 4 * self.height, 2):
            self._dot(self._column(x), row)

    def lines(self, written: Callable[[float], str], labels: Iterable[tuple[float, str]] = ()) -> list[str]:
        """The picture as lines of text: numbers at the left of the first and the last, words at the right.

        >>> canvas = TextCanvas((0, 1), (0, 1), width=4, height=2)
        >>> canvas.line([(0, 1), (1, 0)])
        >>> for line in canvas.lines(lambda y: f"{y:.0f}"):
        ...     print(line)
              1 ⠑⢄⠀⠀
              0 ⠀⠀⠑⢄
        """
        wanted = sorted([(self._row(y) // 4, words) for y, words in labels])
        rows = spread_labels([row for row, _ in wanted], 1.0, 0.0, self.height - 1.0)
        notes = {round(row): words for row, (_, words) in zip(rows, wanted, strict=True)}
        left = {0: written(self.y[1]), self.height - 1: written(self.y[0])}
        return [
            left.get(row, "").rjust(LABELS - 1)
            + " "
            + "".join([chr(EMPTY + letter) for letter in letters])
            + (f" {notes[row]}" if row in notes else "")
            for row, letters in enumerate(self._letters)
        ]

    def _column(self, x: float) -> float:
        return (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0) * (2 * self.width - 1)

    def _row(self, y: float) -> float:
        return (self.y[1] - y) / ((self.y[1] - self.y[0]) or 1.0) * (4 * self.height - 1)

    def _dot(self, column: float, row: float) -> None:
        across, down = round(column), round(row)
        if 0 <= across < 2 * self.width and 0 <= down < 4 * self.height:
            self._letters[down // 4][across // 2] |= DOTS[across % 2][down % 4]
