"""The graph of a derivation as a picture: each number, how it was made, its value, its gradient and every slope."""

import math
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from pellucid.errors import printable
from pellucid.figures.charts.svg import escape_text, move_marks, text_width
from pellucid.figures.graph.folding import (
    MOST_DRAWN,
    Box,
    FoldedGraph,
    Wire,
    fold_graph,
    gradient_tint,
    is_constant,
    largest_gradient,
    wire_tint,
)
from pellucid.figures.graph.layout import GraphLayout, PlacedBox, Size, lay_out, ports_height
from pellucid.figures.words.derivation import with_names, with_numbers
from pellucid.figures.words.notation import count_of, cut_middle, short, wrap_text
from pellucid.records import BackwardPass, BackwardStep, Derivation, GraphNode

HEADER, LINE, STRIP = 25.0, 21.0, 22.0
PADDING = 9.0
LONGEST_NAME = 14
# Steps that are looked at for the tooltips of a large graph: from the start, and as many from the end.
STEPS_TOLD = 300


class GraphDrawing(NamedTuple):
    """The marks of a picture, the room they need, and which box stands for which node."""

    marks: list[str]
    width: float
    height: float
    folded: FoldedGraph


def graph_svg(derivation: Derivation) -> str:
    """A picture on its own, left to right from the inputs to the outputs, with the last output's gradients."""
    drawn = draw_graph(derivation)
    return frame_graph(derivation, drawn.marks, drawn.width, drawn.height)


def draw_graph(derivation: Derivation) -> GraphDrawing:
    """Boxes and wires with the numbers of the last output's backward pass."""
    back = derivation.passes[-1]
    nodes = derivation.nodes
    seen = fold_graph(nodes, [each.place for each in derivation.passes], back.gradients)
    wires = [(wire.start, wire.end) for wire in seen.wires]
    labels = [wire_label(nodes, wire) for wire in seen.wires]
    n_entering = [0] * len(seen.boxes)
    for _, end in wires:
        n_entering[end] += 1
    outputs = {each.place: each.output for each in derivation.passes}
    titles = [box_title(nodes, box, outputs) for box in seen.boxes]
    sizes = [
        _size(nodes, box, title, derivation.passes, n)
        for box, title, n in zip(seen.boxes, titles, n_entering, strict=True)
    ]
    positions = lay_out(sizes, wires, [text_width(label, 11) for label in labels])
    steps = _steps(back, seen)
    scale = largest_gradient([back.gradients[box.node] for box in seen.boxes if box.node is not None])
    shades = [wire_tint(nodes, wire, back, scale) for wire in seen.wires]
    colours = _colours(seen.wires, shades, positions)
    marks = [
        _wire(nodes, wire, label, i, positions, shade, len(colours.get(wire.start, ())) > 1, steps)
        for i, (wire, label, shade) in enumerate(zip(seen.wires, labels, shades, strict=True))
    ]
    marks += [
        _box(nodes, box, title, i, positions.boxes[i], back, outputs, scale)
        for i, (box, title) in enumerate(zip(seen.boxes, titles, strict=True))
    ]
    return GraphDrawing(marks, positions.width, positions.height, seen)


def _colours(wires: Sequence[Wire], shades: Sequence[str], positions: GraphLayout) -> dict[int, set[str]]:
    """The tints of the wires on the trunk of each box; where they differ, the trunk takes none of them."""
    colours: dict[int, set[str]] = {}
    for wire, shade, trunk in zip(wires, shades, positions.trunks, strict=True):
        if trunk:
            colours.setdefault(wire.start, set()).add(shade)
    return colours


def wire_label(nodes: Sequence[GraphNode], wire: Wire) -> str:
    """The slope of the one edge that the wire is, or how many it stands for."""
    if wire.node is None:
        return count_of(wire.n_edges, "arrow") if wire.n_edges > 1 else ""
    node = nodes[wire.node]
    if is_constant(nodes[node.parents[wire.position]]) and not math.isfinite(node.slopes[wire.position]):
        return ""  # nobody asks for it, and it would look like a mistake
    return short(nodes[wire.node].slopes[wire.position])


