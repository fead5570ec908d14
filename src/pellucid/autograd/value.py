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
from typing import TYPE_CHECKING, Any, Union

from pellucid.autograd.node import propagate
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

if TYPE_CHECKING:
    from pellucid.autograd import node as engine
else:
    try:
        from pellucid.autograd import _node as engine
    except ImportError:  # it was installed without a C compiler
        from pellucid.autograd import node as engine
    else:
        engine.bind(INPUT, CONSTANT, ADD, MULTIPLY, SUM, propagate)

Number = Union["Value", float, int]


@engine.untracked
class Value(engine.Node):
    """A float64 with its history.

    data: the number. grad: how much the last `backward()` found that its output moves per unit of this one.
    rule: the row of the table that made it. parents: what it was made from, in order and with repeats.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"Value({self.data!r}{name})"

    def __reduce__(self) -> tuple[Callable[..., "Value"], tuple[Any, ...]]:
        return _restore, (self.data, self.grad, self.name, self.rule, self.parents)

    # Arithmetic. Sums and products are the engine's own.

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
        engine.propagate(self, accumulate)

    def explain(self) -> Sequence[BackwardStep]:
        """The backward pass from this value, one record for each edge, in the order it happens."""
        # Telling stands on the engine, so it is fetched only when somebody asks to be told.
        from pellucid.autograd.explanation import explain

        return explain(self)


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
    return engine.apply(Value, rule, *inputs)


def ancestors(output: Value) -> list[Value]:
    """The output and everything it was made from, once each, parents before children."""
    return engine.ancestors(output)


def _restore(data: float, grad: float, name: str, rule: Rule, parents: tuple[Value, ...]) -> Value:
    node = Value(data, name)
    node.grad = grad
    node.remember(rule, parents)
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
