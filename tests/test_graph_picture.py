"""The picture of a graph: nothing lies on anything else, every number is the record's, and large graphs are folded."""

import math
import random
import time
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest

from pellucid.autograd.derivation import differentiate
from pellucid.figures.charts.svg import text_width
from pellucid.figures.graph.folding import MOST_DRAWN, fold_graph
from pellucid.figures.graph.layers import arrange_layers
from pellucid.figures.graph.picture import draw_graph, graph_svg
from pellucid.figures.words.notation import short
from pellucid.records import Derivation, GraphNode

SVG = "{http://www.w3.org/2000/svg}"


def network(n_inputs: int, n_hidden: int) -> Derivation:
    """A layer of tanh neurons and one on top, written out."""
    draw = random.Random(0)
    values: dict[str, float] = {}

    def number(name: str) -> str:
        values.setdefault(name, draw.uniform(-1, 1))
        return name

    hidden = []
    for j in range(n_hidden):
        terms = [f"{number(f'w{j}_{i}')}*{number(f'x{i}')}" for i in range(n_inputs)]
        hidden.append(f"h{j} = tanh({'+'.join(terms)} + {number(f'b{j}')})")
    top = "+".join([f"{number(f'u{j}')}*h{j}" for j in range(n_hidden)])
    return differentiate("; ".join([*hidden, f"y = tanh({top})"]), values)


def neuron() -> Derivation:
    return differentiate("1/(1+exp(-(w0*x0+w1*x1+w2)))", {"w0": 2, "x0": -1, "w1": -2, "x1": -2, "w2": -3})


def dot(n: int) -> Derivation:
    values = {f"{letter}{i}": i % 5 - 1.5 for letter in "wx" for i in range(n)}
    return differentiate("+".join([f"w{i}*x{i}" for i in range(n)]), values)


def sharing() -> Derivation:
    return differentiate(
        "s = a*b; p = sin(s) + a; q = s^2/p; r = max(p, q, s); d = s*where(p, a, q)", {"a": 1.5, "b": -2}
    )


PICTURES = {
    "5 nodes": lambda: differentiate("a*b + sin(a)", {"a": 1, "b": 2}),
    "a neuron": neuron,
    "50 nodes": lambda: network(2, 4),
    "125 nodes": lambda: network(4, 7),
    "199 nodes in rows": lambda: dot(50),
    "a wide sum": lambda: differentiate(
        f"sum({', '.join(f'x{i}' for i in range(60))})", {f"x{i}": i for i in range(60)}
    ),
    "sharing": sharing,
    "a chain": lambda: differentiate("sin(" * 150 + "x" + ")" * 150, {"x": 1}),
    "folded": lambda: network(8, 30),
}


def rectangles(svg: str, name: str) -> list[tuple[float, float, float, float]]:
    """The first rectangle of that class in each group, as left, top, right, bottom."""
    found = []
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        rect = next((r for r in group.findall(f"{SVG}rect") if r.get("class") == name), None)
        if rect is not None:
            x, y, width, height = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def texts(svg: str, group: str, name: str) -> list[str]:
    return [
        text.text or ""
        for each in ET.fromstring(svg).iter(f"{SVG}g")
        if (each.get("class") or "").split()[:1] == [group]
        for text in each.findall(f"{SVG}text")
        if name in (text.get("class") or "").split()
    ]


@pytest.mark.parametrize("name", PICTURES)
def test_no_box_and_no_number_lies_on_another(name: str) -> None:
    svg = graph_svg(PICTURES[name]())
    boxes, labels = rectangles(svg, "body"), rectangles(svg, "behind")
    assert len(boxes) > 2
    assert labels
    for a, b in combinations([*boxes, *labels], 2):
        assert not overlap(a, b), (a, b)


@pytest.mark.parametrize("name", PICTURES)
def test_every_number_drawn_is_the_records(name: str) -> None:
    derivation = PICTURES[name]()
    drawn = draw_graph(derivation)
    svg = graph_svg(derivation)
    nodes, gradients = derivation.nodes, derivation.passes[-1].gradients
    boxes = [nodes[box.node] for box in drawn.folded.boxes if box.node is not None]
    assert texts(svg, "box", "value") == [short(node.value) for node in boxes if node.parents or node.can_move]
    assert texts(svg, "box", "gradient") == [short(gradients[node.place]) for node in boxes if node.can_move]
    slopes = []
    for wire in drawn.folded.wires:
        if wire.node is not None:
            node = nodes[wire.node]
            slope = node.slopes[wire.position]
            # A slope that is not a number is left out toward a constant, which nobody can turn.
            if nodes[node.parents[wire.position]].can_move or math.isfinite(slope):
                slopes.append(short(slope))
    assert [text for text in texts(svg, "wire", "slope") if "arrows" not in text] == slopes


def test_every_edge_of_a_graph_that_is_not_folded_is_drawn() -> None:
    derivation = sharing()
    wires = draw_graph(derivation).folded.wires
    edges = {(node.place, position) for node in derivation.nodes for position in range(len(node.parents))}
    assert {(wire.node, wire.position) for wire in wires} == edges


def test_both_edges_of_a_square_are_visible() -> None:
    svg = graph_svg(differentiate("x*x", {"x": 3}))
    lines = [path.get("d") for path in ET.fromstring(svg).iter(f"{SVG}path") if path.get("class") == "line"]
    assert len(set(lines)) == 2
    assert texts(svg, "wire", "slope") == ["3", "3"]


