"""A small picture made of letters: each holds two columns of four dots."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from pellucid.figures.charts.panel import spread_labels
from pellucid.figures.charts.series import Point

# The bit of each dot in the letter, from the upper left; as Unicode has it.
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
EMPTY = 0x2800
LABELS = 8  # letters for the numbers at the left


class Canvas:
    """A frame of letters that lines are drawn into. What leaves it is not drawn."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], width: int = 64, height: int = 9) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self._letters = [[0] * width for _ in range(height)]

    def line(self, points: Sequence[Point]) -> None:
        """Straight from point to point; it breaks where a number is not finite."""
        for (x, y), (to_x, to_y) in itertools.pairwise(points):
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

        >>> canvas = Canvas((0, 1), (0, 1), width=4, height=2)
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
