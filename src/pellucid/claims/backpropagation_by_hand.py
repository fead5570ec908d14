"""Backpropagation by hand: gradients that people wrote down, beside the engine, a closed form and torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pellucid.autograd.node import local_slopes
from pellucid.autograd.value import Value, ancestors
from pellucid.claims.claim import Claim, ClaimFamily, Numbers, agreement, closeness, yes
from pellucid.options import check_options, option


@dataclass(frozen=True)
class SigmoidGraphKnobs:
    w0: float = option(2.0, "First weight.", minimum=-100, maximum=100)
    x0: float = option(-1.0, "First input.", minimum=-100, maximum=100)
    w1: float = option(-2.0, "Second weight.", minimum=-100, maximum=100)
    x1: float = option(-2.0, "Second input.", minimum=-100, maximum=100)
    w2: float = option(-3.0, "Bias.", minimum=-100, maximum=100)
    rounding: str = option(
        "none", "Round nothing, or values to 1 decimal and gradients to 3 at each step", choices=("none", "each step")
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure_sigmoid_graph(knobs: SigmoidGraphKnobs) -> Numbers:
    """1/(1 + exp(-(w0·x0 + w1·x1 + w2))) node by node, forward and back, by the rules of the engine."""
    names = ("w0", "x0", "w1", "x1", "w2")
    leaves = {name: Value(getattr(knobs, name), name) for name in names}
    g, h = leaves["w0"] * leaves["x0"], leaves["w1"] * leaves["x1"]
    e = g + h
    d = e + leaves["w2"]
    c = d * -1
    b = c.exp()
    a = b + 1
    out = 1 / a
    nodes = {"a": a, "b": b, "c": c, "d": d, "e": e, "g": g, "h": h, **leaves}
    if knobs.rounding == "none":
        out.backward()
    else:
        _backward_rounded(out)
    return {
        "L": out.data,
        **{name: node.data for name, node in nodes.items() if name not in names},
        **{f"dL/d{name}": node.grad for name, node in nodes.items()},
    }


def _backward_rounded(output: Value) -> None:
    """The same by someone who writes down few digits at each step and goes on from those."""
    nodes = ancestors(output)
    for node in nodes:
        if node.parents:
            found = node.rule.forward(*[parent.data for parent in node.parents])
            node.data = found if node is output else round(found, 1)
        node.grad = 0.0
    output.grad = 1.0
    for node in reversed(nodes):
        for parent, slope in zip(node.parents, local_slopes(node) if node.parents else (), strict=True):
            parent.grad = round(parent.grad + node.grad * slope, 3)


def sigmoid_closed_form(knobs: SigmoidGraphKnobs) -> Numbers:
    """The same from σ' = σ(1 - σ) and dL/da = -1/a², without a graph."""
    if knobs.rounding != "none":
        return {}
    score = knobs.w0 * knobs.x0 + knobs.w1 * knobs.x1 + knobs.w2
    out = 1 / (1 + math.exp(-score))
    slope = out * (1 - out)
    return {
        "L": out,
        "dL/da": -(out**2),
        "dL/dc": -slope,
        "dL/dw0": slope * knobs.x0,
        "dL/dx0": slope * knobs.w0,
        "dL/dw1": slope * knobs.x1,
        "dL/dx1": slope * knobs.w1,
        "dL/dw2": slope,
    }


def stated_digits(digits: int, **stated: float) -> Callable[[Numbers], float]:
    """The margin by which every one of these gradients is as stated, to so many decimals."""
    return lambda seen: min(closeness(seen[f"dL/d{name}"], value, digits) for name, value in stated.items())


