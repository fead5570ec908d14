"""The NumPy twin of every rule answers as the rule does, at its own points, at kinks and at the edges."""

import itertools
import math
import random

import numpy as np
import pytest

from pellucid.autograd.rules import RULES, Rule
from pellucid.autograd.vectors import TWINS

EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-320, 1e-300, 1e300, -1e300, 709.0, -745.2, math.inf, -math.inf, math.nan)


def test_every_rule_has_a_twin_and_every_twin_a_rule() -> None:
    assert TWINS.keys() == RULES.keys()


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_twin_agrees_with_its_rule(rule: Rule) -> None:
    for points in _points_by_arity(rule):
        columns = [np.array(column, dtype=np.float64) for column in zip(*points, strict=True)]
        with np.errstate(all="ignore"):
            results = TWINS[rule.name].forward(*columns)
            slopes = TWINS[rule.name].slopes(results, *columns)
        assert len(slopes) == len(columns)
        for i, point in enumerate(points):
            expected = rule.forward(*point)
            _assert_close(results[i], expected, f"{rule.name}{point}")
            for position, slope in enumerate(rule.slopes(expected, *point)):
                _assert_close(slopes[position][i], slope, f"slope {position} of {rule.name}{point}")


def _points_by_arity(rule: Rule) -> list[list[tuple[float, ...]]]:
    points = list(rule.tried_at)
    if rule.arity is None:
        points += list(itertools.product(EDGES, repeat=3))
        points += [(1e300, 1e300, 1e-300, x) for x in EDGES] + [(x, 1e-200, 1e-200, 1e200, 1e150) for x in EDGES]
    else:
        points += list(itertools.product(EDGES, repeat=rule.arity))
    draw = random.Random(rule.name)
    points += [tuple([_any_size(draw) for _ in range(rule.arity or 4)]) for _ in range(2000)]
    by_arity: dict[int, list[tuple[float, ...]]] = {}
    for point in points:
        by_arity.setdefault(len(point), []).append(point)
    return list(by_arity.values())


def _any_size(draw: random.Random) -> float:
    """A number of either sign, as likely below 1e-200 as near 1 or above 1e200."""
    return (
        draw.choice((-1.0, 1.0))
        * draw.uniform(1.0, 10.0)
        * 10.0 ** draw.choice((0, 0, 0, 1, 2, draw.randint(-307, 307)))
    )


def _assert_close(came: float, wanted: float, what: str) -> None:
    if math.isnan(wanted) or math.isinf(wanted):
        assert repr(float(came)) == repr(wanted), what
    else:
        # The last term is one unit of the subnormals, which have no more digits to give.
        assert abs(came - wanted) <= 1e-14 * abs(wanted) + 1e-323, f"{what}: {came!r} came, {wanted!r} wanted"
        assert math.copysign(1.0, came) == math.copysign(1.0, wanted) or wanted != 0.0, what
