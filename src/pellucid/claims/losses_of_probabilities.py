"""Losses of probabilities: how high, how steep and how bent cross-entropy, squared and absolute error are.

p is the probability of the right class, and z its logit. Landscapes are the mean loss of a small classifier over its
weights.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, closeness
from pellucid.lessons.lesson import seed_knob
from pellucid.lessons.probability_losses import LOSSES, ProbabilityLoss, by_probability
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy
    from torch import Tensor

    Array = numpy.ndarray[Any, Any]

BY_NAME = {loss.name: loss for loss in LOSSES}
THREE = ("cross-entropy", "squared error", "absolute error")


def logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def loss_by_torch(name: str, p: Tensor) -> Tensor:
    """The same losses, written down once more."""
    return {"cross-entropy": -p.log(), "squared error": (1 - p) ** 2, "absolute error": 1 - p}[name]


@dataclass(frozen=True)
class SureErrorKnobs:
    p: float = option(0.01, "Probability of the right class.", minimum=1e-12, maximum=0.999999)
    milder: float = option(0.1, "That of a milder error.", minimum=1e-12, maximum=0.999999)
    graver: float = option(0.0001, "That of a graver error.", minimum=1e-12, maximum=0.999999)
    loss: str = option("cross-entropy", "Loss that is looked at", choices=THREE)
    by: str = option("logit", "What the slope is taken by", choices=("logit", "probability"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_heights(knobs: SureErrorKnobs) -> Numbers:
    """The loss at p, at the milder and at the graver error."""
    at_p, milder, graver = (float(BY_NAME[knobs.loss].value(logit(p))) for p in (knobs.p, knobs.milder, knobs.graver))
    return {"at p": at_p, "milder": milder, "graver": graver, "at p over milder": at_p / milder}


def measure_heights_by_torch(knobs: SureErrorKnobs) -> Numbers:
    import torch

    at = {"at p": knobs.p, "milder": knobs.milder, "graver": knobs.graver}
    found = {name: float(loss_by_torch(knobs.loss, torch.tensor(p, dtype=torch.float64))) for name, p in at.items()}
    return {**found, "at p over milder": found["at p"] / found["milder"]}


def measure_squares(knobs: SureErrorKnobs) -> Numbers:
    """The height of the squared error at each probability."""
    return measure_heights(replace(knobs, loss="squared error"))


def measure_squares_by_torch(knobs: SureErrorKnobs) -> Numbers:
    return measure_heights_by_torch(replace(knobs, loss="squared error"))


def measure_ratio(knobs: SureErrorKnobs) -> Numbers:
    """Cross-entropy over squared error at one probability, and the same of their slopes."""
    entropy, squared = BY_NAME["cross-entropy"], BY_NAME["squared error"]
    return {
        "cross-entropy over squared error": float(entropy.value(logit(knobs.p)) / squared.value(logit(knobs.p))),
        "their slopes": slope_of(entropy, knobs.p, "logit") / slope_of(squared, knobs.p, "logit"),
    }


def measure_ratio_by_torch(knobs: SureErrorKnobs) -> Numbers:
    import torch

    p = torch.tensor(knobs.p, dtype=torch.float64)
    ratio = loss_by_torch("cross-entropy", p) / loss_by_torch("squared error", p)
    return {"cross-entropy over squared error": float(ratio), "their slopes": 1 / (2 * knobs.p * (1 - knobs.p))}


def slope_of(loss: ProbabilityLoss, p: float, by: str) -> float:
    return abs(float(loss.slope(logit(p)) if by == "logit" else by_probability(loss, p)[1]))


def measure_slopes(knobs: SureErrorKnobs) -> Numbers:
    """The slopes at p and at the graver error, and the steepest that squared error has anywhere: 8/27 by the logit."""
    squared, entropy = BY_NAME["squared error"], BY_NAME["cross-entropy"]
    steepest = max([slope_of(squared, at / 1000, knobs.by) for at in range(1, 1000)])
    return {
        "slope of squared error": slope_of(squared, knobs.p, knobs.by),
        "steepest of squared error": steepest,
        "slope of cross-entropy": slope_of(entropy, knobs.p, knobs.by),
        "slope of cross-entropy, graver": slope_of(entropy, knobs.graver, knobs.by),
        "cross-entropy, graver over p": float(entropy.value(logit(knobs.graver)) / entropy.value(logit(knobs.p))),
    }


def measure_slopes_by_torch(knobs: SureErrorKnobs) -> Numbers:
    import torch

    def slope(name: str, p: float) -> float:
        by = torch.tensor(logit(p) if knobs.by == "logit" else p, dtype=torch.float64, requires_grad=True)
        loss = loss_by_torch(name, by.sigmoid() if knobs.by == "logit" else by)
        return abs(float(torch.autograd.grad(loss, by)[0]))

    return {
        "slope of squared error": slope("squared error", knobs.p),
        "slope of cross-entropy": slope("cross-entropy", knobs.p),
        "slope of cross-entropy, graver": slope("cross-entropy", knobs.graver),
    }


# What a loss asks for


@dataclass(frozen=True)
class ProperScoreKnobs:
    loss: str = option("squared error", "Loss that is looked at", choices=THREE)

    def __post_init__(self) -> None:
        check_options(self)


def measure_best_answers(knobs: ProperScoreKnobs) -> Numbers:
    """Where yes is true so often: the probability whose expected loss is least, at most how far from the truth."""
    import numpy as np

    answers = np.linspace(0.001, 0.999, 999)
    yes = BY_NAME[knobs.loss].value(np.log(answers / (1 - answers)))
    truths = np.linspace(0.05, 0.95, 19)
    expected = truths[:, None] * yes + (1 - truths)[:, None] * yes[::-1]
    best = answers[expected.argmin(axis=1)]
    return {"farthest from the truth": float(np.abs(best - truths).max()), "asked where it is 0.7": float(best[13])}


def solve_best_answers(knobs: ProperScoreKnobs) -> Numbers:
    """By hand: the mean of yes and no is asked for by the square and by the logarithm, their median by the distance."""
    if knobs.loss != "absolute error":
        return {"asked where it is 0.7": 0.7, "farthest from the truth": 0.0}
    return {"asked where it is 0.7": 0.999, "farthest from the truth": 0.499}  # where both are as likely


@dataclass(frozen=True)
class SoftTargetKnobs:
    softness: float = option(0.0, "Part of the target that is spread over all classes.", minimum=0, maximum=1)
    classes: int = option(4, "Classes.", minimum=2, maximum=1000)

    def __post_init__(self) -> None:
        check_options(self)


def measure_self_entropy(knobs: SoftTargetKnobs) -> Numbers:
    """Cross-entropy of a target with itself, between which there is no difference; by the losses of training."""
    import torch

    target = torch.full((knobs.classes,), knobs.softness / knobs.classes, dtype=torch.float64)
    target[0] += 1 - knobs.softness

    def cross_entropy(answer: Tensor) -> float:
        return float(torch.nn.functional.cross_entropy(answer.clamp_min(1e-300).log()[None], target[None]))

    uniform = torch.full_like(target, 1 / knobs.classes)
    return {"of a target with itself": cross_entropy(target), "with the uniform": cross_entropy(uniform)}


def measure_self_entropy_by_hand(knobs: SoftTargetKnobs) -> Numbers:
    """Entropy, and entropy and Kullback and Leibler's divergence."""
    rest = knobs.softness / knobs.classes
    shares = [1 - knobs.softness + rest, *[rest] * (knobs.classes - 1)]
    entropy = -math.fsum([share * math.log(share) for share in shares if share])
    divergence = math.fsum([share * math.log(share * knobs.classes) for share in shares if share])
    return {"of a target with itself": entropy, "with the uniform": entropy + divergence}


