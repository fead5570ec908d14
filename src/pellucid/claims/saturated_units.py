"""Saturated units: where tanh is flat, what that does to outputs and gradients, and whether a flat unit is dead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pellucid.autograd.derivation import differentiate
from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, closeness, yes
from pellucid.claims.learning_rates import HIDDEN, split_list_or_text
from pellucid.claims.letter_pairs import DATA
from pellucid.lessons.lesson import name_batches, new_mlp, seed_knob, start_too_large, train_by_sgd
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FlatPlaceKnobs:
    function: str = option("parabola", "What is looked at, at 2/3", choices=("parabola", "constant"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_flat_place(knobs: FlatPlaceKnobs) -> Numbers:
    """The slope at one place, and by how much the function is another one further on."""
    text = "3*x^2 - 4*x + 5" if knobs.function == "parabola" else "0*x + 5"
    here, there = (differentiate(text, {"x": x}) for x in (2 / 3, 5 / 3))
    return {"slope": here.gradients["x"], "changes by": there.value - here.value}


@dataclass(frozen=True)
class TanhPlaceKnobs:
    level: float = option(0.99, "The value of tanh that is looked for.", minimum=0.01, maximum=0.999999)
    x: float = option(3.0, "Where tanh is taken first; the second place is 5.", minimum=0, maximum=20)

    def __post_init__(self) -> None:
        check_options(self)


def measure_tanh_places(knobs: TanhPlaceKnobs) -> Numbers:
    """tanh at two places by the engine, and the place of a level by halving."""

    def tanh(x: float) -> float:
        return differentiate("tanh(x)", {"x": x}).value

    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tanh(middle) < knobs.level else (low, middle)
    return {"x of the level": high, "tanh of the first": tanh(knobs.x), "tanh 5": tanh(5.0), "tanh −5": tanh(-5.0)}


def tanh_closed_form(knobs: TanhPlaceKnobs) -> Numbers:
    """½ ln((1 + M)/(1 - M)), and tanh from exponentials."""
    grown = math.exp(2 * knobs.x)
    return {
        "x of the level": math.log((1 + knobs.level) / (1 - knobs.level)) / 2,
        "tanh of the first": (grown - 1) / (grown + 1),
    }


@dataclass(frozen=True)
class TanhRangeKnobs:
    side: str = option("within", "All x up to 3 in size, or all from there on", choices=("within", "beyond"))
    low: float = option(2.64, "The least x that is looked at.", minimum=0, maximum=15)

    def __post_init__(self) -> None:
        check_options(self)


def measure_tanh_range(knobs: TanhRangeKnobs) -> Numbers:
    """The largest slope on one side of 3, and the least and the largest tanh from `low` to 15."""
    places = [i / 100 for i in range(301)] if knobs.side == "within" else [3 + i / 100 for i in range(1201)]
    values = [math.tanh(knobs.low + (15 - knobs.low) * i / 1000) for i in range(1001)]
    return {
        "largest slope": max(1 - math.tanh(x) ** 2 for x in places),
        "least tanh": min(values),
        "largest tanh": max(values),
    }


@dataclass(frozen=True)
class TanhSlopeKnobs:
    x: float = option(2.7, "The pre-activation.", minimum=0, maximum=100)

    def __post_init__(self) -> None:
        check_options(self)


def measure_tanh_slope(knobs: TanhSlopeKnobs) -> Numbers:
    """1 - tanh², as a network computes it from its own output."""
    import torch

    x = torch.tensor(knobs.x, dtype=torch.float64, requires_grad=True)
    x.tanh().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    return {"slope": x.grad.item()}


@dataclass(frozen=True)
class TanhVarianceKnobs:
    of: str = option("outputs", "The outputs, or the gradients that come through", choices=("outputs", "gradients"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_tanh_variance(knobs: TanhVarianceKnobs) -> Numbers:
    """The variance behind tanh for pre-activations of deviation 1 and of deviation 5."""
    import torch

    rng = torch.Generator().manual_seed(knobs.seed)
    z, told = (torch.randn(20_000, generator=rng, dtype=torch.float64) for _ in range(2))
    found = {}
    for deviation in (1, 5):
        out = (z * deviation).tanh()
        kept = out if knobs.of == "outputs" else told * (1 - out**2)
        found[f"variance, deviation {deviation}"] = kept.var().item()
    return found


@dataclass(frozen=True)
class SaturatedLayerKnobs:
    data: str = option("names", DATA)
    scale: float = option(1.0, "Deviation of all first weights.", minimum=0.001, maximum=100)
    examples: int = option(8, "Examples in the batch that is looked at.", minimum=1, maximum=2_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def _hidden_outputs(data: str, scale: float, seed: int) -> Tensor:
    """What the hidden tanh layer of an untrained MLP puts out for 2,000 examples: (examples, units)."""
    import torch

    from pellucid.models.sequences.windows import pad_start, slide_windows

    sides = split_list_or_text(data)
    model = new_mlp(sides, seed)
    start_too_large(model, seed, scale)
    tokens = name_batches(sides, seed, 400).batch(1).tokens
    with torch.no_grad():
        windows = slide_windows(model.embedding(pad_start(tokens, model.reach - 1)), model.reach)
        outputs: Tensor = model.layers(windows).flatten(0, 1)
    shuffled = torch.randperm(len(outputs), generator=torch.Generator().manual_seed(seed))
    return outputs[shuffled[:2_000]]


def measure_saturated_layer(knobs: SaturatedLayerKnobs) -> Numbers:
    """Slopes of a tanh layer; and of the units that are flat on every example of a batch, how many are on 2,000."""
    outputs = _hidden_outputs(knobs.data, knobs.scale, knobs.seed)
    slopes = 1 - outputs**2
    flat = outputs.abs() > 0.99
    on_batch, on_all = flat[: knobs.examples].all(0), flat.all(0)
    n_flat = int(on_batch.sum())
    return {
        "slopes below 0.01": (slopes < 0.01).double().mean().item(),
        "mean slope": slopes.mean().item(),
        "flat on the batch": float(n_flat),
        "of these flat on all": int(on_all.sum()) / n_flat if n_flat else 0.0,
    }


@dataclass(frozen=True)
class FlatUnitKnobs:
    data: str = option("names", DATA)
    unit: str = option(
        "saturated tanh", "What is flat on every example", choices=("saturated tanh", "switched-off relu")
    )
    steps: int = option(50, "Steps of SGD at a rate of 0.5.", minimum=1, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_flat_unit(knobs: FlatUnitKnobs) -> Numbers:
    """One unit that begins flat on every example: how far training moves its weights, and those of the others."""
    import torch

    activation, bias = ("tanh", 7.0) if knobs.unit == "saturated tanh" else ("relu", -1000.0)
    sides = split_list_or_text(knobs.data)
    model = new_mlp(sides, knobs.seed, activation, hidden=HIDDEN)
    weights, biases = (model.get_parameter(f"layers.0.linear.{name}") for name in ("weight", "bias"))
    with torch.no_grad():
        biases[0] = bias
    before = weights.detach().clone()
    train_by_sgd(model, name_batches(sides, knobs.seed), 0.5, knobs.steps)
    moved = (weights.detach() - before).abs().amax(1)
    return {"its weights moved by": moved[0].item(), "those of the others by": moved[1:].median().item()}


TANH, DEAD = "notes §14.2", "notes Ex.7"

FAMILY = ClaimFamily(
    name="saturated-units",
    title="Saturated units",
    picture="saturation",
    claims=(
        Claim(
            id="zero-derivative-means-constant",
            says="where the derivative is zero the function is a constant",
            where=TANH,
            kind="arithmetic",
            measure=measure_flat_place,
            decides="changes by",
            margin=lambda seen: 1e-9 - abs(seen["changes by"]),
            rule="3x² − 4x + 5, whose slope at 2/3 is zero, has the same value further on",
            knobs=FlatPlaceKnobs,
            control={"function": "constant"},
            other_reading="where it is zero all along an interval it is",
        ),
        Claim(
            id="tanh-099-at-2-64",
            says="tanh reaches 0.99 at about 2.64",
            where=TANH,
            kind="arithmetic",
            measure=measure_tanh_places,
            decides="x of the level",
            margin=lambda seen: closeness(seen["x of the level"], 2.64, 2),
            rule="the place is 2.64, rounded or cut to two decimals",
            knobs=TanhPlaceKnobs,
            control={"level": 0.9},
            second=tanh_closed_form,
        ),
        Claim(
            id="tanh-3-and-5",
            says="tanh 3 is about 0.995 and tanh 5 about 0.9999",
            where=TANH,
            kind="arithmetic",
            measure=measure_tanh_places,
            decides="tanh of the first",
            margin=lambda seen: min(
                closeness(seen["tanh of the first"], 0.995, 3), closeness(seen["tanh 5"], 0.9999, 4)
            ),
            rule="both are that, rounded or cut to the decimals that are stated",
            knobs=TanhPlaceKnobs,
            control={"x": 2.0},
            second=tanh_closed_form,
        ),
        Claim(
            id="saturation-at-abs-x-le-3",
            stated="near 0",
            says="tanh is saturated for inputs up to 3 in size",
            where=TANH,
            kind="proof",
            measure=measure_tanh_range,
            decides="largest slope",
            margin=lambda seen: 0.05 - seen["largest slope"],
            rule="the slope is below 0.05 at every such input",
            knobs=TanhRangeKnobs,
            control={"side": "beyond"},
            other_reading="meant is from 3 on",
        ),
        Claim(
            id="example-7-activation-range",
            says="above 2.64 tanh lies between 0.9 and 1",
            where=DEAD,
            kind="proof",
            measure=measure_tanh_range,
            decides="least tanh",
            margin=lambda seen: min(seen["least tanh"] - 0.9, 1 - seen["largest tanh"]),
            rule="it does at a thousand places up to 15",
            knobs=TanhRangeKnobs,
            control={"low": 1.0},
            other_reading="it even lies between 0.98 and 1",
        ),
        Claim(
            id="example-7-gradient-exactly-zero",
            says="above 2.64 the gradient of tanh is zero",
            where=DEAD,
            kind="arithmetic",
            measure=measure_tanh_slope,
            margin=lambda seen: yes(seen["slope"] == 0),
            rule="the slope is zero, as it is computed, at every place from 2.64 to 40",
            knobs=TanhSlopeKnobs,
            control={"x": 30.0},
            search=Search("x", 2.64, 40.0),
            second=lambda knobs: {"slope": 1 / math.cosh(knobs.x) ** 2},
            other_reading="it is small, 0.02 and less",
        ),
        Claim(
            id="saturation-lowers-variance",
            says="the consequence of saturation is that the variance decreases",
            where=TANH,
            kind="draws",
            measure=measure_tanh_variance,
            decides="variance, deviation 5",
            margin=lambda seen: seen["variance, deviation 1"] - seen["variance, deviation 5"],
            rule="outputs of tanh vary less for pre-activations of deviation 5 than for those of deviation 1",
            knobs=TanhVarianceKnobs,
            control={"of": "gradients"},
            seeds=8,
            other_reading="that of the gradients behind it does",
        ),
        Claim(
            id="saturation-kills-gradients",
            says="a saturated layer kills the gradients",
            where="notes §14.2 Fig.9/10",
            kind="draws",
            measure=measure_saturated_layer,
            decides="slopes below 0.01",
            margin=lambda seen: seen["slopes below 0.01"] - 0.5,
            rule="with weights from N(0, 1) more than half of all slopes are below 0.01",
            knobs=SaturatedLayerKnobs,
            control={"scale": 0.1},
            seeds=8,
        ),
        Claim(
            id="white-column-is-dead-neuron",
            says="a unit that is saturated on every example of a small batch is dead",
            where="notes §14.2 Fig.11",
            kind="draws",
            measure=measure_saturated_layer,
            decides="of these flat on all",
            margin=lambda seen: seen["of these flat on all"] - 0.5,
            rule="more than half of the units that are flat on a batch are flat on 2,000 examples too",
            knobs=SaturatedLayerKnobs,
            control={"scale": 100.0},
            seeds=8,
        ),
        Claim(
            id="dead-neurons-cannot-update",
            says="a unit that is saturated on every example stays as it is",
            where=TANH,
            kind="training",
            measure=measure_flat_unit,
            decides="its weights moved by",
            margin=lambda seen: yes(seen["its weights moved by"] == 0),
            rule="50 steps do not move the weights of a tanh unit whose bias is 7",
            knobs=FlatUnitKnobs,
            control={"unit": "switched-off relu"},
            seeds=5,
            other_reading="it moves little; a ReLU that is off on every example does not move at all",
        ),
    ),
)
