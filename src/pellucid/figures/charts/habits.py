"""What a head does with its weights, in a number or two: where it looks most, and at how many at once."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from pellucid.figures.charts.matrix import Rows

AT = {"itself": 0, "the one before": -1, "the one after": 1}


class Habit(NamedTuple):
    """Where a head looks most, of the places that have a name."""

    place: str
    share: float  # of its weight, in the mean over those who could choose
    even: float  # what it would be if all weights were equal


def habit(weights: Rows) -> Habit:
    """Of self-attention: itself, the one before, the one after or the first, whichever gets the most.

    Only those who see more than one are asked: whoever sees one thing alone has no choice.

    >>> habit([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.9, 0.1]])
    Habit(place='the one before', share=0.9, even=0.5)
    """
    found = []
    places = {word: [i + step for i in range(len(weights))] for word, step in AT.items()}
    for place, targets in {**places, "the first": [0] * len(weights)}.items():
        pairs = [(row, target) for row, target in zip(weights, targets, strict=True) if _can_choose(row, target)]
        if pairs:
            share = sum([row[target] for row, target in pairs]) / len(pairs)
            found.append(Habit(place, share, sum([1 / n_seen(row) for row, _ in pairs]) / len(pairs)))
    return max(found, key=lambda one: one.share, default=Habit("itself", 1.0, 1.0))


def _can_choose(row: Sequence[float], target: int) -> bool:
    return n_seen(row) > 1 and 0 <= target < len(row) and row[target] > 0


def n_seen(row: Sequence[float]) -> int:
    """How many have any weight at all; a mask leaves the others none."""
    return sum([weight > 0 for weight in row])


def breadth(weights: Rows) -> float:
    """At how many a head looks at once: 2 to the mean entropy in bits of those who could choose.

    >>> breadth([[1.0, 0.0], [0.5, 0.5]]), breadth([[1.0]])
    (2.0, 1.0)
    """
    bits = [-sum([weight * math.log2(weight) for weight in row if weight > 0]) for row in weights if n_seen(row) > 1]
    return 2 ** (sum(bits) / len(bits)) if bits else 1.0
