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

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Union

import numpy as np
from numpy.typing import ArrayLike

from pellucid.autograd.collector import collector_resting
from pellucid.autograd.plan import plan
from pellucid.autograd.tracing import Leaf, trace
from pellucid.autograd.value import Value
from pellucid.autograd.vectors import Floats
from pellucid.errors import PellucidError, did_you_mean, quoted

Leaves = Sequence[Value] | Mapping[str, Value]
Numbers = Union[ArrayLike, Mapping[str, float]]  # noqa: UP007  ArrayLike is not a class
UNCHANGED: Mapping[str, float] = MappingProxyType({})


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
        with collector_resting():
            self._plan = plan(trace(loss, self._leaves), values)
        self.input_names = tuple(leaf.name for leaf in inputs)
        self.parameter_names = tuple(leaf.name for leaf in parameters)
        first = self._plan.first_leaf
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
        values = self._plan.rows.values
        if inputs is not UNCHANGED:
            _fill(values[self._inputs], inputs, self.input_names, "input")
        if parameters is not UNCHANGED:
            _fill(values[self._parameters], parameters, self.parameter_names, "parameter")
        with np.errstate(all="ignore"):
            for instruction in self._plan.instructions:
                instruction.forward()
        return self.value

    def backward(self) -> Floats:
        """The gradients of the last forward pass, in the order of the parameters."""
        rows, always_heard, instructions, _, output = self._plan
        rows.gradients.fill(0.0)
        np.copyto(rows.is_heard, always_heard)
        # As in Value.backward: a loss that is not a number has no slope.
        rows.gradients[output] = 1.0 if self.value == self.value else self.value
        with np.errstate(all="ignore"):
            for instruction in reversed(instructions):
                instruction.backward()
        return self.gradients

    @property
    def value(self) -> float:
        """The loss of the last forward pass."""
        return float(self._plan.rows.values[self._plan.output])

    @property
    def inputs(self) -> Floats:
        """The inputs as they stand, a copy."""
        return self._plan.rows.values[self._inputs].copy()

    @property
    def parameters(self) -> Floats:
        """The parameters as they stand, a copy."""
        return self._plan.rows.values[self._parameters].copy()

    @property
    def gradients(self) -> Floats:
        """The gradients of the last backward pass toward the parameters, in their order."""
        return self._plan.rows.gradients[self._parameters].copy()

    @property
    def input_gradients(self) -> Floats:
        """The gradients of the last backward pass toward the inputs, in their order."""
        return self._plan.rows.gradients[self._inputs].copy()

    @property
    def gradient(self) -> dict[str, float]:
        """The gradients of the last backward pass by name, inputs and parameters."""
        names = (*self.input_names, *self.parameter_names)
        return dict(zip(names, [*self.input_gradients.tolist(), *self.gradients.tolist()], strict=True))

    @property
    def n_instructions(self) -> int:
        """How many steps on arrays stand for the whole graph."""
        return len(self._plan.instructions)

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
