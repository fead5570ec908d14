"""Long series made short enough to draw without hiding what they did, and drawn as lines of text."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from pellucid.figures.words.text import join_words

Point = tuple[float, float]

MOST_POINTS = 2000
# Of a canvas of letters: the bit of each dot in the letter, from the upper left; as Unicode has it.
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
EMPTY = 0x2800
LABELS = 8  # letters for the numbers at the left


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


def even_places(items: Sequence[str], most: int) -> list[int]:
    """The places of at most that many items, the first and the last among them, as evenly spread as can be.

    >>> even_places("abcdefg", most=3)
    [0, 3, 6]
    """
    n = len(items)
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
