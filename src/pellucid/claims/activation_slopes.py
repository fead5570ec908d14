"""Slopes of activations: where they are steep, where flat, and what is left of a gradient behind many of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pellucid.autograd.value import Value
from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

SQUASHING = ("tanh", "relu", "leaky_relu", "gelu", "sigmoid")
DEFAULT_GAIN = 3**-0.5  # of nn.Linear: weights uniform within ±1/√fan-in


@dataclass(frozen=True)
class ActivationRangeKnobs:
    activation: str = option("all", "Which ones are looked at", choices=("all", *SQUASHING))

    def __post_init__(self) -> None:
        check_options(self)


def measure_ranges(knobs: ActivationRangeKnobs) -> Numbers:
    """How far apart the outputs of each activation are, for inputs from -1000 to 1000."""
    import torch

    from pellucid.layers.feed_forward import build_activation

    x = torch.linspace(-1000, 1000, 20_001, dtype=torch.float64)
    ranges = {}
    for name in SQUASHING if knobs.activation == "all" else (knobs.activation,):
        out = build_activation(name)(x)
        ranges[name] = (out.max() - out.min()).item()
    return {"widest": max(ranges.values()), **ranges}


@dataclass(frozen=True)
class TanhKnobs:
    x: float = option(3.0, "Where tanh is taken.", minimum=0, maximum=1000)
    digits: str = option("float64", "Numbers of 53 or of 24 binary digits", choices=("float64", "float32"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_tanh(knobs: TanhKnobs) -> Numbers:
    """tanh as torch computes it, and what it lacks of 1."""
    import torch

    found = torch.tanh(torch.tensor(knobs.x, dtype=getattr(torch, knobs.digits)))
    return {"tanh": found.item(), "less than 1 by": (1 - found).item()}


def tanh_by_exponentials(knobs: TanhKnobs) -> Numbers:
    """(1 − e) / (1 + e) and 2 e / (1 + e), for e = exp(−2x)."""
    small = math.exp(-2 * knobs.x)
    return {"tanh": (1 - small) / (1 + small), "less than 1 by": 2 * small / (1 + small)}


@dataclass(frozen=True)
class DeepSlopeKnobs:
    gain: float = option(DEFAULT_GAIN, "Deviation of the weights times √fan-in.", minimum=0.01, maximum=10)
    depth: int = option(10, "Layers.", minimum=2, maximum=100)
    activation: str = option("tanh", "Activation of every layer", choices=SQUASHING)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_depth(knobs: DeepSlopeKnobs) -> Numbers:
    """A gradient on its way down a stack of 64 units a layer, and the single partial derivatives it meets."""
    import torch

    from pellucid.layers.feed_forward import build_activation

    width, rng = 64, torch.Generator().manual_seed(knobs.seed)
    activation = build_activation(knobs.activation)
    x = torch.randn(8, width, generator=rng)
    outs: list[torch.Tensor] = []
    below = 0.0
    for _ in range(knobs.depth):
        weights = torch.randn(width, width, generator=rng) * knobs.gain / width**0.5
        z = x @ weights
        flat = z.detach().requires_grad_()
        slopes = torch.autograd.grad(activation(flat).sum(), flat)[0]
        partials = slopes[:, None, :] * weights  # (example, from, to)
        below += (partials.abs() < 1).float().mean().item() / knobs.depth
        x = activation(z if outs else flat)
        outs.append(x)
    gradients = torch.autograd.grad(x, outs, torch.randn(x.shape, generator=rng))
    first, last = (gradient.square().mean().sqrt().item() for gradient in (gradients[0], gradients[-1]))
    return {
        "gradient left": first / last,
        "partials below 1": below,
    }


def _twenty_relu_layers(knobs: DeepSlopeKnobs) -> DeepSlopeKnobs:
    return replace(knobs, depth=2 * knobs.depth, activation="relu")


@dataclass(frozen=True)
class SteepestKnobs:
    activation: str = option("sigmoid", "Which one", choices=("sigmoid", "tanh", "relu"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_steepest(knobs: SteepestKnobs) -> Numbers:
    """The largest slope from -10 to 10, by the engine."""
    slopes = []
    for place in range(-1000, 1001):
        x = Value(place / 100)
        getattr(x, knobs.activation)().backward()
        slopes.append(x.grad)
    return {"largest slope": max(slopes)}


@dataclass(frozen=True)
class FlatEndKnobs:
    functions: str = option("sigmoid and tanh", "Which ones", choices=("sigmoid and tanh", "softsign"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_flat_ends(knobs: FlatEndKnobs) -> Numbers:
    """By how much the logarithm of the slope falls for each unit of x, around 5 and around 9."""

    def slope(name: str, at: float) -> float:
        x = Value(at)
        out = x / (1 + abs(x)) if name == "softsign" else getattr(x, name)()
        out.backward()
        return x.grad

    rates = {}
    for name in knobs.functions.split(" and "):
        for at in (5, 9):
            rates[f"{name} at {at}"] = math.log(slope(name, at - 1) / slope(name, at + 1)) / 2
    ratios = [rates[f"{name} at 9"] / rates[f"{name} at 5"] for name in knobs.functions.split(" and ")]
    return {"furthest ratio of the two": max(ratios, key=lambda ratio: abs(math.log(ratio))), **rates}


@dataclass(frozen=True)
class MeanSlopeKnobs:
    scale: float = option(5.0, "Deviation of the inputs.", minimum=0.01, maximum=100)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_mean_slopes(knobs: MeanSlopeKnobs) -> Numbers:
    """The mean slope of each activation over inputs that are drawn from a normal distribution."""
    import torch

    from pellucid.layers.feed_forward import build_activation

    drawn = torch.randn(20_000, generator=torch.Generator().manual_seed(knobs.seed), dtype=torch.float64)
    found = {}
    for name in ("relu", "tanh", "sigmoid"):
        z = (drawn * knobs.scale).requires_grad_()
        found[name] = torch.autograd.grad(build_activation(name)(z).mean(), z)[0].sum().item()
    return found


def integrate_slopes(knobs: MeanSlopeKnobs) -> Numbers:
    """The same by a sum over a grid of 8 deviations."""
    step = 0.0005
    grid = [step * (i + 0.5) for i in range(int(8 / step))]
    density = [2 * step * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in grid]
    tanh = [1 - math.tanh(knobs.scale * z) ** 2 for z in grid]
    sigmoid = [1 / (2 + 2 * math.cosh(min(knobs.scale * z, 700.0))) for z in grid]
    mean = {
        name: sum([d * s for d, s in zip(density, each, strict=True)])
        for name, each in (("tanh", tanh), ("sigmoid", sigmoid))
    }
    return {"relu": 0.5, **mean}


STACKS, DRAWBACK = "answers Q2", "exam P2.2"

FAMILY = ClaimFamily(
    name="activation-slopes",
    title="Slopes of activations",
    picture="gains",
    claims=(
        Claim(
            id="activations-have-small-range",
            says="activation functions have a very small range",
            where="notes §3",
            kind="proof",
            measure=measure_ranges,
            decides="widest",
            margin=lambda seen: 2 + 1e-9 - seen["widest"],
            rule="for inputs from −1000 to 1000 the outputs of each are at most 2 apart, as those of tanh are",
            knobs=ActivationRangeKnobs,
            control={"activation": "tanh"},
            other_reading="so do those that squash, tanh and the sigmoid",
        ),
        Claim(
            id="tanh-stays-inside-open-interval",
            says="tanh stays between −1 and 1 and reaches neither",
            where="notes §3, §14.2",
            kind="arithmetic",
            measure=measure_tanh,
            decides="less than 1 by",
            margin=lambda seen: seen["less than 1 by"],
            rule="what the computer gives for tanh x is below 1, for every x from 1 to 40",
            knobs=TanhKnobs,
            control={"x": 30.0},
            search=Search("x", 1.0, 40.0),
            second=tanh_by_exponentials,
            other_reading="of real numbers it is true; float64 has none between 1 − 2⁻⁵³ and 1, float32 ends at 9.01",
        ),
        Claim(
            id="partials-usually-below-one",
            says="partial derivatives are mostly below 1, so that their products shrink with depth",
            where=STACKS,
            kind="draws",
            measure=measure_depth,
            decides="gradient left",
            margin=lambda seen: min(-math.log10(seen["gradient left"]), seen["partials below 1"] - 0.5),
            rule="most of them are below 1 and a gradient is smaller after ten layers of tanh, for any weights",
            knobs=DeepSlopeKnobs,
            control={"gain": 3.0},
            search=Search("gain", 0.2, 5.0, n_values=7, is_log=True),
            seeds=8,
            other_reading="nearly all are below 1, but a gradient sums up over many ways for each layer",
        ),
        Claim(
            id="sigmoid-derivative-small",
            says="a sigmoid makes derivatives smaller still",
            where="answers Q2; exam P2.2",
            kind="proof",
            measure=measure_steepest,
            margin=lambda seen: 1 - seen["largest slope"],
            rule="its slope is below 1 everywhere",
            knobs=SteepestKnobs,
            control={"activation": "relu"},
            second=lambda knobs: {"largest slope": 0.25 if knobs.activation == "sigmoid" else 1.0},
        ),
        Claim(
            id="relu-solves-vanishing",
            says="ReLU has the derivative 1, which solves the vanishing of gradients",
            where=STACKS,
            kind="draws",
            measure=lambda knobs: measure_depth(_twenty_relu_layers(knobs)),
            decides="gradient left",
            margin=lambda seen: 1 + math.log10(seen["gradient left"]),
            rule="more than a tenth of a gradient is left after twenty layers, for weights of any size",
            knobs=DeepSlopeKnobs,
            control={"gain": 1.5},
            search=Search("gain", 0.2, 5.0, n_values=7, is_log=True),
            seeds=8,
            other_reading="its slope is 1 for one half of the inputs and 0 for the other",
        ),
        Claim(
            id="sigmoid-tanh-gradients-exponential",
            says="the slopes of the sigmoid and of tanh go to zero exponentially for large inputs",
            where=DRAWBACK,
            kind="arithmetic",
            measure=measure_flat_ends,
            margin=lambda seen: 0.05 - abs(seen["furthest ratio of the two"] - 1),
            rule="the logarithm of the slope falls at 9 as fast as at 5, within 5 %",
            knobs=FlatEndKnobs,
            control={"functions": "softsign"},
        ),
        Claim(
            id="relu-mitigates-positive",
            says="ReLU lets more gradient through than the sigmoid and tanh, by what it passes for positive inputs",
            where=DRAWBACK,
            kind="draws",
            measure=measure_mean_slopes,
            decides="tanh",
            margin=lambda seen: seen["relu"] - max(seen["tanh"], seen["sigmoid"]),
            rule="its mean slope is the largest of the three, for normal inputs of any deviation",
            knobs=MeanSlopeKnobs,
            control={"scale": 0.5},
            search=Search("scale", 0.1, 20.0, is_log=True),
            second=integrate_slopes,
            tolerance=0.02,
            seeds=8,
            other_reading="meant are large inputs, where it is so",
        ),
    ),
)
