"""Dice: what the smallest, the largest or any other of several dice shows, exactly and in a simulation."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, svg_text, tooltip
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import ordinal
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option

WIDTH, HEIGHT, TOP = 900.0, 340.0, 40.0
MOST_LISTED = 1_000_000  # outcomes that are listed one by one
MOST_TERMS = 6  # of the tail sum that are written out
SURE = 1.96  # standard errors on either side of a mean, for 95 %


@dataclass(frozen=True)
class DiceKnobs:
    dice: int = option(3, "Dice in a round.", minimum=1, maximum=100)
    sides: int = option(6, "Sides of each die.", minimum=2, maximum=100)
    order: int = option(1, "Which of them is recorded, counted from the smallest.", minimum=1, maximum=100)
    rounds: int = option(10_000, "Rounds of the simulation.", minimum=2, maximum=1_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)
        if self.order > self.dice:
            raise PellucidError(
                f"the {ordinal(self.order)} smallest of {self.dice} dice is asked for",
                fix=f"Choose 1 for the smallest to {self.dice} for the largest",
            )


class ExactNumber(NamedTuple):
    """A fraction in lowest terms."""

    numerator: int
    denominator: int


class DiceStudy(NamedTuple):
    """An order statistic of dice: its distribution and expectation, and what so many rounds gave."""

    dice: int
    sides: int
    order: int
    tails: tuple[ExactNumber, ...]  # the chance of at least 1, 2, ... sides
    expectation: ExactNumber  # their sum
    listed: ExactNumber | None  # the mean over all outcomes, where they are few enough to be listed
    deviation: float  # of one round, exactly
    rounds: int
    counts: tuple[int, ...]  # rounds that gave 1, 2, ... sides
    total: int  # of all rounds
    half_interval: float  # of the total, for 95 %, from the deviation between the rounds

    def probability(self, face: int) -> float:
        """The chance of exactly this face."""
        beyond = Fraction(*self.tails[face]) if face < self.sides else Fraction(0)
        return float(Fraction(*self.tails[face - 1]) - beyond)


def measure(knobs: DiceKnobs) -> DiceStudy:
    """The chances by the tail sum, the mean once more over every outcome, and a simulation.

    >>> measure(DiceKnobs(dice=3, sides=6)).expectation
    ExactNumber(numerator=49, denominator=24)
    """
    import numpy as np

    dice, sides, order = knobs.dice, knobs.sides, knobs.order
    tails = [tail_probability(dice, sides, order, face) for face in range(1, sides + 1)]
    expectation = sum(tails, Fraction(0))
    # E[X²] = Σ (2k - 1) P(X ≥ k)
    square = sum([(2 * k - 1) * tail for k, tail in enumerate(tails, start=1)], Fraction(0))
    rolls = np.random.default_rng(knobs.seed).integers(1, sides + 1, (knobs.rounds, dice), dtype=np.int8)
    recorded = np.sort(rolls, axis=1)[:, order - 1].astype(np.int64)
    return DiceStudy(
        dice=dice,
        sides=sides,
        order=order,
        tails=tuple([_exact(tail) for tail in tails]),
        expectation=_exact(expectation),
        listed=_exact(mean_over_outcomes(dice, sides, order)) if sides**dice <= MOST_LISTED else None,
        deviation=math.sqrt(float(square - expectation**2)),
        rounds=knobs.rounds,
        counts=tuple(np.bincount(recorded, minlength=sides + 1)[1:].tolist()),
        total=int(recorded.sum()),
        half_interval=SURE * float(recorded.std(ddof=1)) * math.sqrt(knobs.rounds),
    )


def tail_probability(dice: int, sides: int, order: int, face: int) -> Fraction:
    """The chance that the order-th smallest die shows at least `face`: fewer than `order` dice show less.

    >>> tail_probability(3, 6, 1, 2)
    Fraction(125, 216)
    """
    below = Fraction(face - 1, sides)
    return sum([math.comb(dice, n) * below**n * (1 - below) ** (dice - n) for n in range(order)], Fraction(0))


def mean_over_outcomes(dice: int, sides: int, order: int) -> Fraction:
    """The same mean by listing every outcome; those that differ in the order of the dice alone are listed together.

    >>> mean_over_outcomes(3, 6, 1)
    Fraction(49, 24)
    """
    total = 0
    for outcome in itertools.combinations_with_replacement(range(1, sides + 1), dice):
        ways = math.factorial(dice)
        for times in Counter(outcome).values():
            ways //= math.factorial(times)
        total += ways * outcome[order - 1]
    return Fraction(total, sides**dice)


def _exact(fraction: Fraction) -> ExactNumber:
    return ExactNumber(fraction.numerator, fraction.denominator)


def draw(record: DiceStudy) -> Picture:
    """A bar for the chance of each face, and a dot for how often it came."""
    chances = [record.probability(face) for face in range(1, record.sides + 1)]
    shares = [count / record.rounds for count in record.counts]
    panel = Panel(
        Axis(0.4, record.sides + 0.6, "what is recorded"),
        Axis(0.0, max(chances + shares) * 1.1, "chance"),
        WIDTH,
        HEIGHT,
    )
    breadth = 0.7 * WIDTH / (record.sides + 0.2)
    for face, (chance, share, count) in enumerate(zip(chances, shares, record.counts, strict=True), start=1):
        x, y = panel.at(face, chance)
        says = tooltip(f"{face}: {chance:.6g}")
        bar = f'<rect width="{breadth:.1f}" height="{HEIGHT - y:.1f}" fill="#94bfe4">{says}</rect>'
        panel.mark_at(x - breadth / 2, y, bar)
        panel.dot(
            face, share, ORANGE, size=min(6.0, breadth / 2), says=f"{face}: {count:,} of {record.rounds:,} rounds"
        )
    expected = record.expectation.numerator / record.expectation.denominator
    # Above the bars, so that it is seen whole.
    dashed = f'<path d="M0 0V{HEIGHT:.0f}" stroke="{INK}" stroke-width="2" stroke-dasharray="7 5"/>'
    panel.mark_at(panel.at(expected, 0.0)[0], 0.0, dashed)
    marks = [
        f'<rect x="{LEFT:.0f}" y="4" width="18" height="14" fill="#94bfe4"/>',
        svg_text(LEFT + 26, 17, "chance", BLUE),
        f'<circle cx="{LEFT + 110:.0f}" cy="11" r="6" fill="{ORANGE}"/>',
        svg_text(LEFT + 124, 17, f"{record.rounds:,} rounds", ORANGE),
        svg_text(LEFT + 280, 17, f"dashed: expected, {expected:.4f}", QUIET),
        *panel.draw(0, TOP),
    ]
    return picture(_name(record).capitalize(), _captions(record), marks, LEFT + WIDTH + 20, TOP + HEIGHT + BOTTOM)


def _name(record: DiceStudy) -> str:
    which = "smallest" if record.order == 1 else "largest" if record.order == record.dice else ""
    which = which or f"{ordinal(record.order)} smallest"
    return f"the {which} of {record.dice} dice with {record.sides} sides" if record.dice > 1 else "one die"


def _captions(record: DiceStudy) -> list[str]:
    expected = Fraction(*record.expectation)
    whole = record.sides**record.dice
    terms = [f"{int(Fraction(*tail) * whole):,}" for tail in record.tails]
    shown = terms if len(terms) <= MOST_TERMS else [*terms[: MOST_TERMS - 2], "…", terms[-1]]
    lines = []
    if whole <= MOST_LISTED:
        lines.append(
            f"Expected: the sum of the chances of at least 1, 2, … {record.sides}, which is "
            f"({' + '.join(shown)}) / {whole:,} = {_fraction(expected)}."
        )
    else:
        lines.append(f"Expected: the sum of the chances of at least 1, 2, … {record.sides} = {float(expected):.4f}.")
    if record.listed is None:
        lines.append("There are too many outcomes to list them one by one.")
    else:
        same = "the same" if record.listed == record.expectation else "another number"
        lines.append(f"The mean over all {whole:,} outcomes, listed: {_fraction(Fraction(*record.listed))}, {same}.")
    wanted = float(expected * record.rounds)
    lines.append(
        f"{record.rounds:,} rounds: a total of {wanted:,.2f} is expected, give or take "
        f"{SURE * record.deviation * math.sqrt(record.rounds):,.0f} in 95 of 100 simulations."
    )
    low, high = record.total - record.half_interval, record.total + record.half_interval
    lines.append(
        f"Simulated: {record.total:,}, and by its rounds alone the expected total is from {low:,.0f} to {high:,.0f} "
        f"(95 %), {'which holds' if low <= wanted <= high else 'which misses'} {wanted:,.0f}."
    )
    return lines


def _fraction(number: Fraction) -> str:
    exact = f"{number.numerator:,}/{number.denominator:,}" if number.denominator < 10**9 else ""
    return f"{exact} = {float(number):.4f}" if exact and number.denominator > 1 else f"{float(number):.4f}"


LESSON = Lesson(
    name="dice",
    summary="The smallest, the largest or any other of several dice: its chances exactly, and a simulation.",
    measure=measure,
    draw=draw,
    knobs=DiceKnobs,
)
