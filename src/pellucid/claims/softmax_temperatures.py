"""Softmax and its temperature: three scores on paper, and what becomes of softmax(z / T) as T goes to 0 and beyond.

A limit is measured at one temperature near it and compared with the distribution that is stated. Where a number of the
computer has no digits left for a probability, it is computed with as many as it takes, or as a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, closeness
from pellucid.figures.charts.matrix import largest_difference
from pellucid.lessons.lesson import seed_knob
from pellucid.lessons.logits import list_softmax
from pellucid.options import check_options, option

TEMPERATURES = (0.01, 0.1, 1.0, 10.0, 100.0)
FOUR = (4.0, 3.0, 2.0, 1.0)


# Three scores on paper


@dataclass(frozen=True)
class PaperSoftmaxKnobs:
    powers: str = option("exact", "Powers of e as they are, or with two decimals", choices=("exact", "two decimals"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_paper_softmax(knobs: PaperSoftmaxKnobs) -> Numbers:
    """Softmax of 2, 1 and 0; or 7.39, 2.71 and 1, each divided by 11.1."""
    shares = list_softmax([2.0, 1.0, 0.0]) if knobs.powers == "exact" else [7.39 / 11.1, 2.71 / 11.1, 1 / 11.1]
    return dict(zip(("first", "second", "third"), shares, strict=True))


def paper_softmax_by_torch(knobs: PaperSoftmaxKnobs) -> Numbers:
    import torch

    from pellucid.layers.softargmax import softargmax

    if knobs.powers != "exact":
        return {}
    shares = softargmax(torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)).tolist()
    return dict(zip(("first", "second", "third"), shares, strict=True))


@dataclass(frozen=True)
class PowerKnobs:
    exponent: float = option(1.0, "Power that e is raised to.", minimum=-20, maximum=20)

    def __post_init__(self) -> None:
        check_options(self)


def measure_power(knobs: PowerKnobs) -> Numbers:
    """By the engine of `pellucid derive`."""
    from pellucid.autograd.value import Value

    return {"power": Value(knobs.exponent).exp().data}


def sum_power_series(knobs: PowerKnobs) -> Numbers:
    """1 + x + x²/2 + x³/6 + ..."""
    return {"power": math.fsum([knobs.exponent**k / math.factorial(k) for k in range(100)])}


# Equal scores


@dataclass(frozen=True)
class EqualScoresKnobs:
    value: float = option(2.5, "What all scores are.", minimum=-1000, maximum=1000)
    higher: float = option(0.0, "By how much the first is higher than the others.", minimum=0, maximum=1000)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def scores(self) -> list[float]:
        return [self.value + self.higher, *[self.value] * 3]


def measure_equal_scores(knobs: EqualScoresKnobs) -> Numbers:
    """Over five temperatures above 0, the farthest that a probability is from 1/4."""
    rows = [list_softmax([z / t for z in knobs.scores]) for t in TEMPERATURES]
    return {"farthest from uniform": largest_difference(rows, [[0.25] * 4] * len(rows))}


def equal_scores_by_torch(knobs: EqualScoresKnobs) -> Numbers:
    import torch

    from pellucid.layers.softargmax import softargmax

    scores = torch.tensor(knobs.scores, dtype=torch.float64)
    rows = torch.stack([softargmax(scores, t) for t in TEMPERATURES])
    return {"farthest from uniform": float((rows - 0.25).abs().max())}


@dataclass(frozen=True)
class RealTemperatureKnobs:
    zero: str = option("with", "Whether 0 is one of the temperatures", choices=("with", "without"))

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def temperatures(self) -> list[float]:
        around = sorted([*TEMPERATURES, *[-t for t in TEMPERATURES], 0.0])
        return [t for t in around if t or self.zero == "with"]


def measure_real_temperatures(knobs: RealTemperatureKnobs) -> Numbers:
    """Four equal scores at temperatures of both signs: how often there is no answer, and how uniform the others are."""
    import torch

    from pellucid.layers.softargmax import softargmax

    scores = torch.full((4,), 2.5, dtype=torch.float64)
    rows = torch.stack([softargmax(scores, t) for t in knobs.temperatures])
    has_none = rows.isnan().any(-1)
    return {
        "without an answer": float(has_none.sum()),
        "farthest from uniform elsewhere": float((rows[~has_none] - 0.25).abs().max()),
        "temperatures": float(len(rows)),
    }


def list_quotients(knobs: RealTemperatureKnobs) -> Numbers:
    """By Python's own numbers, which refuse to divide by 0."""
    n_refused, apart = 0, 0.0
    for t in knobs.temperatures:
        try:
            apart = max(apart, largest_difference([list_softmax([2.5 / t] * 4)], [[0.25] * 4]))
        except ZeroDivisionError:
            n_refused += 1
    return {"without an answer": float(n_refused), "farthest from uniform elsewhere": apart}


