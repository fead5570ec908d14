"""One page on its own that walks through a derivation, forward and then backward, without any network."""

import math
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from pellucid.errors import printable
from pellucid.figures.graph.folding import (
    MOST_DRAWN,
    FoldedGraph,
    gradient_tint,
    is_constant,
    largest_gradient,
    wire_tint,
)
from pellucid.figures.graph.picture import SWATCHES, bare_graph, colour_key, draw_graph, output_name
from pellucid.figures.picture import render
from pellucid.figures.tables import Table, TableColumn, html_table, right
from pellucid.figures.words.derivation import effect_words, with_names, with_numbers
from pellucid.figures.words.notation import count_of, cut_middle, in_brackets, short
from pellucid.records import BackwardPass, BackwardStep, Check, Derivation, GraphNode

MOST_ROWS = 200  # of a table of gradients; all outputs together
LONGEST_EXPRESSION = 300
LONGEST_COMMAND = 400
MOST_FORWARD = 1_000
MOST_BACKWARD = 1_000  # of each output
MOST_IN_ALL = 8_000  # backward steps of all outputs together
MOST_GIVEN = 40

Plain = dict[str, Any]


def page_html(derivation: Derivation) -> str:
    """The page as text: picture, steps, tables and all that moves them in one file."""
    drawn = draw_graph(derivation)
    steps = walk_steps(derivation, drawn.folded)
    text = cut_middle(" ".join(derivation.text.split()), LONGEST_EXPRESSION)
    values = [(name, short(value)) for name, value in derivation.values.items()]
    return render(
        "derivation.html",
        title=cut_middle(text, 60),
        expression=text,
        values=[f"= {values[0][1]}"]
        if list(derivation.values) == ["output"]
        else [" = ".join(pair) for pair in values],
        outputs=[back.output for back in derivation.passes],
        picture=Markup(bare_graph(drawn.marks, drawn.width, drawn.height)),
        swatches=Markup(colour_key("", 0, 0)),
        swatches_width=f"{SWATCHES - 10:.0f}",
        output=output_name(derivation.passes[-1]),
        left_out=" ".join(_left_out(derivation, steps)),
        tables=list(_gradient_tables(derivation)),
        notes=[note.text for note in derivation.notes],
        command=_command(derivation),
        steps=steps,
    )


def _left_out(derivation: Derivation, steps: Plain) -> Iterator[str]:
    """What the page does not show, said before anyone looks for it."""
    if len(derivation.nodes) > MOST_DRAWN:
        yield (
            f"The graph has {count_of(len(derivation.nodes), 'node')}. The picture draws the outputs and what is "
            "nearest to them, and the inputs with the largest gradients; dashed boxes hold the rest."
        )
    n_forward = len(steps["forward"])
    if steps["forward_left_out"]:
        n = n_forward + steps["forward_left_out"]
        yield f"Of {count_of(n, 'step')} forward the first and the last {n_forward // 2:,} are listed."
    for output in steps["outputs"]:
        n = len(output["steps"])
        if n < output["n_steps"]:
            whole = count_of(output["n_steps"], "step")
            yield f"Of {whole} back from {output['name']} the first and the last {n // 2:,} are listed."


