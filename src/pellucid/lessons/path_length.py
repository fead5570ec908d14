"""Path length: how far a gradient has to go from the last output back to an input, and how much of it arrives.

    RNN          h ← tanh(W x + U h + b)        back through tanh and U for every token in between
    GRU, LSTM    gates let a memory pass        back through the gates of every token in between
    attention    a sum over all tokens          from any token to any other it is the same short way

For random inputs of variance 1 and the weights that a network begins with, J = ∂ output_T / ∂ input_t is computed by
reverse differentiation in double precision, one row after another, and ‖J‖ / √width is what a distance leaves of it: 1
would be as much as the identity passes on. The way is the shortest one through the graph that torch recorded, counted
in operations.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, Point, axis_spanning
from pellucid.figures.charts.svg import line_style
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import rough
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

    LastOutput = Callable[[Sequence[Tensor]], Tensor]  # of inputs, (batch, width) each -> the last, (batch, width)

WIDTH, UPPER, LOWER, BETWEEN, RIGHT = 760.0, 360.0, 190.0, 34.0, 130.0
CELLS = ("rnn", "gru", "lstm")
NAMES = {"rnn": "RNN", "gru": "GRU", "lstm": "LSTM", "attention": "attention"}
DRAWN = 8  # sequences over which is averaged


@dataclass(frozen=True)
class PathLengthKnobs:
    length: int = option(64, "Tokens of a sequence.", minimum=2, maximum=512)
    width: int = option(32, "Width of inputs, states and attention.", minimum=1, maximum=256)
    cell: str = option("all", "Recurrent cell beside attention.", noun="cell", choices=("all", *CELLS))
    scale: float = option(1.0, "Factor on the recurrent weights at the start.", minimum=0, maximum=10)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


class PathGradients(NamedTuple):
    """One network: what reaches each distance from the last output, and over how many operations."""

    name: str  # rnn, gru, lstm or attention
    gradients: tuple[float, ...]  # ‖∂ output_T / ∂ input_t‖ / √width, the mean of the sequences, by distance from 0 on
    operations: tuple[int, ...]  # of the shortest way, by distance


class PathStudy(NamedTuple):
    """Networks of one width on the same inputs."""

    length: int
    width: int
    scale: float
    n_sequences: int
    networks: tuple[PathGradients, ...]


def measure(knobs: PathLengthKnobs) -> PathStudy:
    """Recurrent cells and one head of attention, at the weights that each begins with."""
    import torch

    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "path length"):
        networks = _build_networks(knobs)
        inputs = list(torch.randn(knobs.length, DRAWN, knobs.width, dtype=torch.float64))
    found = [
        PathGradients(name, gradient_norms(last_output, inputs), shortest_ways(last_output, inputs))
        for name, last_output in networks.items()
    ]
    return PathStudy(knobs.length, knobs.width, knobs.scale, DRAWN, tuple(found))


def _build_networks(knobs: PathLengthKnobs) -> Mapping[str, LastOutput]:
    import torch
    from torch import nn

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.masks import EVERYTHING

    kinds = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
    networks: dict[str, LastOutput] = {}
    for name in CELLS if knobs.cell == "all" else (knobs.cell,):
        cell = kinds[name](knobs.width, knobs.width).double()
        with torch.no_grad():
            cell.weight_hh.mul_(knobs.scale)
        if isinstance(cell, nn.LSTMCell):
            nn.init.ones_(cell.bias_ih[knobs.width : 2 * knobs.width])  # the forget gate, as our LSTMs begin
        networks[name] = roll_cell(cell)
    attention = MultiHeadAttention(knobs.width, n_heads=1).double()

    def ask_all(inputs: Sequence[Tensor]) -> Tensor:
        """The last position asks all of them, itself included, as a causal one may."""
        out: Tensor = attention(inputs[-1][:, None], torch.stack(list(inputs), dim=1), mask=EVERYTHING)
        return out[:, 0]

    networks["attention"] = ask_all
    return networks


def roll_cell(cell: Any) -> LastOutput:
    """The last state of a cell of torch (RNNCell, GRUCell or LSTMCell) that reads one input after another.

    >>> import torch
    >>> cell = torch.nn.RNNCell(2, 3)
    >>> roll_cell(cell)([torch.zeros(1, 2), torch.ones(1, 2)]).shape
    torch.Size([1, 3])
    """

    def read_all(inputs: Sequence[Tensor]) -> Tensor:
        state: Any = None
        for x in inputs:
            state = cell(x, state)
        out: Tensor = state[0] if isinstance(state, tuple) else state  # an LSTM carries its cell, too
        return out

    return read_all


def gradient_norms(last_output: LastOutput, inputs: Sequence[Tensor]) -> tuple[float, ...]:
    """‖∂ output / ∂ input‖ / √width for each input, the last first: the mean over the sequences of the batch.

    The last of two numbers that are added passes on all of what the sum is told, and so does the first:

    >>> import torch
    >>> gradient_norms(lambda inputs: inputs[0] + inputs[1], [torch.zeros(2, 4), torch.zeros(2, 4)])
    (1.0, 1.0)
    """
    import torch

    leaves = [x.clone().requires_grad_() for x in inputs]
    output = last_output(leaves)  # (batch, width)
    squares = torch.zeros(len(leaves), len(output), dtype=torch.float64)
    for column in output.sum(0):  # rows of a batch do not meet, so that one pass is for all of them
        rows = torch.autograd.grad(column, leaves, retain_graph=True, allow_unused=True)
        for place, row in enumerate(rows):
            if row is not None:
                squares[place] += row.double().square().sum(-1)
    norms = squares.sqrt().mean(1) / math.sqrt(output.shape[1])
    return tuple(reversed(norms.tolist()))


def shortest_ways(last_output: LastOutput, inputs: Sequence[Tensor]) -> tuple[int, ...]:
    """The fewest operations from the output back to each input, the last first, in the graph that torch recorded.

    >>> import torch
    >>> shortest_ways(lambda inputs: inputs[0].tanh().exp() + inputs[1], [torch.zeros(1, 4), torch.zeros(1, 4)])
    (1, 3)
    """
    leaves = [x[:1].clone().requires_grad_() for x in inputs]
    root = last_output(leaves).grad_fn
    steps = {root: 1}
    found: dict[int, int] = {}
    waiting = deque([root])
    while waiting:
        node: Any = waiting.popleft()
        for before, _ in node.next_functions:
            if before is None:
                continue
            if hasattr(before, "variable"):  # a leaf: no operation made it
                found.setdefault(id(before.variable), steps[node])
            elif before not in steps:
                steps[before] = steps[node] + 1
                waiting.append(before)
    return tuple(found[id(leaf)] for leaf in reversed(leaves))


def draw(record: PathStudy) -> Picture:
    """What arrives over the distance, on a scale of powers of ten; below how many operations lie in between."""
    distances = range(record.length)
    x = axis_spanning(distances, "distance in tokens", margin=0.0)
    values = [value for network in record.networks for value in network.gradients]
    arriving = Panel(x, axis_spanning(values, "gradient that arrives", is_log=True), WIDTH, UPPER)
    operations = [n for network in record.networks for n in network.operations]
    ways = Panel(x, axis_spanning([0, *operations], "operations", margin=0.02), WIDTH, LOWER)
    gradient_labels, way_labels = [], []
    for i, network in enumerate(record.networks):
        colour, dash = line_style(i)
        name = NAMES.get(network.name, network.name)
        points: list[Point] = [
            (distance, value if value > 0 else math.nan) for distance, value in enumerate(network.gradients)
        ]
        arriving.line(points, colour, dash=dash, says=name)
        ways.line(list(enumerate(network.operations)), colour, dash=dash, says=name)
        gradient_labels.append((max(network.gradients[-1], arriving.y.low), name, colour))
        way_labels.append((network.operations[-1], name, colour))
    arriving.ends(gradient_labels)
    ways.ends(way_labels)
    marks = [*arriving.draw(0, 12, has_numbers_below=False), *ways.draw(0, 12 + UPPER + BETWEEN)]
    height = 12 + UPPER + BETWEEN + LOWER + BOTTOM
    title = "A gradient over a distance: token by token, and by attention"
    return picture(title, _captions(record), marks, LEFT + WIDTH + RIGHT, height)


def _captions(record: PathStudy) -> list[str]:
    said = [
        f"Networks of width {record.width} as they begin, {record.n_sequences} random sequences of {record.length} "
        "tokens: |d output / d input| / √width, where 1 is what the identity passes on; and the operations on the "
        "shortest way."
    ]
    if record.scale != 1:
        said.append(f"Recurrent weights begin {record.scale:g} times as large as torch draws them.")
    far = record.length - 1
    half = far // 2
    for network in record.networks:
        first, middle, last = (network.gradients[place] for place in (0, half, far))
        # Of the farther half: what is special about the last token and its neighbours is left behind there.
        each = (last / middle) ** (1 / (far - half)) if middle > 0 and last > 0 else 0.0
        growth = (network.operations[far] - network.operations[half]) / (far - half)
        name = NAMES.get(network.name, network.name)
        said.append(
            f"{name[0].upper()}{name[1:]}: {rough(first)} of the last token arrives and {rough(last)} of the first, "
            f"× {each:.3f} for each token of the farther half; {network.operations[far]:,} operations, "
            + (f"{growth:.3g} more for each token." if growth else "whatever the distance.")
        )
    return said


LESSON = Lesson(
    name="path-length",
    summary="How much of a gradient arrives over a distance in RNN, GRU, LSTM and attention, and how long the way is.",
    measure=measure,
    draw=draw,
    knobs=PathLengthKnobs,
)
