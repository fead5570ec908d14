"""How wrong a score is, as one number to be made smaller. Each has torch's values and torch's gradients."""

from collections.abc import Sequence

from pellucid.autograd.value import Number, Value, constant, maximum, total
from pellucid.errors import PellucidError


def hinge(score: Number, side: Number) -> Value:
    """Zero once the score is on its side (-1 or 1) by a margin of one, then linear: relu(1 - side·score).

    >>> hinge(0.25, 1).data, hinge(0.25, -1).data, hinge(3.0, 1).data
    (0.75, 1.25, 0.0)
    """
    return (1.0 - constant(side) * score).relu()


def squared(score: Number, target: Number) -> Value:
    """The square of the distance between them.

    >>> squared(3.0, 1.0).data
    4.0
    """
    distance = constant(score) - target
    return distance * distance


def cross_entropy(scores: Sequence[Number], target: int) -> Value:
    """What softmax leaves the target to be surprised by, in nats: -log(exp(score) / Σ exp(scores)).

    The largest score is taken out of the exponentials, so none overflows. It is a node of the graph and not a
    number read from it: the gradients along its two ways cancel, and a replay finds the largest anew.

    >>> round(cross_entropy([2.0, 1.0, 0.1], 0).data, 6)
    0.41703
    >>> cross_entropy([1000.0, 0.0], 1).data
    1000.0
    """
    if not 0 <= target < len(scores):
        raise PellucidError(
            f"the target is class {target} and there are {len(scores)} scores",
            where="in cross_entropy",
            fix=f"Classes count from 0 to {len(scores) - 1}" if scores else "Give one score for each class",
        )
    largest = maximum(*scores)
    rest = [score - largest for score in scores]
    return total([difference.exp() for difference in rest]).log() - rest[target]


def binary_cross_entropy(score: Number, target: Number) -> Value:
    """The surprise, in nats, that the sigmoid of the score leaves a target between 0 (no) and 1 (yes).

    Written with softplus on either side, so a sure and right score keeps the digits of its small loss.

    >>> round(binary_cross_entropy(0.0, 1).data, 6)
    0.693147
    >>> binary_cross_entropy(50.0, 1).data
    1.9287498479639178e-22
    """
    score, target = constant(score), constant(target)
    return target * (-score).softplus() + (1.0 - target) * score.softplus()
