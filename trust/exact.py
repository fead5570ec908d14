"""Every operation and its slopes in mpmath, from formulas of their own: the judge when pellucid and torch disagree.

Arithmetic is written with Python's operators, so that it works on mpmath numbers (no rounding to speak of, but no
signed zero) and on floats (IEEE) alike. At kinks the slopes are torch's conventions.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath  # type: ignore[import-untyped]
from mpmath import mp

# 60 digits: enough that one operation on float64 numbers, its worst cancellation included, is exact to 40.
mp.dps = 60

Real = Any  # an mpmath number or a float
NAN = math.nan
INFINITY = math.inf
LARGEST = mpmath.mpf(1.7976931348623157e308)
OVERFLOWS = LARGEST * (1 + mpmath.mpf(2) ** -54)
UNDERFLOWS = mpmath.mpf(2) ** -1075
FAR = 1e4  # past here every exponential of a float64 is 0 or infinite


class Exact(NamedTuple):
    value: Callable[..., Real]
    slopes: Callable[..., tuple[Real, ...]]


def in_range(x: Real) -> Real:
    """The number with the range of a float64 and all the digits of mpmath."""
    if isinstance(x, float) or not mpmath.isfinite(x):
        return x
    if abs(x) >= OVERFLOWS:
        return mpmath.inf if x > 0 else -mpmath.inf
    return x if abs(x) > UNDERFLOWS else mpmath.mpf(0)


def rounded(x: Real) -> float:
    """The float64 nearest to the number; what is too small becomes a zero that keeps its sign."""
    if isinstance(x, float):
        return x
    nearest = float(in_range(x))
    return -0.0 if nearest == 0.0 and x < 0 else nearest


def is_nan(x: Real) -> bool:
    return bool(x != x)


def divide(a: Real, b: Real) -> Real:
    if b != 0:
        return a / b
    if a == 0 or is_nan(a):
        return NAN
    return math.copysign(INFINITY, float(a)) * math.copysign(1.0, float(b))


def power(a: Real, b: Real) -> Real:
    if b == 0 or a == 1:
        return 1.0
    if is_nan(a) or is_nan(b):
        return NAN
    if a == 0 or mpmath.isinf(a) or mpmath.isinf(b):
        # Only zeros and infinities are left here, and C's pow defines them all; a finite partner keeps its side of 1.
        return _edge_power(_same_side(a), _same_side(b))
    if a < 0:
        if not mpmath.isint(b):
            return NAN
        return -_positive_power(-a, b) if _is_odd(b) else _positive_power(-a, b)
    return _positive_power(a, b)


def _positive_power(a: Real, b: Real) -> Real:
    height = mpmath.mpf(b) * mpmath.log(a)
    if abs(height) > FAR:
        return mpmath.inf if height > 0 else mpmath.mpf(0)
    return mpmath.exp(height)


def _edge_power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except (OverflowError, ValueError):
        if a == 0:
            return math.copysign(INFINITY, a) if _is_odd(b) else INFINITY
        return NAN


def _same_side(x: Real) -> float:
    near = float(x)
    if near in (1.0, -1.0, 0.0) and x != near:
        return math.nextafter(near, math.copysign(INFINITY, float(x - near)))
    return near


def _is_odd(b: Real) -> bool:
    return bool(mpmath.isint(b)) and int(mpmath.mpf(b)) % 2 == 1


def _power_slopes(a: Real, b: Real) -> tuple[Real, Real]:
    whole = power(a, b)
    if b == 0:
        to_base: Real = 0.0
    elif math.copysign(1.0, float(a)) < 0 and mpmath.isfinite(a) and mpmath.isfinite(b):
        # b - 1 is rounded where b is huge or tiny, and may become even, odd or whole by it; b itself knows.
        upper = power(abs(a), _wide(b) - 1)
        to_base = b * (-upper if mpmath.isint(b) and not _is_odd(b) else upper) if whole == whole else NAN
    else:
        to_base = b * power(a, _wide(b) - 1)
    return to_base, 0.0 if a == 0 and b >= 0 else whole * log(a)


def log(a: Real) -> Real:
    if a > 0:
        return mpmath.log(a)
    return -INFINITY if a == 0 else NAN


def sqrt(a: Real) -> Real:
    return a if a == 0 else mpmath.sqrt(a) if a > 0 else NAN


def _odd(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    """The function with the sign of a zero kept and nan let through; torch and C do the same."""
    return lambda a: a if a == 0 or is_nan(a) else function(a)


def _angle(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    return lambda a: function(a) if mpmath.isfinite(a) else NAN


def _bent(function: Callable[[Real], Real], low: float, high: float) -> Callable[[Real], Real]:
    """The function where mpmath can compute it, and its limits beyond."""
    return lambda a: a if is_nan(a) else low if a < -FAR else high if a > FAR else function(a)


def _within_one(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    return lambda a: function(a) if -1 <= a <= 1 else NAN


def _sech_squared(a: Real) -> Real:
    return 1 / mpmath.cosh(a) ** 2


def _arc_slope(a: Real) -> Real:
    return divide(mpmath.mpf(1), sqrt((1 - mpmath.mpf(a)) * (1 + mpmath.mpf(a)))) if -1 <= a <= 1 else NAN


def _sum(*inputs: Real) -> Real:
    total = inputs[0]
    for x in inputs[1:]:
        total = total + x
    return total


def _product(*inputs: Real) -> Real:
    total = inputs[0]
    for x in inputs[1:]:
        total = total * x
    return total


def _largest(*inputs: Real) -> Real:
    return next((x for x in inputs if is_nan(x)), None) or max(inputs)


def _smallest(*inputs: Real) -> Real:
    return next((x for x in inputs if is_nan(x)), None) or min(inputs)


def _shared(extreme: Callable[..., Real]) -> Callable[..., tuple[Real, ...]]:
    def slopes(*inputs: Real) -> tuple[Real, ...]:
        best = extreme(*inputs)
        ties = sum(x == best for x in inputs)
        return tuple(1.0 / ties if x == best else 0.0 for x in inputs) if ties else (NAN,) * len(inputs)

    return slopes


def _others(*inputs: Real) -> tuple[Real, ...]:
    return tuple(_product(1.0, *map(_wide, inputs[:i] + inputs[i + 1 :])) for i in range(len(inputs)))


def _one(value: Callable[[Real], Real], slope: Callable[[Real], Real]) -> Exact:
    return Exact(value, lambda a: (slope(a),))


_sigmoid = _bent(lambda a: 1 / (1 + mpmath.exp(-a)), 0.0, 1.0)
_exp = _bent(mpmath.exp, 0.0, INFINITY)
_sinh = _bent(_odd(mpmath.sinh), -INFINITY, INFINITY)
_cosh = _bent(mpmath.cosh, INFINITY, INFINITY)


def _gelu(a: Real) -> Real:
    if a == -INFINITY:
        return NAN  # -inf·0, as torch has it
    return _bent(_odd(lambda x: x * mpmath.ncdf(x)), -0.0, a)(a)


def _gelu_slope(a: Real) -> Real:
    if mpmath.isinf(a):
        return NAN
    return _bent(lambda x: mpmath.ncdf(x) + x * mpmath.npdf(x), 0.0, 1.0)(a)


EXACT: dict[str, Exact] = {
    "+": Exact(lambda a, b: a + b, lambda a, b: (1.0, 1.0)),
    "-": Exact(lambda a, b: a - b, lambda a, b: (1.0, -1.0)),
    "*": Exact(lambda a, b: a * b, lambda a, b: (b, a)),
    "/": Exact(divide, lambda a, b: (divide(1.0, b), -divide(divide(_wide(a), b), b))),
    "^": Exact(power, _power_slopes),
    "neg": _one(lambda a: -a, lambda a: -1.0),
    "exp": _one(_exp, _exp),
    "log": _one(log, lambda a: divide(1.0, a)),
    "sqrt": _one(sqrt, lambda a: divide(0.5, sqrt(a))),
    "sin": _one(_angle(_odd(mpmath.sin)), _angle(mpmath.cos)),
    "cos": _one(_angle(mpmath.cos), _angle(lambda a: -mpmath.sin(a))),
    "tan": _one(_angle(_odd(mpmath.tan)), _angle(lambda a: 1 / mpmath.cos(a) ** 2)),
    "asin": _one(_within_one(_odd(mpmath.asin)), _arc_slope),
    "acos": _one(_within_one(mpmath.acos), lambda a: -_arc_slope(a)),
    "atan": _one(_odd(mpmath.atan), lambda a: 1 / (1 + mpmath.mpf(a) ** 2)),
    "sinh": _one(_sinh, _cosh),
    "cosh": _one(_cosh, _sinh),
    "tanh": _one(_bent(_odd(mpmath.tanh), -1.0, 1.0), _bent(_sech_squared, 0.0, 0.0)),
    "sigmoid": _one(_sigmoid, _bent(lambda a: _sech_squared(mpmath.mpf(a) / 2) / 4, 0.0, 0.0)),
    "relu": _one(lambda a: 0.0 if a < 0 else a, lambda a: a if is_nan(a) else 1.0 if a > 0 else 0.0),
    "leaky_relu": _one(lambda a: a if a > 0 else 0.01 * a, lambda a: 1.0 if a > 0 else 0.01),
    "softplus": _one(lambda a: a if a > FAR else 0.0 if a < -FAR else mpmath.log1p(mpmath.exp(a)), _sigmoid),
    "gelu": _one(_gelu, _gelu_slope),
    "abs": _one(abs, lambda a: 1.0 if a > 0 else -1.0 if a < 0 else 0.0),
    "max": Exact(_largest, _shared(_largest)),
    "min": Exact(_smallest, _shared(_smallest)),
    "sum": Exact(_sum, lambda *inputs: (1.0,) * len(inputs)),
    "prod": Exact(_product, _others),
    "where": Exact(lambda a, b, c: b if a > 0 else c, lambda a, b, c: (0.0, 1.0, 0.0) if a > 0 else (0.0, 0.0, 1.0)),
}


def _wide(a: Real) -> Real:
    """A finite number with mpmath's range, so that a quotient on the way to another does not fall out of float64's."""
    return mpmath.mpf(a) if a != 0 and mpmath.isfinite(a) else a
