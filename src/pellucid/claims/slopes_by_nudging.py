"""Slopes by nudging: rise over run beside the engine, what so many digits allow, and what each way costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from pellucid.autograd.derivation import differences, differentiate
from pellucid.autograd.value import ancestors
from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, agreement
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

JOINED = ("plus", "times")


@dataclass(frozen=True)
class PrintedFactorKnobs:
    factor: float = option(-8.0, "What 2 is multiplied by.", minimum=-100, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class ParabolaKnobs:
    slope: float = option(-4.0, "What x is multiplied by in 3x² - 4x + 5.", minimum=-100, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)


def measure_parabola(knobs: ParabolaKnobs) -> Numbers:
    """Where the slope of the parabola changes its sign, by halving an interval; and how far it is from 6x - 4."""

    def slope(x: float) -> float:
        return differentiate("3*x^2 + b*x + 5", {"x": x, "b": knobs.slope}, wrt=("x",)).gradients["x"]

    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return {"zero": high, "furthest from 6x - 4": max(abs(slope(x) - (6 * x - 4)) for x in range(-10, 11))}


@dataclass(frozen=True)
class WrittenOutKnobs:
    hidden: int = option(200, "Units of the hidden layer.", minimum=2, maximum=2000)
    inside: str = option(
        "known", "Whether the network's own steps are seen, or just what it gives", choices=("known", "hidden")
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_written_out(knobs: WrittenOutKnobs) -> Numbers:
    """Derivatives of a two-layer network by backpropagation and by nudges, beside a formula written by hand."""
    import torch

    n_inputs, n_classes, rng = 30, 27, torch.Generator().manual_seed(knobs.seed)
    x = torch.randn(n_inputs, generator=rng, dtype=torch.float64)
    w1, w2 = (
        torch.randn(shape, generator=rng, dtype=torch.float64) / shape[1] ** 0.5
        for shape in ((knobs.hidden, n_inputs), (n_classes, knobs.hidden))
    )

    def loss_of(first: torch.Tensor) -> torch.Tensor:
        scores = w2 @ torch.tanh(first @ x)
        loss: torch.Tensor = scores.logsumexp(0) - scores[3]
        return loss

    h = torch.tanh(w1 @ x)
    error = (w2 @ h).softmax(0)
    error[3] -= 1
    written = torch.outer((w2.T @ error) * (1 - h**2), x)  # dL/dW1 = (W2ᵀ(p - y) ∘ (1 - h²)) xᵀ
    leaf = w1.clone().requires_grad_()
    seen = leaf if knobs.inside == "known" else w1 + 0 * leaf
    loss_of(seen).backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    largest = written.abs().max().item()
    nudged, step = [], 1e-6
    for row, column in torch.randint(0, n_inputs, (20, 2), generator=rng).tolist():
        row = row % knobs.hidden
        up, down = w1.clone(), w1.clone()
        up[row, column] += step
        down[row, column] -= step
        slope = (loss_of(up) - loss_of(down)).item() / (2 * step)
        nudged.append(abs(slope - written[row, column].item()))
    return {
        "error by backpropagation": max((leaf.grad - written).abs().max().item() / largest, 1e-17),
        "error by nudges": max(nudged) / largest,
        "weights": float(w1.numel() + w2.numel()),
    }


@dataclass(frozen=True)
class DigitsKnobs:
    arithmetic: str = option(
        "float64", "Numbers of 53 binary digits, or exact fractions", choices=("float64", "fractions")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_digits(knobs: DigitsKnobs) -> Numbers:
    """Rise over run of 3x² - 4x + 5 at 3, where the slope is 14, with ever smaller h."""
    errors = {}
    for power in (4, 8, 12, 15):
        if knobs.arithmetic == "fractions":
            h, at = Fraction(1, 10**power), Fraction(3)
            rise = (3 * (at + h) ** 2 - 4 * (at + h)) - (3 * at**2 - 4 * at)
            errors[power] = float(abs(rise / h - 14))
        else:
            forward = differences(lambda x: 3 * x**2 - 4 * x + 5, 3.0, h=10.0**-power, exact=14.0)[0]
            errors[power] = abs(forward.error)
    return {f"error at h = 1e-{power}": error for power, error in errors.items()}


@dataclass(frozen=True)
class ThreeInputKnobs:
    x1: float = option(2.0, "First number.", minimum=-100, maximum=100)
    x2: float = option(-4.0, "Second number.", minimum=-100, maximum=100)
    h: float = option(0.001, "How far one of them is nudged.", minimum=1e-9, maximum=1)
    joined: str = option("times", "How the first two are joined", choices=JOINED)

    def __post_init__(self) -> None:
        check_options(self)


def measure_three_inputs(knobs: ThreeInputKnobs) -> Numbers:
    """x1·x2 + x3 and its slopes by the engine; and how often a nudge of x1 follows the sign of x2."""
    text = "x1*x2 + x3" if knobs.joined == "times" else "x1 + x2 + x3"
    derived = differentiate(text, {"x1": knobs.x1, "x2": knobs.x2, "x3": 10.0})

    def first_part(x1: float, x2: float) -> float:
        return x1 * x2 if knobs.joined == "times" else x1 + x2

    signs = [
        (first_part(a + knobs.h, b) < first_part(a, b)) == (b < 0)
        for a in (-3.0, -0.5, 0.5, 2.0)
        for b in (-4.0, -0.1, 0.1, 5.0)
    ]
    return {
        "x1·x2": first_part(knobs.x1, knobs.x2),
        "(x1 + h)·x2": first_part(knobs.x1 + knobs.h, knobs.x2),
        **{f"slope toward {name}": slope for name, slope in derived.gradients.items()},
        "pairs that follow the sign": sum(signs) / len(signs),
        "x1": knobs.x1,
        "x2": knobs.x2,
    }


def nudge_three_inputs(knobs: ThreeInputKnobs) -> Numbers:
    """The slopes by nudging; the function is straight in each input, so that nothing but rounding is lost."""

    def f(x1: float, x2: float, x3: float) -> float:
        return (x1 * x2 if knobs.joined == "times" else x1 + x2) + x3

    at = (knobs.x1, knobs.x2, 10.0)
    rises = [f(*[x + knobs.h * (i == k) for i, x in enumerate(at)]) - f(*at) for k in range(3)]
    return {f"slope toward x{k + 1}": rise / knobs.h for k, rise in enumerate(rises)}


@dataclass(frozen=True)
class AscentKnobs:
    step: float = option(0.01, "What the gradient is multiplied by.", minimum=1e-6, maximum=100)
    at: float = option(3.0, "Where x stands.", minimum=-100, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)


def measure_ascent(knobs: AscentKnobs) -> Numbers:
    """One step along the gradient of -(3x² - 4x + 5), which has a top."""
    before = differentiate("-(3*x^2 - 4*x + 5)", {"x": knobs.at})
    moved = knobs.at + knobs.step * before.gradients["x"]
    return {"before": before.value, "after": differentiate("-(3*x^2 - 4*x + 5)", {"x": moved}).value}


def ascent_closed_form(knobs: AscentKnobs) -> Numbers:
    """What Taylor says: f + s·f'² + s²·f'²·f''/2 with f'' = -6, so that it rises while s < 1/3."""
    value, slope = -(3 * knobs.at**2 - 4 * knobs.at + 5), -(6 * knobs.at - 4)
    return {"after": value + knobs.step * slope**2 - 3 * knobs.step**2 * slope**2}


@dataclass(frozen=True)
class ChainCostKnobs:
    asked: int = option(0, "Weights whose derivative is wanted; 0 for all.", minimum=0, maximum=1000)

    def __post_init__(self) -> None:
        check_options(self)


def measure_chain_cost(knobs: ChainCostKnobs) -> Numbers:
    """Operations for the derivatives of a network of 337 weights: one pass there and back, or a pass for each nudge."""
    from pellucid.autograd.nn import ScalarMLP, squared_error

    model = ScalarMLP(2, [16, 16, 1], seed=1)
    loss = squared_error(model([0.3, -0.7])[0], 1.0)
    nodes = ancestors(loss)
    # A node with k parents costs k operations forward (its sum or product) and k back (a slope times what it was told).
    edges = sum([len(node.parents) for node in nodes])
    weights = knobs.asked or len(model.parameters())
    return {
        "times fewer": (weights + 1) * edges / (2 * edges),
        "operations by the chain rule": 2.0 * edges,
        "operations by nudges": float((weights + 1) * edges),
        "weights": float(weights),
    }


NOTES = "notes §1"

FAMILY = ClaimFamily(
    name="slopes-by-nudging",
    title="Slopes by nudging",
    picture="slope",
    claims=(
        Claim(
            id="quad-derivative-sign",
            says="3x² − 4x + 5 has the slope 6x − 4, which changes its sign at 2/3",
            where="notes §1 Ex.1",
            kind="arithmetic",
            measure=measure_parabola,
            decides="zero",
            margin=lambda seen: min(agreement((seen["zero"], 2 / 3)), 1e-9 - seen["furthest from 6x - 4"]),
            rule="the engine's slope is 6x − 4 at 21 places and its zero, found by halving, is 2/3",
            knobs=ParabolaKnobs,
            control={"slope": -6.0},
            second=lambda knobs: {"zero": -knobs.slope / 6},
        ),
        Claim(
            id="nets-need-numeric-derivatives",
            says="the derivative of a network with thousands of weights has to be approximated by nudging",
            where=NOTES,
            kind="draws",
            measure=measure_written_out,
            decides="error by backpropagation",
            margin=lambda seen: math.log10(seen["error by backpropagation"] / seen["error by nudges"]),
            rule="nudges come closer to the derivative written as a formula than backpropagation does",
            knobs=WrittenOutKnobs,
            control={"inside": "hidden"},
            seeds=8,
            other_reading="nobody writes it out term by term; backpropagation needs no approximation for that",
        ),
        Claim(
            id="finite-digits-limit-h",
            says="numbers have so many digits and no more, which limits how small a nudge can be",
            where=NOTES,
            kind="arithmetic",
            measure=measure_digits,
            decides="error at h = 1e-15",
            margin=lambda seen: math.log10(seen["error at h = 1e-15"] / seen["error at h = 1e-8"]),
            rule="rise over run is further from the slope with h = 1e-15 than with h = 1e-8",
            knobs=DigitsKnobs,
            control={"arithmetic": "fractions"},
        ),
        Claim(
            id="partials-of-x1x2-plus-x3",
            says="x1·x2 + x3 has the slopes x2, x1 and 1",
            where="notes §1 Ex.2",
            kind="arithmetic",
            measure=measure_three_inputs,
            decides="slope toward x1",
            margin=lambda seen: agreement(
                (seen["slope toward x1"], seen["x2"]),
                (seen["slope toward x2"], seen["x1"]),
                (seen["slope toward x3"], 1.0),
            ),
            rule="the three slopes are those",
            knobs=ThreeInputKnobs,
            control={"joined": "plus"},
            second=nudge_three_inputs,
        ),
        Claim(
            id="example-2-times-minus-8",
            stated="−8",
            says="2 times −8 is −8",
            where=NOTES,
            kind="arithmetic",
            measure=lambda knobs: {"product": differentiate("2*b", {"b": knobs.factor}).value},
            margin=lambda seen: agreement((seen["product"], -8.0)),
            rule="the product is −8",
            knobs=PrintedFactorKnobs,
            control={"factor": -4.0},
            other_reading="meant is 2 times −4",
        ),
        Claim(
            id="nudge-x1-follows-sign-x2",
            says="raising x1 a little lowers x1·x2 just where x2 is below 0: from −8 to −8.004 with 2.001 and −4",
            where=NOTES,
            kind="proof",
            measure=measure_three_inputs,
            decides="pairs that follow the sign",
            margin=lambda seen: min(
                seen["pairs that follow the sign"] - 1 + 1e-9,
                agreement((seen["(x1 + h)·x2"], -8.004), (seen["x1·x2"], -8.0)),
            ),
            rule="it is so for 16 pairs of all signs, and the two products are the stated ones",
            knobs=ThreeInputKnobs,
            control={"joined": "plus"},
        ),
        Claim(
            id="gradient-step-raises-output",
            says="moving the inputs along the gradient makes the output larger",
            where="notes §2",
            kind="arithmetic",
            measure=measure_ascent,
            decides="after",
            margin=lambda seen: seen["after"] - seen["before"],
            rule="the output is larger after a step of any size",
            knobs=AscentKnobs,
            control={"step": 0.5},
            search=Search("step", 0.001, 10, is_log=True),
            second=ascent_closed_form,
            other_reading="meant is a small step; here a third, 2 over the curvature of 6, is the largest",
        ),
        Claim(
            id="chain-rule-saves-time",
            says="the chain rule saves a lot of computation",
            where="notes §2",
            kind="cost",
            measure=measure_chain_cost,
            decides="times fewer",
            margin=lambda seen: seen["times fewer"] - 10,
            rule="all derivatives of a small network take at least ten times fewer operations than nudging each weight",
            knobs=ChainCostKnobs,
            control={"asked": 1},
        ),
    ),
)
