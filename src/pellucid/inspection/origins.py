"""Where a number in a shape comes from: a product of the sizes that a layer put out, a sum of two, or one of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pellucid.inspection.attempts import Shape, Step, shape_words


def origin_of(number: int, steps: Sequence[Step], given: Sequence[Shape]) -> str:
    """How a number was made, in words behind it; "" where it cannot be told. given: the shapes of the model's inputs.

    >>> steps = [Step("pool", "AvgPool2d", ((2, 16, 6, 6),), ((2, 16, 3, 3),))]
    >>> origin_of(144, steps, [(2, 1, 32, 32)])
    '16·3·3 of (2, 16, 3, 3) that pool puts out'
    """
    for step in reversed(steps[-3:]):
        for shape in (*step.outputs[:1], *step.inputs[:1]):
            if product := _product(number, shape):
                return f"{product} of {shape_words(shape)} {_who(step, shape)}"
    for step in reversed(steps):
        if step.outputs and number in step.outputs[0][1:]:
            # The state of a recurrent layer stands behind its outputs, one for each direction.
            halves = [shape[-1] for shape in step.outputs[1:2] if step.kind in ("RNN", "GRU", "LSTM")]
            both = f"2·{halves[0]} of both directions, " if halves and 2 * halves[0] == number else ""
            return f"{both}of {shape_words(step.outputs[0])} that {step.name} puts out"
    for shape in given:
        if product := _product(number, shape):
            return f"{product} of the input {shape_words(shape)}"
        if number in shape:
            return f"of the input {shape_words(shape)}"
    return _sum(number, steps)


def _who(step: Step, shape: Shape) -> str:
    is_made = bool(step.outputs) and shape == step.outputs[0]
    return f"that {step.name} puts out" if is_made else f"that {step.name} is given"


def _product(number: int, shape: Shape) -> str:
    """The sizes behind the batch whose product it is, as 16·3·3; only where there are several."""
    sizes = shape[1:]
    return "·".join(map(str, sizes)) if len(sizes) > 1 and prod(sizes) == number and max(sizes) < number else ""


def _sum(number: int, steps: Sequence[Step]) -> str:
    """Two layers whose outputs put side by side have that many features."""
    ends = [(step, step.outputs[0][1 if len(step.outputs[0]) == 4 else -1]) for step in steps if step.outputs]
    for place, (one, first) in reversed(list(enumerate(ends))):
        for other, second in reversed(ends[:place]):
            if first + second == number:
                return f"{second} + {first} that {other.name} and {one.name} put out"
    return ""
