"""Each row of the table of rules: its slopes are what measuring gives, and everything it says has its place."""

import dataclasses
import math

import pytest
from trust.measured import disagreement
from trust.ulps import MOST_ULPS, Row, measure, table

from pellucid.autograd import numerics
from pellucid.autograd.rules import FUNCTIONS, RULES, Rule

N_POINTS = 300


TRIALS = [(rule, at, position) for rule in RULES.values() for at in rule.tried_at for position in range(len(at))]


@pytest.mark.parametrize(("rule", "at", "position"), TRIALS, ids=str)
def test_the_slope_is_what_measuring_gives(rule: Rule, at: tuple[float, ...], position: int) -> None:
    assert disagreement(rule, at, position) <= 1.0


@pytest.mark.parametrize("rule", RULES.values(), ids=str)
def test_the_row_is_complete(rule: Rule) -> None:
    assert rule.tried_at, "a rule that is tried nowhere proves nothing"
    for at in rule.tried_at:
        assert rule.arity in (None, len(at))
        assert not (rule.has_kink and rule.has_kink(*at)), "at a kink there is nothing to measure"
        assert len(rule.slopes(rule.forward(*at), *at)) == len(at)
        for position in range(len(at)):
            assert rule.sentence(position)
            assert rule.formula(position)
            assert rule.latex_slope(position)


@pytest.mark.parametrize("rule", RULES.values(), ids=str)
def test_value_and_slopes_are_within_four_ulps_of_the_truth(rule: Rule) -> None:
    row = measure(rule, N_POINTS if rule.form != "infix" else 3000, seed=1)
    print(table([row]))
    assert row.is_well, table([row])


def test_the_table_of_ulps_shows_what_is_beyond_the_limit() -> None:
    exp = RULES["exp"]
    worse = dataclasses.replace(exp, slopes=lambda out, a: (out * (1.0 + 9.0 * 2.0**-52),))
    row: Row = measure(worse, N_POINTS, seed=1)
    assert row.slope.ulps > MOST_ULPS
    assert "beyond the limit" in table([row])


def test_functions_are_found_by_the_name_they_are_written_with() -> None:
    assert all(rule.symbol == name and rule.form == "call" for name, rule in FUNCTIONS.items())


# Where the slope is a convention, it is torch's: the value, then the slopes.
KINKS = [
    ("relu", (0.0,), 0.0, (0.0,)),
    ("abs", (0.0,), 0.0, (0.0,)),
    ("abs", (-0.0,), 0.0, (0.0,)),
    ("leaky_relu", (0.0,), 0.0, (0.01,)),
    ("sqrt", (0.0,), 0.0, (math.inf,)),
    ("max", (3.0, 3.0), 3.0, (0.5, 0.5)),
    ("min", (3.0, 3.0), 3.0, (0.5, 0.5)),
    ("max", (3.0, 1.0, 3.0, 3.0), 3.0, (1 / 3, 0.0, 1 / 3, 1 / 3)),
    ("power", (0.0, 0.0), 1.0, (0.0, 0.0)),
    ("power", (0.0, 2.0), 0.0, (0.0, 0.0)),
    ("power", (0.0, 1.0), 0.0, (1.0, 0.0)),
    ("power", (0.0, 0.5), 0.0, (math.inf, 0.0)),
    ("power", (0.0, -1.0), math.inf, (-math.inf, -math.inf)),
    ("log", (0.0,), -math.inf, (math.inf,)),
    ("divide", (1.0, 0.0), math.inf, (math.inf, -math.inf)),
    ("where", (0.0, 2.0, 3.0), 3.0, (0.0, 0.0, 1.0)),
]


@pytest.mark.parametrize(("name", "at", "value", "slopes"), KINKS)
def test_kinks(name: str, at: tuple[float, ...], value: float, slopes: tuple[float, ...]) -> None:
    rule = RULES[name]
    assert rule.forward(*at) == value
    assert tuple(rule.slopes(value, *at)) == slopes


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("at", [(math.nan, 1.0), (1.0, math.nan), (math.nan,)])
def test_nan_wins_and_has_no_slope(name: str, at: tuple[float, ...]) -> None:
    rule = RULES[name]
    out = rule.forward(*at)
    assert math.isnan(out)
    # The very nan that came in: looking for it by identity must not make it equal to itself.
    assert all(math.isnan(slope) for slope in rule.slopes(out, *at))


@pytest.mark.parametrize(
    ("factors", "slopes"),
    [
        ((1.0, -6e-4, -1e155, -1e155), (-6e306, 1e310, 6e151, 6e151)),  # 1e155² is too large, the product is not
        ((0.0, 2.0, 3.0), (6.0, 0.0, 0.0)),
        ((0.0, 0.0, 3.0), (0.0, 0.0, 0.0)),
    ],
)
def test_a_product_may_leave_the_range_on_the_way(factors: tuple[float, ...], slopes: tuple[float, ...]) -> None:
    rule = RULES["product"]
    assert rule.slopes(rule.forward(*factors), *factors) == pytest.approx(slopes, rel=1e-15)


def test_digits_survive_where_the_result_is_subnormal() -> None:
    # Each once lost digits to a result that float64 could not hold.
    power, divide, atan, gelu = (RULES[name] for name in ("power", "divide", "atan", "gelu"))
    assert power.slopes(0.0, 5e-324, 1.9504165630)[0] == pytest.approx(1.03418074e-307, rel=1e-6)
    assert power.slopes(power.forward(0.5, 1040.5), 0.5, 1040.5)[0] == pytest.approx(1040.5 * 0.5**1039.5, rel=1e-10)
    assert divide.slopes(5e-324 / 0.3, 5e-324, 0.3)[1] == -11 * 5e-324
    assert atan.slopes(atan.forward(1.4e154), 1.4e154)[0] == pytest.approx(5.1e-309, rel=0.01)
    assert gelu.forward(-38.4) < 0.0
    assert math.ldexp(1.0, -1022) == numerics.SMALLEST_NORMAL
