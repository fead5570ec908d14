"""A derivation as a walk: forward node by node, then backward edge by edge, as data that a page can step through.

Numbers are written here, as everywhere else, so that the page shows what the terminal and the picture show.
"""

import math
from collections.abc import Sequence
from typing import Any

from pellucid.figures.graph.folding import Folded, is_constant, largest, tint, wire_tint
from pellucid.figures.words.formulas import cut, with_names, with_numbers
from pellucid.figures.words.numbers import bracketed, short
from pellucid.records import BackwardPass, BackwardStep, Derivation, GraphNode

MOST_FORWARD = 1_000
MOST_BACKWARD = 1_000  # of each output
MOST_IN_ALL = 8_000  # backward steps of all outputs together
MOST_GIVEN = 40

Plain = dict[str, Any]


def walk(derivation: Derivation, seen: Folded) -> Plain:
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


def _forward(nodes: Sequence[GraphNode], index: int, seen: Folded) -> Plain:
    node = nodes[index]
    return {
        "box": seen.box_of(index),
        "name": node.name,
        "names": cut(with_names(nodes, node), 120),
        "numbers": cut(with_numbers(nodes, node), 120),
        "value": short(node.value),
    }


def _output(
    nodes: Sequence[GraphNode], back: BackwardPass, seen: Folded, sentences: dict[str, int], most: int
) -> Plain:
    wires = {(wire.node, wire.position): at for at, wire in enumerate(seen.wires) if wire.node is not None}
    n_steps = len(back.steps)
    steps = list(back.steps) if n_steps <= most else [*back.steps[: most // 2], *back.steps[-(most // 2) :]]
    shown = [None if box.node is None or is_constant(nodes[box.node]) else box.node for box in seen.boxes]
    gradients = [math.nan if i is None else back.gradients[i] for i in shown]
    scale = largest(gradients)
    so_far: dict[int, float] = {}
    told = []
    for step in steps:
        plain = _backward(nodes, step, seen, wires, sentences, so_far.get(step.parent))
        told.append(plain | {"tint": tint(step.running_sum, scale)})
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
        "tints": [tint(gradient, scale) for gradient in gradients],
        "wires": [wire_tint(nodes, wire, back, scale) for wire in seen.wires],
    }


def _backward(
    nodes: Sequence[GraphNode],
    step: BackwardStep,
    seen: Folded,
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
        "slope": bracketed(step.slope),
        "contribution": short(step.contribution),
        "sum": short(step.running_sum),
        "why": sentences.setdefault(step.because, len(sentences)),
    }
    if step.uses > 1:
        plain |= {"use": step.use, "uses": step.uses}
        if before is not None:
            plain |= {"before": short(before), "added": bracketed(step.contribution)}
    return plain
