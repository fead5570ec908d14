"""Arithmetic on floats that answers as IEEE 754 and torch do, where Python's own would raise.

Python stops at 1/0, exp(1000) and (-8)**(1/3); a gradient has to be able to look at them.
"""

import math

NAN = math.nan
INFINITY = math.inf
SMALLEST_NORMAL = 2.0**-1022


def divide(a: float, b: float) -> float:
    """a / b, with 1/0 infinite and 0/0 not a number.

    >>> divide(1.0, 0.0), divide(-1.0, 0.0), divide(0.0, 0.0)
    (inf, -inf, nan)
    """
    if b:
        return a / b
    if a == 0.0 or a != a:
        return NAN
    return math.copysign(INFINITY, a) * math.copysign(1.0, b)


def power(a: float, b: float) -> float:
    """a ** b, real or not a number, never complex and never an exception.

    >>> power(0.0, 0.0), power(0.0, -1.0), power(-8.0, 1 / 3), power(10.0, 400.0)
    (1.0, inf, nan, inf)
    """
    try:
        return math.pow(a, b)
    except OverflowError:
        return -INFINITY if a < 0.0 and is_odd(b) else INFINITY
    except ValueError:
        # Zero to a negative power is a pole; the other case is a negative base with a fractional exponent.
        if a == 0.0:
            return math.copysign(INFINITY, a) if is_odd(b) else INFINITY
        return NAN


def scaled(mantissa: float, exponent: int) -> float:
    """mantissa · 2**exponent.

    >>> scaled(0.75, 2), scaled(-0.75, 5000), scaled(0.75, -5000)
    (3.0, -inf, 0.0)
    """
    try:
        return math.ldexp(mantissa, exponent)
    except OverflowError:
        return math.copysign(INFINITY, mantissa)


def is_odd(b: float) -> bool:
    return math.fmod(b, 2.0) in (1.0, -1.0)


def exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return INFINITY


def log(x: float) -> float:
    if x > 0.0:
        return math.log(x)
    return -INFINITY if x == 0.0 else NAN


def sqrt(x: float) -> float:
    return NAN if x < 0.0 else math.sqrt(x)


def sin(x: float) -> float:
    return math.sin(x) if math.isfinite(x) else NAN


def cos(x: float) -> float:
    return math.cos(x) if math.isfinite(x) else NAN


def tan(x: float) -> float:
    return math.tan(x) if math.isfinite(x) else NAN


def asin(x: float) -> float:
    return math.asin(x) if -1.0 <= x <= 1.0 else NAN


def acos(x: float) -> float:
    return math.acos(x) if -1.0 <= x <= 1.0 else NAN


def sinh(x: float) -> float:
    try:
        return math.sinh(x)
    except OverflowError:
        return math.copysign(INFINITY, x)


def cosh(x: float) -> float:
    try:
        return math.cosh(x)
    except OverflowError:
        return INFINITY


def sigmoid(x: float) -> float:
    # Two forms, so that the exponential never overflows and the small side keeps all its digits.
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    small = math.exp(x)
    return small / (1.0 + small)


def sigmoid_slope(x: float) -> float:
    """The derivative of the sigmoid, u/(1+u)² with u = exp(-|x|): s·(1-s) would lose its digits where s nears 1."""
    u = math.exp(-abs(x))
    return u / ((1.0 + u) * (1.0 + u))


def softplus(x: float) -> float:
    return (x if x > 0.0 else 0.0) + math.log1p(math.exp(-abs(x)))
