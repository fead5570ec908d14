"""How far each rule's value and slopes are from the truth, in units in the last place, on its whole domain.

python -m trust.ulps --points 10000 --seed 1
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

from mpmath import mpf  # type: ignore[import-untyped]
from trust.exact import EXACT, Real, in_range, rounded
from trust.trees import INFIX

from pellucid.autograd.rules import RULES, Rule

MOST_ULPS = 4.0
TINY, LARGE = 5e-324, 1.7976931348623157e308
SQUARE_OVERFLOWS = 1.3407807929942597e154
EDGES = (
    *(0.0, TINY, 1e-310, 2.2250738585072014e-308, 1e-200, 1e-16, 0.5, 1.0, 2.0, 37.5, 40.0, 354.9),
    *(709.7, 710.4, 745.2, 1e8, SQUARE_OVERFLOWS, 1e155, 1e300, LARGE),
)
# Where a slope or a value is zero or infinite: the digits are lost in the neighbourhood, so points crowd there.
CROWDED = {
    "sin": (1.5707963267948966, 3.141592653589793, 1e22),
    "cos": (1.5707963267948966, 3.141592653589793, 1e22),
    "tan": (1.5707963267948966, 3.141592653589793, 1e22),
    "gelu": (-0.7517915246935645, -0.05, -1.45, -37.0, -38.4),
    "asin": (1.0, -1.0),
    "acos": (1.0, -1.0),
    "log": (1.0,),
    "tanh": (354.0, 372.0, 18.0),
    "sigmoid": (-708.4, -745.0, 36.7),
    "softplus": (-708.4, -745.0, 36.7),
    "exp": (709.782712893384, -708.4, -745.13),
    "sinh": (710.4758600739439, 709.78),
    "cosh": (710.4758600739439, 709.78),
}


class Distance(NamedTuple):
    """The worst error found for one rule, and the inputs where it was."""

    ulps: float
    inputs: tuple[float, ...]


class Row(NamedTuple):
    rule: str
    n_points: int
    value: Distance
    slope: Distance

    @property
    def is_well(self) -> bool:
        return max(self.value.ulps, self.slope.ulps) <= MOST_ULPS


def ulps_apart(ours: float, truth: Real) -> float:
    """The distance from the truth in units of its last float64 place; infinite when one of the two is not finite."""
    target = rounded(truth)
    if not (math.isfinite(ours) and math.isfinite(target)):
        return 0.0 if ours == target or (ours != ours and target != target) else math.inf
    return abs(float((ours - in_range(truth)) / math.ulp(target)))


def measure(rule: Rule, n_points: int, seed: int) -> Row:
    """The worst value and the worst slope of a rule over `n_points` points of its domain."""
    name = oracle_name(rule)
    worst_value = worst_slope = Distance(-1.0, ())
    for inputs in islice(points(name, Random(f"{seed} {name}")), n_points):
        out = rule.forward(*inputs)
        truth = EXACT[name].value(*[_precise(x) for x in inputs])
        # A sum may cancel to nothing, so its error is measured against the size of what was added.
        scale = math.ulp(math.fsum(map(abs, inputs))) / math.ulp(rounded(truth)) if name == "sum" else 1.0
        distance = ulps_apart(out, truth) / scale
        if distance > worst_value.ulps:
            worst_value = Distance(distance, inputs)
        if out != out:
            continue  # outside the domain there is no slope to compare with
        true_slopes = EXACT[name].slopes(*[_precise(x) for x in inputs])
        for ours, slope in zip(rule.slopes(out, *inputs), true_slopes, strict=True):
            distance = ulps_apart(ours, slope)
            if distance > worst_slope.ulps:
                worst_slope = Distance(distance, inputs)
    return Row(rule.name, n_points, worst_value, worst_slope)


def _precise(x: float) -> Real:
    # mpmath knows no -0.0, and what is done with zeros and infinities needs no digits.
    return x if x == 0.0 or not math.isfinite(x) else mpf(x)


def oracle_name(rule: Rule) -> str:
    return "neg" if rule.form == "prefix" else rule.symbol


def points(name: str, draw: Random) -> Iterator[tuple[float, ...]]:
    """Points of an operation's domain without end: its edges first, then at random where it matters."""
    if name in MANY:
        yield from _edges_of_two() if name in INFIX else ()
        while True:
            yield MANY[name](name, draw)
    centres = CROWDED.get(name, ())
    for x in EDGES + centres:
        for near in (x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf)):
            yield from ((near,), (-near,))
    while True:
        if centres and draw.random() < 0.4:
            centre = draw.choice(centres)
            yield (centre + centre * (2.0 * draw.random() - 1.0) * 10.0 ** -draw.uniform(0.5, 16.0),)
        else:
            yield (_spread(draw),)


