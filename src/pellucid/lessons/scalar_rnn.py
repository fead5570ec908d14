"""Vanishing and exploding gradients in a recurrent network of one number, whose gradient can be checked by hand.

z_t = w · h_(t-1) + a · x_t,    h_t = g(z_t),    h_0 = 0,    loss = ½ (h_T - y)²
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError, require_one_of
from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, ORANGE
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import percent, rough
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

WIDTH, HEIGHT, RIGHT = 760.0, 400.0, 130.0


class ScalarActivation(NamedTuple):
    """A function of one number and its derivative."""

    value: Callable[[float], float]
    slope: Callable[[float], float]


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


ACTIVATIONS = {
    "identity": ScalarActivation(lambda z: z, lambda z: 1.0),
    "tanh": ScalarActivation(math.tanh, lambda z: 1 - math.tanh(z) ** 2),
    "sigmoid": ScalarActivation(_sigmoid, lambda z: _sigmoid(z) * (1 - _sigmoid(z))),
    "relu": ScalarActivation(lambda z: max(z, 0.0), lambda z: float(z > 0)),
}


class Unrolled(NamedTuple):
    """One pass there and back: what each step computed, and what the loss says of the two weights."""

    sums: tuple[float, ...]  # z_1 ... z_T
    states: tuple[float, ...]  # h_0 ... h_T
    loss: float
    slope_w: float  # through all steps
    slope_a: float
    last_w: float  # through the last step alone: (h_T - y) · g'(z_T) · h_(T-1)
    reaching: tuple[float, ...]  # ∂h_T / ∂h_t for t = 1 ... T: the part of what h_T is told that reaches h_t


def unroll(inputs: Sequence[float], target: float, *, w: float, a: float, activation: str = "tanh") -> Unrolled:
    """The pass and its gradient, by the formulas alone.

    Backwards each state passes on what it was told, times w · g'(z); each step adds what it used: h_(t-1) for w, x_t
    for a. With two inputs the first step adds nothing for w, since h_0 = 0, so the last step alone is the whole
    gradient: w ← w - η (h_2 - y) g'(z_2) h_1. From three inputs on it is not.

    >>> run = unroll([1.0, 2.0], target=0.0, w=0.5, a=1.0, activation="identity")
    >>> run.states, run.loss, run.slope_w, run.last_w, run.slope_a
    ((0.0, 1.0, 2.5), 3.125, 2.5, 2.5, 6.25)
    """
    if not inputs:
        raise PellucidError("no input came, so there is no output", fix="Give at least one number")
    g = find_activation(activation)
    sums: list[float] = []
    states = [0.0]
    for x in inputs:
        sums.append(w * states[-1] + a * x)
        states.append(g.value(sums[-1]))
    told = states[-1] - target  # the derivative of the loss by the state that is looked at
    last_w = told * g.slope(sums[-1]) * states[-2]
    slope_w = slope_a = 0.0
    reaching = [1.0]
    for t in reversed(range(len(inputs))):
        at_sum = told * g.slope(sums[t])
        slope_w += at_sum * states[t]
        slope_a += at_sum * inputs[t]
        told = at_sum * w
        reaching.append(reaching[-1] * g.slope(sums[t]) * w)
    return Unrolled(
        tuple(sums),
        tuple(states),
        (states[-1] - target) ** 2 / 2,
        slope_w,
        slope_a,
        last_w,
        tuple(reversed(reaching[:-1])),
    )


def step_down(w: float, run: Unrolled, learning_rate: float) -> float:
    """w after one step down the gradient.

    >>> step_down(0.5, unroll([1.0, 2.0], target=0.0, w=0.5, a=1.0, activation="identity"), learning_rate=0.1)
    0.25
    """
    return w - learning_rate * run.slope_w


def find_activation(name: str) -> ScalarActivation:
    """The function of this name with its derivative."""
    require_one_of("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


def unroll_batch(inputs: Tensor, w: Tensor, a: Tensor, activation: str = "tanh") -> Tensor:
    """The same by torch, for many sequences at once: (batch, time) -> every state after the first, (batch, time).

    >>> import torch
    >>> unroll_batch(torch.tensor([[1.0, 2.0]]), torch.tensor(0.5), torch.tensor(1.0), "identity")
    tensor([[1.0000, 2.5000]])
    """
    import torch

    find_activation(activation)
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "identity": torch.clone,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "relu": torch.relu,
    }
    state = torch.zeros_like(inputs[:, 0])
    states = []
    for x in inputs.unbind(dim=1):
        state = functions[activation](w * state + a * x)
        states.append(state)
    return torch.stack(states, dim=1)


class UnrolledNetworks(NamedTuple):
    """The same inputs through networks that differ in their recurrent weight alone."""

    activation: str
    weights: tuple[float, ...]  # w of each
    runs: tuple[Unrolled, ...]


@dataclass(frozen=True)
class ScalarRNNKnobs:
    steps: int = option(16, "Steps of time.", minimum=2, maximum=1000)
    weights: tuple[float, ...] = option((0.5, 1.0, 1.5), "Recurrent weights.", minimum=-10, maximum=10, example="0.5,2")
    activation: str = option("identity", "Function of each step", choices=tuple(ACTIVATIONS))
    input: float = option(1.0, "The input at every step.", minimum=-100, maximum=100)
    target: float = option(0.0, "What the last state should be.", minimum=-1e6, maximum=1e6)

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: ScalarRNNKnobs) -> UnrolledNetworks:
    """Equal inputs: what each step adds to the gradient of w, for weights below, at and above 1."""
    inputs = [knobs.input] * knobs.steps
    runs = [unroll(inputs, target=knobs.target, w=w, a=1.0, activation=knobs.activation) for w in knobs.weights]
    return UnrolledNetworks(knobs.activation, tuple(knobs.weights), tuple(runs))


def draw(record: UnrolledNetworks) -> Picture:
    """How much of what the loss tells the last state reaches each state before it, on a scale of powers of ten."""
    lines = [list(enumerate(reversed([abs(told) for told in run.reaching]))) for run in record.runs]
    values = [value for points in lines for _, value in points]
    distances = [distance for points in lines for distance, _ in points]
    panel = Panel(
        axis_spanning(distances, "steps before the last", margin=0.0),
        axis_spanning(values, "part of the gradient that arrives", is_log=True),
        WIDTH,
        HEIGHT,
    )
    labels = []
    for w, points, colour in zip(record.weights, lines, (BLUE, INK, ORANGE) * len(lines), strict=False):
        shown = [(distance, value if value > 0 else math.nan) for distance, value in points]
        panel.line(shown, colour, says=f"w = {w:g}")
        labels.append((points[-1][1], f"w = {w:g}", colour))
    panel.ends(labels)
    title = "A gradient through time: it vanishes, stays or explodes with the recurrent weight"
    return picture(title, _captions(record), panel.draw(0, 12), LEFT + WIDTH + RIGHT, 12 + HEIGHT + BOTTOM)


def _captions(record: UnrolledNetworks) -> list[str]:
    steps = len(record.runs[0].sums)
    said = [
        f"h ← g(w · h + x) with g = {record.activation}, over {steps} steps; the loss looks at the last state alone."
    ]
    for w, run in zip(record.weights, record.runs, strict=True):
        said.append(
            f"w = {w:g}: {rough(abs(run.reaching[0]))} of what the last state is told reaches the first one. "
            f"The last step alone gives {_part(run.last_w, run.slope_w)} of the gradient of w."
        )
    return said


def _part(part: float, whole: float) -> str:
    return percent(part, whole) if whole else "none"


LESSON = Lesson(
    name="scalar-rnn",
    summary="How a gradient vanishes or explodes through the steps of a recurrent network of one number.",
    measure=measure,
    draw=draw,
    knobs=ScalarRNNKnobs,
)