@dataclass(frozen=True)
class TwoStepKnobs:
    x1: float = option(1.5, "First input.", minimum=-100, maximum=100)
    x2: float = option(-0.5, "Second input.", minimum=-100, maximum=100)
    w: float = option(0.7, "Recurrent weight.", minimum=-10, maximum=10)
    a: float = option(1.2, "Weight of the inputs.", minimum=-10, maximum=10)
    steps: int = option(2, "Inputs; the first two come again.", minimum=2, maximum=20)
    activation: str = option("tanh", "Function of each step", choices=("tanh", "sigmoid", "relu", "identity"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_two_steps(knobs: TwoStepKnobs) -> Numbers:
    """The slopes of ½(h_T - y)² through all steps, and what the stated formulas give."""
    from pellucid.lessons.scalar_rnn import find_activation, unroll

    inputs = [(knobs.x1, knobs.x2)[t % 2] for t in range(knobs.steps)]
    run = unroll(inputs, 0.25, w=knobs.w, a=knobs.a, activation=knobs.activation)
    slope = find_activation(knobs.activation).slope
    told = (run.states[-1] - 0.25) * slope(run.sums[-1])
    return {
        "dL/dw": run.slope_w,
        "dL/da": run.slope_a,
        "(h2 - y) g'(z2) h1": told * run.states[-2],
        "first option": told * (inputs[-1] + knobs.w * slope(run.sums[-2]) * inputs[-2]),
    }


def two_steps_by_torch(knobs: TwoStepKnobs) -> Numbers:
    """The slopes by torch, in float64."""
    import torch

    from pellucid.lessons.scalar_rnn import unroll_batch

    inputs = torch.tensor([[(knobs.x1, knobs.x2)[t % 2] for t in range(knobs.steps)]], dtype=torch.float64)
    w, a = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (knobs.w, knobs.a))
    loss = (unroll_batch(inputs, w, a, knobs.activation)[0, -1] - 0.25) ** 2 / 2
    loss.backward()  # type: ignore[no-untyped-call]
    assert w.grad is not None
    assert a.grad is not None
    slopes = {"dL/dw": w.grad.item(), "dL/da": a.grad.item()}
    # Of two steps from 0 the stated formulas are these slopes, by the chain rule.
    return (
        slopes if knobs.steps != 2 else {**slopes, "(h2 - y) g'(z2) h1": w.grad.item(), "first option": a.grad.item()}
    )


def _is_rule_for_a(seen: Numbers) -> float:
    is_for_a = agreement((seen["first option"], seen["dL/da"])) > 0
    return yes(is_for_a and agreement((seen["first option"], seen["dL/dw"])) <= 0)


LOG, EXAM = "log Q7", "exam 1.6"
ROUNDED = "with every value rounded to one decimal and every gradient to three on the way, as it was done there"

FAMILY = ClaimFamily(
    name="backpropagation-by-hand",
    title="Backpropagation by hand",
    picture="scalar-rnn",
    claims=(
        Claim(
            id="backprop-forward-values",
            says="from w = (2, −2, −3) and x = (−1, −2) a sigmoid's graph goes by −2, 4, 2, −1, 1, 2.7, 3.7 to 0.27",
            where=LOG,
            kind="arithmetic",
            measure=measure_sigmoid_graph,
            decides="L",
            margin=lambda seen: min(
                closeness(seen["L"], 0.27, 2),
                closeness(seen["a"], 3.7, 1),
                closeness(seen["b"], 2.7, 1),
                agreement(*[(seen[name], value) for name, value in zip("cdegh", (1, -1, 2, -2, 4), strict=True)]),
            ),
            rule="every value equals the stated one to its last decimal",
            knobs=SigmoidGraphKnobs,
            control={"w2": -2.0},
            second=sigmoid_closed_form,
        ),
        Claim(
            id="backprop-dL-da",
            stated="−0.073",
            says="the gradient toward a = 1 + exp(1), and toward exp(1), is −0.073",
            where=LOG,
            kind="arithmetic",
            measure=measure_sigmoid_graph,
            decides="dL/da",
            margin=stated_digits(3, a=-0.073, b=-0.073),
            rule="both gradients equal −0.073 to three decimals",
            knobs=SigmoidGraphKnobs,
            control={"rounding": "each step"},
            second=sigmoid_closed_form,
            other_reading=f"{ROUNDED}, it is −0.073",
        ),
        Claim(
            id="backprop-w0-minus-0197",
            says="the gradient toward w0 is −0.197",
            where="log Q7/Q8",
            kind="arithmetic",
            measure=measure_sigmoid_graph,
            decides="dL/dw0",
            margin=stated_digits(3, w0=-0.197),
            rule="it equals −0.197 to three decimals",
            knobs=SigmoidGraphKnobs,
            control={"x0": -2.0},
            second=sigmoid_closed_form,
        ),
        Claim(
            id="backprop-x0-0394",
            stated="0.394",
            says="the gradient toward x0 is 0.394",
            where="log Q7/Q8",
            kind="arithmetic",
            measure=measure_sigmoid_graph,
            decides="dL/dx0",
            margin=stated_digits(3, x0=0.394),
            rule="it equals 0.394 to three decimals",
            knobs=SigmoidGraphKnobs,
            control={"rounding": "each step"},
            second=sigmoid_closed_form,
            other_reading=f"{ROUNDED}, it is 0.394",
        ),
        Claim(
            id="backprop-w1-x1-minus-0394",
            stated="−0.394",
            says="the gradients toward w1 and x1 are −0.394",
            where=LOG,
            kind="arithmetic",
            measure=measure_sigmoid_graph,
            decides="dL/dw1",
            margin=stated_digits(3, w1=-0.394, x1=-0.394),
            rule="both equal −0.394 to three decimals",
            knobs=SigmoidGraphKnobs,
            control={"rounding": "each step"},
            second=sigmoid_closed_form,
            other_reading=f"{ROUNDED}, they are −0.394",
        ),
        Claim(
            id="backprop-w2-0197",
            says="the gradient toward w2 is 0.197, and toward c it is −0.197",
            where=LOG,
            kind="arithmetic",
            measure=measure_sigmoid_graph,
            decides="dL/dw2",
            margin=stated_digits(3, w2=0.197, c=-0.197),
            rule="both equal the stated ones to three decimals",
            knobs=SigmoidGraphKnobs,
            control={"w2": 0.0},
            second=sigmoid_closed_form,
        ),
        Claim(
            id="backprop-recheck-both-hold",
            says="computed again, −0.197 for w0 and 0.394 for x0 are both right",
            where="log Q8",
            kind="arithmetic",
            measure=measure_sigmoid_graph,
            decides="dL/dx0",
            margin=stated_digits(3, w0=-0.197, x0=0.394),
            rule="both equal the stated ones to three decimals",
            knobs=SigmoidGraphKnobs,
            control={"rounding": "each step"},
            second=sigmoid_closed_form,
            other_reading="the recheck began from the rounded 0.197 too, and 2 × 0.197 is 0.394",
        ),
        Claim(
            id="rnn-two-step-gradient",
            says="after two steps from h0 = 0 the gradient toward the recurrent weight is (h2 − y)·g'(z2)·h1",
            where=EXAM,
            kind="arithmetic",
            measure=measure_two_steps,
            decides="dL/dw",
            margin=lambda seen: agreement((seen["dL/dw"], seen["(h2 - y) g'(z2) h1"])),
            rule="it equals the gradient through all steps",
            knobs=TwoStepKnobs,
            control={"steps": 3},
            second=two_steps_by_torch,
        ),
        Claim(
            id="rnn-option1-is-rule-for-a",
            says="(h2 − y)·g'(z2)·(x2 + w·g'(z1)·x1) is the gradient toward a, and wrong for w",
            where=EXAM,
            kind="arithmetic",
            measure=measure_two_steps,
            decides="first option",
            margin=_is_rule_for_a,
            rule="the first option equals the gradient toward a and not the one toward w",
            knobs=TwoStepKnobs,
            control={"x1": 1.0, "x2": 1.0, "w": 0.0, "a": 1.0, "activation": "identity"},
            second=two_steps_by_torch,
        ),
    ),
)
