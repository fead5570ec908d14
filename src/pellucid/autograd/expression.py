"""An expression as a flat list of operations, read once and run forward for any numbers; and the names it may use."""

import functools
import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pellucid.autograd.rules import CONSTANT, FUNCTIONS, INPUT, Rule
from pellucid.autograd.value import Value, apply, constant
from pellucid.autograd.vector_functions import VECTOR_FUNCTIONS, VectorFunction
from pellucid.errors import ExpressionError, quoted

LONGEST_NAME = 32
CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
CALLED: dict[str, Rule | VectorFunction] = {
    **FUNCTIONS,
    **VECTOR_FUNCTIONS,
}  # every function by the name it is written with
RESERVED = frozenset([*CALLED, *CONSTANTS, *keyword.kwlist, "ln", "inf", "nan", "infinity"])


class Operation(NamedTuple):
    """One line of a program: a rule and where its inputs stand, or a number or a name that is given."""

    rule: Rule
    inputs: tuple[int, ...]
    number: float  # of a constant
    name: str  # of an input, or of a constant such as pi
    start: int  # the part of the text it came from
    end: int


class Output(NamedTuple):
    """A statement: its name ("" when it has none) and the operation that gives its value.

    A vector is a statement for each of its elements, called p[0], p[1], ...
    """

    name: str
    place: int
    start: int
    end: int


@dataclass(frozen=True)
class Program:
    """A parsed expression. Each operation stands after the ones that it needs."""

    text: str
    operations: Sequence[Operation]
    inputs: Mapping[str, int]
    statements: Sequence[Output]
    read_vectors: frozenset[str] = frozenset()  # vectors by name that a later statement read, if only one element

    def outputs(self) -> list[Output]:
        """The statements that no other statement uses: what the program is for."""
        used = {i for operation in self.operations for i in operation.inputs}
        answers = [
            s for s in self.statements if s.place not in used and s.name.partition("[")[0] not in self.read_vectors
        ]
        return answers or [self.statements[-1]]

    def without_unused(self) -> "Program":
        """The same without what no output is made from, such as the other elements of softmax(z)[0].

        Inputs stay: somebody gave them a number.
        """
        wanted = {*self.inputs.values(), *[output.place for output in self.outputs()]}
        for place in range(len(self.operations) - 1, -1, -1):
            if place in wanted:
                wanted.update(self.operations[place].inputs)
        kept = [place for place in range(len(self.operations)) if place in wanted]
        now_at = {place: i for i, place in enumerate(kept)}
        operations = [self.operations[place] for place in kept]
        return Program(
            self.text,
            [o._replace(inputs=tuple([now_at[i] for i in o.inputs])) for o in operations],
            {name: now_at[place] for name, place in self.inputs.items()},
            [s._replace(place=now_at[s.place]) for s in self.statements if s.place in now_at],
            self.read_vectors,
        )

    def evaluate(self, numbers: Mapping[str, float]) -> list[float]:
        """Every operation's result as a plain float.

        >>> from pellucid.autograd.grammar import parse
        >>> parse("2*x + 1").evaluate({"x": 3.0})[-1]
        7.0
        """
        results = list(self._start_values)
        for name, place in self.inputs.items():
            results[place] = numbers[name]
        for place, forward, inputs in self._steps:
            if len(inputs) == 2:
                left, right = inputs
                results[place] = forward(results[left], results[right])
            else:
                results[place] = forward(*[results[i] for i in inputs])
        return results

    @functools.cached_property
    def _start_values(self) -> list[float]:
        return [operation.number for operation in self.operations]

    @functools.cached_property
    def _steps(self) -> list[tuple[int, Callable[..., float], tuple[int, ...]]]:
        return [(place, o.rule.forward, o.inputs) for place, o in enumerate(self.operations) if o.inputs]

    def trace(self, numbers: Mapping[str, float]) -> list[Value]:
        """Every operation's result as a Value that remembers how it was made."""
        nodes: list[Value] = []
        keep = nodes.append
        for rule, inputs, number, name, _, _ in self.operations:
            if rule is CONSTANT:
                keep(constant(number))
            elif rule is INPUT:
                keep(Value(numbers[name], name))
            else:
                keep(apply(rule, *[nodes[i] for i in inputs]))
        for node, name in zip(nodes, self.names(), strict=True):
            node.name = name
        return nodes

    def names(self) -> list[str]:
        """What each operation's result is called: an input's, a constant's or a statement's name, or nothing."""
        names = [operation.name for operation in self.operations]
        for statement in self.statements:
            names[statement.place] = names[statement.place] or statement.name
        return names


def require_free_name(name: str, text: str, column: int) -> None:
    """Refuse a name that already means something, or that the grammar has no room for."""
    if name in RESERVED:
        raise ExpressionError(
            f"{name} already means something and cannot be a variable",
            text=text,
            column=column,
            fix=f"Call it {name}_ or {name}1",
        )
    if name.startswith("__"):
        raise ExpressionError(
            f"the name {quoted(name)} begins with two underscores",
            text=text,
            column=column,
            fix="Begin it with a letter",
        )
    if len(name) > LONGEST_NAME:
        raise ExpressionError(
            f"the name {quoted(name, 12)} has {len(name)} characters and at most {LONGEST_NAME} are allowed",
            text=text,
            column=column,
            fix="Shorten it",
        )
