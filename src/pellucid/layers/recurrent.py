"""A recurrent network of one number: small enough that its gradient fits in a line, and can be checked by hand.

z_t = w · h_(t-1) + a · x_t,    h_t = g(z_t),    h_0 = 0,    loss = ½ (h_T - y)²
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.layers.activations import activation


class Bend(NamedTuple):
    """A function of one number and its derivative."""

    value: Callable[[float], float]
    slope: Callable[[float], float]


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


BENDS = {
    "identity": Bend(lambda z: z, lambda z: 1.0),
    "tanh": Bend(math.tanh, lambda z: 1 - math.tanh(z) ** 2),
    "sigmoid": Bend(_sigmoid, lambda z: _sigmoid(z) * (1 - _sigmoid(z))),
    "relu": Bend(lambda z: max(z, 0.0), lambda z: float(z > 0)),
}


class Unrolled(NamedTuple):
    """One pass there and back: what each step computed, and what the loss says of the two weights."""

    sums: tuple[float, ...]  # z_1 ... z_T
    states: tuple[float, ...]  # h_0 ... h_T
    loss: float
    slope_w: float  # through all steps
    slope_a: float
    last_w: float  # through the last step alone: (h_T - y) · g'(z_T) · h_(T-1)


def unrolled(inputs: Sequence[float], target: float, *, w: float, a: float, bend: str = "tanh") -> Unrolled:
    """The pass and its gradient, by the formulas alone.

    Backwards each state passes on what it was told, times w · g'(z); each step adds what it used: h_(t-1) for w, x_t
    for a. With two inputs the first step adds nothing for w, since h_0 = 0, so the last step alone is the whole
    gradient: w ← w - η (h_2 - y) g'(z_2) h_1. From three inputs on it is not.

    >>> run = unrolled([1.0, 2.0], target=0.0, w=0.5, a=1.0, bend="identity")
    >>> run.states, run.loss, run.slope_w, run.last_w, run.slope_a
    ((0.0, 1.0, 2.5), 3.125, 2.5, 2.5, 6.25)
    """
    if not inputs:
        raise PellucidError("no input came, so there is no output", fix="Give at least one number")
    g = bend_called(bend)
    sums: list[float] = []
    states = [0.0]
    for x in inputs:
        sums.append(w * states[-1] + a * x)
        states.append(g.value(sums[-1]))
    told = states[-1] - target  # the derivative of the loss by the state that is looked at
    last_w = told * g.slope(sums[-1]) * states[-2]
    slope_w = slope_a = 0.0
    for t in reversed(range(len(inputs))):
        at_sum = told * g.slope(sums[t])
        slope_w += at_sum * states[t]
        slope_a += at_sum * inputs[t]
        told = at_sum * w
    return Unrolled(tuple(sums), tuple(states), (states[-1] - target) ** 2 / 2, slope_w, slope_a, last_w)


def updated(w: float, run: Unrolled, rate: float) -> float:
    """w after one step down the gradient.

    >>> updated(0.5, unrolled([1.0, 2.0], target=0.0, w=0.5, a=1.0, bend="identity"), rate=0.1)
    0.25
    """
    return w - rate * run.slope_w


def bend_called(name: str) -> Bend:
    """The function of this name with its derivative."""
    if name not in BENDS:
        raise PellucidError(f"there is no bend called {name}", fix=f"Choose one of {', '.join(BENDS)}")
    return BENDS[name]


class ScalarRNN(nn.Module):
    """The same as a module, for many sequences at once: (batch, time) -> the last state of each, (batch,).

    >>> ScalarRNN(w=0.5, a=1.0, bend="identity")(torch.tensor([[1.0, 2.0]]))
    tensor([2.5000], grad_fn=<SelectBackward0>)
    """

    def __init__(self, w: float, a: float, bend: str = "tanh") -> None:
        super().__init__()
        bend_called(bend)
        self.w = nn.Parameter(torch.tensor(w))
        self.a = nn.Parameter(torch.tensor(a))
        self.bend = nn.Identity() if bend == "identity" else activation(bend)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.states(inputs)[:, -1]

    def states(self, inputs: Tensor) -> Tensor:
        """Every state after the first, which is 0: (batch, time) -> (batch, time)."""
        state = torch.zeros_like(inputs[:, 0])
        found = []
        for x in inputs.unbind(dim=1):
            state = self.bend(self.w * state + self.a * x)
            found.append(state)
        return torch.stack(found, dim=1)
