"""What is under a `Value`: where it keeps its number and its history, sums and products, and the walk back.

This file is the engine in Python, to be read. `_node.c` is its twin, compiled at install where there is a C compiler,
with the same names and the same bits; `value.py` takes that one if it is there. Nothing here calls itself, so a graph
may be a million operations deep.
"""

import math
from collections.abc import Callable
from typing import Any, Self, TypeVar, Union

from pellucid.autograd.rules import ADD, CONSTANT, INPUT, MULTIPLY, Rule

new = object.__new__


class Node:
    """A float64 with its history: which rule made it, and from which parents."""

    # Nearly all nodes have two parents. Held one by one and not in a tuple, they are half as many objects for the
    # collector to walk, which is a fifth of the step. `was_compared` is left unset until Python looks at the number
    # to decide something.
    __slots__ = ("_left", "_parents", "_right", "data", "grad", "name", "rule", "was_compared")

    data: float
    grad: float
    rule: Rule
    name: str
    was_compared: bool
    _left: "Node"  # set where there are just two
    _right: Union["Node", None]
    _parents: tuple["Node", ...]  # set where there are none, one or many

    def __init__(self, data: float, name: str = "") -> None:
        self.data = float(data)
        self.grad = 0.0
        self.rule = INPUT
        self._right = None
        self._parents = ()
        self.name = name

    @property
    def parents(self) -> tuple[Self, ...]:
        """What it was made from, in order and with repeats."""
        found: Any = self._parents if self._right is None else (self._left, self._right)
        return found  # type: ignore[no-any-return]  # nodes of one type are made from nodes of that type

    def remember(self, rule: Rule, parents: tuple["Node", ...]) -> None:
        """Set by which rule and from which parents it was made."""
        self.rule = rule
        if len(parents) == 2:
            self._left, self._right = parents
        else:
            self._right = None
            self._parents = parents

    # The forward function comes from the rule's row; it is bound here once, because looking it up at every operation
    # would cost a tenth of the step.

    def __add__(self, other: Any, forward: Callable[..., float] = ADD.forward) -> Self:
        if not isinstance(other, Node):
            other = constant(type(self), other)
        node = new(type(self))
        node.data = forward(self.data, other.data)
        node.grad = 0.0
        node.rule = ADD
        node._left = self
        node._right = other
        node.name = ""
        return node

    def __mul__(self, other: Any, forward: Callable[..., float] = MULTIPLY.forward) -> Self:
        if not isinstance(other, Node):
            other = constant(type(self), other)
        node = new(type(self))
        node.data = forward(self.data, other.data)
        node.grad = 0.0
        node.rule = MULTIPLY
        node._left = self
        node._right = other
        node.name = ""
        return node

    def __radd__(self, other: Any) -> Self:
        return constant(type(self), other) + self

    def __rmul__(self, other: Any) -> Self:
        return constant(type(self), other) * self


AnyNode = TypeVar("AnyNode", bound=Node)


def untracked(kind: type[AnyNode]) -> type[AnyNode]:
    """The class itself. The compiled twin gives one of whose instances the collector is not told."""
    return kind


def constant(kind: type[AnyNode], number: Any) -> AnyNode:
    """The number as a node that is not asked for a gradient."""
    node = kind(number)
    node.rule = CONSTANT
    return node


def apply(kind: type[AnyNode], rule: Rule, *inputs: Any) -> AnyNode:
    """The result of a rule as a new node that remembers the rule and the inputs."""
    parents = tuple([x if isinstance(x, Node) else constant(kind, x) for x in inputs])
    node = new(kind)
    node.data = rule.forward(*[parent.data for parent in parents])
    node.grad = 0.0
    node.remember(rule, parents)
    node.name = ""
    return node


def ancestors(output: AnyNode) -> list[AnyNode]:
    """The output and everything it was made from, once each, parents before children."""
    order: list[Any] = []
    seen: set[Any] = set()
    stack: list[Any] = [output]
    push, pop, see, finish = stack.append, stack.pop, seen.add, order.append
    while stack:
        node = pop()
        if node is None:
            # The mark above a node says that everything it needs is in the order by now.
            finish(pop())
        elif node not in seen:
            see(node)
            if node._right is not None:
                push(node)
                push(None)
                push(node._left)
                push(node._right)
            elif node._parents:
                push(node)
                push(None)
                stack.extend(node._parents)
            else:
                finish(node)
    return order


def propagate(output: Node, accumulate: bool) -> None:
    """Give every number that the output was made from its gradient: d(output)/d(that)."""
    nodes = ancestors(output)
    before = [node.grad for node in nodes] if accumulate else []
    for node in nodes:
        node.grad = 0.0
    # A value that is not a number has no slope: nan times any slope is nan, all the way back.
    output.grad = 1.0 if output.data == output.data else output.data
    for node in reversed(heard_nodes(output, nodes)):
        upstream = node.grad
        right = node._right
        if right is not None:
            left = node._left
            # Most graphs are made of sums and products. Their slopes stand here once more, because asking the
            # table would cost a sixth of the pass.
            if node.rule is ADD:
                left.grad += upstream
                right.grad += upstream
            elif node.rule is MULTIPLY:
                left.grad += upstream * right.data
                right.grad += upstream * left.data
            else:
                to_left, to_right = node.rule.slopes(node.data, left.data, right.data)
                left.grad += upstream * to_left
                right.grad += upstream * to_right
        elif node.rule.listens is None:
            for parent, slope in zip(node._parents, local_slopes(node), strict=True):
                parent.grad += upstream * slope
        else:
            listening = listens_to(node)
            for parent, slope, is_heard in zip(node._parents, local_slopes(node), listening, strict=True):
                if is_heard:
                    parent.grad += upstream * slope
    if math.isfinite(output.data) and any([node.grad != node.grad for node in nodes]):
        _propagate_past_flats(output, nodes)
    for node, earlier in zip(nodes, before, strict=accumulate):
        node.grad += earlier


def _propagate_past_flats(output: Node, nodes: list[Node]) -> None:
    """The pass again, where infinity met a zero: through what is constant nearby nothing is handed on."""
    for node in nodes:
        node.grad = 0.0
    output.grad = 1.0
    for node in reversed(heard_nodes(output, nodes)):
        numbers = [parent.data for parent in node.parents]
        flat = node.rule.is_flat(*numbers) if node.rule.is_flat else (False,) * len(numbers)
        listening = listens_to(node)
        for parent, slope, is_heard, is_flat in zip(node.parents, local_slopes(node), listening, flat, strict=True):
            if is_heard and not is_flat:
                parent.grad += node.grad * slope


def local_slopes(node: Node) -> list[float]:
    """The derivative of the node toward each of its parents, as its rule has it."""
    return list(node.rule.slopes(node.data, *[parent.data for parent in node.parents]))


def listens_to(node: Node) -> tuple[bool, ...]:
    """Whether a change of each parent can reach the node at all."""
    if node.rule.listens is None:
        return (True,) * len(node.parents)
    return node.rule.listens(*[parent.data for parent in node.parents])


def heard_nodes(output: AnyNode, nodes: list[AnyNode]) -> list[AnyNode]:
    """The nodes whose changes can reach the output at all: without the roads that `where` did not take."""
    if not any([node.rule.listens for node in nodes]):
        return nodes
    reached = {output}
    for node in reversed(nodes):
        if node in reached:
            reached.update(p for p, is_heard in zip(node.parents, listens_to(node), strict=True) if is_heard)
    return [node for node in nodes if node in reached]
