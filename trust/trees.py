"""Random expressions for the fuzzer: a case is a pure function of (seed, number), and its tree is the author's own.

The text is what pellucid reads; the tree is what the oracles compute. Neither is made from the other by
pellucid's parser, so a mistake in reading shows as a wrong value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")

N_POINTS = 8
VARIABLES = ("x", "y", "z", "w0")
NAMES = ("a", "b1", "Tmp", "v1", "sinus", "_u")

UNARY = (
    *("exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("sigmoid", "relu", "leaky_relu", "softplus", "gelu", "abs"),
)
ANY_NUMBER = ("max", "min", "sum", "prod")
INFIX = ("+", "-", "*", "/", "^")
# How tightly each form of text binds, as the grammar's table has it.
LEVEL = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "^": 4}
ATOM = 5

SPELLINGS = {
    "*": ("*", "*", " * ", "×", "·"),
    "^": ("^", "^", "**", " ^ "),
    "-": ("-", " - ", "−"),
    "/": ("/", " / ", "÷"),
}
NUMBERS = ("0", "1", "2", "3", "0.5", "10", "1e-3", "2.5", "3.", "7E1", "0.1", "1.0e+2", "pi", "e", "tau", "π")
EDGE_NUMBERS = ("1e400", "1e308", "5e-324", "1e-310", "2.3e-308", "1e16", "1e-400", "709.9", "9007199254740993")
NAMED = {"pi": 3.141592653589793, "π": 3.141592653589793, "e": 2.718281828459045, "tau": 6.283185307179586}

GRID = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)
EDGES = (
    *(0.0, -0.0, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, -1e-160, 1e-20, 0.9999999999999999),
    *(-37.5, 710.0, -745.0, 1e16, -1e155, 1e300, 1.7976931348623157e308, -1.7976931348623157e308),
)


class Node(NamedTuple):
    kind: str  # "number", "variable", "neg", or the operation's sign or name
    inputs: tuple[int, ...]
    number: float  # of a number; which of the variables, for a variable


@dataclass(frozen=True)
class Case:
    """An expression as text and as a tree, and the points to try it at."""

    seed: int
    number: int
    text: str
    nodes: list[Node]  # inputs before what is made of them; the last one is the answer
    variables: list[str]
    points: list[list[float]]  # (variable, point)

    def at(self, point: int) -> dict[str, float]:
        return {name: row[point] for name, row in zip(self.variables, self.points, strict=True)}

    def __str__(self) -> str:
        return f"seed {self.seed}, case {self.number}: {self.text}"


def case(seed: int, number: int) -> Case:
    """The expression with this number.

    >>> case(1, 7) == case(1, 7)
    True
    """
    author = _Author(Random((seed << 40) + number))
    text = author.statements()
    return Case(seed, number, text, author.nodes, author.variables, author.points())


class _Author:
    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.nodes: list[Node] = []
        self.variables: list[str] = []
        self.places: dict[str, int] = {}
        self.named: list[tuple[str, int]] = []
        self.n_variables = 1 + int(draw.random() * len(VARIABLES))
        self.edge_rate = (0.0, 0.0, 0.03, 0.15)[int(draw.random() * 4)]

    def statements(self) -> str:
        draw = self.draw
        written: list[str] = []
        n_shared = int(draw.random() * draw.random() * 5)
        names = draw.sample(NAMES, n_shared)
        for name in names:
            index, text, _ = self.expression(2)
            written.append(f"{name}={text}" if draw.random() < 0.5 else f"{name} = {text}")
            self.named.append((name, index))
        _, text, _ = self.operation(4 if draw.random() < 0.4 else 3)
        written.append(text if draw.random() < 0.8 else f"answer = {text}")
        return (";" if draw.random() < 0.5 else "; ").join(written)

    def expression(self, depth: int) -> tuple[int, str, int]:
        if depth == 0 or self.draw.random() < 0.2:
            return self.leaf()
        return self.operation(depth)

    def leaf(self) -> tuple[int, str, int]:
        chance = self.draw.random()
        if self.named and chance < 0.45:
            name, index = self.pick(self.named)
            return index, name, ATOM
        if chance < 0.85:
            name = VARIABLES[int(self.draw.random() * self.n_variables)]
            if name not in self.places:
                self.places[name] = self.keep("variable", (), float(len(self.variables)))
                self.variables.append(name)
            return self.places[name], name, ATOM
        text = self.pick(EDGE_NUMBERS if self.draw.random() < self.edge_rate else NUMBERS)
        return self.keep("number", (), NAMED[text] if text in NAMED else float(text)), text, ATOM

    def operation(self, depth: int) -> tuple[int, str, int]:
        chance = self.draw.random()
        if chance < 0.45:
            return self.infix(self.pick(INFIX), depth)
        if chance < 0.53:
            index, text, level = self.expression(depth - 1)
            text = text if level >= LEVEL["neg"] else f"({text})"
            sign = "-+-" if self.draw.random() < 0.05 else "-"
            index = self.keep("neg", (index,))
            return (self.keep("neg", (index,)) if sign == "-+-" else index), sign + text, LEVEL["neg"]
        if chance < 0.86:
            return self.call(self.pick(UNARY), 1, depth)
        if chance < 0.95:
            return self.call(self.pick(ANY_NUMBER), 1 + int(self.draw.random() * 4), depth)
        return self.call("where", 3, depth)

    def infix(self, sign: str, depth: int) -> tuple[int, str, int]:
        left, left_text, left_level = self.expression(depth - 1)
        right, right_text, right_level = self.expression(depth - 1)
        level = LEVEL[sign]
        from_right = sign == "^"
        if left_level < level + from_right or self.draw.random() < 0.05:
            left_text = f"({left_text})"
        # A sign may follow any operator: 2^-1 and a*-b need no brackets.
        if right_level < level + (not from_right) and right_level != LEVEL["neg"]:
            right_text = f"({right_text})"
        spelled = self.pick(SPELLINGS.get(sign, (sign,)))
        return self.keep(sign, (left, right)), left_text + spelled + right_text, level

    def call(self, name: str, arity: int, depth: int) -> tuple[int, str, int]:
        parts = [self.expression(depth - 1) for _ in range(arity)]
        text = (", " if self.draw.random() < 0.5 else ",").join([part[1] for part in parts])
        return self.keep(name, tuple([part[0] for part in parts])), f"{name}({text})", ATOM

    def keep(self, kind: str, inputs: tuple[int, ...], number: float = 0.0) -> int:
        self.nodes.append(Node(kind, inputs, number))
        return len(self.nodes) - 1

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.draw.random() * len(choices))]

    def points(self) -> list[list[float]]:
        rows: list[list[float]] = []
        for _ in self.variables:
            rows.append([self.coordinate(rows, point) for point in range(N_POINTS)])
        return rows

    def coordinate(self, rows: list[list[float]], point: int) -> float:
        chance = self.draw.random()
        if chance < self.edge_rate:
            return self.pick(EDGES)
        if chance < 0.25:
            return self.pick(GRID)
        if chance < 0.32 and rows:
            return rows[0][point]  # an exact tie with another variable
        if chance < 0.40:
            return (self.draw.random() - 0.5) * math.pow(10.0, 16.0 * self.draw.random() - 8.0)
        return 6.0 * self.draw.random() - 3.0
