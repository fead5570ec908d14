"""A graph of single numbers compiled to a few instructions on many: what a replay runs.

All numbers of a replay stand in one row of slots and their gradients in another just as long. An instruction stands for
many nodes of the graph and is bound to both rows. Where the slots it reads happen to stand side by side, it reads them
in place. A graph is compiled in four steps:

1. What depends on no input and no parameter is a constant; equal constants share a slot.
2. Sums of sums become one sum, and products that only a sum uses become its terms.
3. Nodes are grouped by level and kind: all of a group can be computed at once.
4. Within a group, sums in which each of some lists of numbers meets each of some others are a matrix product.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pellucid.autograd.rules import ADD, MULTIPLY, NEGATE, SUBTRACT, SUM, WHERE
from pellucid.autograd.value import Value
from pellucid.autograd.vectors import TWINS, Floats, Twin

Slots = NDArray[np.intp]


class Rows(NamedTuple):
    """One place for each number of a replay, in four rows of the same length."""

    values: Floats
    gradients: Floats
    moves: NDArray[np.bool_]  # whether it depends on an input or a parameter
    is_heard: NDArray[np.bool_]  # whether a change of it can reach the output, with the numbers at hand


class Instruction(Protocol):
    """Some nodes of one level: forward fills their values in, backward hands their gradients on."""

    def forward(self) -> None: ...

    def backward(self, is_past_flats: bool = False) -> None: ...


class Gather:
    """The numbers in some slots, in the shape in which the slots are given."""

    def __init__(self, row: Floats, slots: Slots) -> None:
        self._row, self._slots = row, slots
        self._is_in_place = _stand_in_a_row(slots)
        self._numbers = _window(row, slots) if self._is_in_place else row[slots]

    def __call__(self) -> Floats:
        if not self._is_in_place:
            # Without a mode, take would work on a copy of `out` for fear of a slot that does not exist.
            self._row.take(self._slots, out=self._numbers, mode="clip")
        return self._numbers


class ScatterAdd:
    """Adds to the gradients in some slots; a slot given more than once gets the sum."""

    def __init__(self, row: Floats, slots: Slots) -> None:
        self.size = slots.size
        self._row, self._slots = row, slots
        self._distinct, places = np.unique(slots, return_inverse=True)
        self._places = places.reshape(-1)
        self._is_distinct = self._distinct.size == slots.size
        self._is_in_place = slots.size > 0 and _stand_in_a_row(slots)
        if self._is_in_place:
            self._numbers = _window(row, slots)

    def __call__(self, contributions: Floats) -> None:
        if self._is_in_place:
            self._numbers += contributions
        elif self._is_distinct:
            self._row[self._slots] += contributions
        else:
            self._row[self._distinct] += np.bincount(self._places, contributions.reshape(-1))


class MatrixProduct:
    """Every left list of numbers times every right one, term by term and summed: a matrix product.

    lefts: (n_lefts, n_terms) slots, rights: (n_terms, n_rights). The results stand left by left from slot `first` on.
    """

    def __init__(self, rows: Rows, lefts: Slots, rights: Slots, first: int) -> None:
        shape = lefts.shape[0], rights.shape[1]
        row = slice(first, first + shape[0] * shape[1])
        self._results, self._upstream = rows.values[row].reshape(shape), rows.gradients[row].reshape(shape)
        self._read_lefts, self._read_rights = Gather(rows.values, lefts), Gather(rows.values, rights)
        self._lefts, self._rights = self._read_lefts(), self._read_rights()
        # Terms that never move, such as the 1 that a bias is multiplied by, are not asked for a gradient.
        self._left_terms = _places(rows.moves[lefts], axis=0)
        self._right_terms = _places(rows.moves[rights], axis=1)
        self._add_to_lefts = ScatterAdd(rows.gradients, lefts[:, self._left_terms])
        self._add_to_rights = ScatterAdd(rows.gradients, rights[self._right_terms])

    def forward(self) -> None:
        self._lefts, self._rights = self._read_lefts(), self._read_rights()
        np.matmul(self._lefts, self._rights, out=self._results)

    def backward(self, is_past_flats: bool = False) -> None:
        if self._add_to_lefts.size:
            self._add_to_lefts(self._upstream @ self._rights[self._left_terms].T)
        if self._add_to_rights.size:
            self._add_to_rights(self._lefts[:, self._right_terms].T @ self._upstream)


class SumsOfProducts:
    """Sums of as many products of two numbers each; a plain term is multiplied by one.

    lefts, rights: (n_terms, n_sums) slots. The results stand from slot `first` on.
    """

    def __init__(self, rows: Rows, lefts: Slots, rights: Slots, first: int) -> None:
        row = slice(first, first + lefts.shape[1])
        self._results, self._upstream = rows.values[row], rows.gradients[row]
        self._read_lefts, self._read_rights = Gather(rows.values, lefts), Gather(rows.values, rights)
        self._lefts, self._rights = self._read_lefts(), self._read_rights()
        self._products = np.empty(lefts.shape)
        self._left_terms = _places(rows.moves[lefts], axis=1)
        self._right_terms = _places(rows.moves[rights], axis=1)
        self._add_to_lefts = ScatterAdd(rows.gradients, lefts[self._left_terms])
        self._add_to_rights = ScatterAdd(rows.gradients, rights[self._right_terms])

    def forward(self) -> None:
        self._lefts, self._rights = self._read_lefts(), self._read_rights()
        np.multiply(self._lefts, self._rights, out=self._products)
        np.add.reduce(self._products, axis=0, out=self._results)

    def backward(self, is_past_flats: bool = False) -> None:
        if self._add_to_lefts.size:
            self._add_to_lefts(self._upstream * self._rights[self._left_terms])
        if self._add_to_rights.size:
            self._add_to_rights(self._upstream * self._lefts[self._right_terms])


class SameRule:
    """Nodes of one rule. inputs: for each position the slots (n_nodes,) of the inputs that stand there."""

    def __init__(self, rows: Rows, rule: str, inputs: Sequence[Slots], first: int) -> None:
        row = slice(first, first + inputs[0].size)
        self._twin = TWINS[rule]
        self._results, self._upstream = rows.values[row], rows.gradients[row]
        self._read = [Gather(rows.values, slots) for slots in inputs]
        self._inputs = [read() for read in self._read]
        self._add = [ScatterAdd(rows.gradients, slots[: slots.size * rows.moves[slots].any()]) for slots in inputs]

    def forward(self) -> None:
        self._inputs = [read() for read in self._read]
        self._results[:] = self._twin.forward(*self._inputs)

    def backward(self, is_past_flats: bool = False) -> None:
        slopes = self._twin.slopes(self._results, *self._inputs)
        flats = _flats(self._twin, self._inputs) if is_past_flats else None
        for place, (add, slope) in enumerate(zip(self._add, slopes, strict=True)):
            if add.size:
                contributions = self._upstream * slope
                add(contributions if flats is None else np.where(flats[place], 0.0, contributions))


class PerhapsUnheard:
    """Nodes of one rule that a `where` may pass by, or that are one.

    What is not heard hands on nothing, not even zero times infinity.
    """

    def __init__(self, rows: Rows, rule: str, inputs: Sequence[Slots], first: int) -> None:
        row = slice(first, first + inputs[0].size)
        self._plain = SameRule(rows, rule, inputs, first)
        self._is_choice = rule == "where"
        self._twin, self._inputs = TWINS[rule], inputs
        self._rows, self._row = rows, row
        self._add = [ScatterAdd(rows.gradients, slots) for slots in inputs]

    def forward(self) -> None:
        self._plain.forward()

    def backward(self, is_past_flats: bool = False) -> None:
        values, gradients, _, is_heard = self._rows
        here = is_heard[self._row]
        inputs = [values[slots] for slots in self._inputs]
        slopes = self._twin.slopes(values[self._row], *inputs)
        flats = _flats(self._twin, inputs) if is_past_flats else None
        if flats is None:
            flats = [np.zeros(1, bool)] * len(inputs)
        for slots, add, slope, is_flat in zip(self._inputs, self._add, slopes, flats, strict=True):
            # Of a choice, only the road taken is heard, and the condition never.
            on_the_way = here & (slope == 1.0) if self._is_choice else here
            is_heard[slots[on_the_way]] = True
            add(np.where(on_the_way & ~is_flat, gradients[self._row] * slope, 0.0))


def _flats(twin: Twin, inputs: Sequence[Floats]) -> Sequence[NDArray[np.bool_]] | None:
    """Toward which inputs each result is constant nearby; None where no result of the rule ever is."""
    return twin.is_flat(*inputs) if twin.is_flat else None


def _window(row: Floats, slots: Slots) -> Floats:
    first = int(slots.flat[0])
    return row[first : first + slots.size].reshape(slots.shape)


def _stand_in_a_row(slots: Slots) -> bool:
    return bool((np.diff(slots.reshape(-1)) == 1).all())


def _places(moves: NDArray[np.bool_], axis: int) -> slice | Slots:
    """The terms in which anything moves, as a slice if they stand side by side: what a slice picks is not copied."""
    places = np.flatnonzero(moves.any(axis=axis))
    if places.size and _stand_in_a_row(places):
        return slice(int(places[0]), int(places[-1]) + 1)
    return places


# From a graph of single numbers to instructions.

_LINEAR = frozenset({ADD, SUBTRACT, NEGATE, SUM, MULTIPLY})
# Two numbers that stand before all nodes of the graph, and their slots.
_ONE, _MINUS_ONE = -1, -2
_FIRST_SLOTS = {_ONE: 0, _MINUS_ONE: 1}
# Reading this many numbers and handing gradients back to them takes about as long as one more instruction.
_WORTH_AN_INSTRUCTION = 1000

Term = tuple[int, int]  # the places of the two numbers that are multiplied


class CompiledGraph(NamedTuple):
    """Instructions bound to rows of numbers, and where in the rows the given numbers and the output stand."""

    rows: Rows
    always_heard: NDArray[np.bool_]
    instructions: Sequence[Instruction]
    first_leaf: int
    output: int


def compile_graph(nodes: Sequence[Value], leaves: Sequence[Value]) -> CompiledGraph:
    """The instructions of a graph whose nodes come parents before children, for new numbers in the leaves."""
    graph = _Graph(nodes, leaves)
    terms = _sums_of_products(graph)
    groups = _groups(graph, terms)

    slots = dict(_FIRST_SLOTS)
    given = _constants(graph, slots)
    first_leaf = len(given)
    for leaf in graph.leaves:
        slots[leaf] = len(given)
        given.append(nodes[leaf].data)
    n_given = len(given)
    n_slots = n_given + sum(len(group) for group in groups.values())

    moves = np.arange(n_slots) >= first_leaf
    rows = Rows(np.zeros(n_slots), np.zeros(n_slots), moves, np.zeros(n_slots, dtype=np.bool_))
    rows.values[:n_given] = given
    always_heard = np.ones(n_slots, dtype=np.bool_)
    instructions: list[Instruction] = []
    free = n_given
    for (_, kind, _), group in groups.items():
        if kind == _SUMS:
            free = _add_sums(instructions, rows, {i: terms[i] for i in group}, slots, free)
            continue
        # In the order of what they read, so that it often stands side by side.
        group = sorted(group, key=lambda i: [slots[p] for p in graph.parents[i]])
        inputs = [
            np.array(column) for column in zip(*[[slots[p] for p in graph.parents[i]] for i in group], strict=True)
        ]
        is_sure = all(graph.is_surely_heard[i] and nodes[i].rule is not WHERE for i in group)
        instructions.append((SameRule if is_sure else PerhapsUnheard)(rows, kind, inputs, free))
        for i in group:
            slots[i] = free
            always_heard[free] = graph.is_surely_heard[i]
            free += 1
    for leaf in graph.leaves:
        always_heard[slots[leaf]] = graph.is_surely_heard[leaf]
    return CompiledGraph(rows, always_heard, instructions, first_leaf, slots[len(nodes) - 1])


class _Graph:
    """The graph by places in the list of nodes."""

    def __init__(self, nodes: Sequence[Value], leaves: Sequence[Value]) -> None:
        places = {node: i for i, node in enumerate(nodes)}
        self.nodes = nodes
        self.leaves = [places[leaf] for leaf in leaves]
        self.parents = [[places[parent] for parent in node.parents] for node in nodes]
        self.moves = [False] * len(nodes)
        for leaf in self.leaves:
            self.moves[leaf] = True
        for i, parents in enumerate(self.parents):
            self.moves[i] = self.moves[i] or any(self.moves[p] for p in parents)
        self.n_uses = [0] * len(nodes)
        for i, parents in enumerate(self.parents):
            if self.moves[i]:
                for p in parents:
                    self.n_uses[p] += 1
        # Heard whatever the numbers are: some way to the output does not pass through a choice.
        self.is_surely_heard = [False] * len(nodes)
        self.is_surely_heard[-1] = True
        for i in range(len(nodes) - 1, -1, -1):
            if self.is_surely_heard[i] and nodes[i].rule is not WHERE:
                for p in self.parents[i]:
                    self.is_surely_heard[p] = True


def _sums_of_products(graph: _Graph) -> dict[int, list[Term]]:
    """For each linear node that is not folded into another: the products that it is the sum of."""
    terms: dict[int, list[Term]] = {}
    is_leaf = set(graph.leaves)
    for i, parents in enumerate(graph.parents):
        rule = graph.nodes[i].rule
        if rule not in _LINEAR or not graph.moves[i] or not graph.is_surely_heard[i]:
            continue
        if rule is MULTIPLY:
            left, right = parents
            # Given numbers to the left, so that weights written on either side make the same list.
            terms[i] = [(right, left) if right in is_leaf and left not in is_leaf else (left, right)]
        elif rule is NEGATE:
            terms[i] = [(parents[0], _MINUS_ONE)]
        elif rule is SUBTRACT:
            terms[i] = _take_terms(terms, graph, parents[0])
            terms[i].append((parents[1], _MINUS_ONE))
        else:
            parts = [_take_terms(terms, graph, parent) for parent in parents]
            # The longest takes the others in: a chain of a million additions is copied about once, not a million times.
            longest = max(parts, key=len)
            for part in parts:
                if part is not longest:
                    longest += part
            terms[i] = longest
    return terms


def _take_terms(terms: dict[int, list[Term]], graph: _Graph, i: int) -> list[Term]:
    """The terms of a node that nobody else uses, which then needs no place of its own; else the node as one term."""
    return terms.pop(i) if i in terms and graph.n_uses[i] == 1 else [(i, _ONE)]


_SUMS = "sums of products"


def _groups(graph: _Graph, terms: dict[int, list[Term]]) -> dict[tuple[int, str, int], list[int]]:
    """The nodes to compute by level, kind and size, lower levels first."""
    level = [0] * len(graph.nodes)
    groups: defaultdict[tuple[int, str, int], list[int]] = defaultdict(list)
    is_leaf = set(graph.leaves)
    for i, parents in enumerate(graph.parents):
        if not graph.moves[i] or i in is_leaf:
            continue
        if i in terms:
            level[i] = 1 + max([level[factor] for term in terms[i] for factor in term if factor >= 0])
            groups[level[i], _SUMS, len(terms[i])].append(i)
        elif graph.nodes[i].rule not in _LINEAR or not graph.is_surely_heard[i]:
            level[i] = 1 + max([level[p] for p in parents])
            groups[level[i], graph.nodes[i].rule.name, len(parents)].append(i)
    return dict(sorted(groups.items()))


def _constants(graph: _Graph, slots: dict[int, int]) -> list[float]:
    """The numbers that never move and that something that moves is made from. Equal ones get the same slot."""
    given = [1.0, -1.0]
    slot_of = {(1.0).hex(): 0, (-1.0).hex(): 1}
    for i, node in enumerate(graph.nodes):
        if graph.n_uses[i] and not graph.moves[i]:
            bits = node.data.hex()  # tells 0 from -0 and finds nan again
            if bits not in slot_of:
                slot_of[bits] = len(given)
                given.append(node.data)
            slots[i] = slot_of[bits]
    return given


def _add_sums(
    instructions: list[Instruction], rows: Rows, terms: dict[int, list[Term]], slots: dict[int, int], free: int
) -> int:
    """Instructions for sums of equally many products; gives the next free slot."""
    lefts = {i: tuple([slots[left] for left, _ in products]) for i, products in terms.items()}
    rights = {i: tuple([slots[right] for _, right in products]) for i, products in terms.items()}
    others: list[int] = []
    for block in _blocks(lefts, rights):
        distinct_lefts = [*dict.fromkeys([lefts[i] for i in block])]
        distinct_rights = [*dict.fromkeys([rights[i] for i in block])]
        n_spared = (2 * len(block) - len(distinct_lefts) - len(distinct_rights)) * len(distinct_lefts[0])
        if n_spared < _WORTH_AN_INSTRUCTION:
            others += block
            continue
        instructions.append(MatrixProduct(rows, np.array(distinct_lefts), np.array(distinct_rights).T, free))
        free = _place(block, slots, free)
    if others:
        # Each term in a row of its own, the sums side by side.
        lefts_of_terms = np.array([lefts[i] for i in others]).T
        rights_of_terms = np.array([rights[i] for i in others]).T
        instructions.append(SumsOfProducts(rows, lefts_of_terms, rights_of_terms, free))
        free = _place(others, slots, free)
    return free


def _place(group: Sequence[int], slots: dict[int, int], free: int) -> int:
    for i in group:
        slots[i] = free
        free += 1
    return free


def _blocks(lefts: dict[int, tuple[int, ...]], rights: dict[int, tuple[int, ...]]) -> list[list[int]]:
    """The sums in blocks in which every left list meets every right list once, ordered left by left."""
    by_left: defaultdict[tuple[int, ...], dict[tuple[int, ...], int]] = defaultdict(dict)
    alone: list[list[int]] = []
    for i, left in lefts.items():
        if rights[i] in by_left[left]:
            alone.append([i])
        else:
            by_left[left][rights[i]] = i
    alike: defaultdict[frozenset[tuple[int, ...]], list[tuple[int, ...]]] = defaultdict(list)
    for left, met in by_left.items():
        alike[frozenset(met)].append(left)
    blocks: list[list[int]] = []
    for same_lefts in alike.values():
        order = list(by_left[same_lefts[0]])
        blocks.append([by_left[left][right] for left in same_lefts for right in order])
    return blocks + alone