def _spread(draw: Random) -> float:
    """A number of any size that a float64 can have, half of them between -8 and 8."""
    if draw.random() < 0.5:
        return draw.uniform(-8.0, 8.0)
    return _sized(draw, -1074.0, 1024.0)


def _sized(draw: Random, low: float, high: float) -> float:
    exponent = draw.uniform(low, high)
    whole = math.floor(exponent)
    return draw.choice((-1.0, 1.0)) * math.ldexp(2.0 ** (exponent - whole), whole)


def _edges_of_two() -> Iterator[tuple[float, ...]]:
    for a in EDGES:
        for b in EDGES:
            yield from ((a, b), (-a, b), (a, -b), (-a, -b))


def _two(name: str, draw: Random) -> tuple[float, ...]:
    return _spread(draw), _spread(draw)


def _power(name: str, draw: Random) -> tuple[float, ...]:
    chance = draw.random()
    if chance < 0.15:
        return -abs(_spread(draw)), float(draw.randint(-30, 30))
    base = abs(_spread(draw)) or 1.0
    if chance < 0.4:
        return base, draw.uniform(-8.0, 8.0)
    if chance < 0.5:
        base = 1.0 + _sized(draw, -52.0, -8.0)
    # An exponent for which the result is anywhere in the range of a float64, both ends included; or far outside it,
    # where the slope may still be inside.
    lowest, highest = (-745.0, 710.0) if chance < 0.8 else (-1500.0, 1450.0)
    return base, draw.uniform(lowest, highest) / (math.log(base) or 1.0)


def _several(name: str, draw: Random) -> tuple[float, ...]:
    return tuple(draw.choice((draw.uniform(-8.0, 8.0), 0.0, 1.0)) for _ in range(draw.randint(1, 6)))


def _factors(name: str, draw: Random) -> tuple[float, ...]:
    # Six such factors keep every product on the way inside the range, where the value is promised.
    return tuple(0.0 if draw.random() < 0.03 else _sized(draw, -170.0, 170.0) for _ in range(draw.randint(1, 6)))


def _choice(name: str, draw: Random) -> tuple[float, ...]:
    return draw.choice((_spread(draw), 0.0, -0.0, TINY)), _spread(draw), _spread(draw)


MANY: dict[str, Callable[[str, Random], tuple[float, ...]]] = {
    "+": _two,
    "-": _two,
    "*": _two,
    "/": _two,
    "^": _power,
    "max": _several,
    "min": _several,
    "sum": _several,
    "prod": _factors,
    "where": _choice,
}


def table(rows: list[Row]) -> str:
    lines = [f"{'rule':<12}{'points':>8}{'value':>8}{'slope':>8}  worst value at; worst slope at"]
    for row in rows:
        places = "; ".join(", ".join(f"{x:.17g}" for x in d.inputs) for d in (row.value, row.slope))
        mark = "" if row.is_well else "   <-- beyond the limit"
        lines.append(f"{row.rule:<12}{row.n_points:>8,}{row.value.ulps:>8.2f}{row.slope.ulps:>8.2f}  {places}{mark}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rows = [measure(rule, asked.points, asked.seed) for rule in RULES.values()]
    print(f"errors in units in the last place against mpmath at 60 digits (seed {asked.seed}, limit {MOST_ULPS:g})")
    print(table(rows))
    return 0 if all(row.is_well for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
