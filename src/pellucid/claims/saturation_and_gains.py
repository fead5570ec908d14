"""Saturation and gains: the mean square of tanh, the gain that makes up for it, and what it keeps in a deep stack."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, agreement, closeness
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

SQUASHING = ("tanh", "relu", "sigmoid")
LIKE = math.log(1.25)  # sizes that differ by less than a quarter count as kept


def integrate(function: Callable[[float], float], low: float, high: float, n: int = 4_000) -> float:
    """Simpson's rule.

    >>> round(integrate(math.sin, 0.0, math.pi), 9)
    2.0
    """
    step = (high - low) / n
    inner = sum([(4 if i % 2 else 2) * function(low + i * step) for i in range(1, n)])
    return (function(low) + inner + function(high)) * step / 3


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class MeanSquareKnobs:
    deviation: float = option(1.0, "Deviation of Z.", minimum=0.001, maximum=100)
    activation: str = option("tanh", "Activation", choices=SQUASHING)

    def __post_init__(self) -> None:
        check_options(self)


def measure_mean_square(knobs: MeanSquareKnobs) -> Numbers:
    """E[f(Z)²] and the gain as the layers have it, by Gauss–Legendre; for another deviation of Z by Simpson's rule."""
    from pellucid.layers.feed_forward import gain

    if knobs.deviation != 1:
        return simpson_mean_square(knobs)
    return {"mean square": 1 / gain(knobs.activation) ** 2, "gain": gain(knobs.activation)}


def simpson_mean_square(knobs: MeanSquareKnobs) -> Numbers:
    """The same by Simpson's rule."""
    from pellucid.lessons.scalar_rnn import find_activation

    function = find_activation(knobs.activation).value
    square = integrate(lambda x: function(knobs.deviation * x) ** 2 * _density(x), -12.0, 12.0)
    return {"mean square": square, "gain": knobs.deviation / math.sqrt(square)}


