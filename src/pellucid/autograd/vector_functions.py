"""Functions of vectors, each written out in the scalar rules: what is derived is single numbers, every step is told.

A vector is a row of places in the program. `softmax([a, b])` becomes a maximum, two differences, two exponentials, a
sum and two quotients, and so its derivative needs no rule of its own.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pellucid.autograd.rules import ADD, DIVIDE, EXP, LOG, MAX, MULTIPLY, SUBTRACT, SUM, Rule

Places = Sequence[int]


class Emitter(NamedTuple):
    """Adds operations to a program: one of a rule on places, or a number; each gives its own place."""

    apply: Callable[[Rule, Places], int]
    number: Callable[[float], int]


class VectorFunction(NamedTuple):
    """A function that takes vectors. expand gives the places of its result: a vector, or one place, a number."""

    symbol: str
    arity: int  # vectors; one may also be written as several numbers, softmax(a, b, c)
    is_vector: bool  # what it gives
    means: str  # for the docs
    expand: Callable[..., list[int]]


def _shift(emit: Emitter, a: Places) -> tuple[int, list[int]]:
    """The largest element, and each element less it. The largest becomes 0, so that no exponential can overflow."""
    largest = emit.apply(MAX, a)
    return largest, [emit.apply(SUBTRACT, (x, largest)) for x in a]


def _softmax(emit: Emitter, a: Places) -> list[int]:
    # What is subtracted from every element cancels in the quotient: the slopes toward it add up to 0.
    powers = [emit.apply(EXP, (x,)) for x in _shift(emit, a)[1]]
    total = emit.apply(SUM, powers)
    return [emit.apply(DIVIDE, (x, total)) for x in powers]


def _log_softmax(emit: Emitter, a: Places) -> list[int]:
    shifted = _shift(emit, a)[1]
    total = emit.apply(LOG, (emit.apply(SUM, [emit.apply(EXP, (x,)) for x in shifted]),))
    return [emit.apply(SUBTRACT, (x, total)) for x in shifted]


def _logsumexp(emit: Emitter, a: Places) -> list[int]:
    largest, shifted = _shift(emit, a)
    total = emit.apply(LOG, (emit.apply(SUM, [emit.apply(EXP, (x,)) for x in shifted]),))
    return [emit.apply(ADD, (largest, total))]


def _mean(emit: Emitter, a: Places) -> list[int]:
    return [emit.apply(DIVIDE, (emit.apply(SUM, a), emit.number(float(len(a)))))]


def _dot(emit: Emitter, a: Places, b: Places) -> list[int]:
    return [emit.apply(SUM, [emit.apply(MULTIPLY, pair) for pair in zip(a, b, strict=True)])]


VECTOR_FUNCTIONS: dict[str, VectorFunction] = {
    function.symbol: function
    for function in (
        VectorFunction("softmax", 1, True, "exp(a - max(a)) over its sum", _softmax),
        VectorFunction("log_softmax", 1, True, "a - max(a) less the log of the sum of its exp", _log_softmax),
        VectorFunction("logsumexp", 1, False, "max(a) + log(sum(exp(a - max(a))))", _logsumexp),
        VectorFunction("mean", 1, False, "sum(a) over the number of elements", _mean),
        VectorFunction("dot", 2, False, "sum(a*b)", _dot),
    )
}
