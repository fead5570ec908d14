"""Who is right when pellucid and torch differ: the chain rule again, in mpmath.

Three runs of the same tree decide. The *exact* run has 60 digits and the range of float64. The *ideal* run rounds
every operation once, as the best possible float64 program would. *Shaken* runs move each result by up to two units
in the last place: as far as they scatter, the digits were lost by the expression and not by whoever computed it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from trust.exact import EXACT, Real, in_range, rounded
from trust.oracle import road, taken
from trust.trees import Case

RTOL = 1e-12
# Below this, float64 has no digits left to be relatively right with: four steps of the smallest subnormal.
ATOL = 4 * 2.0**-1074
N_SHAKEN = 12
N_SHAKEN_WHEN_CROWDED = 64
# How far beyond the scatter of a few shaken runs an answer may lie and still be explained by it.
SCATTER = 16.0
# Every float64 program gives the same bits here, so these are not shaken: values that IEEE 754 prescribes, and
# slopes that are not computed at all.
SAME_VALUE = frozenset({"+", "-", "*", "/", "sqrt", "neg", "abs", "max", "min", "where", "relu", "leaky_relu"})
SAME_SLOPES = SAME_VALUE - {"/", "sqrt"} | {"sum"}

# What a difference from torch can be. All but WRONG are counted and shown, and explained in docs/trust.md.
NAN_VALUE = "nan has no slope"
ROAD_NOT_TAKEN = "road not taken"
MASKED = "inf x 0"
STEEP = "slope beyond float64"
TORCH_LOST = "torch lost digits"
BOTH_LOST = "both lost digits"
WRONG = "WRONG"


@dataclass(frozen=True)
class Run:
    """The value and then the gradients, one for each variable, and what happened on the way."""

    answers: list[Real]
    is_masked: bool  # something infinite met a slope that torch does not multiply by but masks with
    is_steep: bool  # 1/b was too large for float64 though b is not 0; torch divides by b instead
    is_crowded: bool  # contributions so large that their sum depends on the order they are added in


def agree(ours: float, theirs: float) -> bool:
    """Equal to 12 digits, or not finite in the same way.

    >>> agree(1.0, 1.0 + 1e-13), agree(1.0, 1.0 + 1e-11), agree(math.inf, math.inf), agree(math.inf, -math.inf)
    (True, False, True, False)
    """
    if ours == theirs:
        return True
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return ours != ours and theirs != theirs
    distance = abs(ours - theirs)
    return distance <= RTOL * max(abs(ours), abs(theirs)) or distance <= ATOL


def judge(case: Case, point: int, ours: list[float], theirs: list[float]) -> list[tuple[int, str]]:
    """For each answer that differs, which it is (0: the value) and whose fault."""
    exact = chain_rule(case, point, in_range)
    ideal = chain_rule(case, point, rounded)
    draw = Random(case.number * 8 + point)
    shaken: list[Run] = []
    verdicts: list[tuple[int, str]] = []
    for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if agree(mine, other):
            continue
        is_exact = agree(mine, rounded(exact.answers[i]))
        if is_exact or agree(mine, ideal.answers[i]):
            is_finite = math.isfinite(mine) and math.isfinite(other)
            kind = TORCH_LOST if is_exact else BOTH_LOST
            if not is_finite:
                kind = MASKED if ideal.is_masked else STEEP if ideal.is_steep else kind
            verdicts.append((i, kind))
        else:
            if not shaken:
                n_runs = N_SHAKEN_WHEN_CROWDED if ideal.is_crowded else N_SHAKEN
                shaken = [chain_rule(case, point, lambda x: _shake(rounded(x), draw), draw) for _ in range(n_runs)]
            scattered = [run.answers[i] for run in shaken]
            is_lost = _explains(scattered, mine, exact.answers[i], ideal.answers[i])
            verdicts.append((i, BOTH_LOST if is_lost else WRONG))
    return verdicts


def chain_rule(case: Case, point: int, keep: Callable[[Real], Real], draw: Random | None = None) -> Run:
    """The value and gradients by reverse accumulation, with every number passed through `keep`.

    With `draw`, the contributions to each gradient are added in a random order.
    """
    values = forward(case, point, keep)
    last = len(case.nodes) - 1
    chosen = taken(case, [float(value) for value in values])
    is_finite = math.isfinite(float(values[last]))
    heard: list[list[Real]] = [[] for _ in case.nodes]
    heard[last] = [1.0 if values[last] == values[last] else math.nan]
    gradients = [0.0] * len(case.variables)
    is_masked = is_steep = is_crowded = False
    for index in range(last, -1, -1):
        kind, inputs, number = case.nodes[index]
        if index not in chosen:
            continue
        is_crowded |= sum([abs(float(part)) / 2 for part in heard[index]]) > 8e307
        upstream = _total(heard[index], keep, draw)
        if kind == "variable":
            gradients[int(number)] = upstream
        if kind == "where":
            heard[road(inputs, float(values[inputs[0]]))].append(upstream)
            continue
        given = [values[i] for i in inputs]
        keep_slope = rounded if kind in SAME_SLOPES and keep is not in_range else keep
        slopes = [keep_slope(slope) for slope in EXACT[kind].slopes(*given)] if inputs else []
        is_loud = not math.isfinite(float(upstream))
        flat = flats(kind, given) if is_finite else [False] * len(inputs)
        is_masked |= is_loud and ((kind == "relu" and given[0] <= 0) or (kind == "^" and given[1] == 0))
        is_steep |= kind in ("/", "log") and given[-1] != 0 and math.isinf(float(slopes[0]))
        for parent, slope, is_flat in zip(inputs, slopes, flat, strict=True):
            heard[parent].append(0.0 if is_flat else keep(upstream * slope))
    return Run([values[last], *gradients], is_masked, is_steep, is_crowded)


def flats(kind: str, given: list[Real]) -> list[bool]:
    """Toward which inputs an operation is constant nearby: what is made of it does not change, if it is a number."""
    if kind == "relu":
        return [bool(given[0] < 0)]
    if kind == "^":
        return [bool(given[1] == 0), False]
    if kind in ("max", "min"):
        best = max(given) if kind == "max" else min(given)
        return [bool(one != best) for one in given]
    return [False] * len(given)


def forward(case: Case, point: int, keep: Callable[[Real], Real] = rounded) -> list[Real]:
    """Every node's value, each passed through `keep`."""
    values: list[Real] = []
    for kind, inputs, number in case.nodes:
        if kind == "variable":
            values.append(case.points[int(number)][point])
        elif kind == "number":
            values.append(number)
        else:
            result = EXACT[kind].value(*[values[i] for i in inputs])
            values.append(rounded(result) if kind in SAME_VALUE and keep is not in_range else keep(result))
    return values


def _total(parts: list[Real], keep: Callable[[Real], Real], draw: Random | None) -> Real:
    if draw:
        draw.shuffle(parts)
    total: Real = 0.0
    for part in parts:
        total = keep(total + part)
    return total


def _shake(x: float, draw: Random) -> float:
    if x == 0.0 or not math.isfinite(x):
        return x
    return x + draw.choice((-2, -1, 0, 0, 1, 2)) * math.ulp(x)


def _explains(scattered: list[float], ours: float, exact: Real, ideal: float) -> bool:
    """Whether runs that differ only in rounding lie as far apart as ours lies from the truth."""
    everything = [*scattered, ideal, rounded(exact)]
    if not math.isfinite(ours):
        return any(agree(ours, x) for x in everything)
    finite = [x for x in everything if math.isfinite(x)]
    if len(finite) < len(everything):
        return bool(finite)  # at the end of the range: some runs fall off it and some do not
    middle, spread = min(finite) / 2 + max(finite) / 2, max(finite) - min(finite)
    return abs(ours - middle) <= SCATTER * spread + ATOL
