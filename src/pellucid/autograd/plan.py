"""From a graph of single numbers to a few instructions on many: what a replay runs.

1. What depends on no input and no parameter is a constant; equal constants share a slot.
2. Sums of sums become one sum, and products that only a sum uses become its terms.
3. Nodes are grouped by level and kind: all of a group can be computed at once.
4. Within a group, sums in which each of some lists of numbers meets each of some others are a matrix product.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.autograd.instructions import (
    Instruction,
    MatrixProduct,
    PerhapsUnheard,
    Rows,
    SameRule,
    SumsOfProducts,
)
from pellucid.autograd.rules import ADD, MULTIPLY, NEGATE, SUBTRACT, SUM, WHERE
from pellucid.autograd.value import Value

_LINEAR = frozenset({ADD, SUBTRACT, NEGATE, SUM, MULTIPLY})
# Two numbers that stand before all nodes of the graph, and their slots.
_ONE, _MINUS_ONE = -1, -2
_FIRST_SLOTS = {_ONE: 0, _MINUS_ONE: 1}
# Reading this many numbers and handing gradients back to them takes about as long as one more instruction.
_WORTH_AN_INSTRUCTION = 1000

Term = tuple[int, int]  # the places of the two numbers that are multiplied


class Plan(NamedTuple):
    """Instructions bound to rows of numbers, and where in the rows the given numbers and the output stand."""

    rows: Rows
    always_heard: NDArray[np.bool_]
    instructions: Sequence[Instruction]
    first_leaf: int
    output: int


def plan(nodes: Sequence[Value], leaves: Sequence[Value]) -> Plan:
    """The plan of a graph whose nodes come parents before children, for new numbers in the leaves."""
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
    return Plan(rows, always_heard, instructions, first_leaf, slots[len(nodes) - 1])


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
            terms[i] = _taken(terms, graph, parents[0])
            terms[i].append((parents[1], _MINUS_ONE))
        else:
            parts = [_taken(terms, graph, parent) for parent in parents]
            # The longest takes the others in: a chain of a million additions is copied about once, not a million times.
            longest = max(parts, key=len)
            for part in parts:
                if part is not longest:
                    longest += part
            terms[i] = longest
    return terms


def _taken(terms: dict[int, list[Term]], graph: _Graph, i: int) -> list[Term]:
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
