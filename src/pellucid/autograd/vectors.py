"""The table of rules once more, on arrays: each row's NumPy twin, keyed by the rule's name.

A twin has the row's own signature, with arrays where the row has floats, and answers alike at kinks and edges;
`tests/test_vectors.py` holds the two tables equal, row by row. NumPy warns where IEEE 754 answers, so callers
compute under `np.errstate(all="ignore")`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.autograd.numerics import gelu, gelu_slope
from pellucid.autograd.rules import ATAN, DIVIDE, LEAK, POWER, Rule

Floats = NDArray[np.float64]
Exponents = NDArray[np.int32]


class Twin(NamedTuple):
    """forward(*inputs) gives the results, slopes(results, *inputs) the derivatives toward each input.

    >>> TWINS["multiply"].slopes(np.array([6.0]), np.array([2.0]), np.array([3.0]))
    (array([3.]), array([2.]))
    """

    forward: Callable[..., Floats]
    slopes: Callable[..., Sequence[Floats]]
    is_flat: Callable[..., Sequence[NDArray[np.bool_]]] | None = None  # of the inputs: as of the rule


def _one_by_one(function: Callable[[float], float]) -> Callable[[Floats], Floats]:
    """The scalar function at each element: no faster than Python, for what NumPy does not have."""
    each = np.frompyfunc(function, 1, 1)
    return lambda a: np.asarray(each(a), dtype=np.float64)


def _unary(forward: Callable[[Floats], Floats], slope: Callable[[Floats, Floats], Floats]) -> Twin:
    return Twin(forward, lambda out, a: (slope(out, a),))


def _careful(rule: Rule, slopes: Callable[..., Sequence[Floats]]) -> Callable[..., Sequence[Floats]]:
    """These slopes for ordinary numbers. Toward the ends of the range of a float64, where digits need care, the row
    itself is asked, number by number."""

    def careful(out: Floats, *inputs: Floats) -> Sequence[Floats]:
        found = slopes(out, *inputs)
        is_ordinary = np.logical_and.reduce([_is_ordinary(x) for x in (out, *inputs)])
        has_vanished = (out == 0.0) & np.logical_and.reduce([x != 0.0 for x in inputs])
        for i in np.flatnonzero(~is_ordinary | has_vanished):
            answers = rule.slopes(float(out[i]), *[float(x[i]) for x in inputs])
            for slope, answer in zip(found, answers, strict=True):
                slope[i] = answer
        return found

    return careful


def _is_ordinary(x: Floats) -> NDArray[np.bool_]:
    size = np.abs(x)
    is_ordinary: NDArray[np.bool_] = (size == 0.0) | ((size > 1e-75) & (size < 1e75))
    return is_ordinary


def _power_slopes(out: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    to_base = np.where(a == 0.0, b * np.power(a, b - 1.0), b * out / a)
    to_exponent = np.where(a == 0.0, 0.0, out * np.log(a))
    return np.where(b == 0.0, 0.0, to_base), to_exponent


def _sigmoid(a: Floats) -> Floats:
    u = np.exp(-np.abs(a))
    sigmoid: Floats = np.where(a >= 0.0, 1.0, u) / (1.0 + u)
    return sigmoid


def _sigmoid_slope(a: Floats) -> Floats:
    u = np.exp(-np.abs(a))
    slope: Floats = u / ((1.0 + u) * (1.0 + u))
    return slope


def _softplus(a: Floats) -> Floats:
    softplus: Floats = np.where(a > 0.0, a, 0.0) + np.log1p(np.exp(-np.abs(a)))
    return softplus


def _root_of_rest(a: Floats) -> Floats:
    root: Floats = np.sqrt((1.0 - a) * (1.0 + a))
    return root


def _largest(*inputs: Floats) -> Floats:
    best = inputs[0]
    for x in inputs[1:]:
        # A nan wins and keeps what it won; among equals the first stays, as the sign of a zero shows.
        best = np.where((x > best) | np.isnan(x), x, best)
    return best


def _smallest(*inputs: Floats) -> Floats:
    best = inputs[0]
    for x in inputs[1:]:
        best = np.where((x < best) | np.isnan(x), x, best)
    return best


def _tied_slopes(out: Floats, *inputs: Floats) -> Sequence[Floats]:
    is_best = np.equal(inputs, out)
    # No input equals a result that is nan, and 0/0 then makes every slope nan, as it should be.
    return list(is_best / is_best.sum(axis=0))


def _sum(*inputs: Floats) -> Floats:
    total = np.zeros_like(inputs[0])
    for x in inputs:
        total += x
    return total


def _product(*inputs: Floats) -> Floats:
    product = np.ones_like(inputs[0])
    for x in inputs:
        product *= x
    return product


def _product_slopes(out: Floats, *inputs: Floats) -> Sequence[Floats]:
    one = np.ones_like(out), np.zeros(out.shape, dtype=np.int32)
    lefts = [one]
    for x in inputs:
        lefts.append(_times(lefts[-1], x))
    slopes: list[Floats] = []
    right = one
    for left, x in zip(reversed(lefts[:-1]), reversed(inputs), strict=True):
        slopes.append(np.ldexp(left[0] * right[0], left[1] + right[1]))
        right = _times(right, x)
    return slopes[::-1]


def _times(product: tuple[Floats, Exponents], x: Floats) -> tuple[Floats, Exponents]:
    """Numbers as mantissas and exponents, times floats."""
    factor, more = np.frexp(x)
    mantissa, shift = np.frexp(product[0] * factor)
    return mantissa, product[1] + more + shift


def _where(a: Floats, b: Floats, c: Floats) -> Floats:
    return np.where(a > 0.0, b, c)


def _where_slopes(out: Floats, a: Floats, b: Floats, c: Floats) -> tuple[Floats, Floats, Floats]:
    is_taken = np.where(a > 0.0, 1.0, 0.0)
    return np.zeros_like(out), is_taken, 1.0 - is_taken


TWINS: dict[str, Twin] = {
    "add": Twin(np.add, lambda out, a, b: (np.ones_like(out), np.ones_like(out))),
    "subtract": Twin(np.subtract, lambda out, a, b: (np.ones_like(out), np.full_like(out, -1.0))),
    "multiply": Twin(np.multiply, lambda out, a, b: (b, a)),
    "divide": Twin(np.divide, _careful(DIVIDE, lambda out, a, b: (1.0 / b, -(out / b)))),
    "power": Twin(np.power, _careful(POWER, _power_slopes), lambda a, b: (b == 0.0, np.zeros(b.shape, bool))),
    "negate": _unary(np.negative, lambda out, a: np.full_like(out, -1.0)),
    "exp": _unary(np.exp, lambda out, a: out),
    "log": _unary(np.log, lambda out, a: 1.0 / a),
    "sqrt": _unary(np.sqrt, lambda out, a: 0.5 / out),
    "sin": _unary(np.sin, lambda out, a: np.cos(a)),
    "cos": _unary(np.cos, lambda out, a: -np.sin(a)),
    "tan": _unary(np.tan, lambda out, a: 1.0 + out * out),
    "asin": _unary(np.arcsin, lambda out, a: 1.0 / _root_of_rest(a)),
    "acos": _unary(np.arccos, lambda out, a: -1.0 / _root_of_rest(a)),
    "atan": Twin(np.arctan, _careful(ATAN, lambda out, a: (1.0 / (1.0 + a * a),))),
    "sinh": _unary(np.sinh, lambda out, a: np.cosh(a)),
    "cosh": _unary(np.cosh, lambda out, a: np.sinh(a)),
    "tanh": _unary(np.tanh, lambda out, a: 4.0 * _sigmoid_slope(2.0 * a)),
    "sigmoid": _unary(_sigmoid, lambda out, a: _sigmoid_slope(a)),
    "relu": Twin(
        lambda a: np.where(a < 0.0, 0.0, a), lambda out, a: (np.where(out <= 0.0, 0.0, 1.0),), lambda a: (a < 0.0,)
    ),
    "leaky_relu": _unary(lambda a: np.where(a > 0.0, a, LEAK * a), lambda out, a: np.where(a > 0.0, 1.0, LEAK)),
    "softplus": _unary(_softplus, lambda out, a: _sigmoid(a)),
    "gelu": _unary(_one_by_one(gelu), lambda out, a: _one_by_one(gelu_slope)(a)),
    "abs": _unary(np.abs, lambda out, a: np.where(a > 0.0, 1.0, np.where(a < 0.0, -1.0, 0.0))),
    "max": Twin(_largest, _tied_slopes, lambda *inputs: list(np.less(inputs, np.max(inputs, axis=0)))),
    "min": Twin(_smallest, _tied_slopes, lambda *inputs: list(np.greater(inputs, np.min(inputs, axis=0)))),
    "sum": Twin(_sum, lambda out, *inputs: [np.ones_like(out)] * len(inputs)),
    "product": Twin(_product, _product_slopes),
    "where": Twin(_where, _where_slopes),
}