@dataclass(frozen=True)
class LaplaceKnobs:
    factor: str = option("half", "1/(2√(2π)) before the transform, or 1/√(2π)", choices=("half", "whole"))
    argument: str = option("x", "The transform of f(x), or of f(√x)", choices=("x", "root"))
    first: str = option(
        "one", "What the transform is taken from in the formula for E[tanh Z]", choices=("one", "symmetry")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_laplace(knobs: LaplaceKnobs) -> Numbers:
    """E[tanh²(Z)] and E[tanh(Z)] by integration, beside the stated formulas with Laplace transforms at 1/2."""

    def transform(function: Callable[[float], float]) -> float:
        # With x = t² the kink of √x at 0 goes away.
        return integrate(
            lambda t: 2 * t * math.exp(-t * t / 2) * function(t if knobs.argument == "root" else t * t), 0.0, 12.0
        )

    before = 1 / math.sqrt(2 * math.pi) / (2 if knobs.factor == "half" else 1)
    by_formula = 1 - before * transform(lambda x: math.log(math.cosh(x)))
    return {
        "E[tanh²]": integrate(lambda x: math.tanh(x) ** 2 * _density(x), -12.0, 12.0),
        "formula for it": 1 - before * transform(math.tanh),
        "E[tanh]": integrate(lambda x: math.tanh(x) * _density(x), -12.0, 12.0),
        "formula for that": by_formula if knobs.first == "one" else 0.0,
    }


@dataclass(frozen=True)
class HyperbolicKnobs:
    other: str = option("sinh", "What is compared with cosh", choices=("sinh", "exp"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_hyperbolic(knobs: HyperbolicKnobs) -> Numbers:
    """The least of cosh x - sinh x from -15 to 15, where float64 can tell them apart."""
    other = math.sinh if knobs.other == "sinh" else math.exp
    return {"least difference": min(math.cosh(i / 100) - other(i / 100) for i in range(-1500, 1501))}


@dataclass(frozen=True)
class RootKnobs:
    square: float = option(0.39, "The mean square.", minimum=0.001, maximum=100)
    power: float = option(0.5, "Power that it is raised to.", minimum=0.1, maximum=10)

    def __post_init__(self) -> None:
        check_options(self)


def measure_root(knobs: RootKnobs) -> Numbers:
    """The root of a mean square, and one over it."""
    return {"root": knobs.square**knobs.power, "one over it": knobs.square**-knobs.power}


@dataclass(frozen=True)
class GainDepthKnobs:
    gain: float = option(
        0.0, "Deviation of the weights times √fan-in; 0 for the right one of tanh.", minimum=0, maximum=100
    )
    depth: int = option(6, "Layers of 200 tanh units.", minimum=2, maximum=100)
    looked_at: str = option("outputs", "The outputs, or what goes into tanh", choices=("outputs", "inputs"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class PlainGainKnobs(GainDepthKnobs):
    gain: float = option(
        1.0, "Deviation of the weights times √fan-in; 0 for the right one of tanh.", minimum=0, maximum=100
    )


@cache
def measure_gain_depth(knobs: GainDepthKnobs) -> Numbers:
    """A stack of tanh layers before any training: sizes of outputs and of gradients in its first and its last layer."""
    import torch

    from pellucid.layers.feed_forward import gain

    width, rng = 200, torch.Generator().manual_seed(knobs.seed)
    factor = knobs.gain or gain("tanh")
    z = torch.randn(64, width, generator=rng).requires_grad_()
    outs = [z.tanh()]
    for _ in range(knobs.depth - 1):
        z = outs[-1] @ (torch.randn(width, width, generator=rng) * factor / width**0.5)
        outs.append(z.tanh())
    gradients = torch.autograd.grad(outs[-1], outs, torch.randn(z.shape, generator=rng))
    sizes, flows = ([one.square().mean().sqrt().item() for one in each] for each in (outs, gradients))
    seen = outs[-1] if knobs.looked_at == "outputs" else z
    return {
        "last output over first": sizes[-1] / sizes[0],
        "first gradient over last": flows[0] / flows[-1],
        "outside −1 to 1": (seen.abs() > 1).double().mean().item(),
        "outputs beyond 0.9": (outs[-1].abs() > 0.9).double().mean().item(),
    }


GAIN, FIGURE = "notes §14.3", "notes §14.3 Fig.12"

FAMILY = ClaimFamily(
    name="saturation-and-gains",
    title="Saturation and gains",
    picture="gains",
    claims=(
        Claim(
            id="e-tanh-squared-0-39",
            says="the mean of tanh²(Z) for a standard normal Z is about 0.39",
            where="notes §14.3 Prop.3",
            kind="arithmetic",
            measure=measure_mean_square,
            decides="mean square",
            margin=lambda seen: closeness(seen["mean square"], 0.39, 2),
            rule="it is 0.39 to two decimals",
            knobs=MeanSquareKnobs,
            control={"activation": "relu"},
            second=simpson_mean_square,
        ),
        Claim(
            id="prop-3-laplace-formula",
            stated="E[tanh²(Z)]",
            says="E[tanh²(Z)] equals 1 − L[tanh](½) / (2√(2π)), by the Laplace transform",
            where="notes §14.3 Prop.3 proof",
            kind="arithmetic",
            measure=measure_laplace,
            decides="formula for it",
            margin=lambda seen: agreement((seen["formula for it"], seen["E[tanh²]"]), tolerance=1e-6),
            rule="the formula gives the mean of tanh²(Z), to a millionth",
            knobs=LaplaceKnobs,
            control={"factor": "whole", "argument": "root"},
            other_reading="with tanh √x and 1/√(2π), for both halves of the line, it does",
        ),
        Claim(
            id="sinh-less-than-cosh",
            says="sinh x is below cosh x",
            where="notes Remark 5",
            kind="proof",
            measure=measure_hyperbolic,
            margin=lambda seen: seen["least difference"],
            rule="it is so at every place from −15 to 15; the difference is exp(−x), so it is everywhere",
            knobs=HyperbolicKnobs,
            control={"other": "exp"},
            second=lambda knobs: {"least difference": math.exp(-15.0)} if knobs.other == "sinh" else {},
        ),
        Claim(
            id="tanh-gain-is-1",
            stated="1",
            says="the gain of tanh is 1",
            where="notes Cor.1",
            kind="arithmetic",
            measure=measure_mean_square,
            decides="gain",
            margin=lambda seen: closeness(seen["gain"], 1.0, 1),
            rule="1/√E[tanh²(Z)] is 1.0 to one decimal",
            knobs=MeanSquareKnobs,
            control={"deviation": 0.05},
            second=simpson_mean_square,
            other_reading="of inputs so small that tanh is straight there it is",
        ),
        Claim(
            id="one-over-sqrt-039-is-6-57",
            stated="6.57",
            says="1/√0.39 is about 6.57",
            where="notes Cor.1 proof",
            kind="arithmetic",
            measure=measure_root,
            decides="one over it",
            margin=lambda seen: closeness(seen["one over it"], 6.57, 2),
            rule="it is 6.57 to two decimals",
            knobs=RootKnobs,
            control={"power": 2.0},
            second=lambda knobs: {"one over it": math.exp(-knobs.power * math.log(knobs.square))},
            other_reading="1/0.39² is",
        ),
        Claim(
            id="gain-five-thirds",
            stated="5/3 = 1.667",
            says="√0.39 is 5/3",
            where="notes §14.3 notes",
            kind="arithmetic",
            measure=measure_root,
            decides="root",
            margin=lambda seen: closeness(seen["root"], 1.67, 2),
            rule="it is 1.67 to two decimals",
            knobs=RootKnobs,
            control={"square": 2.7778},
            second=lambda knobs: {"root": math.exp(knobs.power * math.log(knobs.square))},
            other_reading="one over it is 1.60, which is near; torch takes 5/3 as the gain of tanh",
        ),
        Claim(
            id="var-tanh-0-42",
            stated="0.42",
            says="the variance of tanh(Z) is about 0.42",
            where="notes §14.3 notes",
            kind="arithmetic",
            measure=measure_mean_square,
            decides="mean square",
            margin=lambda seen: closeness(seen["mean square"], 0.42, 2),
            rule="it is 0.42 to two decimals; the mean is 0, so that it is the mean square",
            knobs=MeanSquareKnobs,
            control={"deviation": 1.08},
            second=simpson_mean_square,
        ),
        Claim(
            id="e-tanh-formula",
            says="the mean of tanh(Z) is 1 − L[log cosh](½) / (2√(2π))",
            where="notes §14.3 Prop.4",
            kind="arithmetic",
            measure=measure_laplace,
            decides="formula for that",
            margin=lambda seen: agreement((seen["formula for that"], seen["E[tanh]"]), tolerance=1e-6),
            rule="the formula gives the mean of tanh(Z), to a millionth",
            knobs=LaplaceKnobs,
            control={"first": "symmetry"},
            other_reading="tanh is odd, so that its mean is 0",
        ),
        Claim(
            id="gain-keeps-activation-scale",
            says="with the gain activations keep their range however deep the network is",
            where=FIGURE,
            kind="draws",
            measure=measure_gain_depth,
            decides="last output over first",
            margin=lambda seen: LIKE - abs(math.log(seen["last output over first"])),
            rule="outputs of the last layer are within a quarter as large as the first's, for 2 to 50 layers",
            knobs=GainDepthKnobs,
            control={"gain": 0.5},
            search=Search("depth", 2, 50, n_values=4, is_log=True),
            seeds=5,
        ),
        Claim(
            id="gain-keeps-gradient-scale",
            says="with the gain gradients keep their range however deep the network is",
            where=FIGURE,
            kind="draws",
            measure=measure_gain_depth,
            decides="first gradient over last",
            margin=lambda seen: LIKE - abs(math.log(seen["first gradient over last"])),
            rule="gradients at the first layer are within a quarter as large as at the last, for 2 to 50 layers",
            knobs=GainDepthKnobs,
            control={"depth": 2},
            search=Search("depth", 2, 50, n_values=4, is_log=True),
            seeds=5,
        ),
        Claim(
            id="improper-init-shrinks",
            says="without the gain activations and gradients shrink from layer to layer",
            where="notes Fig.12",
            kind="draws",
            measure=measure_gain_depth,
            decides="last output over first",
            margin=lambda seen: 1 - max(seen["last output over first"], seen["first gradient over last"]),
            rule="with a gain of 1 both are smaller at the far end of six layers",
            knobs=PlainGainKnobs,
            control={"gain": 3.0},
            seeds=8,
        ),
        Claim(
            id="activations-outside-minus1-1",
            says="histograms of tanh layers show how often activations lie outside −1 to 1",
            where=GAIN,
            kind="draws",
            measure=measure_gain_depth,
            decides="outside −1 to 1",
            margin=lambda seen: seen["outside −1 to 1"] - 0.001,
            rule="more than a thousandth of the outputs do",
            knobs=GainDepthKnobs,
            control={"looked_at": "inputs"},
            seeds=8,
            other_reading="what goes into tanh does",
        ),
        Claim(
            id="proper-init-near-boundary",
            says="with the gain most activations are near the boundary",
            where="notes Fig.12",
            kind="draws",
            measure=measure_gain_depth,
            decides="outputs beyond 0.9",
            margin=lambda seen: seen["outputs beyond 0.9"] - 0.5,
            rule="more than half of the outputs are beyond 0.9 in size",
            knobs=GainDepthKnobs,
            control={"gain": 20.0},
            seeds=8,
        ),
    ),
)
