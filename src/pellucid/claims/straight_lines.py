"""Straight lines: what none of them tells apart, and what stays straight however many layers there are."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, agreement
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

FUNCTIONS = {"xor": (0, 1, 1, 0), "and": (0, 0, 0, 1), "or": (0, 1, 1, 1)}
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))


@dataclass(frozen=True)
class TruthTableKnobs:
    function: str = option("xor", "What two bits are joined by", choices=tuple(FUNCTIONS))
    hidden: int = option(8, "Hidden units of the network.", minimum=1, maximum=64)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_lines(knobs: TruthTableKnobs) -> Numbers:
    """The fewest corners that any straight line leaves on their wrong side; these lines cut the square in every way."""
    truth = FUNCTIONS[knobs.function]
    weights, offsets = (-2, -1, 0, 1, 2), [half + 0.5 for half in range(-5, 5)]
    wrong = [
        sum([(u * x + v * y + b > 0) != bool(t) for (x, y), t in zip(CORNERS, truth, strict=True)])
        for u, v, b in itertools.product(weights, weights, offsets)
    ]
    return {"fewest on the wrong side": float(min(wrong)), "lines tried": float(len(wrong))}


def compare_diagonals(knobs: TruthTableKnobs) -> Numbers:
    """On the corners of a square f(0,0) + f(1,1) = f(0,1) + f(1,0) for every f that is straight."""
    corner00, corner01, corner10, corner11 = FUNCTIONS[knobs.function]
    return {"fewest on the wrong side": float(corner00 == corner11 and corner01 == corner10 and corner00 != corner01)}


def measure_perceptron(knobs: TruthTableKnobs) -> Numbers:
    """Rosenblatt's rule from a random start: the most corners that were ever right at once."""
    rng = random.Random(knobs.seed)
    weights = [rng.gauss(0, 1) for _ in range(3)]
    best = 0
    for _ in range(500):
        answers = [_fires(weights, corner) for corner in CORNERS]
        best = max(best, sum([a == t for a, t in zip(answers, FUNCTIONS[knobs.function], strict=True)]))
        for corner, truth in zip(CORNERS, FUNCTIONS[knobs.function], strict=True):
            off = truth - _fires(weights, corner)
            weights = [w + 0.1 * off * x for w, x in zip(weights, (*corner, 1), strict=True)]
    return {"right at best, of 4": float(best)}


def _fires(weights: Sequence[float], corner: Sequence[int]) -> int:
    return int(sum([w * x for w, x in zip(weights, (*corner, 1), strict=True)]) > 0)


def measure_mlp(knobs: TruthTableKnobs) -> Numbers:
    """A hidden layer of tanh units, trained by the scalar engine on the four corners."""
    from pellucid.autograd.nn import ScalarMLP, binary_cross_entropy
    from pellucid.autograd.value import total

    model = ScalarMLP(2, [knobs.hidden, 1], seed=knobs.seed)
    truths = FUNCTIONS[knobs.function]
    for _ in range(150):
        losses = [binary_cross_entropy(model(c)[0], t) for c, t in zip(CORNERS, truths, strict=True)]
        total(losses).backward()
        for parameter in model.parameters():
            parameter.data -= 0.5 * parameter.grad
    right = [(model(corner)[0].data > 0) == bool(t) for corner, t in zip(CORNERS, truths, strict=True)]
    return {"right, of 4": float(sum(right)), "loss": sum([loss.data for loss in losses]) / 4}


