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


def scale_by_power(mantissa: float, exponent: int) -> float:
    """mantissa · 2**exponent.

    >>> scale_by_power(0.75, 2), scale_by_power(-0.75, 5000), scale_by_power(0.75, -5000)
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


# GELU and its slope to the last digits, where the textbook formulas lose them:
# gelu(x) = x·Φ(x), gelu'(x) = Φ(x) + x·φ(x), with Φ and φ the normal distribution and its density.
# Three things go wrong in the plain formula: Φ by 1 + erf cancels in the left tail, rounding x² is
# magnified by the exponential, and the two terms of the slope cancel around its zero at -0.7518.

_SPLITTER = 134217729.0  # 2**27 + 1: halves the digits of a float64 (Dekker 1971)
_ROOT_HALF = (0.7071067811865476, -4.833646656726457e-17)  # √½ as a float64 and what is left of it
_INVERSE_ROOT_TAU = (0.3989422804014327, -2.49232720227773e-17)  # 1/√(2π), likewise
_TWO_OVER_ROOT_PI = 1.1283791670955126  # 2/√π
_TAIL = -37.4  # from here to the left Φ loses its digits to the end of float64's range
_BEYOND = 40.0  # past here φ is zero and Φ is 0 or 1 in float64

# Where gelu' is zero, to twice the digits of a float64; tests/laws recomputes it with mpmath.
_ZERO = (-0.7517915246935645, 1.4956759177009883e-17)
_NEAR_ZERO = 0.7
_N_TERMS = 30


def gelu(x: float) -> float:
    """x·Φ(x).

    >>> round(gelu(1.0), 15)
    0.841344746068543
    """
    return _left_tail(x) if -_BEYOND <= x < _TAIL else x * distribution(x)


def _left_tail(x: float) -> float:
    """x·Φ(x) = -φ(x)·(1 - 1/x² + 3/x⁴ - 15/x⁶ + ...), where Φ(x) is subnormal before x makes the product larger."""
    high, low = exact_product(x, x)
    series = 1.0
    for odd in (15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series = 1.0 - odd / high * series
    half = math.exp(-0.25 * high)
    product = -_INVERSE_ROOT_TAU[0] * series * half
    return (product + product * (_INVERSE_ROOT_TAU[1] / _INVERSE_ROOT_TAU[0] - 0.5 * low)) * half


def gelu_slope(x: float) -> float:
    """Φ(x) + x·φ(x).

    >>> gelu_slope(0.0)
    0.5
    """
    offset = (x - _ZERO[0]) - _ZERO[1]
    if -_NEAR_ZERO < offset < _NEAR_ZERO:
        return _slope_near_zero(offset)
    if math.isinf(x):
        return NAN  # as torch: 1 + inf·0
    return math.fsum((distribution(x), *weighted_density(x)))


def weighted_density(x: float) -> tuple[float, float]:
    """x·φ(x) = x·exp(-x²/2)/√(2π), and what the roundings of x² and √(2π) took away from it."""
    if abs(x) > _BEYOND:
        return 0.0, 0.0
    high, low = exact_product(x, x)
    # The exponential in two halves: whole, it would be subnormal before x makes the product larger.
    quarter = -0.25 * high if x < _TAIL else 0.0
    product = _INVERSE_ROOT_TAU[0] * x * math.exp(-0.5 * high - quarter) * math.exp(quarter)
    return product, product * (_INVERSE_ROOT_TAU[1] / _INVERSE_ROOT_TAU[0] - 0.5 * low)


def distribution(x: float) -> float:
    """Φ(x) = erfc(-x/√2)/2, with the rounding error of -x/√2 put back to first order."""
    if abs(x) > _BEYOND:
        return 1.0 if x > 0.0 else 0.0
    high, low = exact_product(-x, _ROOT_HALF[0])
    low -= x * _ROOT_HALF[1]
    return 0.5 * (math.erfc(high) - low * _TWO_OVER_ROOT_PI * math.exp(-high * high))


def exact_product(a: float, b: float) -> tuple[float, float]:
    """a·b as the float64 nearest to it and the exact remainder (Dekker 1971)."""
    product = a * b
    a_high = a * _SPLITTER - (a * _SPLITTER - a)
    b_high = b * _SPLITTER - (b * _SPLITTER - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _taylor_coefficients() -> list[float]:
    # The derivatives of gelu' are φ(x)·P(x) with P₁ = 2 - x² and Pₖ₊₁ = Pₖ' - x·Pₖ.
    zero = _ZERO[0]
    at_zero = _INVERSE_ROOT_TAU[0] * math.exp(-0.5 * zero * zero)
    polynomial = [2.0, 0.0, -1.0]
    coefficients, factorial = [], 1.0
    for k in range(1, _N_TERMS):
        factorial *= k
        coefficients.append(at_zero * math.fsum(c * zero**i for i, c in enumerate(polynomial)) / factorial)
        derivative = [*[i * c for i, c in enumerate(polynomial)][1:], 0.0, 0.0]
        times_x = [0.0, *polynomial]
        polynomial = [d - t for d, t in zip(derivative, times_x, strict=True)]
    return coefficients


_COEFFICIENTS = _taylor_coefficients()


def _slope_near_zero(offset: float) -> float:
    total = 0.0
    for coefficient in reversed(_COEFFICIENTS):
        total = total * offset + coefficient
    return total * offset