# Landscapes


@dataclass(frozen=True)
class LandscapeKnobs:
    loss: str = option("squared error", "Loss that is looked at", choices=THREE)
    examples: str = option(
        "clouds", "Two clouds of points, or examples of two scales on each axis", choices=("clouds", "scales")
    )
    reach: float = option(8.0, "Weights from minus this to this.", minimum=0.1, maximum=200)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def draw_examples(knobs: LandscapeKnobs) -> tuple[Array, Array]:
    """(n, 2) examples, each times its label, and how much each counts."""
    import numpy as np

    if knobs.examples == "scales":
        # Each axis has a valley near 0 for its large numbers, and a second far out for its small ones.
        axis = np.array([[1.0], [-1.0], [0.05], [-0.05]])
        x = np.concatenate([axis * [1.0, 0.0], axis * [0.0, 1.0]])
        return x, np.tile([0.27, 0.73, 0.88, 0.12], 2)
    rng = np.random.default_rng(knobs.seed)
    labels = np.where(np.arange(30) % 2 == 0, 1.0, -1.0)
    x = labels[:, None] * np.array([1.0, 0.5]) + rng.normal(size=(30, 2))
    turned = np.where(np.arange(30) < 3, -1.0, 1.0)  # three labels are wrong, so that something is left at the bottom
    return x * (labels * turned)[:, None], np.full(30, 1 / 30)


