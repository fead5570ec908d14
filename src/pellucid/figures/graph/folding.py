"""Which nodes of a graph are drawn, and which are folded into boxes that say how many they hold.

Up to 200 nodes everything is drawn. Above, what matters stays: the outputs and what is nearest to them, the inputs
with the largest gradients and the first steps made from those. Nodes that stay near the outputs are taken only
after everything that uses them, and nodes near the inputs only after everything they need. So no path leaves a
fold and comes back into it, and the folded graph still reads from left to right.
"""

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from pellucid.records import BackwardPass, GraphNode

MOST_DRAWN = 200
NEAR_OUTPUTS = 36
NEAR_INPUTS = 8
MOST_INPUTS = 14
MOST_GIVENS = 30  # inputs and constants that are drawn because a drawn node uses them
GIVENS_OF_ONE = 6
MOST_FOLDS = 8
SMALLEST_FOLD = 3  # fewer nodes than that are drawn, since a fold takes as much room
MOST_SPARED = 18
# Finding the separate parts of what is folded takes longer than drawing it. Above this there is one fold.
MOST_TO_PART = 20_000
NEAR_THE_START = 5_000


class Box(NamedTuple):
    """One box of the picture: a node, or a fold of many."""

    node: int | None  # None: a fold
    holds: int  # how many nodes it stands for
    inputs: int = 0  # how many of those are inputs


class Wire(NamedTuple):
    """An arrow of the picture, from box to box. A wire to or from a fold may stand for many edges."""

    start: int
    end: int
    node: int | None  # with position: the edge it is; None where it stands for edges that are not told apart
    position: int
    n_edges: int


class FoldedGraph(NamedTuple):
    boxes: list[Box]  # each after the ones it is made from
    wires: list[Wire]
    place: dict[int, int]  # the box of each node that is drawn
    fold: dict[int, int]  # the box of each node that is folded, where that is known one by one
    rest: int | None  # the box of every other node

    def box_of(self, node: int) -> int | None:
        """The box that shows the node, or the fold that holds it."""
        return self.place.get(node, self.fold.get(node, self.rest))


def fold_graph(nodes: Sequence[GraphNode], outputs: Sequence[int], gradients: Sequence[float]) -> FoldedGraph:
    """The boxes and wires to draw for this graph.

    >>> x = GraphNode(0, "x", "input", "", "given", (), 3.0, (), (), True, 0, 0)
    >>> square = GraphNode(1, "v1", "multiply", "*", "infix", (0, 0), 9.0, (3.0, 3.0), (True, True), True, 0, 0)
    >>> [(wire.start, wire.end, wire.position) for wire in fold_graph([x, square], [1], [6.0, 1.0]).wires]
    [(0, 1, 0), (0, 1, 1)]
    """
    if len(nodes) <= MOST_DRAWN:
        return _place_boxes(nodes, range(len(nodes)), [], {}, Counter())
    uses: Counter[int] = Counter(chain.from_iterable([node.parents for node in nodes]))
    top = _near_outputs(nodes, outputs, uses)
    given = _givens(nodes, top, gradients) - top
    bottom = _near_inputs(nodes, given, top)
    kept = sorted(given) + sorted(bottom) + sorted(top)
    folds, fold_of, spared = _folds(nodes, set(kept))
    kept = sorted(given) + sorted([*bottom, *spared]) + sorted(top)
    return _place_boxes(nodes, kept, folds, fold_of, uses)


def _near_outputs(nodes: Sequence[GraphNode], outputs: Sequence[int], uses: Counter[int]) -> set[int]:
    """Operations in the order in which everything that uses them is taken already, nearest first."""
    taken: set[int] = set()
    left: dict[int, int] = {}
    waiting = deque(dict.fromkeys([index for index in outputs if not uses[index]]))
    while waiting and len(taken) < NEAR_OUTPUTS:
        index = waiting.popleft()
        taken.add(index)
        for parent in nodes[index].parents:
            left[parent] = left.get(parent, uses[parent]) - 1
            if left[parent] == 0 and nodes[parent].parents:
                waiting.append(parent)
    return taken


def _givens(nodes: Sequence[GraphNode], top: Iterable[int], gradients: Sequence[float]) -> set[int]:
    """The inputs with the largest gradients, and the inputs and constants that the nodes near the outputs use."""
    inputs = [node.place for node in nodes if node.can_move and not node.parents and node.form == "given"]
    strength = {i: abs(gradients[i]) if math.isfinite(gradients[i]) else math.inf for i in inputs}
    given = set(heapq.nlargest(MOST_INPUTS, inputs, key=lambda i: (strength[i], -i)))
    room = MOST_GIVENS
    for index in sorted(top, reverse=True):
        used = [parent for parent in dict.fromkeys(nodes[index].parents) if not nodes[parent].parents]
        if len(used) <= min(room, GIVENS_OF_ONE):
            room -= len(used)
            given.update(used)
    return given


def _near_inputs(nodes: Sequence[GraphNode], given: set[int], top: set[int]) -> set[int]:
    """The first operations that are made from the drawn inputs alone; their constants join the inputs."""
    near: set[int] = set()
    for node in nodes[:NEAR_THE_START]:
        if len(near) == NEAR_INPUTS:
            break
        if not node.parents or node.place in top or len(node.parents) > GIVENS_OF_ONE:
            continue
        constants = {p for p in node.parents if not nodes[p].can_move and not nodes[p].parents}
        if all([p in given or p in near or p in constants for p in node.parents]):
            near.add(node.place)
            given |= constants
    return near


