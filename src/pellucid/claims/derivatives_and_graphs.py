"""Derivatives in graphs: what sums and products hand back, along one way and along several."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from pellucid.autograd.derivation import differentiate
from pellucid.autograd.value import Value, product, total
from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, agreement
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

APART = ("apart", "shared")
JOINED = ("plus", "times")


@dataclass(frozen=True)
class GateKnobs:
    children: int = option(2, "Numbers that a gate adds up or multiplies.", minimum=2, maximum=20)
    inputs: str = option("apart", "Different numbers, or the first of them twice", choices=APART)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _gate_numbers(knobs: GateKnobs) -> tuple[list[float], float]:
    rng = random.Random(knobs.seed)
    return [rng.uniform(0.5, 2.0) * rng.choice((-1, 1)) for _ in range(knobs.children)], rng.uniform(-3.0, 3.0)


def measure_gates(knobs: GateKnobs) -> Numbers:
    """What a sum and a product pass back to their first input, per unit of what they were told."""
    drawn, upstream = _gate_numbers(knobs)
    numbers = {}
    for name, gate in (("sum", total), ("product", product)):
        leaves = [Value(x) for x in drawn]
        if knobs.inputs == "shared":
            leaves[1] = leaves[0]
        node = gate(leaves)
        (node * upstream).backward()
        assert node.grad == upstream
        numbers[f"slope of the {name}"] = leaves[0].grad / node.grad
        others = math.prod([leaf.data for leaf in leaves[1:]]) if name == "product" else 1.0
        numbers[f"stated for the {name}"] = others
        numbers[f"{name}: found over stated"] = numbers[f"slope of the {name}"] / others
    return numbers


def gates_by_torch(knobs: GateKnobs) -> Numbers:
    """The same by torch, in float64."""
    import torch

    drawn, _ = _gate_numbers(knobs)
    slopes = {}
    for name, gate in (("sum", torch.sum), ("product", torch.prod)):
        leaf = torch.tensor(drawn, dtype=torch.float64, requires_grad=True)
        used = leaf if knobs.inputs == "apart" else leaf[[0, 0, *range(2, knobs.children)]]
        gate(used).backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        stated = used.detach()[1:].prod().item() if name == "product" else 1.0
        slopes[f"slope of the {name}"] = leaf.grad[0].item()
        slopes[f"{name}: found over stated"] = leaf.grad[0].item() / stated
    return slopes


def gate_agreement(*names: str) -> Callable[[Numbers], float]:
    return lambda seen: agreement(*[(seen[f"slope of the {name}"], seen[f"stated for the {name}"]) for name in names])


@dataclass(frozen=True)
class LossGraphKnobs:
    w1: float = option(2.0, "First leaf.", minimum=-100, maximum=100)
    w2: float = option(-3.0, "Second leaf.", minimum=-100, maximum=100)
    w3: float = option(10.0, "Third leaf.", minimum=-100, maximum=100)
    w6: float = option(-2.0, "The last factor.", minimum=-100, maximum=100)
    outer: str = option("plus", "How w3 joins w4", choices=JOINED)

    def __post_init__(self) -> None:
        check_options(self)


def measure_loss_graph(knobs: LossGraphKnobs) -> Numbers:
    """L = w6·(w3 + w4) with w4 = w1 + w2, as the graph has it, and L = w6·(w3 + w1·w2), as the formula has it."""
    leaves = {name: getattr(knobs, name) for name in ("w1", "w2", "w3", "w6")}
    sign = "+" if knobs.outer == "plus" else "*"
    w4 = knobs.w1 + knobs.w2
    given = {"w3": knobs.w3, "w4": w4, "w6": knobs.w6}
    derived = differentiate(f"w6*(w3 {sign} w4)", given)
    raised = differentiate(f"w6*(w3 {sign} w4)", {**given, "w3": knobs.w3 + 1})
    return {
        "by the formula": differentiate(f"w6*(w3 {sign} w1*w2)", leaves).value,
        "by the graph": derived.value,
        "dL/dw3": derived.gradients["w3"],
        "dL/dw4": derived.gradients["w4"],
        "w6": knobs.w6,
        "L with w3 + 1, less L": raised.value - derived.value,
    }


def invert_loss(knobs: LossGraphKnobs) -> Numbers:
    """How w3 moves for each unit of L: w3 = L/w6 - w4."""
    seen = measure_loss_graph(knobs)
    found = differentiate(
        "L/w6 - w4", {"L": seen["by the graph"], "w6": knobs.w6, "w4": knobs.w1 + knobs.w2}, wrt=("L",)
    )
    return {"dL/dw3": seen["dL/dw3"], "dw3/dL": found.gradients["L"]}


@dataclass(frozen=True)
class PathKnobs:
    operations: int = option(8, "Sums and products between w and L.", minimum=1, maximum=50)
    uses: int = option(1, "How often w enters the graph.", minimum=1, maximum=8)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_path(knobs: PathKnobs) -> Numbers:
    """A row of sums and products from w to L: the gradient, and the product of the slopes along the longest way."""
    rng = random.Random(knobs.seed)
    w = Value(rng.uniform(0.5, 2.0))
    shared = set(rng.sample(range(knobs.operations), min(knobs.uses - 1, knobs.operations)))
    node, along = w, 1.0
    for place in range(knobs.operations):
        other = w if place in shared else Value(rng.uniform(0.5, 2.0))
        is_sum = rng.random() < 0.5
        along *= 1.0 if is_sum else other.data
        node = node + other if is_sum else node * other
    node.backward()
    return {"gradient": w.grad, "product on the way": along, "gradient over product": w.grad / along}


@dataclass(frozen=True)
class LossDirectionKnobs:
    direction: str = option("up", "Whether the loss is made larger or smaller", choices=("up", "down"))
    steps: int = option(60, "Steps of gradient descent, or ascent.", minimum=1, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_loss_direction(knobs: LossDirectionKnobs) -> Numbers:
    """A small network on two moons whose loss is followed up or down: how many points are on their right side then."""
    import torch
    from torch import nn

    from pellucid.data.sets.moons import load
    from pellucid.training.rng import seed_torch

    frame = load(seed=knobs.seed, n=200).frame
    x = torch.tensor(frame.select("x", "y").to_numpy(), dtype=torch.float32)
    y = torch.tensor((frame["moon"] == "lower").to_numpy(), dtype=torch.float32)
    with seed_torch(knobs.seed, 0, "weights"):
        model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    found = []
    for step in range(knobs.steps + 1):
        scores = model(x)[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(scores, y)
        if step in (0, knobs.steps):
            found.append((((scores > 0) == (y > 0.5)).double().mean().item(), loss.item()))
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.add_(parameter.grad, alpha=0.3 if knobs.direction == "up" else -0.3)
    (accuracy, loss_before), (accuracy_after, loss_after) = found
    return {
        "right before": accuracy,
        "right after": accuracy_after,
        "loss before": loss_before,
        "loss after": loss_after,
    }


GRAPH = "notes §2"

FAMILY = ClaimFamily(
    name="derivatives-and-graphs",
    title="Derivatives and graphs",
    picture="scalar-rnn",
    claims=(
        Claim(
            id="add-gate-copies-mul-gate-swaps",
            says="an addition hands its gradient on as it is, a multiplication times the other input",
            where="log Q7",
            kind="draws",
            measure=measure_gates,
            decides="sum: found over stated",
            margin=gate_agreement("sum", "product"),
            rule="both slopes equal the stated ones to 9 digits for numbers drawn at random",
            knobs=GateKnobs,
            control={"inputs": "shared"},
            second=gates_by_torch,
            seeds=8,
            other_reading="where one number enters both sides, it is handed both parts and gets their sum",
        ),
        Claim(
            id="L-formula-versus-graph",
            says="w6·(w3 + w1·w2) and w6·(w3 + (w1 + w2)) are the same",
            where="notes §2 Fig.1",
            kind="arithmetic",
            measure=measure_loss_graph,
            decides="by the graph",
            margin=lambda seen: agreement((seen["by the formula"], seen["by the graph"])),
            rule="both give the same number at w = (2, −3, 10, −2)",
            knobs=LossGraphKnobs,
            control={"w2": 2.0},
            other_reading="the formula has a slip, and w4 is a sum as in the graph and in all that follows",
        ),
        Claim(
            id="dL-dw3-is-w6",
            says="the gradient of w6·(w3 + w4) toward w3 is w6",
            where=GRAPH,
            kind="arithmetic",
            measure=measure_loss_graph,
            decides="dL/dw3",
            margin=lambda seen: agreement((seen["dL/dw3"], seen["w6"])),
            rule="the engine's gradient equals w6",
            knobs=LossGraphKnobs,
            control={"outer": "times"},
            second=lambda knobs: {"dL/dw3": measure_loss_graph(knobs)["L with w3 + 1, less L"]},
        ),
        Claim(
            id="dL-dw4-is-w6",
            says="the gradient of w6·(w3 + w4) toward w4, a sum itself, is w6",
            where=GRAPH,
            kind="arithmetic",
            measure=measure_loss_graph,
            decides="dL/dw4",
            margin=lambda seen: agreement((seen["dL/dw4"], seen["w6"])),
            rule="the engine's gradient equals w6",
            knobs=LossGraphKnobs,
            control={"outer": "times"},
        ),
        Claim(
            id="gradient-is-dw-dL",
            says="the gradient is the derivative of a weight with respect to L",
            where=GRAPH,
            kind="arithmetic",
            measure=invert_loss,
            decides="dw3/dL",
            margin=lambda seen: agreement((seen["dL/dw3"], seen["dw3/dL"])),
            rule="how w3 moves for each unit of L equals the gradient",
            knobs=LossGraphKnobs,
            control={"w6": 1.0},
            other_reading="it is that of L with respect to the weight, as it is defined right after",
        ),
        Claim(
            id="addition-has-no-bearing-on-L",
            says="additions have no bearing on L, for their derivative is 1",
            where=GRAPH,
            kind="arithmetic",
            measure=measure_loss_graph,
            decides="L with w3 + 1, less L",
            margin=lambda seen: 1e-9 - abs(seen["L with w3 + 1, less L"]),
            rule="L stays as it is when one addend grows by 1",
            knobs=LossGraphKnobs,
            control={"w6": 0.0},
            other_reading="they put a factor of 1 into the chain rule, which is so",
        ),
        Claim(
            id="lemma-1-add-derivative-one",
            says="the derivative of a sum toward any of what it adds up is always 1",
            where="notes §2 Lemma 1",
            kind="draws",
            measure=measure_gates,
            decides="sum: found over stated",
            margin=gate_agreement("sum"),
            rule="it is 1 for numbers drawn at random",
            knobs=GateKnobs,
            control={"inputs": "shared"},
            search=Search("children", 2, 18, n_values=5),
            second=gates_by_torch,
            seeds=8,
            other_reading="for a number that is added twice it is 2, but it stands for two children",
        ),
        Claim(
            id="lemma-2-mul-derivative-other-factors",
            says="the derivative of a product toward any factor is the product of the others",
            where="notes §2 Lemma 2",
            kind="draws",
            measure=measure_gates,
            decides="product: found over stated",
            margin=gate_agreement("product"),
            rule="it is that for numbers drawn at random",
            knobs=GateKnobs,
            control={"inputs": "shared"},
            search=Search("children", 2, 18, n_values=5),
            second=gates_by_torch,
            seeds=8,
            other_reading="for a number that is a factor twice it is twice that",
        ),
        Claim(
            id="prop-1-single-path-product",
            says="in a graph without cycles the gradient is the product of the slopes on the way, ones for sums",
            where="notes §2 Prop.1",
            kind="draws",
            measure=measure_path,
            decides="gradient over product",
            margin=lambda seen: agreement((seen["gradient"], seen["product on the way"])),
            rule="both are the same, however often the number is used",
            knobs=PathKnobs,
            control={"uses": 3},
            search=Search("uses", 1, 5, n_values=5),
            seeds=8,
            other_reading="without cycles even if arrows may be walked backwards: then there is one way, and it holds",
        ),
        Claim(
            id="loss-is-accuracy-to-increase",
            says="the loss tells how good the output is, and is followed so as to increase it",
            where=GRAPH,
            kind="training",
            measure=measure_loss_direction,
            decides="right after",
            margin=lambda seen: seen["right after"] - seen["right before"],
            rule="making the loss larger brings more answers onto their right side",
            knobs=LossDirectionKnobs,
            control={"direction": "down"},
            seeds=5,
            other_reading="meant is to increase the accuracy, for which the loss is made smaller",
        ),
    ),
)