# Hot and cold


@dataclass(frozen=True)
class HotKnobs:
    temperature: float = option(1e6, "Temperature that stands for infinity.", minimum=1e3, maximum=1e12)
    scores: str = option("finite", "All scores finite, or the first −∞, as a mask makes it", choices=("finite", "mask"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _draw_scores(seed: int) -> list[list[float]]:
    """200 rows of five scores, normal with a deviation of 10."""
    import numpy as np

    rows: list[list[float]] = np.random.default_rng(seed).normal(0, 10, (200, 5)).tolist()
    return rows


def measure_hot(knobs: HotKnobs) -> Numbers:
    """The farthest that a probability is from 1/5, at this temperature and at a thousandth of it."""

    def departure(temperature: float) -> float:
        rows = _draw_scores(knobs.seed)
        if knobs.scores == "mask":
            rows = [[-math.inf, *row[1:]] for row in rows]
        hot = [list_softmax([z / temperature for z in row]) for row in rows]
        return largest_difference(hot, [[0.2] * 5] * len(hot))

    apart = departure(knobs.temperature)
    return {
        "farthest from uniform": apart,
        "times the temperature": apart * knobs.temperature,
        "at a thousandth of the temperature": departure(knobs.temperature / 1000),
    }


def expand_hot(knobs: HotKnobs) -> Numbers:
    """To first order p = 1/n + (z - mean z) / (n T)."""
    rows = _draw_scores(knobs.seed)
    most = max([abs(z - math.fsum(row) / 5) for row in rows for z in row])
    return {"times the temperature": most / 5} if knobs.scores == "finite" else {}


@dataclass(frozen=True)
class ColdKnobs:
    temperature: float = option(0.01, "Temperature that stands for 0.", minimum=1e-6, maximum=10)
    second: float = option(3.0, "The second of the scores 4, 3, 2, 1.", minimum=-100, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)


def measure_cold(knobs: ColdKnobs) -> Numbers:
    """How far the softmax of four scores is from its limit at this temperature."""
    row = list_softmax([z / knobs.temperature for z in (4.0, knobs.second, 2.0, 1.0)])
    apart = largest_difference([row], [(1, 0, 0, 0)])
    return {"farthest from (1, 0, 0, 0)": apart, "log10 of the second": math.log10(row[1])}


def solve_cold(knobs: ColdKnobs) -> Numbers:
    """ln p = -gap / T - ln(1 + Σ exp(-gap / T))."""
    gaps = [4 - knobs.second, 2.0, 3.0]
    total = math.log1p(math.fsum([math.exp(-gap / knobs.temperature) for gap in gaps]))
    return {"log10 of the second": (-gaps[0] / knobs.temperature - total) / math.log(10)}


@dataclass(frozen=True)
class PositiveKnobs:
    temperature: float = option(0.001, "The coldest temperature above 0.", minimum=1e-5, maximum=1)
    digits: str = option(
        "all", "As many digits as it takes, or double precision, as a computer has", choices=("all", "double")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_zeros(knobs: PositiveKnobs) -> Numbers:
    """Probabilities that are 0 at five temperatures and the coldest one, of the scores 4, 3, 2, 1."""
    temperatures = (knobs.temperature, *TEMPERATURES)
    with localcontext() as context:
        context.prec = 60
        rows = [_decimal_softmax(FOUR, t) for t in temperatures]
        smallest = float(min(rows[0]).log10())
    if knobs.digits == "double":
        zeros = sum([p == 0 for t in temperatures for p in list_softmax([z / t for z in FOUR])])
    else:
        zeros = sum([p == 0 for row in rows for p in row])
    return {
        "probabilities that are 0": float(zeros),
        "log10 of the smallest": smallest,
        "double precision has a 0 below T": _coldest_double(),
    }


def _decimal_softmax(scores: Sequence[float], temperature: float) -> list[Decimal]:
    powers = [((Decimal(z) - Decimal(max(scores))) / Decimal(temperature)).exp() for z in scores]
    return [power / sum(powers) for power in powers]


def _coldest_double() -> float:
    """The temperature at which the last probability of 4, 3, 2, 1 becomes 0 in double precision, by halving."""
    low, high = 1e-4, 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if list_softmax([z / middle for z in FOUR])[-1] == 0 else (low, middle)
    return high


def solve_zeros(knobs: PositiveKnobs) -> Numbers:
    """By logarithms: ln p = -3 / T - ln Σ exp(-gap / T); and half of the smallest number, 2^-1075, for the limit."""
    total = math.log1p(math.fsum([math.exp(-gap / knobs.temperature) for gap in (1, 2, 3)]))
    return {
        "log10 of the smallest": (-3 / knobs.temperature - total) / math.log(10),
        **({"probabilities that are 0": 0.0} if knobs.digits != "double" else {}),  # for exp(x) > 0 at every x
        "double precision has a 0 below T": 3 / (1075 * math.log(2)),
    }


@dataclass(frozen=True)
class ZeroLimitKnobs:
    temperature: float = option(0.01, "Temperature that stands for 0.", minimum=1e-6, maximum=10)
    third: float = option(5.0, "The third score of both rows, 5 in the statement.", minimum=-100, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def rows(self) -> tuple[list[float], list[float]]:
        return [1.0, -2.0, self.third, 0.0], [5.0, -2.0, self.third, 0.0]


ONE_BEST, TWO_BEST = (0.0, 0.0, 1.0, 0.0), (0.5, 0.0, 0.5, 0.0)


def compare_limits(one: Sequence[float], two: Sequence[float]) -> Numbers:
    """How far both rows are from what is stated."""
    return {
        "one best, farthest": largest_difference([one], [ONE_BEST]),
        "two best, farthest": largest_difference([two], [TWO_BEST]),
    }


def measure_zero_limits(knobs: ZeroLimitKnobs) -> Numbers:
    """Two rows of scores at a temperature near 0, beside the limits that are stated."""
    one, two = (list_softmax([z / knobs.temperature for z in row]) for row in knobs.rows)
    return compare_limits(one, two)


def choose_zero_limits(knobs: ZeroLimitKnobs) -> Numbers:
    """What argmax that shares among equals gives, without a temperature."""
    import torch

    from pellucid.layers.softargmax import hardargmax

    one, two = hardargmax(torch.tensor(knobs.rows, dtype=torch.float64)).tolist()
    return compare_limits(one, two)


PAPER, CHOICE = "answers Calc 2", "exam 1.1"

FAMILY = ClaimFamily(
    name="softmax-temperatures",
    title="Softmax and its temperature",
    picture="logits",
    claims=(
        Claim(
            id="softmax-2-1-0",
            stated="0.6657",
            says="softmax of 2, 1, 0 is 0.6657, 0.244, 0.09",
            where=PAPER,
            kind="arithmetic",
            measure=measure_paper_softmax,
            decides="first",
            margin=lambda seen: min(
                closeness(seen["first"], 0.6657, 4),
                closeness(seen["second"], 0.244, 3),
                closeness(seen["third"], 0.09, 2),
            ),
            rule="all three are right to the last decimal that is stated, rounded or cut",
            knobs=PaperSoftmaxKnobs,
            control={"powers": "two decimals"},
            second=paper_softmax_by_torch,
            other_reading="of powers of e with two decimals, and a sum with one, it is what comes out: the control",
        ),
        Claim(
            id="e-to-one-271",
            says="e to the power 1 is 2.71",
            where=PAPER,
            kind="arithmetic",
            measure=measure_power,
            decides="power",
            margin=lambda seen: closeness(seen["power"], 2.71, 2),
            rule="it is 2.71 to two decimals, rounded or cut",
            knobs=PowerKnobs,
            control={"exponent": 1.01},
            second=sum_power_series,
            other_reading="it is cut; rounded it is 2.72",
        ),
        Claim(
            id="temp-softmax-constant-uniform",
            says="equal scores have a uniform softmax at a finite temperature, so that 'never uniform' is false",
            where=CHOICE,
            kind="arithmetic",
            measure=measure_equal_scores,
            decides="farthest from uniform",
            margin=lambda seen: 1e-12 - seen["farthest from uniform"],
            rule="at five temperatures from 0.01 to 100 every probability is 1/4, but for rounding",
            knobs=EqualScoresKnobs,
            control={"higher": 1.0},
            second=equal_scores_by_torch,
        ),
        Claim(
            id="temp-softmax-any-real-t",
            says="equal scores have a uniform softmax at any real temperature",
            where=CHOICE,
            kind="arithmetic",
            measure=measure_real_temperatures,
            decides="without an answer",
            margin=lambda seen: 1e-12 - seen["farthest from uniform elsewhere"] - seen["without an answer"],
            rule="at eleven temperatures from −100 to 100, 0 among them, every probability is 1/4",
            knobs=RealTemperatureKnobs,
            control={"zero": "without"},
            second=list_quotients,
            other_reading="at any but 0, those below 0 too, it is; and the limit at 0 is uniform as well",
        ),
        Claim(
            id="temp-softmax-hot-limit",
            says="as the temperature grows without end, softmax of any scores becomes uniform",
            where=CHOICE,
            kind="draws",
            measure=measure_hot,
            decides="farthest from uniform",
            margin=lambda seen: 1e-4 - seen["farthest from uniform"],
            rule="at a million no probability of 200 rows of deviation 10 is 0.0001 off; 1/T would leave 0.00001",
            knobs=HotKnobs,
            control={"scores": "mask"},
            second=expand_hot,
            tolerance=1e-4,  # 1/T² is the next term
            seeds=5,
            other_reading="a score of −∞, as a mask writes it, keeps its 0 at any temperature",
        ),
        Claim(
            id="temp-softmax-cold-limit",
            says="as the temperature goes to 0, softmax of 4, 3, 2, 1 becomes 1, 0, 0, 0",
            where=CHOICE,
            kind="arithmetic",
            measure=measure_cold,
            decides="farthest from (1, 0, 0, 0)",
            margin=lambda seen: 1e-9 - seen["farthest from (1, 0, 0, 0)"],
            rule="at a temperature of 0.01 no probability is more than a billionth off",
            knobs=ColdKnobs,
            control={"second": 4.0},
            second=solve_cold,
        ),
        Claim(
            id="temp-softmax-no-zeros",
            says="softmax has no probability of 0 at any temperature above 0",
            where=CHOICE,
            kind="arithmetic",
            measure=measure_zeros,
            decides="probabilities that are 0",
            margin=lambda seen: 0.5 - seen["probabilities that are 0"],
            rule="at six temperatures down to 0.001 none of 4, 3, 2, 1 has a 0, with as many digits as it takes",
            knobs=PositiveKnobs,
            control={"digits": "double"},
            second=solve_zeros,
            other_reading="in double precision it has: the smallest of 4, 3, 2, 1 is 0 below a temperature of 0.004",
        ),
        Claim(
            id="zero-temperature-limits",
            says="at temperature 0 softmax of 1, −2, 5, 0 is 0, 0, 1, 0, and of 5, −2, 5, 0 it is ½, 0, ½, 0",
            where="exam 3.2.2",
            kind="arithmetic",
            measure=measure_zero_limits,
            decides="two best, farthest",
            margin=lambda seen: 1e-9 - max(seen["one best, farthest"], seen["two best, farthest"]),
            rule="at a temperature of 0.01 no probability of both is more than a billionth off",
            knobs=ZeroLimitKnobs,
            control={"third": 4.0},
            second=choose_zero_limits,
        ),
    ),
)
