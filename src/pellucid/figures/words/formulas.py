"""How a node was made and what a gradient means, as a reader would write it; and text that is cut to fit."""

import math
from collections.abc import Sequence

from pellucid.figures.words.numbers import bracketed, rough, short
from pellucid.records import Effect, GraphNode

SIGNS = {"*": "×", "/": "÷", "-": "−"}
MOST_SHOWN = 4  # inputs of one operation that are written out


def formula(node: GraphNode, inputs: Sequence[str]) -> str:
    """The node's operation, written with these inputs.

    >>> node = GraphNode(2, "v1", "multiply", "*", "infix", (0, 1), 6.0, (3.0, 2.0), (True, True), True, 0, 0)
    >>> formula(node, ["w", "x"])
    'w × x'
    """
    sign = SIGNS.get(node.symbol, node.symbol)
    if node.form == "infix":
        return f"{inputs[0]} {sign} {inputs[1]}"
    if node.form == "prefix":
        return f"{sign}{inputs[0]}"
    return f"{node.symbol}({', '.join(inputs)})"


def with_names(nodes: Sequence[GraphNode], node: GraphNode, longest_name: int = 32) -> str:
    """The operation with its inputs' names; "" for a number that was given."""
    if not node.parents:
        return ""
    return formula(node, _shortened(node, [cut(_behind_sign(nodes[p].name), longest_name) for p in _told(node)]))


def with_numbers(nodes: Sequence[GraphNode], node: GraphNode) -> str:
    """The operation with its inputs' values; "" for a number that was given."""
    if not node.parents:
        return ""
    write = short if node.form == "call" else bracketed
    return formula(node, _shortened(node, [write(nodes[p].value) for p in _told(node)]))


def _told(node: GraphNode) -> Sequence[int]:
    return node.parents if len(node.parents) <= MOST_SHOWN else (*node.parents[:2], node.parents[-1])


def _shortened(node: GraphNode, inputs: list[str]) -> list[str]:
    left_out = len(node.parents) - len(inputs)
    return [*inputs[:-1], f"… {left_out:,} more …", inputs[-1]] if left_out else inputs


def _behind_sign(name: str) -> str:
    return f"({name})" if name.startswith("-") else name


def cut(text: str, longest: int) -> str:
    """The text with its middle left out where it is longer than that.

    >>> cut("learning_rate_of_the_first_layer", 13)
    'learni…_layer'
    """
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[len(text) - tail :]}"


def meaning(effect: Effect) -> str:
    """What an effect says, in words.

    >>> meaning(Effect("output", "w0", 0.01, -0.00196612, -0.00195712))
    'raise w0 by 0.01 and the output falls by 0.00197 (measured: falls by 0.00196)'
    """
    output = "the output" if effect.output == "output" else effect.output
    return (
        f"raise {effect.variable} by {effect.nudge:g} and {output} {_movement(effect.predicted)} "
        f"(measured: {_movement(effect.measured)})"
    )


def _movement(amount: float) -> str:
    if not math.isfinite(amount):
        return "moves by an amount not known"
    if amount == 0.0:
        return "does not move"
    return f"{'rises' if amount > 0 else 'falls'} by {rough(abs(amount))}"