def box_title(nodes: Sequence[GraphNode], box: Box, outputs: dict[int, str]) -> tuple[str, str]:
    """The name, which stands out, and what follows it."""
    if box.node is None:
        return f"… {count_of(box.holds, 'node')}", ""
    node = nodes[box.node]
    name = cut_middle(printable(node.name), LONGEST_NAME + 4)
    made = printable(with_names(nodes, node, LONGEST_NAME))
    if node.place in outputs and outputs[node.place] != node.name:
        name = f"{cut_middle(printable(outputs[node.place]), LONGEST_NAME)}: {name}"
    if is_constant(node) and not made:
        return name, f" = {short(node.value)}" if short(node.value) != name else ""
    return name, f" = {made}" if made else ""


def _size(
    nodes: Sequence[GraphNode], box: Box, title: tuple[str, str], passes: Sequence[BackwardPass], n_entering: int
) -> Size:
    width = text_width("".join(title), 13) + 2 * PADDING
    if box.node is None:
        width = max(width, text_width(_fold_words(box), 11) + 2 * PADDING)
        return Size(width + 6, max(HEADER + LINE + 6, ports_height(n_entering)), False)
    node = nodes[box.node]
    if is_constant(node) and not node.parents:
        return Size(width, HEADER, True)
    # The page shows the gradients of every output in turn, and sums on their way.
    gradients = [] if is_constant(node) else ["-0.0123456", *[short(back.gradients[node.place]) for back in passes]]
    widest = max(text_width(number, 13) for number in [short(node.value), *gradients])
    height = HEADER + LINE + (0.0 if is_constant(node) else STRIP)
    return Size(max(width, 34 + widest + 2 * PADDING), max(height, ports_height(n_entering)), False)


def _fold_words(box: Box) -> str:
    return f"{count_of(box.inputs, 'input')} among them" if box.inputs else "folded to fit"


def _steps(back: BackwardPass, seen: FoldedGraph) -> dict[tuple[int, int], BackwardStep]:
    """The backward steps that the drawn wires show, as far as they are near the start or the end of the pass."""
    wanted = {(wire.node, wire.position) for wire in seen.wires}
    told = back.steps if len(back.steps) <= 2 * STEPS_TOLD else [*back.steps[:STEPS_TOLD], *back.steps[-STEPS_TOLD:]]
    return {(step.node, step.position): step for step in told if (step.node, step.position) in wanted}


def _wire(
    nodes: Sequence[GraphNode],
    wire: Wire,
    label: str,
    number: int,
    positions: GraphLayout,
    shade: str,
    is_trunk_shared: bool,
    steps: dict[tuple[int, int], BackwardStep],
) -> str:
    state, words = "", f"{count_of(wire.n_edges, 'edge')} to or from folded nodes"
    if wire.node is not None:
        node = nodes[wire.node]
        parent = nodes[node.parents[wire.position]]
        slope = node.slopes[wire.position]
        state = " still" if is_constant(parent) or not node.is_heard[wire.position] else ""
        words = f"{parent.name} → {node.name}\nlocal slope {slope!r}"
        step = steps.get((wire.node, wire.position))
        if step:
            words += (
                f"\nbackward: {step.upstream!r} × {step.slope!r} = {step.contribution!r} for {parent.name}"
                f"\n{step.because}"
            )
        elif is_constant(parent):
            words += f"\n{parent.name} does not depend on any input, so nothing is handed back to it"
    x, y = positions.labels[number]
    width = text_width(label, 11) + 4
    left = positions.boxes[wire.end].left
    trunk, branch = positions.trunks[number], positions.branches[number]
    line = f'<path class="line" d="{trunk}{branch}"/>'
    if is_trunk_shared and trunk:
        line = f'<path class="trunk" d="{trunk}"/><path class="line" d="{branch}"/>'
    middle = (
        f'<rect class="behind" x="{x - width / 2:.1f}" y="{y - 8:.1f}" width="{width:.1f}" height="16"/>'
        f'<text class="slope" x="{x:.1f}" y="{y + 4:.1f}">{escape_text(label)}</text>'
    )
    return (
        f'<g class="wire {shade}{state}" data-wire="{number}" data-end="{wire.end}"><title>{escape_text(words)}</title>'
        f'<path class="hit" d="{trunk}{branch}"/>{line}'
        f'<path class="head" d="M{left - 1:.1f} {y:.1f}l-8 -4.2v8.4z"/>{middle if label else ""}</g>'
    )


