"""A number that remembers: which operation made it, and from what.

    >>> x = Value(3.0)
    >>> y = x * x + 2 * x
    >>> y.backward()
    >>> y.data, x.grad
    (15.0, 8.0)

Nothing here calls itself, so a graph may be a million operations deep. A node refers to its parents and
never to itself, so a graph that is no longer wanted is freed at once, without waiting for the collector.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Union

from pellucid.autograd.rules import (
    ABS,
    ADD,
    CONSTANT,
    COS,
    DIVIDE,
    EXP,
    GELU,
    INPUT,
    LEAKY_RELU,
    LOG,
    MAX,
    MIN,
    MULTIPLY,
    NEGATE,
    POWER,
    PRODUCT,
    RELU,
    SIGMOID,
    SIN,
    SOFTPLUS,
    SQRT,
    SUBTRACT,
    SUM,
    TANH,
    WHERE,
    Rule,
)
from pellucid.records import BackwardStep

Number = Union["Value", float, int]


class Value:
    """A float64 with its history.

    data: the number. grad: how much the last `backward()` found that its output moves per unit of this one.
    rule: the row of the table that made it. parents: what it was made from, in order and with repeats.
    """

    # Nearly all nodes have two parents. Held one by one and not in a tuple, they are half as many objects for the
    # collector to walk, which is a fifth of the step. `was_compared` is left unset until Python looks at the number
    # to decide something.
    __slots__ = ("_left", "_parents", "_right", "data", "grad", "name", "rule", "was_compared")

    data: float
    grad: float
    rule: Rule
    name: str
    was_compared: bool
    _left: "Value"  # set where there are just two
    _right: Union["Value", None]
    _parents: tuple["Value", ...]  # set where there are none, one or many

    def __init__(self, data: float, name: str = "") -> None:
        self.data = float(data)
        self.grad = 0.0
        self.rule = INPUT
        self._right = None
        self._parents = ()
        self.name = name

    @property
    def parents(self) -> tuple["Value", ...]:
        """What it was made from, in order and with repeats."""
        return self._parents if self._right is None else (self._left, self._right)

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"Value({self.data!r}{name})"

    # Arithmetic. The forward function comes from the rule's row; it is bound here once, because looking it up
    # at every operation would cost a tenth of the step.

    def __add__(self, other: Number, forward: Callable[..., float] = ADD.forward) -> "Value":
        if not isinstance(other, Value):
            other = constant(other)
        node = new(Value)
        node.data = forward(self.data, other.data)
        node.grad = 0.0
        node.rule = ADD
        node._left = self
        node._right = other
        node.name = ""
        return node

    def __mul__(self, other: Number, forward: Callable[..., float] = MULTIPLY.forward) -> "Value":
        if not isinstance(other, Value):
            other = constant(other)
        node = new(Value)
        node.data = forward(self.data, other.data)
        node.grad = 0.0
        node.rule = MULTIPLY
        node._left = self
        node._right = other
        node.name = ""
        return node

    def __radd__(self, other: Number) -> "Value":
        return constant(other) + self

    def __rmul__(self, other: Number) -> "Value":
        return constant(other) * self

    def __sub__(self, other: Number) -> "Value":
        return apply(SUBTRACT, self, other)

    def __rsub__(self, other: Number) -> "Value":
        return apply(SUBTRACT, other, self)

    def __truediv__(self, other: Number) -> "Value":
        return apply(DIVIDE, self, other)

    def __rtruediv__(self, other: Number) -> "Value":
        return apply(DIVIDE, other, self)

    def __pow__(self, other: Number) -> "Value":
        return apply(POWER, self, other)

    def __rpow__(self, other: Number) -> "Value":
        return apply(POWER, other, self)

    def __neg__(self) -> "Value":
        return apply(NEGATE, self)

    def __pos__(self) -> "Value":
        return self

    def __abs__(self) -> "Value":
        return apply(ABS, self)

    def exp(self) -> "Value":
        return apply(EXP, self)

    def log(self) -> "Value":
        return apply(LOG, self)

    def sqrt(self) -> "Value":
        return apply(SQRT, self)

    def sin(self) -> "Value":
        return apply(SIN, self)

    def cos(self) -> "Value":
        return apply(COS, self)

    def tanh(self) -> "Value":
        return apply(TANH, self)

    def sigmoid(self) -> "Value":
        return apply(SIGMOID, self)

    def relu(self) -> "Value":
        return apply(RELU, self)

    def leaky_relu(self) -> "Value":
        return apply(LEAKY_RELU, self)

    def softplus(self) -> "Value":
        return apply(SOFTPLUS, self)

    def gelu(self) -> "Value":
        return apply(GELU, self)

    # Comparisons look at the number, and what Python then decides is not in the graph. They are remembered,
    # so that a replay for other numbers can refuse. Equality stays identity: nodes live in sets.

    def __lt__(self, other: Number) -> bool:
        return _look_at(self) < _look_at(other)

    def __le__(self, other: Number) -> bool:
        return _look_at(self) <= _look_at(other)

    def __gt__(self, other: Number) -> bool:
        return _look_at(self) > _look_at(other)

    def __ge__(self, other: Number) -> bool:
        return _look_at(self) >= _look_at(other)

    def __bool__(self) -> bool:
        return _look_at(self) != 0.0

    def __float__(self) -> float:
        return _look_at(self)

    def backward(self, accumulate: bool = False) -> None:
        """Give every number that this one was made from its gradient: d(this)/d(that).

        Gradients are set, not added to: asking twice changes nothing. With `accumulate` they are added to what
        is there, as when the losses of several batches share their parameters.
        """
        nodes = ancestors(self)
        before = [node.grad for node in nodes] if accumulate else []
        for node in nodes:
            node.grad = 0.0
        # A value that is not a number has no slope: nan times any slope is nan, all the way back.
        self.grad = 1.0 if self.data == self.data else self.data
        for node in reversed(heard_nodes(self, nodes)):
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
        for node, earlier in zip(nodes, before, strict=accumulate):
            node.grad += earlier

    def explain(self) -> Sequence[BackwardStep]:
        """The backward pass from this value, one record for each edge, in the order it happens."""
        # Telling stands on the engine, so it is fetched only when somebody asks to be told.
        from pellucid.autograd.explanation import explain

        return explain(self)


new = object.__new__


def constant(number: Number) -> Value:
    """The number as a node that is not asked for a gradient; a Value is already one and stays as it is."""
    if isinstance(number, Value):
        return number
    node = Value(number)
    node.rule = CONSTANT
    return node


def apply(rule: Rule, *inputs: Number) -> Value:
    """The result of a rule as a new node that remembers the rule and the inputs.

    >>> apply(MAX, Value(2.0), Value(5.0)).data
    5.0
    """
    parents = tuple([x if isinstance(x, Value) else constant(x) for x in inputs])
    node = new(Value)
    node.data = rule.forward(*[parent.data for parent in parents])
    node.grad = 0.0
    node.rule = rule
    if len(parents) == 2:
        node._left, node._right = parents
    else:
        node._right = None
        node._parents = parents
    node.name = ""
    return node


def maximum(*values: Number) -> Value:
    """The largest; equals share the gradient."""
    return apply(MAX, *values)


def minimum(*values: Number) -> Value:
    """The smallest; equals share the gradient."""
    return apply(MIN, *values)


def total(values: Iterable[Number]) -> Value:
    """The sum of any number of values as one node.

    >>> total([Value(1.0), Value(2.0), 3]).data
    6.0
    """
    return apply(SUM, *values)


def product(values: Iterable[Number]) -> Value:
    """The product of any number of values as one node."""
    return apply(PRODUCT, *values)


def where(condition: Number, if_positive: Number, otherwise: Number) -> Value:
    """`if_positive` where the condition is above zero, else `otherwise`; the one not taken gets no gradient."""
    return apply(WHERE, condition, if_positive, otherwise)


def local_slopes(node: Value) -> Sequence[float]:
    """The derivative of the node toward each of its parents, as its rule has it."""
    return node.rule.slopes(node.data, *[parent.data for parent in node.parents])


def listens_to(node: Value) -> Sequence[bool]:
    """Whether a change of each parent can reach the node at all."""
    if node.rule.listens is None:
        return (True,) * len(node.parents)
    return node.rule.listens(*[parent.data for parent in node.parents])


def ancestors(output: Value) -> list[Value]:
    """The output and everything it was made from, once each, parents before children."""
    order: list[Value] = []
    seen: set[Value] = set()
    stack: list[Value | None] = [output]
    push, pop, see, finish = stack.append, stack.pop, seen.add, order.append
    while stack:
        node = pop()
        if node is None:
            # The mark above a node says that everything it needs is in the order by now.
            finished = pop()
            assert finished is not None
            finish(finished)
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


def heard_nodes(output: Value, nodes: list[Value]) -> list[Value]:
    """The nodes whose changes can reach the output at all: without the roads that `where` did not take."""
    if not any([node.rule.listens for node in nodes]):
        return nodes
    reached = {output}
    for node in reversed(nodes):
        if node in reached:
            reached.update(p for p, is_heard in zip(node.parents, listens_to(node), strict=True) if is_heard)
    return [node for node in nodes if node in reached]


def _look_at(value: Number) -> float:
    if not isinstance(value, Value):
        return float(value)
    stack = [value]
    while stack:
        node = stack.pop()
        if not was_compared(node):
            node.was_compared = True
            stack.extend(node.parents)
    return value.data


def was_compared(node: Value) -> bool:
    """Whether Python has decided something by this number, or by one made from it."""
    try:
        return node.was_compared
    except AttributeError:
        return False


@contextmanager
def pause_collector() -> Iterator[None]:
    """Stop the garbage collector while a graph is built.

    Graphs refer to their parents and never back, so nothing in them waits for the collector. Left to run, it would
    walk the growing graph again and again: half of the time that a large derivation takes.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