def _folds(nodes: Sequence[GraphNode], kept: set[int]) -> tuple[list[Box], dict[int, int], list[int]]:
    """The folds, which one each folded node is in unless there is only one, and nodes too few to be folded."""
    n_hidden = len(nodes) - len(kept)
    if n_hidden == 0:
        return [], {}, []
    if n_hidden > MOST_TO_PART:
        n_inputs = sum([node.rule == "input" for node in nodes])
        return [Box(None, n_hidden, n_inputs - sum(nodes[i].rule == "input" for i in kept))], {}, []
    leader = {node.place: node.place for node in nodes if node.place not in kept}

    def lead(index: int) -> int:
        while leader[index] != index:
            leader[index] = index = leader[leader[index]]
        return index

    for index in leader:
        for parent in nodes[index].parents:
            if parent in leader:
                leader[lead(parent)] = lead(index)
    # Parts without an operation are loose inputs; they share one fold.
    has_steps = {lead(index) for index in leader if nodes[index].parents}
    part_of = {index: lead(index) if lead(index) in has_steps else -1 for index in leader}
    parts = Counter(part_of.values())
    small = [part for part, size in parts.items() if size < SMALLEST_FOLD][: MOST_SPARED // SMALLEST_FOLD]
    spared = [index for index in leader if part_of[index] in small]
    for part in small:
        del parts[part]
    largest = [part for part, _ in parts.most_common(MOST_FOLDS - 1)]
    places = {part: largest.index(part) if part in largest else len(largest) for part in parts}
    fold_of = {index: places[part] for index, part in part_of.items() if part in places}
    sizes = Counter(fold_of.values())
    inputs = Counter(fold for index, fold in fold_of.items() if nodes[index].rule == "input")
    return [Box(None, sizes[fold], inputs[fold]) for fold in range(len(sizes))], fold_of, spared


def _place_boxes(
    nodes: Sequence[GraphNode], kept: Sequence[int], folds: list[Box], fold_of: dict[int, int], uses: Counter[int]
) -> FoldedGraph:
    """The folds stand before the first node made from them; with the order of `kept` that is left to right."""
    is_kept = set(kept)
    first_top = next((at for at, i in enumerate(kept) if not is_kept.issuperset(nodes[i].parents)), len(kept))
    boxes = [Box(i, 1) for i in kept[:first_top]] + folds + [Box(i, 1) for i in kept[first_top:]]
    place = {box.node: at for at, box in enumerate(boxes) if box.node is not None}
    fold = {index: first_top + at for index, at in fold_of.items()}
    rest = first_top if folds and not fold_of else None
    wires: list[Wire] = []
    drawn_uses: Counter[int] = Counter()
    for at, box in enumerate(boxes):
        if box.node is None:
            continue
        from_folds: dict[int, list[int]] = {}
        for position, parent in enumerate(nodes[box.node].parents):
            if parent in place:
                wires.append(Wire(place[parent], at, box.node, position, 1))
                drawn_uses[parent] += 1
            else:
                source = fold.get(parent, rest)
                assert source is not None
                from_folds.setdefault(source, []).append(position)
        for source, positions in from_folds.items():
            node = box.node if len(positions) == 1 else None
            wires.append(Wire(source, at, node, positions[0], len(positions)))
    wires.sort(key=lambda wire: (wire.end, wire.position))
    into_folds: Counter[tuple[int, int]] = Counter()
    if rest is not None:
        into_folds.update({(place[i], rest): uses[i] - drawn_uses[i] for i in kept if uses[i] > drawn_uses[i]})
    for index, target in fold.items():
        into_folds.update([(place[p], target) for p in nodes[index].parents if p in place])
    wires += [Wire(start, end, None, 0, count) for (start, end), count in into_folds.items()]
    return FoldedGraph(boxes, wires, place, fold, rest)


def gradient_tint(gradient: float, scale: float) -> str:
    """A class that tells the sign and, in four steps, the size beside the largest.

    >>> gradient_tint(-0.02, scale=1.0), gradient_tint(0.5, scale=1.0), gradient_tint(0.0, scale=1.0)
    ('minus-2', 'plus-4', 'none')
    """
    if gradient == 0.0 or math.isnan(gradient):
        return "none"
    part = abs(gradient) / scale if scale and not math.isinf(gradient) else 1.0
    level = 4 if part >= 0.5 else 3 if part >= 0.1 else 2 if part >= 0.01 else 1
    return f"{'plus' if gradient > 0 else 'minus'}-{level}"


def largest_gradient(gradients: Sequence[float]) -> float:
    """The largest finite size among them, which the tints are measured by."""
    return max([abs(gradient) for gradient in gradients if math.isfinite(gradient)], default=0.0)


def is_constant(node: GraphNode) -> bool:
    return not node.can_move


def wire_tint(nodes: Sequence[GraphNode], wire: Wire, back: BackwardPass, scale: float) -> str:
    """The tint of what comes back along the wire."""
    if wire.node is None:
        return "none"
    node = nodes[wire.node]
    if is_constant(nodes[node.parents[wire.position]]) or not node.is_heard[wire.position]:
        return "none"
    return gradient_tint(back.gradients[node.place] * node.slopes[wire.position], scale)