def _box(
    nodes: Sequence[GraphNode],
    box: Box,
    title: tuple[str, str],
    number: int,
    at: PlacedBox,
    back: BackwardPass,
    outputs: dict[int, str],
    scale: float,
) -> str:
    left, top, right, bottom = at.left, at.top, at.left + at.width, at.top + at.height
    node = None if box.node is None else nodes[box.node]
    kinds = ["box", "fold" if node is None else "constant" if is_constant(node) else node.form]
    if node is not None and not node.parents and not is_constant(node):
        kinds[1] = "input"
    is_output = node is not None and node.place in outputs
    kinds += ["output"] if is_output else []
    radius = 11 if kinds[1] in ("input", "constant") else 5
    rect = f'x="{left:.1f}" y="{top:.1f}" width="{at.width:.1f}" height="{at.height:.1f}" rx="{radius}"'
    marks = [f'<rect class="body" {rect}/>']
    if is_output:
        marks.append(f'<path class="band" d="{_rounded_path(left, top, at.width, HEADER, radius, is_top=True)}"/>')
    marks.append(
        f'<text class="title" x="{left + PADDING:.1f}" y="{top + 17:.1f}" xml:space="preserve">'
        f'<tspan class="name">{escape_text(title[0])}</tspan>{escape_text(title[1])}</text>'
    )
    if node is None:
        marks.append(f'<text class="kind" x="{left + PADDING:.1f}" y="{top + 36:.1f}">{_fold_words(box)}</text>')
        words = f"{count_of(box.holds, 'node')} folded, {count_of(box.inputs, 'input')} among them"
    else:
        words = _node_words(nodes, node, back, outputs)
        if node.parents or not is_constant(node):
            strip = 0.0 if is_constant(node) else STRIP
            marks.append(_line("value", short(node.value), left, right, bottom - strip - 7, "value"))
        if not is_constant(node):
            gradient = back.gradients[node.place]
            corner = _rounded_path(left, bottom - STRIP, at.width, STRIP, radius, is_top=False)
            marks.append(f'<path class="strip {gradient_tint(gradient, scale)}" d="{corner}"/>')
            marks.append(_line("grad", short(gradient), left, right, bottom - 7, "gradient"))
            # Once more on top of the strip, so that the outline is whole.
            marks.append(f'<rect class="body outline" {rect}/>')
    return f'<g class="{" ".join(kinds)}" data-box="{number}"><title>{escape_text(words)}</title>{"".join(marks)}</g>'


def _line(kind: str, number: str, left: float, right: float, y: float, role: str) -> str:
    return (
        f'<text class="kind words" x="{left + PADDING:.1f}" y="{y:.1f}">{kind}</text>'
        f'<text class="number {role}" x="{right - PADDING:.1f}" y="{y:.1f}">{escape_text(number)}</text>'
    )


def _node_words(nodes: Sequence[GraphNode], node: GraphNode, back: BackwardPass, outputs: dict[int, str]) -> str:
    made = [part for part in (with_names(nodes, node), with_numbers(nodes, node)) if part]
    words = "\n= ".join([node.name, *made, repr(node.value)])
    if is_constant(node):
        return f"{words}\ndoes not depend on any input"
    role = "\nthis is an output" if node.place in outputs else ""
    return f"{words}\ngradient of {back.output} toward it: {back.gradients[node.place]!r}{role}"


def _rounded_path(left: float, top: float, width: float, height: float, r: float, is_top: bool) -> str:
    """A band with two round corners, at the top or at the bottom."""
    if is_top:
        return (
            f"M{left:.1f} {top + height:.1f}V{top + r:.1f}q0 {-r} {r} {-r}H{left + width - r:.1f}q{r} 0 {r} {r}"
            f"V{top + height:.1f}z"
        )
    return (
        f"M{left:.1f} {top:.1f}V{top + height - r:.1f}q0 {r} {r} {r}H{left + width - r:.1f}q{r} 0 {r} {-r}V{top:.1f}z"
    )


