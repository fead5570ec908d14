"""The graph of a loss, once it is sure that other numbers would not have built another.

A loss given as a function is built again for other numbers, twice: a little off, and with every sign turned. If the
graphs or the constants in them differ, or if Python looked at a number to decide something, there is no one graph.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pellucid.autograd.rules import INPUT
from pellucid.autograd.value import Value, ancestors, was_compared
from pellucid.errors import GraphChanges, PellucidError

_NUDGE_SEED = 20
_KEEP_IT_IN_THE_GRAPH = "Write the choice as where(condition, a, b), maximum or minimum, which belong to the graph"


class Leaf(NamedTuple):
    """A number that a replay may change."""

    kind: str  # input or parameter
    name: str
    value: Value


def trace(loss: Value | Callable[[], Value], leaves: Sequence[Leaf]) -> list[Value]:
    """Every number the loss is made from, parents before children; refuses where other numbers would give others."""
    nodes = _traced_value(loss) if isinstance(loss, Value) else _traced_function(loss, leaves)
    known = set(nodes)
    for leaf in leaves:
        if leaf.value not in known:
            raise PellucidError(
                f"the loss does not depend on the {leaf.kind} {leaf.name}",
                fix=f"Leave it out of the {leaf.kind}s, or use it in the loss",
            )
    return nodes


def _traced_value(loss: Value) -> list[Value]:
    nodes = ancestors(loss)
    compared = next((node for node in nodes if was_compared(node)), None)
    if compared is not None:
        raise GraphChanges(
            f"Python looked at {_called(compared)}, or at a number made from it, so what was built may hang on it",
            fix="Pass a function that builds the loss, so that it can be built for other numbers and compared",
        )
    return nodes


def _traced_function(loss: Callable[[], Value], leaves: Sequence[Leaf]) -> list[Value]:
    values = [leaf.value for leaf in leaves]
    with _marks_kept(values):
        nodes = ancestors(_built(loss))
        # Marks that numbers from outside the function have kept from earlier would hide a new look at them.
        with _marks_kept(nodes):
            draw = random.Random(_NUDGE_SEED)
            for sign in (1.0, -1.0):
                with _nudged(values, sign, draw):
                    _require_same(nodes, _traced_again(loss), set(values))
                for leaf in leaves:
                    if was_compared(leaf.value):
                        raise GraphChanges(
                            f"the loss looks at the {leaf.kind} {leaf.name}, or at a number made from it, to decide "
                            "something in Python",
                            fix=_KEEP_IT_IN_THE_GRAPH,
                        )
    return nodes


def _built(loss: Callable[[], Value]) -> Value:
    output = loss()
    if not isinstance(output, Value):
        raise PellucidError(
            f"the function that builds the loss gave a {type(output).__name__}", fix="Let it return one Value"
        )
    return output


def _traced_again(loss: Callable[[], Value]) -> list[Value]:
    try:
        return ancestors(_built(loss))
    except Exception as mistake:
        raise GraphChanges(
            f"the loss can be built for the numbers given but not for others ({type(mistake).__name__}: {mistake})",
            fix=_KEEP_IT_IN_THE_GRAPH,
        ) from mistake


@contextmanager
def _nudged(values: Sequence[Value], sign: float, draw: random.Random) -> Iterator[None]:
    """Other numbers in the values for a while: each moved by a thousandth or so, with its sign kept or turned."""
    before = [value.data for value in values]
    try:
        for value in values:
            value.data = sign * (value.data + 0.001 * draw.uniform(0.5, 1.0) * (1.0 + abs(value.data)))
        yield
    finally:
        for value, number in zip(values, before, strict=True):
            value.data = number


@contextmanager
def _marks_kept(values: Iterable[Value]) -> Iterator[None]:
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
                f"the loss is another graph for other numbers: {_described(node)} becomes {_described(other)}",
                where=f"at step {i + 1} of {len(nodes)}",
                fix=_KEEP_IT_IN_THE_GRAPH,
            )
        if not node.parents and node not in leaves and not _is_same_number(node.data, other.data):
            user = next((n for n in nodes if node in n.parents), node)
            raise GraphChanges(
                f"a number that should stay the same turns from {node.data:g} into {other.data:g} with the data",
                where=f"in {_described(user)}",
                fix="Use the Value and not its .data, list it among the inputs, or draw chance before the function",
            )
    if len(nodes) != len(others):
        raise GraphChanges(
            f"the loss is made of {len(nodes)} numbers, and of {len(others)} when other numbers are given",
            fix=_KEEP_IT_IN_THE_GRAPH,
        )


def _is_same_number(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def _described(node: Value) -> str:
    if not node.parents:
        return _called(node)
    inputs = [_called(parent) for parent in node.parents[:3]] + ["…"] * (len(node.parents) > 3)
    return f"{node.rule.name}({', '.join(inputs)})"


def _called(node: Value) -> str:
    if node.name:
        return node.name
    return f"{node.data:g}" if not node.parents and node.rule is not INPUT else f"a {node.rule.name} of {node.data:g}"
