"""Trace a loss once, then run it forward and backward for new numbers, a few hundred times faster.

    >>> from pellucid.autograd.value import Value
    >>> x, w = Value(2.0, "x"), Value(3.0, "w")
    >>> fast = replay(lambda: (w * x).tanh() * w, inputs=[x], parameters=[w])
    >>> value, gradients = fast.run(inputs=[0.5], parameters=[1.0])
    >>> round(value, 6), fast.parameter_names, gradients.round(6).tolist()
    (0.462117, ('w',), [0.855341])

Values and gradients are those of `backward()` to the last few digits; sums are taken in another order. What makes it
fast is breadth, many numbers computed alike: a graph that is one long thread is replayed no faster than it was built.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple, Union

import numpy as np
from numpy.typing import ArrayLike

from pellucid.autograd.instructions import compile_graph
from pellucid.autograd.rules import INPUT
from pellucid.autograd.value import Value, ancestors, pause_collector, was_compared
from pellucid.autograd.vectors import Floats
from pellucid.errors import GraphChanges, PellucidError, did_you_mean, quoted

_NUDGE_SEED = 20
_KEEP_IT_IN_THE_GRAPH = "Write the choice as where(condition, a, b), maximum or minimum, which belong to the graph"

Leaves = Sequence[Value] | Mapping[str, Value]
Numbers = Union[ArrayLike, Mapping[str, float]]  # noqa: UP007  ArrayLike is not a class
UNCHANGED: Mapping[str, float] = MappingProxyType({})


class Leaf(NamedTuple):
    """A number that a replay may change."""

    kind: str  # input or parameter
    name: str
    value: Value


def replay(loss: Value | Callable[[], Value], inputs: Leaves = (), parameters: Leaves = ()) -> "Replay":
    """The loss as something that runs fast for new inputs and parameters.

    loss: a function that builds it, or the Value itself. A function is the safer way: it is built again for other
    numbers, and refused (`GraphChanges`) if it then gives another graph.
    inputs, parameters: given numbers of the loss, in order or by name. All others stay as they are.
    """
    return Replay(loss, _leaves("input", inputs), _leaves("parameter", parameters))


class Replay:
    """A recorded loss. `run` gives its value and gradients; `gradient["name"]` one of them; `store` takes them home."""

    def __init__(self, loss: Value | Callable[[], Value], inputs: Sequence[Leaf], parameters: Sequence[Leaf]) -> None:
        self._leaves = [*inputs, *parameters]
        _require_leaves(self._leaves)
        values = [leaf.value for leaf in self._leaves]
        with pause_collector():
            self._graph = compile_graph(trace(loss, self._leaves), values)
        self.input_names = tuple(leaf.name for leaf in inputs)
        self.parameter_names = tuple(leaf.name for leaf in parameters)
        first = self._graph.first_leaf
        self._inputs = slice(first, first + len(inputs))
        self._parameters = slice(first + len(inputs), first + len(values))
        self.forward()
        self.backward()

    def run(self, inputs: Numbers = UNCHANGED, parameters: Numbers = UNCHANGED) -> tuple[float, Floats]:
        """Forward and backward: the loss, and its gradients in the order of the parameters.

        New numbers come as an array of any shape, read row by row, or by name; what is not given stays as it was.
        """
        return self.forward(inputs, parameters), self.backward()

    def forward(self, inputs: Numbers = UNCHANGED, parameters: Numbers = UNCHANGED) -> float:
        """The loss for these numbers."""
        values = self._graph.rows.values
        if inputs is not UNCHANGED:
            _fill(values[self._inputs], inputs, self.input_names, "input")
        if parameters is not UNCHANGED:
            _fill(values[self._parameters], parameters, self.parameter_names, "parameter")
        with np.errstate(all="ignore"):
            for instruction in self._graph.instructions:
                instruction.forward()
        return self.value

    def backward(self) -> Floats:
        """The gradients of the last forward pass, in the order of the parameters."""
        self._walk_back()
        if math.isfinite(self.value) and np.isnan(self._graph.rows.gradients).any():
            self._walk_back(is_past_flats=True)  # as in node.py: infinity met a zero
        return self.gradients

    def _walk_back(self, is_past_flats: bool = False) -> None:
        rows, always_heard, instructions, _, output = self._graph
        rows.gradients.fill(0.0)
        np.copyto(rows.is_heard, always_heard)
        # As in Value.backward: a loss that is not a number has no slope.
        rows.gradients[output] = 1.0 if self.value == self.value else self.value
        with np.errstate(all="ignore"):
            for instruction in reversed(instructions):
                instruction.backward(is_past_flats)

    @property
    def value(self) -> float:
        """The loss of the last forward pass."""
        return float(self._graph.rows.values[self._graph.output])

    @property
    def inputs(self) -> Floats:
        """The inputs as they stand, a copy."""
        return self._graph.rows.values[self._inputs].copy()

    @property
    def parameters(self) -> Floats:
        """The parameters as they stand, a copy."""
        return self._graph.rows.values[self._parameters].copy()

    @property
    def gradients(self) -> Floats:
        """The gradients of the last backward pass toward the parameters, in their order."""
        return self._graph.rows.gradients[self._parameters].copy()

    @property
    def input_gradients(self) -> Floats:
        """The gradients of the last backward pass toward the inputs, in their order."""
        return self._graph.rows.gradients[self._inputs].copy()

    @property
    def gradient(self) -> dict[str, float]:
        """The gradients of the last backward pass by name, inputs and parameters."""
        names = (*self.input_names, *self.parameter_names)
        return dict(zip(names, [*self.input_gradients.tolist(), *self.gradients.tolist()], strict=True))

    @property
    def n_instructions(self) -> int:
        """How many steps on arrays stand for the whole graph."""
        return len(self._graph.instructions)

    def store(self) -> None:
        """Write the numbers and gradients back into the Values that the loss was traced from."""
        numbers = [*self.inputs.tolist(), *self.parameters.tolist()]
        gradients = [*self.input_gradients.tolist(), *self.gradients.tolist()]
        for leaf, number, gradient in zip(self._leaves, numbers, gradients, strict=True):
            leaf.value.data = number
            leaf.value.grad = gradient


def _leaves(kind: str, values: Leaves) -> list[Leaf]:
    if isinstance(values, Mapping):
        return [Leaf(kind, name, value) for name, value in values.items()]
    named = [getattr(value, "name", "") or f"{kind}{i + 1}" for i, value in enumerate(values)]
    return [Leaf(kind, name, value) for name, value in zip(named, values, strict=True)]


def _require_leaves(leaves: Sequence[Leaf]) -> None:
    """Each is a Value that was given and not computed, once, under a name of its own."""
    if not leaves:
        raise PellucidError("a replay with neither inputs nor parameters came", fix="List the numbers that will change")
    names: dict[Value, str] = {}
    kinds: dict[str, str] = {}
    for kind, name, value in leaves:
        if not isinstance(value, Value):
            raise PellucidError(f"the {kind} {name} is a {type(value).__name__}", fix=f"Make it Value({value!r:.20})")
        if value.parents:
            raise PellucidError(
                f"the {kind} {name} is computed, by {value.rule.name}",
                fix="List the numbers that it is made from instead",
            )
        if value in names:
            raise PellucidError(f"the {kind} {name} is listed twice, also as {names[value]}", fix="List it once")
        if name in kinds:
            raise PellucidError(
                f"{quoted(name)} names the {kind} and also the {kinds[name]} before it",
                fix="Give each a name of its own",
            )
        names[value], kinds[name] = name, kind


def _fill(row: Floats, numbers: Numbers, names: Sequence[str], kind: str) -> None:
    """Put new numbers into their slots; refuse what does not fit before any is changed."""
    if isinstance(numbers, Mapping):
        places = {name: i for i, name in enumerate(names)}
        unknown = next((name for name in numbers if name not in places), None)
        if unknown is not None:
            raise PellucidError(
                f"there is no {kind} {quoted(str(unknown))}",
                fix=did_you_mean(str(unknown), names, f"The {kind}s are {', '.join(names[:6]) or 'none'}"),
            )
        row[[places[name] for name in numbers]] = _as_floats(list(numbers.values()), kind)
        return
    array = _as_floats(numbers, kind)
    if array.size != row.size:
        raise PellucidError(
            f"{array.size} numbers came for {row.size} {kind}s", fix=f"Give one number for each {kind}, or some by name"
        )
    row[:] = array.reshape(-1)


def _as_floats(numbers: ArrayLike, kind: str) -> Floats:
    try:
        array = np.asarray(numbers)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise PellucidError(f"the new {kind}s are not all plain numbers", fix="Give an array or a list of floats")
    return array.astype(np.float64, copy=False)


# The graph of a loss, once it is sure that other numbers would not have built another. A loss given as a function is
# built again for other numbers, twice: a little off, and with every sign turned. If the graphs or the constants in them
# differ, or if Python looked at a number to decide something, there is no one graph.


def trace(loss: Value | Callable[[], Value], leaves: Sequence[Leaf]) -> list[Value]:
    """Every number the loss is made from, parents before children; refuses where other numbers would give others."""
    nodes = _trace_value(loss) if isinstance(loss, Value) else _trace_function(loss, leaves)
    known = set(nodes)
    for leaf in leaves:
        if leaf.value not in known:
            raise PellucidError(
                f"the loss does not depend on the {leaf.kind} {leaf.name}",
                fix=f"Leave it out of the {leaf.kind}s, or use it in the loss",
            )
    return nodes


def _trace_value(loss: Value) -> list[Value]:
    nodes = ancestors(loss)
    compared = next((node for node in nodes if was_compared(node)), None)
    if compared is not None:
        raise GraphChanges(
            f"Python looked at {_name_of(compared)}, or at a number made from it, so what was built may hang on it",
            fix="Pass a function that builds the loss, so that it can be built for other numbers and compared",
        )
    return nodes


def _trace_function(loss: Callable[[], Value], leaves: Sequence[Leaf]) -> list[Value]:
    values = [leaf.value for leaf in leaves]
    with _keep_marks(values):
        nodes = ancestors(_build(loss))
        # Marks that numbers from outside the function have kept from earlier would hide a new look at them.
        with _keep_marks(nodes):
            rng = random.Random(_NUDGE_SEED)
            for sign in (1.0, -1.0):
                with _nudge(values, sign, rng):
                    _require_same(nodes, _trace_again(loss), set(values))
                for leaf in leaves:
                    if was_compared(leaf.value):
                        raise GraphChanges(
                            f"the loss looks at the {leaf.kind} {leaf.name}, or at a number made from it, to decide "
                            "something in Python",
                            fix=_KEEP_IT_IN_THE_GRAPH,
                        )
    return nodes


def _build(loss: Callable[[], Value]) -> Value:
    output = loss()
    if not isinstance(output, Value):
        raise PellucidError(
            f"the function that builds the loss gave a {type(output).__name__}", fix="Let it return one Value"
        )
    return output


def _trace_again(loss: Callable[[], Value]) -> list[Value]:
    try:
        return ancestors(_build(loss))
    except Exception as mistake:
        raise GraphChanges(
            f"the loss can be built for the numbers given but not for others ({type(mistake).__name__}: {mistake})",
            fix=_KEEP_IT_IN_THE_GRAPH,
        ) from mistake


@contextmanager
def _nudge(values: Sequence[Value], sign: float, rng: random.Random) -> Iterator[None]:
    """Other numbers in the values for a while: each moved by a thousandth or so, with its sign kept or turned."""
    before = [value.data for value in values]
    try:
        for value in values:
            value.data = sign * (value.data + 0.001 * rng.uniform(0.5, 1.0) * (1.0 + abs(value.data)))
        yield
    finally:
        for value, number in zip(values, before, strict=True):
            value.data = number


@contextmanager
def _keep_marks(values: Iterable[Value]) -> Iterator[None]:
    """No value is marked as compared at first, and afterwards just those that were before."""
    marks = [(value, was_compared(value)) for value in values]
    try:
        for value, _ in marks:
            value.was_compared = False
        yield
    finally:
        for value, was_marked in marks:
            value.was_compared = was_marked


def _require_same(nodes: Sequence[Value], others: Sequence[Value], leaves: set[Value]) -> None:
    """Two traces have the same rules, the same parents and the same given numbers, place by place."""
    places = {node: i for i, node in enumerate(nodes)}
    other_places = {node: i for i, node in enumerate(others)}
    for i, (node, other) in enumerate(zip(nodes, others, strict=False)):
        if (
            node.rule is not other.rule
            or [places[p] for p in node.parents] != [other_places[p] for p in other.parents]
            or ((node in leaves or other in leaves) and node is not other)
        ):
            raise GraphChanges(
                f"the loss is another graph for other numbers: {_describe(node)} becomes {_describe(other)}",
                where=f"at step {i + 1} of {len(nodes)}",
                fix=_KEEP_IT_IN_THE_GRAPH,
            )
        if not node.parents and node not in leaves and not _is_same_number(node.data, other.data):
            user = next((n for n in nodes if node in n.parents), node)
            raise GraphChanges(
                f"a number that should stay the same turns from {node.data:g} into {other.data:g} with the data",
                where=f"in {_describe(user)}",
                fix="Use the Value and not its .data, list it among the inputs, or draw chance before the function",
            )
    if len(nodes) != len(others):
        raise GraphChanges(
            f"the loss is made of {len(nodes)} numbers, and of {len(others)} when other numbers are given",
            fix=_KEEP_IT_IN_THE_GRAPH,
        )


def _is_same_number(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def _describe(node: Value) -> str:
    if not node.parents:
        return _name_of(node)
    inputs = [_name_of(parent) for parent in node.parents[:3]] + ["…"] * (len(node.parents) > 3)
    return f"{node.rule.name}({', '.join(inputs)})"


def _name_of(node: Value) -> str:
    if node.name:
        return node.name
    return f"{node.data:g}" if not node.parents and node.rule is not INPUT else f"a {node.rule.name} of {node.data:g}"
