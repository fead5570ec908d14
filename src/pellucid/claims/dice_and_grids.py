"""Dice and grids: expectations by enumeration, and the fewest rectangles by exact search."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, closeness
from pellucid.lessons.dice import DiceKnobs, mean_over_outcomes, tail_probability
from pellucid.lessons.dice import measure as roll_dice
from pellucid.options import check_options, option


def measure_dice(knobs: DiceKnobs) -> Numbers:
    """The smallest of three dice, by its tail sum; and what so many rounds add up to."""
    tails = [tail_probability(knobs.dice, knobs.sides, knobs.order, face) for face in range(1, knobs.sides + 1)]
    study = roll_dice(knobs)
    return {
        "expected": float(sum(tails)),
        "expected total": float(knobs.rounds * sum(tails)),
        "simulated total": float(study.total),
        **{f"P(at least {face})": float(tail) for face, tail in enumerate(tails, start=1)},
    }


def list_outcomes(knobs: DiceKnobs) -> Numbers:
    """The same by listing every outcome."""
    outcomes = [sorted(one)[knobs.order - 1] for one in itertools.product(range(1, knobs.sides + 1), repeat=knobs.dice)]
    tails = {
        f"P(at least {face})": sum([one >= face for one in outcomes]) / len(outcomes)
        for face in range(1, knobs.sides + 1)
    }
    return {"expected": float(mean_over_outcomes(knobs.dice, knobs.sides, knobs.order)), **tails}


def tails_as_stated(seen: Numbers) -> float:
    stated = [Fraction(cube, 216) for cube in (216, 125, 64, 27, 8, 1)]
    faces = [name for name in seen if name.startswith("P(")]
    if len(faces) != len(stated):
        return -1.0
    return 1e-12 - max(abs(seen[f"P(at least {face})"] - one) for face, one in enumerate(stated, start=1))


@dataclass(frozen=True)
class ReciprocalKnobs:
    numerators: str = option("ones", "What stands above the line", choices=("ones", "cubes"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_printed_sum(knobs: ReciprocalKnobs) -> Numbers:
    """The line as it is printed, 1/216 + 1/125 + ... + 1/1, or with cubes over 216, which is the tail sum."""
    cubes = [side**3 for side in range(1, 7)]
    terms = [Fraction(1, cube) for cube in cubes] if knobs.numerators == "ones" else [Fraction(c, 216) for c in cubes]
    return {"sum": float(sum(terms)), "441/216": 441 / 216}


@dataclass(frozen=True)
class RemovedCellsKnobs:
    size: int = option(4, "Rows and columns of the grid.", minimum=2, maximum=5)
    removed: str = option("", "The columns that are removed, row by row, counted from 1, as 2413; all if empty.")

    def __post_init__(self) -> None:
        check_options(self)


def measure_grid(knobs: RemovedCellsKnobs) -> Numbers:
    """The fewest rectangles for each permutation of removed cells, by exact search."""
    from pellucid.lessons.grid_partition import fewest_rectangles

    every = [tuple(one) for one in itertools.permutations(range(knobs.size))]
    asked = [tuple([int(digit) - 1 for digit in knobs.removed])] if knobs.removed else every
    needs = {one: len(fewest_rectangles(one).rectangles) for one in asked}
    diagonal = tuple(range(knobs.size))
    return {
        "fewest": float(min(needs.values())),
        "diagonal needs": float(len(fewest_rectangles(diagonal).rectangles)),
        "permutations": float(len(needs)),
        "need 6": float(sum([n == 6 for n in needs.values()])),
        "need 5": float(sum([n == 5 for n in needs.values()])),
    }


NOTES = "log Q9"
GRID = "log Q16"

FAMILY = ClaimFamily(
    name="dice-and-grids",
    title="Dice and grids",
    picture="dice",
    claims=(
        Claim(
            id="dice-tail-probabilities",
            says="the smallest of three dice is at least 1 to 6 with chances of 1, 125, 64, 27, 8 and 1 over 216",
            where=NOTES,
            kind="arithmetic",
            measure=measure_dice,
            decides="P(at least 2)",
            margin=tails_as_stated,
            rule="every one of the six chances equals the stated fraction",
            knobs=DiceKnobs,
            control={"dice": 2},
            second=list_outcomes,
        ),
        Claim(
            id="dice-expected-49-24",
            says="the expectation of the smallest of three dice is 441/216 = 49/24, about 2.0417",
            where=NOTES,
            kind="arithmetic",
            measure=measure_dice,
            decides="expected",
            margin=lambda seen: closeness(seen["expected"], 2.0417, 4),
            rule="the expectation equals 2.0417 to four decimals",
            knobs=DiceKnobs,
            control={"sides": 8},
            second=list_outcomes,
        ),
        Claim(
            id="dice-printed-sum-of-reciprocals",
            stated="441/216 = 2.0417",
            says="1/216 + 1/125 + 1/64 + 1/27 + 1/8 + 1/1 = 441/216",
            where=NOTES,
            kind="arithmetic",
            measure=measure_printed_sum,
            decides="sum",
            margin=lambda seen: 1e-9 - abs(seen["sum"] - seen["441/216"]),
            rule="the sum of the printed terms equals 441/216",
            knobs=ReciprocalKnobs,
            control={"numerators": "cubes"},
            other_reading="meant are the cubes over 216, whose sum it is",
        ),
        Claim(
            id="dice-total-20417",
            says="over 10,000 rounds the recorded numbers add up to about 20,417",
            where=NOTES,
            kind="draws",
            measure=measure_dice,
            decides="simulated total",
            margin=lambda seen: 300 - abs(seen["simulated total"] - 20_417),
            rule="a simulation is within 300 of 20,417 on average, three standard deviations of it",
            knobs=DiceKnobs,
            control={"order": 2},
            seeds=8,
        ),
        Claim(
            id="grid-minimum-5",
            says="a 4 × 4 grid without one cell in each row and column can be cut into 5 rectangles at the least",
            where=GRID,
            kind="proof",
            measure=measure_grid,
            decides="fewest",
            margin=lambda seen: 0.5 - abs(seen["fewest"] - 5),
            rule="the least number over all permutations, each solved exactly, is 5",
            knobs=RemovedCellsKnobs,
            control={"size": 3},
            covers=("grid-known-minimum",),
        ),
        Claim(
            id="grid-diagonal-6",
            says="without the diagonal it takes 6",
            where=GRID,
            kind="proof",
            measure=measure_grid,
            decides="diagonal needs",
            margin=lambda seen: 0.5 - abs(seen["diagonal needs"] - 6),
            rule="the exact minimum without the diagonal is 6",
            knobs=RemovedCellsKnobs,
            control={"size": 5},
        ),
        Claim(
            id="grid-shown-partition-valid",
            says="without (1,2), (2,4), (3,1) and (4,3) it takes 5",
            where=GRID,
            kind="proof",
            measure=lambda knobs: measure_grid(knobs if knobs.removed else RemovedCellsKnobs(4, "2413")),
            decides="fewest",
            margin=lambda seen: 0.5 - abs(seen["fewest"] - 5),
            rule="the exact minimum without these four cells is 5",
            knobs=RemovedCellsKnobs,
            control={"removed": "1234"},
        ),
        Claim(
            id="grid-many-others-6",
            says="many other choices of the four cells need 6",
            where=GRID,
            kind="proof",
            measure=measure_grid,
            decides="need 6",
            margin=lambda seen: seen["need 6"] - seen["permutations"] / 4,
            rule="more than a quarter of all permutations need exactly 6",
            knobs=RemovedCellsKnobs,
            control={"size": 3},
        ),
    ),
)
