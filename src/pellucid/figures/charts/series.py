"""Long series made short enough to draw, without hiding what they did."""

import math
from collections.abc import Sequence
from itertools import pairwise

from pellucid.figures.words.text import join_words

Point = tuple[float, float]

MOST_POINTS = 2000


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
