"""A derivation: every number of an expression, the backward pass over it, and how it was checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class GraphNode(NamedTuple):
    """One number of a graph and how it was made."""

    place: int  # in the list of nodes, counted from 0; parents stand before it
    name: str  # an input's or a statement's own name, a constant as it is written, else v1, v2, ...
    rule: str  # the name of its row in the table of rules
    symbol: str
    form: str  # infix, prefix, call or given
    parents: tuple[int, ...]
    value: float
    slopes: tuple[float, ...]  # its local derivative toward each parent
    is_heard: tuple[bool, ...]  # whether a change of each parent reaches it at all
    can_move: bool  # whether it depends on any input
    start: int  # the part of the expression it was written as; start == end where there is none
    end: int


class BackwardStep(NamedTuple):
    """One edge of the backward pass: what a node hands on to one of its parents, and why."""

    number: int  # counted from 1
    node: int  # places in the list of nodes, and their names
    parent: int
    node_name: str
    parent_name: str
    rule: str  # the name of the node's row in the table of rules
    position: int  # which of the node's inputs the parent is, counted from 0
    upstream: float  # the gradient of the node
    slope: float  # the node's local derivative toward the parent
    contribution: float  # upstream × slope
    running_sum: float  # the parent's gradient so far
    use: int  # which of the parent's uses this is, and of how many
    uses: int
    because: str


class Path(NamedTuple):
    """One way from an output back to a node, and the part of the gradient that came along it."""

    nodes: tuple[int, ...]  # their places, and their names
    names: tuple[str, ...]
    slopes: tuple[float, ...]
    contribution: float


class Difference(NamedTuple):
    """One way of measuring a slope with steps of h, beside the exact slope."""

    kind: str  # forward, backward or central
    h: float
    slope: float
    error: float  # slope - exact


class Check(NamedTuple):
    """A gradient beside the central difference that measures it. `None`: not measured, so not known."""

    output: str
    variable: str
    exact: float
    measured: float | None
    disagreement: float | None
    h: float
    differences: tuple[Difference, ...] = ()  # forward, backward and central with the same h


class Effect(NamedTuple):
    """What a small change of one input does: as the gradient predicts, and as running it again showed."""

    output: str
    variable: str
    nudge: float
    predicted: float
    measured: float


class Note(NamedTuple):
    """Something a reader should know about one place of the expression. column counts from 1."""

    text: str
    column: int


@dataclass(frozen=True)
class BackwardPass:
    """The way back from one output: every node's gradient, and the steps that gave it."""

    output: str
    place: int  # of the output in the list of nodes
    gradients: Sequence[float]
    steps: Sequence[BackwardStep]


@dataclass(frozen=True)
class Derivation:
    """The value of an expression, its gradients, and every step that led to them."""

    text: str
    nodes: Sequence[GraphNode]
    values: Mapping[str, float]  # of the outputs
    inputs: Mapping[str, float]
    passes: Sequence[BackwardPass]
    checks: Sequence[Check]
    effects: Sequence[Effect]
    notes: Sequence[Note]

    @property
    def value(self) -> float:
        """The value of the last output, which is the only one unless several were asked for."""
        return self.values[self.passes[-1].output]

    @property
    def gradients(self) -> dict[str, float]:
        """The gradient of the last output toward each input that was asked for."""
        return self.jacobian[self.passes[-1].output]

    @property
    def jacobian(self) -> dict[str, dict[str, float]]:
        """The gradient of every output toward every input that was asked for."""
        table: dict[str, dict[str, float]] = {back.output: {} for back in self.passes}
        for check in self.checks:
            table[check.output][check.variable] = check.exact
        return table

    @property
    def steps(self) -> Sequence[BackwardStep]:
        """The backward pass of the last output, edge by edge."""
        return self.passes[-1].steps
