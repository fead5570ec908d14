"""The table of rules once more, on arrays: each row's NumPy twin, keyed by the rule's name.

A twin has the row's own signature, with arrays where the row has floats, and answers alike at kinks and edges;
`tests/test_vectors.py` holds the two tables equal, row by row. NumPy warns where IEEE 754 answers, so callers
compute under `np.errstate(all="ignore")`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.autograd.gaussian import gelu, gelu_slope
from pellucid.autograd.ieee import INFINITY
from pellucid.autograd.rules import LEAK, POWER

Floats = NDArray[np.float64]


class Twin(NamedTuple):
    """forward(*inputs) gives the results, slopes(results, *inputs) the derivatives toward each input.

    >>> TWINS["multiply"].slopes(np.array([6.0]), np.array([2.0]), np.array([3.0]))
    (array([3.]), array([2.]))
    """

    forward: Callable[..., Floats]
    slopes: Callable[..., Sequence[Floats]]


def _one_by_one(function: Callable[[float], float]) -> Callable[[Floats], Floats]:
    """The scalar function at each element: no faster than Python, for what NumPy does not have."""
    each = np.frompyfunc(function, 1, 1)
    return lambda a: np.asarray(each(a), dtype=np.float64)


def _unary(forward: Callable[[Floats], Floats], slope: Callable[[Floats, Floats], Floats]) -> Twin:
    return Twin(forward, lambda out, a: (slope(out, a),))


def _power_slopes(out: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    is_zero = (a == 0.0) & (b > 0.0) & (b < INFINITY)
    to_base = np.where(is_zero, b * np.power(a, b - 1.0), b * out / a)
    to_exponent = np.where(is_zero, 0.0, out * np.log(a))
    # Toward the ends of the range of a float64 digits need care, number by number: the row itself has the answer.
    for i in np.flatnonzero(~(is_zero | (_is_moderate(out) & _is_moderate(a) & _is_moderate(b)))):
        to_base[i], to_exponent[i] = POWER.slopes(float(out[i]), float(a[i]), float(b[i]))
    return to_base, to_exponent


def _is_moderate(x: Floats) -> NDArray[np.bool_]:
    size = np.abs(x)
    return (size > 1e-100) & (size < 1e100)


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
    slopes = [np.ones_like(x) for x in inputs]
    left, right = np.ones_like(out), np.ones_like(out)
    for slope, x in zip(slopes, inputs, strict=True):
        slope *= left
        left *= x
    for slope, x in zip(reversed(slopes), reversed(inputs), strict=True):
        slope *= right
        right *= x
    return slopes


def _where(a: Floats, b: Floats, c: Floats) -> Floats:
    return np.where(a > 0.0, b, c)


def _where_slopes(out: Floats, a: Floats, b: Floats, c: Floats) -> tuple[Floats, Floats, Floats]:
    is_taken = np.where(a > 0.0, 1.0, 0.0)
    return np.zeros_like(out), is_taken, 1.0 - is_taken


TWINS: dict[str, Twin] = {
    "add": Twin(np.add, lambda out, a, b: (np.ones_like(out), np.ones_like(out))),
    "subtract": Twin(np.subtract, lambda out, a, b: (np.ones_like(out), np.full_like(out, -1.0))),
    "multiply": Twin(np.multiply, lambda out, a, b: (b, a)),
    "divide": Twin(np.divide, lambda out, a, b: (1.0 / b, -(out / b))),
    "power": Twin(np.power, _power_slopes),
    "negate": _unary(np.negative, lambda out, a: np.full_like(out, -1.0)),
    "exp": _unary(np.exp, lambda out, a: out),
    "log": _unary(np.log, lambda out, a: 1.0 / a),
    "sqrt": _unary(np.sqrt, lambda out, a: 0.5 / out),
    "sin": _unary(np.sin, lambda out, a: np.cos(a)),
    "cos": _unary(np.cos, lambda out, a: -np.sin(a)),
    "tan": _unary(np.tan, lambda out, a: 1.0 + out * out),
    "asin": _unary(np.arcsin, lambda out, a: 1.0 / _root_of_rest(a)),
    "acos": _unary(np.arccos, lambda out, a: -1.0 / _root_of_rest(a)),
    "atan": _unary(np.arctan, lambda out, a: 1.0 / (1.0 + a * a)),
    "sinh": _unary(np.sinh, lambda out, a: np.cosh(a)),
    "cosh": _unary(np.cosh, lambda out, a: np.sinh(a)),
    "tanh": _unary(np.tanh, lambda out, a: 4.0 * _sigmoid_slope(2.0 * a)),
    "sigmoid": _unary(_sigmoid, lambda out, a: _sigmoid_slope(a)),
    "relu": _unary(lambda a: np.where(a < 0.0, 0.0, a), lambda out, a: np.where(out <= 0.0, 0.0, 1.0)),
    "leaky_relu": _unary(lambda a: np.where(a > 0.0, a, LEAK * a), lambda out, a: np.where(a > 0.0, 1.0, LEAK)),
    "softplus": _unary(_softplus, lambda out, a: _sigmoid(a)),
    "gelu": _unary(_one_by_one(gelu), lambda out, a: _one_by_one(gelu_slope)(a)),
    "abs": _unary(np.abs, lambda out, a: np.where(a > 0.0, 1.0, np.where(a < 0.0, -1.0, 0.0))),
    "max": Twin(_largest, _tied_slopes),
    "min": Twin(_smallest, _tied_slopes),
    "sum": Twin(_sum, lambda out, *inputs: [np.ones_like(out)] * len(inputs)),
    "product": Twin(_product, _product_slopes),
    "where": Twin(_where, _where_slopes),
}