MARGIN = 28.0
SWATCHES = 9 * 22 + 10.0


def frame_graph(derivation: Derivation, marks: Sequence[str], picture_width: float, picture_height: float) -> str:
    """The marks as a picture on its own."""
    back = derivation.passes[-1]
    colours = f"raise it and {output_name(back)} falls (blue) or rises (orange)"
    inner = max(picture_width, SWATCHES + text_width(colours, 12))
    width = inner + 2 * MARGIN
    result = f" = {short(derivation.value)}" if len(derivation.passes) == 1 else ""
    text = printable(cut_middle(" ".join(derivation.text.split()), max(20, int(inner / (15 * 0.61)) - len(result))))
    caption = _captions(derivation, back, inner)
    top = MARGIN + 34
    legend = top + picture_height + 34
    height = legend + 20 + 18 * len(caption) + MARGIN / 2
    left = MARGIN + max(0.0, (inner - picture_width) / 2)
    lines = [
        f'<text class="caption words" x="{MARGIN}" y="{legend + 34 + 18 * i:.1f}">{escape_text(line)}</text>'
        for i, line in enumerate(caption)
    ]
    heading = f'<text class="heading" x="{MARGIN}" y="{MARGIN + 10}">{escape_text(text + result)}</text>'
    picture = [heading, *move_marks(marks, left, top), colour_key(colours, MARGIN, legend), *lines]
    return _svg(f"The graph of {cut_middle(text, 200)}", picture, width, height)


def bare_graph(marks: Sequence[str], picture_width: float, picture_height: float, *, has_styles: bool = True) -> str:
    """The marks as a picture for a page that says everything else itself, and may have graph.css already."""
    picture = move_marks(marks, MARGIN, MARGIN)
    return _svg("The graph", picture, picture_width + 2 * MARGIN, picture_height + 2 * MARGIN, has_styles=has_styles)


def _svg(title: str, marks: Sequence[str], width: float, height: float, *, has_styles: bool = True) -> str:
    style = files("pellucid.figures").joinpath("assets/graph.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="pellucid-graph" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img">',
            f"<title>{escape_text(title)}</title>",
            *([f"<style>{style}</style>"] if has_styles else []),
            f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
            *marks,
            "</svg>",
        ]
    )


def colour_key(words: str, x: float, y: float) -> str:
    """The colours in their order, and what they mean."""
    shades = [f"minus-{level}" for level in (4, 3, 2, 1)] + ["none"] + [f"plus-{level}" for level in (1, 2, 3, 4)]
    swatches = [
        f'<rect class="strip {shade}" x="{x + 22 * i:.1f}" y="{y:.1f}" width="22" height="13"/>'
        for i, shade in enumerate(shades)
    ]
    return (
        f'<g class="legend">{"".join(swatches)}'
        f'<text class="caption words" x="{x + SWATCHES}" y="{y + 11:.1f}">{escape_text(words)}</text></g>'
    )


def _captions(derivation: Derivation, back: BackwardPass, width: float) -> list[str]:
    output = output_name(back)
    words = f"grad: how fast {output} moves with this number. On each arrow: the local slope."
    if len(derivation.passes) > 1:
        others = ", ".join(printable(each.output) for each in derivation.passes[:-1])
        are = "outputs are" if len(derivation.passes) > 2 else "output is"
        words += f" The gradients are those of {output}; the other {are} {cut_middle(others, 120)}."
    if len(derivation.nodes) > MOST_DRAWN:
        words += f" The graph has {count_of(len(derivation.nodes), 'node')}; dashed boxes hold those not drawn."
    return wrap_text(words, int(width / text_width("m", 12)))


def output_name(back: BackwardPass) -> str:
    """The output's name, as it stands in a sentence."""
    return "the output" if back.output == "output" else cut_middle(printable(back.output), 24)