@functools.cache
def measure_landscape(knobs: LandscapeKnobs) -> Numbers:
    """A grid of the two weights: places that lie below all their neighbours, and how the landscape is bent."""
    import numpy as np

    x, shares = draw_examples(knobs)
    loss, reach = BY_NAME[knobs.loss], 100.0 if knobs.examples == "scales" else knobs.reach
    steps = np.linspace(-reach, reach, 201)
    z = np.stack(np.meshgrid(steps, steps), axis=-1) @ x.T  # (w2, w1, example)
    heights = loss.value(z) @ shares
    inside = heights[1:-1, 1:-1]
    neighbours = [heights[1 + i : 200 + i, 1 + j : 200 + j] for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    hessians = np.tensordot(loss.curvature(z) * shares, x[:, :, None] * x[:, None, :], axes=([2], [0]))
    logits = np.linspace(-8, 8, 321)
    return {
        "local minima": float(np.all([inside < one for one in neighbours], axis=0).sum()),
        "least curvature by the logit": float(loss.curvature(logits).min()),
        "part that is bent down": float((np.linalg.eigvalsh(hessians)[..., 0] < -1e-9).mean()),
    }


def measure_curvature_by_torch(knobs: LandscapeKnobs) -> Numbers:
    """The second derivative by the logit, by differentiating twice."""
    import torch

    z = torch.linspace(-8, 8, 321, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(loss_by_torch(knobs.loss, z.sigmoid()).sum(), z, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), z)
    return {"least curvature by the logit": float(curvature.min())}


@dataclass(frozen=True)
class HiddenLayerKnobs:
    hidden: int = option(0, "Hidden tanh units between inputs and logit; 0: none.", minimum=0, maximum=32)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_convexity(knobs: HiddenLayerKnobs) -> Numbers:
    """Cross-entropy of 30 examples over all weights: the least eigenvalue of its Hessian at five random places."""
    import torch

    x, _ = draw_examples(LandscapeKnobs(seed=knobs.seed))
    inputs = torch.from_numpy(x)
    generator = torch.Generator().manual_seed(knobs.seed)
    n_weights = 3 * knobs.hidden + 1 if knobs.hidden else 2

    def loss(weights: Tensor) -> Tensor:
        if not knobs.hidden:
            return torch.nn.functional.softplus(-inputs @ weights).mean()
        into, out = weights[: 2 * knobs.hidden].reshape(2, knobs.hidden), weights[2 * knobs.hidden : -1]
        return torch.nn.functional.softplus(-(torch.tanh(inputs @ into) @ out + weights[-1])).mean()

    least, greatest = math.inf, 0.0
    for _ in range(5):
        weights = 2 * torch.randn(n_weights, generator=generator, dtype=torch.float64)
        values = torch.linalg.eigvalsh(torch.func.hessian(loss)(weights))
        least, greatest = min(least, float(values[0])), max(greatest, float(values[-1]))
    return {"least eigenvalue": least, "greatest eigenvalue": greatest}


def solve_convexity(knobs: HiddenLayerKnobs) -> Numbers:
    """Without hidden units the Hessian is the mean of p(1 - p) x xᵀ."""
    import numpy as np
    import torch

    if knobs.hidden:
        return {}
    x, _ = draw_examples(LandscapeKnobs(seed=knobs.seed))
    generator = torch.Generator().manual_seed(knobs.seed)
    least = []
    for _ in range(5):
        weights = (2 * torch.randn(2, generator=generator, dtype=torch.float64)).numpy()
        p = 1 / (1 + np.exp(-x @ weights))
        least.append(float(np.linalg.eigvalsh((x * (p * (1 - p))[:, None]).T @ x / len(x))[0]))
    return {"least eigenvalue": min(least)}


@dataclass(frozen=True)
class BowlKnobs:
    distance: float = option(2.0, "Between the centres of the classes, in standard deviations.", minimum=0, maximum=20)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def draw_clouds(knobs: BowlKnobs) -> Array:
    """(40, 3): examples with a 1 for the bias, each times its label."""
    import numpy as np

    rng = np.random.default_rng(knobs.seed)
    labels = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
    x = rng.normal(size=(40, 2)) + labels[:, None] * np.array([knobs.distance / 2, 0.0])
    return np.concatenate([x, np.ones((40, 1))], axis=1) * labels[:, None]


def measure_bottom(knobs: BowlKnobs) -> Numbers:
    """Cross-entropy of a straight classifier by Newton's method: whether there is a place where its slope is 0."""
    import numpy as np

    x, w = draw_clouds(knobs), np.zeros(3)
    for _ in range(60):
        p = 1 / (1 + np.exp(np.clip(x @ w, -700, 700)))  # of the wrong class
        step = np.linalg.lstsq((x * (p * (1 - p))[:, None]).T @ x, x.T @ p, rcond=None)[0]
        w = w + step
        if np.abs(step).max() < 1e-9:
            break
    # Where there is none, each step goes as far as the one before.
    return {"has a bottom": float(np.abs(step).max() < 1e-9), "largest weight": float(np.abs(w).max())}


def find_separating_line(knobs: BowlKnobs) -> Numbers:
    """Rosenblatt's rule ends where a line separates the classes, and then there is no bottom."""
    import numpy as np

    x, w = draw_clouds(knobs), np.zeros(3)
    for _ in range(20_000):
        wrong = np.flatnonzero(x @ w <= 0)
        if not len(wrong):
            return {"has a bottom": 0.0}
        w = w + x[wrong[0]]
    return {"has a bottom": 1.0}


FAMILY = ClaimFamily(
    name="losses-of-probabilities",
    title="Losses of probabilities",
    picture="losses",
    claims=(
        Claim(
            id="mse-values-098-081",
            says="the squared error is 0.98 where the right class has 0.01, and 0.81 where it has 0.1",
            where="log Q4/Q5",
            kind="arithmetic",
            measure=measure_squares,
            decides="at p",
            margin=lambda seen: min(closeness(seen["at p"], 0.98, 2), closeness(seen["milder"], 0.81, 2)),
            rule="both equal the stated numbers to two decimals",
            knobs=SureErrorKnobs,
            control={"p": 0.05},
            second=measure_squares_by_torch,
        ),
        Claim(
            id="ce-values-46-92",
            says="cross-entropy is 4.6, or 4.61, where the right class has 0.01, and 9.2 where it has 0.0001",
            where="log Q4/Q5",
            kind="arithmetic",
            measure=measure_heights,
            decides="at p",
            margin=lambda seen: min(
                closeness(seen["at p"], 4.6, 1),
                closeness(seen["at p"], 4.61, 2),
                closeness(seen["graver"], 9.2, 1),
            ),
            rule="all three equal the stated numbers to their last decimal",
            knobs=SureErrorKnobs,
            control={"p": 0.02},
            second=measure_heights_by_torch,
        ),
        Claim(
            id="ce-nearly-five-times-mse",
            says="at a probability of 0.01 cross-entropy is nearly five times the squared error",
            where="log Q5",
            kind="arithmetic",
            measure=measure_ratio,
            decides="cross-entropy over squared error",
            margin=lambda seen: 0.5 - abs(seen["cross-entropy over squared error"] - 5),
            rule="the ratio is between 4.5 and 5.5",
            knobs=SureErrorKnobs,
            control={"p": 0.3},
            second=measure_ratio_by_torch,
            other_reading="a factor of the loss is undone by the learning rate: slopes tell more than heights",
        ),
        Claim(
            id="ce-focuses-confident-errors",
            says="cross-entropy punishes a sure error much more than a hesitant one",
            where="log Q6",
            kind="arithmetic",
            measure=lambda knobs: measure_heights(replace(knobs, milder=0.4)),
            decides="at p over milder",
            margin=lambda seen: seen["at p over milder"] - 3,
            rule="its loss at 0.01 is more than three times that at 0.4",
            knobs=SureErrorKnobs,
            control={"loss": "absolute error"},
            second=lambda knobs: measure_heights_by_torch(replace(knobs, milder=0.4)),
        ),
        Claim(
            id="mse-logit-gradient-tiny",
            says="the squared error hardly has a gradient where the right class has 0.01",
            where="log Q4/Q5",
            kind="arithmetic",
            measure=measure_slopes,
            decides="slope of squared error",
            margin=lambda seen: 0.1 - seen["slope of squared error"] / seen["steepest of squared error"],
            rule="its slope by the logit is less than a tenth of its steepest",
            knobs=SureErrorKnobs,
            control={"p": 0.2},
            second=measure_slopes_by_torch,
            other_reading="by the probability it is steepest there: 1.98 of 2",
        ),
        Claim(
            id="massive-loss-large-gradient",
            says="the massive cross-entropy of a sure error makes a large gradient",
            where="log Q4/Q5",
            kind="arithmetic",
            measure=measure_slopes,
            decides="slope of cross-entropy",
            margin=lambda seen: min(
                seen["slope of cross-entropy"] - 0.9,
                seen["slope of cross-entropy"] / seen["slope of squared error"] - 10,
            ),
            rule="where the right class has 0.01, the slope by the logit is above 0.9, of at most 1, and over ten "
            "times that of the squared error",
            changed="it was first asked whether the gradient grows as much as the loss, which nobody says",
            knobs=SureErrorKnobs,
            control={"p": 0.6},
            second=measure_slopes_by_torch,
            other_reading="the gradient does not go on growing with the loss: that doubles from 0.01 to 0.0001, and "
            "the slope stays at most 1",
        ),
        Claim(
            id="distance-metrics-not-for-probabilities",
            says="squared and absolute error do not measure how good a probability is",
            where="log Q4",
            kind="proof",
            measure=measure_best_answers,
            decides="farthest from the truth",
            margin=lambda seen: seen["farthest from the truth"] - 0.01,
            rule="the answer with the least expected squared error is over 0.01 from the true probability",
            knobs=ProperScoreKnobs,
            control={"loss": "absolute error"},
            second=solve_best_answers,
            other_reading="of the absolute error alone, which asks for 0 or 1, it is true: that is the control",
        ),
        Claim(
            id="ce-is-distance-between-distributions",
            says="cross-entropy measures how different two distributions are",
            where="log Q6",
            kind="proof",
            measure=measure_self_entropy,
            decides="of a target with itself",
            margin=lambda seen: 0.001 - seen["of a target with itself"],
            rule="between a distribution and itself it is 0, to a thousandth",
            knobs=SoftTargetKnobs,
            control={"softness": 0.1},
            search=Search("softness", 0.0, 0.5),
            second=measure_self_entropy_by_hand,
            other_reading="Kullback and Leibler's divergence is it less the target's own entropy, 0 for one true class",
        ),
        Claim(
            id="mse-sigmoid-nonconvex",
            says="the squared error behind a sigmoid is not convex",
            where="log Q4",
            kind="proof",
            measure=measure_landscape,
            decides="least curvature by the logit",
            margin=lambda seen: -1e-9 - seen["least curvature by the logit"],
            rule="its second derivative by the logit is below 0 somewhere",
            knobs=LandscapeKnobs,
            control={"loss": "cross-entropy"},
            second=measure_curvature_by_torch,
        ),
        Claim(
            id="mse-many-local-minima",
            says="the landscape of the squared error is full of local minima",
            where="log Q4",
            kind="draws",
            measure=measure_landscape,
            decides="local minima",
            margin=lambda seen: seen["local minima"] - 2.5,
            rule="a classifier of 30 points has three local minima or more over its two weights",
            knobs=LandscapeKnobs,
            control={"examples": "scales"},
            seeds=8,
            other_reading="examples can be made for which there are many: that is the control (Auer and others 1996)",
        ),
        Claim(
            id="ce-landscape-convex",
            says="cross-entropy behind a sigmoid or softmax makes the landscape convex",
            where="log Q4/Q6",
            kind="draws",
            measure=measure_convexity,
            decides="least eigenvalue",
            margin=lambda seen: seen["least eigenvalue"] + 1e-9,
            rule="no Hessian over the weights has an eigenvalue below 0",
            knobs=HiddenLayerKnobs,
            control={"hidden": 4},
            search=Search("hidden", 0, 8),
            second=solve_convexity,
            seeds=5,
        ),
        Claim(
            id="ce-single-global-minimum",
            says="cross-entropy is a bowl with one minimum at its bottom",
            where="log Q4/Q6",
            kind="draws",
            measure=measure_bottom,
            decides="has a bottom",
            margin=lambda seen: seen["has a bottom"] - 0.5,
            rule="a straight classifier of two clouds has weights at which the slope is 0",
            knobs=BowlKnobs,
            control={"distance": 12.0},
            search=Search("distance", 0.0, 10.0),
            second=find_separating_line,
            seeds=15,
        ),
    ),
)
