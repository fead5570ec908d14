"""Separable classes and a penalty of the largest weight: what logistic regression makes small, and by which gradient.

Two clouds of 40 points are told apart by three weights, one of them the bias. Where a line separates them, a direction
is known along which every point gains: that of the point of their hull, each times its label, that is nearest to 0.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.claims.losses_of_probabilities import BowlKnobs, draw_clouds, find_separating_line, measure_bottom
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.claims.losses_of_probabilities import Array


# Separable classes


@dataclass(frozen=True)
class ApartKnobs:
    distance: float = option(8.0, "Between the centres of the classes, in standard deviations.", minimum=0, maximum=20)
    turned: int = option(0, "Points that have the wrong label.", minimum=0, maximum=40)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def clouds(self) -> BowlKnobs:
        return BowlKnobs(self.distance, self.seed)


def separating_direction(points: Array) -> Array:
    """Of length 1, along which no point, times its label, loses; zeros where there is none."""
    import numpy as np

    from pellucid.training.tasks.separability import NOTHING, nearest_hull_point

    point = nearest_hull_point(points) @ points
    length = float(np.linalg.norm(point))
    found: Array = np.zeros(3) if length < NOTHING * np.linalg.norm(points, axis=1).max() else point / length
    return found


def measure_descent(knobs: ApartKnobs) -> Numbers:
    """The slope of the loss along that direction at 1,000 places, and what Newton's method says of a bottom."""
    import numpy as np

    points = draw_clouds(knobs.clouds)
    direction = separating_direction(points)
    rng = np.random.default_rng(knobs.seed)
    places = rng.normal(size=(1000, 3)) * 10.0 ** rng.uniform(-2, 1, (1000, 1))
    wrong = 1 / (1 + np.exp(places @ points.T))  # (place, point): the probability of the wrong class
    slopes = -wrong @ (points @ direction)
    return {
        "places from where it falls": float((slopes < 0).mean()),
        "least gain of a point": float((points @ direction).min()),
        "has a bottom": measure_bottom(knobs.clouds)["has a bottom"],
    }


def measure_ray(knobs: ApartKnobs) -> Numbers:
    """The loss along α w*, from α = −5 to where e^(−α · least gain) is e^−40, in 400 steps."""
    import numpy as np

    points = draw_clouds(knobs.clouds)
    gains = points @ separating_direction(points)
    gains[: knobs.turned] *= -1
    alphas = np.linspace(-5.0, 40.0 / abs(gains).min(), 401)
    losses = np.logaddexp(0.0, -alphas[:, None] * gains).sum(axis=1)
    return {
        "steps that do not fall": float((np.diff(losses) >= 0).sum()),
        "loss at the end": float(losses[-1]),
        "slope at 1": float(-(gains / (1 + np.exp(gains))).sum()),
    }


def differentiate_ray(knobs: ApartKnobs) -> Numbers:
    """The slope at α = 1 by torch, from the loss as it is stated: two sums, over the two classes."""
    import torch

    signed = draw_clouds(knobs.clouds)
    labels = torch.where(torch.arange(40) % 2 == 0, 1.0, -1.0).double()
    x, w = torch.from_numpy(signed) * labels[:, None], torch.from_numpy(separating_direction(signed))
    if knobs.turned:
        return {}
    alpha = torch.ones((), dtype=torch.float64, requires_grad=True)
    scores = x @ w * alpha
    loss = (1 + (-scores[labels > 0]).exp()).log().sum() + (1 + scores[labels < 0].exp()).log().sum()
    return {"slope at 1": float(torch.autograd.grad(loss, alpha)[0])}


# The penalty of the largest weight

RULES = ("its weight at the largest weight", "its weight at the largest input", "1 at the largest weight")