def test_wires_lead_to_the_right() -> None:
    derivation = network(4, 7)
    wires = [(parent, node.place) for node in derivation.nodes for parent in node.parents]
    drawn = arrange_layers(len(derivation.nodes), wires, [0.0] * len(wires))
    for (start, end), route in zip(wires, drawn.routes, strict=True):
        assert (route[0], route[-1]) == (start, end)
        assert [drawn.column[place] for place in route] == list(range(drawn.column[start], drawn.column[end] + 1))


def test_a_tree_is_drawn_without_crossings() -> None:
    # Perfect binary tree of 31 boxes, numbered so that each stands after its two parents.
    wires = [(2 * i + side, 16 + i) for i in range(15) for side in (0, 1)]
    drawn = arrange_layers(31, wires, [-0.2, 0.2] * 15)
    position = {place: at for row in drawn.rows for at, place in enumerate(row)}
    for (a, b), (c, d) in combinations(wires, 2):
        if drawn.column[a] == drawn.column[c]:
            assert (position[a] - position[c]) * (position[b] - position[d]) >= 0


def test_constants_are_quiet_and_outputs_stand_out() -> None:
    svg = graph_svg(neuron())
    kinds = [group.get("class", "") for group in ET.fromstring(svg).iter(f"{SVG}g") if group.get("data-box")]
    assert kinds.count("box constant") == 2
    assert kinds.count("box input") == 5
    assert kinds[-1] == "box infix output"


def test_several_outputs_say_whose_gradients_are_drawn() -> None:
    svg = graph_svg(sharing())
    assert "The gradients are those of d; the other output is r." in " ".join(
        text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")
    )


def test_tooltips_have_the_full_numbers_and_the_sentence() -> None:
    derivation = neuron()
    titles = [title.text or "" for title in ET.fromstring(graph_svg(derivation)).iter(f"{SVG}title")]
    for step in derivation.steps:
        assert any(
            repr(step.slope) in title and repr(step.contribution) in title and step.because in title for title in titles
        )


def test_names_are_not_markup() -> None:
    name = '</text><script>alert(1)</script>&"\x00\x1b'
    x = GraphNode(0, name, "input", "", "given", (), 3.0, (), (), True, 0, 0)
    derivation = neuron()
    hostile = Derivation(
        name, [x, *derivation.nodes[1:]], derivation.values, {name: 3.0}, derivation.passes, [], [], []
    )
    root = ET.fromstring(graph_svg(hostile))
    assert not list(root.iter(f"{SVG}script"))
    assert any("</text><script>" in (title.text or "") for title in root.iter(f"{SVG}title"))


LARGE = {
    "a chain": ("sin(" * 100_000 + "x" + ")" * 100_000, {"x": 1.0}),
    "one variable": ("+".join(["x"] * 100_000), {"x": 2.0}),
    "many variables": ("+".join([f"x{i}" for i in range(50_000)]), {f"x{i}": float(i) for i in range(50_000)}),
    "one wide sum": (f"sum({', '.join(f'x{i}' for i in range(20_000))})", {f"x{i}": 1.0 for i in range(20_000)}),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_graph_is_folded_quickly_and_the_counts_add_up(name: str) -> None:
    derivation = differentiate(*LARGE[name])
    before = time.perf_counter()
    svg = graph_svg(derivation)
    # About 0.2 s on an ordinary laptop; the bound leaves room for a busy one.
    assert time.perf_counter() - before < 3
    boxes = draw_graph(derivation).folded.boxes
    assert sum(box.holds for box in boxes) == len(derivation.nodes)
    assert len(boxes) <= 120
    n_inputs = sum(derivation.nodes[b.node].rule == "input" for b in boxes if b.node is not None)
    assert n_inputs + sum(box.inputs for box in boxes) == len(derivation.inputs)
    fold = max(boxes, key=lambda box: box.holds)
    assert f"… {fold.holds:,} nodes" in svg


def test_folding_keeps_the_output_and_the_strongest_inputs() -> None:
    values = {f"x{i}": 1.0 for i in range(300)}
    derivation = differentiate("+".join([f"{1000 if i in (40, 220) else 1}*x{i}" for i in range(300)]), values)
    place = draw_graph(derivation).folded.place
    strongest = [node.place for node in derivation.nodes if node.name in ("x40", "x220")]
    assert derivation.passes[-1].place in place
    assert all(index in place for index in strongest)


def test_folded_graphs_of_any_shape_still_read_from_left_to_right() -> None:
    draw = random.Random(1)
    for _ in range(60):
        n = draw.randrange(MOST_DRAWN + 1, 900)
        n_inputs, reach = draw.randrange(1, 120), draw.choice([3, 30, 900])
        nodes = []
        for i in range(n):
            near = range(max(0, i - reach), i)
            parents = tuple(draw.choices(near, k=draw.randrange(1, 4))) if i >= n_inputs else ()
            form, rule = ("call", "sum") if parents else ("given", "input")
            slopes = (1.0,) * len(parents)
            nodes.append(
                GraphNode(i, f"n{i}", rule, "", form, parents, 1.0, slopes, (True,) * len(parents), True, 0, 0)
            )
        used = {parent for node in nodes for parent in node.parents}
        outputs = [i for i in range(n) if i not in used]
        seen = fold_graph(nodes, outputs, [draw.uniform(-1, 1) for _ in nodes])
        assert all(wire.start < wire.end for wire in seen.wires)
        assert sum(box.holds for box in seen.boxes) == n
        assert len(seen.boxes) <= 120
        n_inside = sum(seen.box_of(parent) == seen.box_of(node.place) for node in nodes for parent in node.parents)
        assert sum(wire.n_edges for wire in seen.wires) + n_inside == sum(len(node.parents) for node in nodes)


def test_the_width_of_a_text_is_never_underrated_for_wide_letters() -> None:
    assert text_width("名前", 10) >= 20
    assert text_width("ab", 10) < text_width("abc", 10)
