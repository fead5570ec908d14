"""A derivation in words: how a node was made, what a gradient means, and every step for a terminal."""

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from pellucid.errors import printable
from pellucid.figures.tables import Cell, Part, Table, TableColumn, heading, indent, right
from pellucid.figures.words.notation import count_of, cut_middle, in_brackets, rough, short
from pellucid.records import BackwardPass, Check, Derivation, Effect, GraphNode, as_plain

MOST_ROWS = 40  # of a listing that --steps shows whole
SIGNS = {"*": "×", "/": "÷", "-": "−"}
MOST_INPUTS = 4  # inputs of one operation that are written out


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
    return formula(
        node, _shorten_inputs(node, [cut_middle(_behind_sign(nodes[p].name), longest_name) for p in _told_inputs(node)])
    )


def with_numbers(nodes: Sequence[GraphNode], node: GraphNode) -> str:
    """The operation with its inputs' values; "" for a number that was given."""
    if not node.parents:
        return ""
    write = short if node.form == "call" else in_brackets
    return formula(node, _shorten_inputs(node, [write(nodes[p].value) for p in _told_inputs(node)]))


def _told_inputs(node: GraphNode) -> Sequence[int]:
    return node.parents if len(node.parents) <= MOST_INPUTS else (*node.parents[:2], node.parents[-1])


def _shorten_inputs(node: GraphNode, inputs: list[str]) -> list[str]:
    left_out = len(node.parents) - len(inputs)
    return [*inputs[:-1], f"… {left_out:,} more …", inputs[-1]] if left_out else inputs


def _behind_sign(name: str) -> str:
    return f"({name})" if name.startswith("-") else name


def effect_words(effect: Effect) -> str:
    """What an effect says, in words.

    >>> effect_words(Effect("output", "w0", 0.01, -0.00196612, -0.00195712))
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


def plain_derivation(derivation: Derivation) -> dict[str, object]:
    """Everything the derivation holds, as what JSON can hold."""
    plain = as_plain(derivation)
    return {
        "expression": plain["text"],
        "inputs": plain["inputs"],
        "outputs": plain["values"],
        "gradients": as_plain(derivation.jacobian),
        "nodes": plain["nodes"],
        "passes": [
            {"output": back["output"], "node": back["place"], "gradients": back["gradients"], "steps": back["steps"]}
            for back in plain["passes"]
        ],
        **{name: plain[name] for name in ("checks", "effects", "notes")},
    }


def derivation_parts(
    derivation: Derivation, *, is_brief: bool = False, is_whole: bool = False, has_chosen_h: bool = False
) -> Iterator[Part]:
    """What a terminal shows of a derivation: in brief the value and the gradients, as a whole every step."""
    most = None if is_whole else MOST_ROWS
    yield _values(derivation)
    if is_brief:
        yield _brief_gradients(derivation)
        yield from _notes(derivation)
        return
    yield heading("Forward: each number and how it was made")
    yield _forward(derivation, most)
    for back in derivation.passes:
        yield heading(f"Backward from {back.output}: upstream × local slope = contribution")
        yield _backward(derivation, back, most)
    if not derivation.checks:
        return
    yield heading("Gradients, beside central differences")
    yield _gradients(derivation, most)
    if has_chosen_h:
        yield heading("Differences with the step you chose, and their errors")
        yield _differences(derivation.checks[:most])
    if derivation.effects:
        yield heading("What it means")
        for effect in derivation.effects[:most]:
            yield indent(Text(effect_words(effect)))
        yield from _left_out(len(derivation.effects), most, "input")
    yield from _notes(derivation)


def _values(derivation: Derivation) -> Part:
    expression = printable(derivation.text if len(derivation.text) <= 200 else derivation.text[:199] + "…")
    if list(derivation.values) == ["output"]:
        return Text.assemble(f"{expression} = ", (short(derivation.value), "bold"))
    listed = ", ".join(f"{name} = {short(value)}" for name, value in derivation.values.items())
    return Text.assemble(f"{expression}\n", (listed, "bold"))


def _forward(derivation: Derivation, most: int | None) -> Part:
    given = list(derivation.inputs.items())
    listed = "given  " + ",  ".join(f"{name} = {short(value)}" for name, value in given[:most])
    nodes = [node for node in derivation.nodes if node.form != "given"]
    table = Table("", "", "", "", "")
    for node in nodes[:most]:
        table.add(
            node.name,
            f"= {with_names(derivation.nodes, node)}",
            f"= {with_numbers(derivation.nodes, node)}",
            f"= {short(node.value)}",
            Cell(cut_middle(derivation.text[node.start : node.end], 31), "dim"),
        )
    above = [Text(listed), *_left_out(len(given), most, "input")] if given else []
    return indent(*above, table, *_left_out(len(nodes), most, "node"))


def _backward(derivation: Derivation, back: BackwardPass, most: int | None) -> Part:
    table = Table(*right(""), "", *right(""), "", "", TableColumn("", "wrap"))
    for step in back.steps[:most]:
        so_far = f"sum {short(step.running_sum)} ({step.use}/{step.uses})" if step.uses > 1 else ""
        table.add(
            Cell(f"{step.number}.", "dim"),
            f"{step.node_name} → {step.parent_name}",
            f"{short(step.upstream)} × {in_brackets(step.slope)}",
            f"= {short(step.contribution)}",
            so_far,
            Cell(step.because, "dim"),
        )
    if not back.steps:
        return indent(Text("nothing to do: the output does not depend on any input", "dim"))
    return indent(table, *_left_out(len(back.steps), most, "step"))


def _gradients(derivation: Derivation, most: int | None) -> Part:
    has_several = len(derivation.values) > 1
    numbers = right("value", "gradient", "central difference", "disagreement", "h")
    table = Table(*["output"] * has_several, "input", *numbers, n_keys=1 + has_several)
    for check in derivation.checks[:most]:
        measured = "not known" if check.measured is None else short(check.measured)
        disagreement = "not measured" if check.disagreement is None else f"{check.disagreement:.1e}"
        table.add(
            *[check.output] * has_several,
            check.variable,
            short(derivation.inputs[check.variable]),
            Cell(short(check.exact), "bold"),
            measured,
            disagreement,
            f"{check.h:g}",
        )
    return indent(table, *_left_out(len(derivation.checks), most, "gradient"))


def _brief_gradients(derivation: Derivation) -> Part:
    has_several = len(derivation.values) > 1
    table = Table("", *right(""))
    for check in derivation.checks:
        name = f"d{check.output}/d{check.variable}" if has_several else check.variable
        table.add(name, short(check.exact))
    return table


def _differences(checks: Sequence[Check]) -> Part:
    table = Table("input", "kind", *right("slope", "exact", "error"), n_keys=2)
    for check in checks:
        for difference in check.differences:
            table.add(
                check.variable, difference.kind, short(difference.slope), short(check.exact), f"{difference.error:.1e}"
            )
    return indent(table)


def _notes(derivation: Derivation) -> Iterator[Part]:
    if derivation.notes:
        yield heading("Note")
        for note in derivation.notes:
            yield indent(Text(note.text, style="yellow"))


def _left_out(n: int, most: int | None, noun: str) -> Iterator[Part]:
    if most is not None and n > most:
        yield Text(f"… and {count_of(n - most, f'more {noun}')}; --steps shows all", "dim")
