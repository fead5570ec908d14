"""The arithmetic below the rules: IEEE answers where Python raises, and constants that mpmath finds again."""

import itertools
import math
from collections.abc import Callable

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid.autograd import numerics, sweep

SPECIAL = (
    *(0.0, -0.0, 5e-324, -5e-324, 0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 1 / 3, -8.0, 710.0, -746.0),
    *(1e308, -1e308, 9007199254740993.0, math.inf, -math.inf, math.nan),
)
UNARY: dict[Callable[[float], float], Callable[[torch.Tensor], torch.Tensor]] = {
    numerics.exp: torch.exp,
    numerics.log: torch.log,
    numerics.sqrt: torch.sqrt,
    numerics.sin: torch.sin,
    numerics.cos: torch.cos,
    numerics.tan: torch.tan,
    numerics.asin: torch.asin,
    numerics.acos: torch.acos,
    numerics.sinh: torch.sinh,
    numerics.cosh: torch.cosh,
    numerics.sigmoid: torch.sigmoid,
}


def same(ours: float, theirs: float) -> bool:
    """Equal to the last few digits, the sign of a zero included, or not finite in the same way."""
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    if ours == 0.0 or theirs == 0.0:
        return ours == theirs and math.copysign(1.0, ours) == math.copysign(1.0, theirs)
    return math.isclose(ours, theirs, rel_tol=4e-16)


def tensor(x: float) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize("x", SPECIAL)
@pytest.mark.parametrize("ours", UNARY, ids=lambda f: f.__name__)
def test_functions_answer_as_torch_does(ours: Callable[[float], float], x: float) -> None:
    theirs = UNARY[ours](tensor(x)).item()
    assert same(ours(x), theirs), (ours(x), theirs)


@pytest.mark.parametrize("b", SPECIAL)
@pytest.mark.parametrize("a", SPECIAL)
def test_division_and_power_answer_as_torch_does(a: float, b: float) -> None:
    assert same(numerics.divide(a, b), (tensor(a) / tensor(b)).item())
    assert same(numerics.power(a, b), torch.pow(tensor(a), tensor(b)).item())


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_sigmoid_and_its_mirror_make_one(x: float) -> None:
    assert numerics.sigmoid(x) + numerics.sigmoid(-x) == pytest.approx(1.0, rel=4e-16)
    assert numerics.sigmoid_slope(x) == numerics.sigmoid_slope(-x)


@given(st.floats(-1e6, 1e6))
def test_softplus_is_x_above_its_mirror(x: float) -> None:
    assert numerics.softplus(x) - numerics.softplus(-x) == pytest.approx(x, rel=1e-14, abs=1e-15)


@given(st.floats(-1e150, 1e150), st.floats(-1e150, 1e150))
def test_the_exact_product_is_exact(a: float, b: float) -> None:
    product, rest = numerics.exact_product(a, b)
    if product == 0.0 or abs(product) > 1e-280:
        with mpmath.workdps(60):
            assert mpmath.mpf(a) * mpmath.mpf(b) == mpmath.mpf(product) + mpmath.mpf(rest) or product == 0.0


def twice_as_long(x: object) -> tuple[float, float]:
    """An mpmath number as a float64 and what is left of it."""
    high = float(x)  # type: ignore[arg-type]
    return high, float(x - mpmath.mpf(high))  # type: ignore[operator]


def test_the_constants_of_gelu_are_what_mpmath_finds() -> None:
    with mpmath.workdps(60):
        assert twice_as_long(mpmath.sqrt(mpmath.mpf(1) / 2)) == numerics._ROOT_HALF
        assert twice_as_long(1 / mpmath.sqrt(2 * mpmath.pi)) == numerics._INVERSE_ROOT_TAU
        assert float(2 / mpmath.sqrt(mpmath.pi)) == numerics._TWO_OVER_ROOT_PI
        zero = mpmath.findroot(lambda x: mpmath.ncdf(x) + x * mpmath.npdf(x), -0.75)
        assert twice_as_long(zero) == numerics._ZERO
        coefficients = mpmath.taylor(lambda x: mpmath.ncdf(x) + x * mpmath.npdf(x), zero, 12)
        for ours, true in zip(numerics._COEFFICIENTS, coefficients[1:], strict=False):
            assert ours == pytest.approx(float(true), rel=1e-12)


def test_truncation_turns_into_rounding() -> None:
    rows = sweep(math.exp, 1.0, exact=math.e)
    errors = [abs(row[2].error) for row in rows]
    best = errors.index(min(errors))
    # Going down with h: a hundredfold for each tenth of h, for a central difference ...
    for larger, smaller in itertools.pairwise(errors[:5]):
        assert 50 < larger / smaller < 200
    # ... to a best h in between, and up again until nothing is left of the slope.
    assert 1e-7 <= rows[best][2].h <= 1e-4
    assert errors[-1] > 1e8 * errors[best]
    forward = [abs(row[0].error) for row in rows]
    assert min(forward) > 10 * min(errors)