@dataclass(frozen=True)
class LineStackKnobs:
    first: float = option(2.0, "Slope of the first layer.", minimum=-100, maximum=100)
    second: float = option(3.0, "Slope of the second.", minimum=-100, maximum=100)
    third: float = option(4.0, "Slope of the third.", minimum=-100, maximum=100)
    joined: str = option(
        "stacked", "Each reads the one before, or all read x and are added", choices=("stacked", "added")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_line_stack(knobs: LineStackKnobs) -> Numbers:
    """Three layers 1 + b·x of one number: the slope and the offset of the whole, and the sums of theirs."""
    slopes = (knobs.first, knobs.second, knobs.third)

    def whole(x: float) -> float:
        if knobs.joined == "added":
            return sum([1 + slope * x for slope in slopes])
        for slope in slopes:
            x = 1 + slope * x
        return x

    return {
        "slope": whole(1.0) - whole(0.0),
        "sum of the slopes": sum(slopes),
        "offset": whole(0.0),
        "sum of the offsets": 3.0,
    }


def multiply_slopes(knobs: LineStackKnobs) -> Numbers:
    """On top of each other: the slopes multiplied, and each offset times the slopes above it."""
    if knobs.joined == "added":
        return {}
    return {"slope": knobs.first * knobs.second * knobs.third, "offset": 1 + knobs.third + knobs.third * knobs.second}


@dataclass(frozen=True)
class StackKnobs:
    layers: int = option(3, "Layers.", minimum=1, maximum=20)
    activation: str = option("identity", "What stands between them", choices=("identity", "tanh", "relu"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_bend(knobs: StackKnobs) -> Numbers:
    """How far a stack of random layers is from the straight line between its ends, as a part of its reach."""
    import torch

    rng = torch.Generator().manual_seed(knobs.seed)
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "identity": torch.clone,
        "tanh": torch.tanh,
        "relu": torch.relu,
    }
    ends = torch.randn(2, 8, generator=rng, dtype=torch.float64) * 3
    part = torch.linspace(0, 1, 21, dtype=torch.float64)[:, None]
    x = ends[0] * (1 - part) + ends[1] * part  # (21, 8): points on a straight line
    for _ in range(knobs.layers):
        weights = torch.randn(8, 8, generator=rng, dtype=torch.float64) / 8**0.5
        x = functions[knobs.activation](x @ weights + torch.randn(8, generator=rng, dtype=torch.float64))
    straight = x[0] * (1 - part) + x[-1] * part
    return {"bend": ((x - straight).abs().max() / (x.max() - x.min())).item()}


@dataclass(frozen=True)
class ShapeKnobs:
    shape: str = option("sine", "What is to be fitted", choices=("sine", "line"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_shapes(knobs: ShapeKnobs) -> Numbers:
    """A hidden layer with and without tanh, its last weights solved by least squares, on a sine of two periods."""
    import torch

    rng = torch.Generator().manual_seed(knobs.seed)
    x = torch.linspace(-1, 1, 200, dtype=torch.float64)[:, None]
    y = torch.sin(2 * math.pi * x) if knobs.shape == "sine" else 0.5 - 2 * x
    hidden = x @ (torch.randn(1, 64, generator=rng, dtype=torch.float64) * 5)
    hidden = hidden + torch.randn(64, generator=rng, dtype=torch.float64) * 3
    explained = {}
    for name, units in (("without", hidden), ("with tanh", hidden.tanh())):
        read = torch.cat([units, torch.ones_like(x)], 1)
        fitted = read @ torch.linalg.lstsq(read, y, driver="gelsd").solution
        explained[f"explained {name}"] = 1 - ((y - fitted).square().sum() / (y - y.mean()).square().sum()).item()
    return explained


def shape_by_line(knobs: ShapeKnobs) -> Numbers:
    """The best straight line, by its two formulas."""
    xs = [-1 + 2 * i / 199 for i in range(200)]
    ys = [math.sin(2 * math.pi * x) if knobs.shape == "sine" else 0.5 - 2 * x for x in xs]
    mean = sum(ys) / len(ys)
    both = sum([x * (y - mean) for x, y in zip(xs, ys, strict=True)])
    return {"explained without": both**2 / sum([x * x for x in xs]) / sum([(y - mean) ** 2 for y in ys])}


XOR, STACKS = "answers Q1", "answers Q2"

FAMILY = ClaimFamily(
    name="straight-lines",
    title="Straight lines",
    claims=(
        Claim(
            id="xor-not-linearly-separable",
            says="no straight line has the ones of exclusive or on one side",
            where=XOR,
            kind="proof",
            measure=measure_lines,
            decides="fewest on the wrong side",
            margin=lambda seen: seen["fewest on the wrong side"] - 0.5,
            rule="of lines that cut the square's corners in every way there is, each leaves one on its wrong side",
            knobs=TruthTableKnobs,
            control={"function": "and"},
            second=compare_diagonals,
        ),
        Claim(
            id="perceptron-cannot-do-xor",
            says="one layer of a perceptron cannot learn exclusive or",
            where=XOR,
            kind="training",
            measure=measure_perceptron,
            decides="right at best, of 4",
            margin=lambda seen: 3.5 - seen["right at best, of 4"],
            rule="500 passes of Rosenblatt's rule never have all four corners right",
            knobs=TruthTableKnobs,
            control={"function": "and"},
            seeds=8,
        ),
        Claim(
            id="mlp-solves-xor",
            says="a network with a hidden layer can learn exclusive or",
            where=XOR,
            kind="training",
            measure=measure_mlp,
            decides="right, of 4",
            margin=lambda seen: seen["right, of 4"] - 3.5,
            rule="with 8 hidden units all four corners are right after 150 steps",
            knobs=TruthTableKnobs,
            control={"hidden": 1},
            seeds=5,
        ),
        Claim(
            id="layers-alone-remove-linearity",
            says="several layers in place of one make a network non-linear",
            where=XOR,
            kind="draws",
            measure=measure_bend,
            decides="bend",
            margin=lambda seen: seen["bend"] - 0.01,
            rule="the output of three layers along a straight line bends by more than 1 % of its reach",
            knobs=StackKnobs,
            control={"activation": "tanh"},
            seeds=8,
            other_reading="if each layer ends with a threshold: then that bends, and one layer is enough",
        ),
        Claim(
            id="stacked-linear-adds",
            says="three layers b0 + b1·x on top of each other have the sum of the offsets and the sum of the slopes",
            where=STACKS,
            kind="arithmetic",
            measure=measure_line_stack,
            decides="slope",
            margin=lambda seen: agreement(
                (seen["slope"], seen["sum of the slopes"]), (seen["offset"], seen["sum of the offsets"])
            ),
            rule="slope and offset of the whole are those sums",
            knobs=LineStackKnobs,
            control={"joined": "added"},
            second=multiply_slopes,
            other_reading="that is so of layers side by side; on top of each other their slopes are multiplied",
        ),
        Claim(
            id="stacked-linear-stays-linear",
            says="linear layers on linear layers stay linear",
            where=STACKS,
            kind="draws",
            measure=measure_bend,
            decides="bend",
            margin=lambda seen: 1e-9 - seen["bend"],
            rule="the output along a straight line is straight but for rounding",
            knobs=StackKnobs,
            control={"activation": "relu"},
            search=Search("layers", 1, 17, n_values=5),
            seeds=8,
        ),
        Claim(
            id="nonlinearity-is-necessary",
            says="without non-linear functions a network cannot take on different shapes",
            where="notes §3",
            kind="draws",
            measure=measure_shapes,
            decides="explained without",
            margin=lambda seen: 0.9 - seen["explained without"],
            rule="without an activation the best last layer explains less than 90 % of a sine",
            knobs=ShapeKnobs,
            control={"shape": "line"},
            second=shape_by_line,
            seeds=8,
        ),
    ),
)