@dataclass(frozen=True)
class LargestWeightKnobs:
    added: str = option(RULES[0], "What the rule adds to the gradient, times λ; zeros elsewhere", choices=RULES)
    strength: float = option(0.3, "λ, the factor of the penalty.", minimum=0, maximum=100)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _draw_example(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Six weights, six inputs, of which the first is 1 for the bias, and a label, 0 or 1."""
    import torch

    rng = torch.Generator().manual_seed(seed)
    w, x = torch.randn(2, 6, generator=rng, dtype=torch.float64)
    x[0] = 1.0
    return w, x, torch.randint(2, (), generator=rng).double()


def penalised_loss(w: Tensor, x: Tensor, y: Tensor, strength: float) -> Tensor:
    """Cross-entropy of one example and λ/2 max|w|²."""
    from torch.nn.functional import binary_cross_entropy_with_logits

    from pellucid.layers.losses import penalty

    return binary_cross_entropy_with_logits(w @ x, y) + strength * penalty("linf2", [w[None]])


def measure_rule(knobs: LargestWeightKnobs) -> Numbers:
    """The gradient of the whole loss, and by the rule, for 50 examples: how far apart they are at the most."""
    import torch

    apart, first = 0.0, 0.0
    for number in range(50):
        w, x, y = _draw_example(50 * knobs.seed + number)
        w.requires_grad_()
        (gradient,) = torch.autograd.grad(penalised_loss(w, x, y, knobs.strength), w)
        with torch.no_grad():
            added = torch.zeros(6, dtype=torch.float64)
            largest = (x if knobs.added == RULES[1] else w).abs().argmax()
            added[largest] = 1.0 if knobs.added == RULES[2] else w[largest]
            ruled = ((w @ x).sigmoid() - y) * x + knobs.strength * added
        apart = max(apart, float((gradient - ruled).abs().max()))
        first = first or float(gradient.norm())
    return {"farthest from the gradient": apart, "length of the first gradient": first}


def nudge_rule(knobs: LargestWeightKnobs) -> Numbers:
    """The length of the first gradient by central differences."""
    import torch

    w, x, y = _draw_example(50 * knobs.seed)
    step, slopes = 1e-5, []
    for nudge in torch.eye(6, dtype=torch.float64) * step:
        above, below = (float(penalised_loss(w + way * nudge, x, y, knobs.strength)) for way in (1, -1))
        slopes.append((above - below) / (2 * step))
    return {"length of the first gradient": math.hypot(*slopes)}


@dataclass(frozen=True)
class SignedCaseKnobs:
    negative: float = option(3.0, "Size of the negative one of the weights 2, 1 and −this.", minimum=0, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)


def measure_signed_case(knobs: SignedCaseKnobs) -> Numbers:
    """The square of the weight that no other exceeds, signs and all, beside max|w|²; and that over all signs."""
    import torch

    from pellucid.layers.losses import linf2

    def both(weights: list[float]) -> tuple[float, float]:
        return max(weights) ** 2, float(2 * linf2([torch.tensor(weights, dtype=torch.float64)]))

    stated, true = both([2.0, 1.0, -knobs.negative])
    signs = [both([3.0 * a, 2.0 * b, 1.0 * c]) for a, b, c in itertools.product((1, -1), repeat=3)]
    return {
        "by the stated case": stated,
        "max|w|²": true,
        "right over all signs of 3, 2, 1": sum([one == other for one, other in signs]) / len(signs),
    }


def solve_signed_case(knobs: SignedCaseKnobs) -> Numbers:
    """By hand; of all signs those are right that leave the largest weight above 0."""
    return {
        "by the stated case": 4.0,
        "max|w|²": max(4.0, knobs.negative**2),
        "right over all signs of 3, 2, 1": 0.5,
    }


@dataclass(frozen=True)
class TieKnobs:
    gap: float = option(0.0, "By how much the second of 3, −3, 1 is smaller than the first.", minimum=0, maximum=2)

    def __post_init__(self) -> None:
        check_options(self)


def measure_tie(knobs: TieKnobs) -> Numbers:
    """The slope of ½ max|w|² by the first weight, upwards and downwards, and the penalty after a step of 0.1."""
    import torch

    from pellucid.layers.losses import linf2

    w = torch.tensor([3.0, knobs.gap - 3.0, 1.0], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(linf2([w]), w)
    with torch.no_grad():
        one = torch.zeros(3, dtype=torch.float64)
        one[w.abs().argmax()] = w[w.abs().argmax()]
        step = torch.tensor([1e-6, 0.0, 0.0], dtype=torch.float64)
        here = linf2([w])
        return {
            "slope upwards": float((linf2([w + step]) - here) / 1e-6),
            "slope downwards": float((here - linf2([w - step])) / 1e-6),
            "weights that torch pulls": float((gradient != 0).sum()),
            "penalty": float(here),
            "after a step by one index": float(linf2([w - 0.1 * one])),
            "after a step by torch's gradient": float(linf2([w - 0.1 * gradient])),
        }


def solve_tie(knobs: TieKnobs) -> Numbers:
    """Upwards the first weight leads alone; downwards it does so only where the other is smaller."""
    return {"slope upwards": 3.0, "slope downwards": 3.0 if knobs.gap else 0.0, "penalty": 4.5}


# Points of an examination


@dataclass(frozen=True)
class PointsKnobs:
    problem: str = option(
        "its questions", "Points of the first problem: of its questions, or 5", choices=("its questions", "5")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_points(knobs: PointsKnobs) -> Numbers:
    """Question by question."""
    parts = {"choices": [4] * 8, "short answers": [6] * 3, "first": [5, 5, 10, 5], "second": [5, 8, 5, 4, 3]}
    sums = {name: float(sum(points)) for name, points in parts.items()}
    if knobs.problem == "5":
        sums["first"] = 5.0
    return {"points": sum(sums.values()), "questions": float(sum([len(one) for one in parts.values()])), **sums}


def points_as_stated(seen: Numbers) -> float:
    stated = {"choices": 32, "short answers": 18, "first": 25, "second": 25, "points": 100, "questions": 20}
    return 0.5 - max(abs(seen[name] - number) for name, number in stated.items())


CHOICE, PENALTY = "exam 1.2", "exam 1.3"

FAMILY = ClaimFamily(
    name="separation-and-penalties",
    title="Separable classes, and a penalty of the largest weight",
    picture="separable",
    claims=(
        Claim(
            id="logistic-separable-no-minimum",
            says="on separable classes the cross-entropy of logistic regression has no minimum",
            where=CHOICE,
            kind="draws",
            measure=measure_descent,
            decides="places from where it falls",
            margin=lambda seen: yes(seen["places from where it falls"] == 1),
            rule="one direction leads downhill from all of 1,000 places, so that none is a minimum",
            knobs=ApartKnobs,
            control={"distance": 1.0},
            second=lambda knobs: find_separating_line(knobs.clouds),
            seeds=8,
            other_reading="with weight decay it has one, and which one it is the decay decides",
        ),
        Claim(
            id="logistic-strictly-decreasing-ray",
            says="along a separating direction the loss falls strictly, to 0",
            where=CHOICE,
            kind="draws",
            measure=measure_ray,
            decides="loss at the end",
            margin=lambda seen: yes(seen["steps that do not fall"] == 0 and seen["loss at the end"] < 1e-12),
            rule="each of 400 steps along it lowers the loss, and the last is below 1e-12",
            knobs=ApartKnobs,
            control={"turned": 1},
            second=differentiate_ray,
            seeds=8,
        ),
        Claim(
            id="linf-penalty-gradient",
            says="the gradient of λ/2 max|w|² is λ times the largest weight, at its place, and 0 elsewhere",
            where=PENALTY,
            kind="draws",
            measure=measure_rule,
            decides="farthest from the gradient",
            margin=lambda seen: 1e-9 - seen["farthest from the gradient"],
            rule="with it the rule of SGD is the gradient of the loss of 50 examples, but for rounding",
            knobs=LargestWeightKnobs,
            control={"added": RULES[2]},
            second=nudge_rule,
            seeds=5,
        ),
        Claim(
            id="linf-printed-case-condition",
            says="max|w|² is the square of that weight which no other one exceeds, signs and all",
            where=PENALTY,
            kind="arithmetic",
            measure=measure_signed_case,
            decides="by the stated case",
            margin=lambda seen: 1e-9 - abs(seen["by the stated case"] - seen["max|w|²"]),
            rule="of the weights 2, 1 and a negative one it is, however large that is",
            knobs=SignedCaseKnobs,
            control={"negative": 1.0},
            search=Search("negative", 0.0, 4.0),
            second=solve_signed_case,
            other_reading="with sizes in place of weights it is right; the rule that follows has them",
        ),
        Claim(
            id="linf-ties",
            says="max|w|² pulls at one weight alone, also where two are equally large",
            where=PENALTY,
            kind="arithmetic",
            measure=measure_tie,
            decides="slope downwards",
            margin=lambda seen: 0.01 - abs(seen["slope upwards"] - seen["slope downwards"]),
            rule="at a tie its slope by the one weight is the same in both ways, to 0.01, as that of a gradient is",
            knobs=TieKnobs,
            control={"gap": 0.5},
            second=solve_tie,
            tolerance=1e-5,  # a step of a millionth
            other_reading="one index is a subgradient, by which a step leaves the penalty as it is; a shared one helps",
        ),
        Claim(
            id="exam-points-add-up",
            says="20 questions, of 32, 18, 25 and 25 points, add up to 100",
            where="exam header",
            kind="arithmetic",
            measure=measure_points,
            decides="points",
            margin=points_as_stated,
            rule="the points of all questions give each of these sums",
            knobs=PointsKnobs,
            control={"problem": "5"},
            second=lambda knobs: {"points": 8 * 4.0 + 3 * 6.0 + 2 * 25.0},
            other_reading="the second title of the first problem says 5 points; its questions have 25",
        ),
    ),
)