def _gradient_tables(derivation: Derivation) -> Iterator[tuple[str, str, Markup]]:
    """For each output: what it is called, what is left out, and its gradients beside central differences."""
    most = max(1, MOST_ROWS // len(derivation.passes))
    effects = {(effect.output, effect.variable): effect for effect in derivation.effects}
    for back in derivation.passes:
        checks = [check for check in derivation.checks if check.output == back.output]
        strongest = sorted(range(len(checks)), key=lambda at: -_strength(checks[at]))[:most]
        numbers = right("value", "gradient", "central difference", "disagreement")
        made = Table("input", *numbers, TableColumn("what it means", "wrap"))
        for check in [checks[at] for at in sorted(strongest)]:
            effect = effects.get((check.output, check.variable))
            made.add(
                check.variable,
                short(derivation.inputs[check.variable]),
                short(check.exact),
                "not measured" if check.measured is None else short(check.measured),
                "not known" if check.disagreement is None else f"{check.disagreement:.1e}",
                effect_words(effect) if effect else "not measured",
            )
        more = f"The {most} largest of {count_of(len(checks), 'gradient')}." if len(checks) > most else ""
        yield output_name(back), more, html_table(made)


def _strength(check: Check) -> float:
    return abs(check.exact) if math.isfinite(check.exact) else math.inf


def _command(derivation: Derivation) -> str:
    """What to type in a terminal to read the same steps."""
    if len(derivation.text) > LONGEST_COMMAND or len(derivation.inputs) > 40:
        return "pellucid derive EXPRESSION x=1 ... --steps"
    values = [shlex.quote(f"{name}={value!r}") for name, value in derivation.inputs.items()]
    return " ".join(["pellucid derive", shlex.quote(printable(derivation.text)), *values, "--steps"])


def walk_steps(derivation: Derivation, seen: FoldedGraph) -> Plain:
    """Everything that the page needs to know of the steps, as dictionaries, lists, words and whole numbers."""
    nodes = derivation.nodes
    sentences: dict[str, int] = {}
    most = min(MOST_BACKWARD, MOST_IN_ALL // len(derivation.passes))
    given = [[name, short(value)] for name, value in list(derivation.inputs.items())[:MOST_GIVEN]]
    operations = [node.place for node in nodes if node.parents]
    return {
        "given": given,
        "given_more": len(derivation.inputs) - len(given),
        "forward": [_forward(nodes, i, seen) for i in _ends(operations, MOST_FORWARD)],
        "forward_left_out": max(0, len(operations) - MOST_FORWARD),
        "outputs": [_output(nodes, back, seen, sentences, most) for back in derivation.passes],
        "sentences": list(sentences),
    }


def _ends(items: Sequence[Any], most: int) -> list[Any]:
    """All of them, or as many from the start as from the end."""
    return list(items) if len(items) <= most else [*items[: most // 2], *items[-(most // 2) :]]


def _forward(nodes: Sequence[GraphNode], index: int, seen: FoldedGraph) -> Plain:
    node = nodes[index]
    return {
        "box": seen.box_of(index),
        "name": node.name,
        "names": cut_middle(with_names(nodes, node), 120),
        "numbers": cut_middle(with_numbers(nodes, node), 120),
        "value": short(node.value),
    }


def _output(
    nodes: Sequence[GraphNode], back: BackwardPass, seen: FoldedGraph, sentences: dict[str, int], most: int
) -> Plain:
    wires = {(wire.node, wire.position): at for at, wire in enumerate(seen.wires) if wire.node is not None}
    n_steps = len(back.steps)
    steps: list[BackwardStep] = _ends(back.steps, most)
    shown = [None if box.node is None or is_constant(nodes[box.node]) else box.node for box in seen.boxes]
    gradients = [math.nan if i is None else back.gradients[i] for i in shown]
    scale = largest_gradient(gradients)
    so_far: dict[int, float] = {}
    told = []
    for step in steps:
        plain = _backward(nodes, step, seen, wires, sentences, so_far.get(step.parent))
        told.append(plain | {"tint": gradient_tint(step.running_sum, scale)})
        so_far[step.parent] = step.running_sum
    return {
        "name": back.output,
        "node": nodes[back.place].name,
        "value": short(nodes[back.place].value),
        "box": seen.box_of(back.place),
        "seed": short(back.gradients[back.place]),
        "steps": told,
        "n_steps": n_steps,
        "gradients": [None if i is None else short(back.gradients[i]) for i in shown],
        "tints": [gradient_tint(gradient, scale) for gradient in gradients],
        "wires": [wire_tint(nodes, wire, back, scale) for wire in seen.wires],
    }


def _backward(
    nodes: Sequence[GraphNode],
    step: BackwardStep,
    seen: FoldedGraph,
    wires: dict[tuple[int, int], int],
    sentences: dict[str, int],
    before: float | None,
) -> Plain:
    plain: Plain = {
        "number": step.number,
        "wire": wires.get((step.node, step.position), -1),
        "from": seen.box_of(step.node),
        "to": seen.box_of(step.parent),
        "node": nodes[step.node].name,
        "parent": nodes[step.parent].name,
        "upstream": short(step.upstream),
        "slope": in_brackets(step.slope),
        "contribution": short(step.contribution),
        "sum": short(step.running_sum),
        "why": sentences.setdefault(step.because, len(sentences)),
    }
    if step.uses > 1:
        plain |= {"use": step.use, "uses": step.uses}
        if before is not None:
            plain |= {"before": short(before), "added": in_brackets(step.contribution)}
    return plain
