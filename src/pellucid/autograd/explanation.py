"""The backward pass told step by step: which node hands what to which parent, and why; and which path adds how much."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import overload

from pellucid.autograd.rules import CONSTANT, INPUT, RULES, Rule, rule_called
from pellucid.autograd.value import Value, ancestors
from pellucid.errors import PellucidError
from pellucid.records import BackwardPass, BackwardStep, GraphNode, Path

MOST_PATHS = 1000
_NAME_STEMS = ("v", "u", "t", "n", "node_", "step_")


# Made by its own `__new__`, a node would cost three times as much as the tuple that it is.
_graph_node: Callable[[tuple[object, ...]], GraphNode] = functools.partial(tuple.__new__, GraphNode)


def graph(nodes: Sequence[Value]) -> list[GraphNode]:
    """The nodes as records, in the order given (parents before children), each with a name of its own."""
    places = {node: place for place, node in enumerate(nodes)}
    return record_rows([(n.rule, tuple([places[parent] for parent in n.parents]), n.data, n.name) for n in nodes])


def record_rows(
    rows: Sequence[tuple[Rule, tuple[int, ...], float, str]], spans: Sequence[tuple[int, int]] | None = None
) -> list[GraphNode]:
    """The same from rows of (rule, places of the parents, value, name or ""), and the parts of a text they are."""
    stem = _free_stem({name for _, _, _, name in rows})
    seen: list[GraphNode] = []
    values: list[float] = []
    slopes: tuple[float, ...]
    is_heard: tuple[bool, ...]
    can_move: list[bool] = []
    n_unnamed = 0
    for place, (rule, parents, value, name) in enumerate(rows):
        if not name:
            if rule is CONSTANT:
                name = f"{value:g}"
            else:
                n_unnamed += 1
                name = f"{stem}{n_unnamed}"
        values.append(value)
        if parents:
            inputs = [values[parent] for parent in parents]
            slopes = tuple(rule.slopes(value, *inputs))
            is_heard = rule.listens(*inputs) if rule.listens else (True,) * len(parents)
            can_move.append(any([can_move[parent] for parent in parents]))
        else:
            slopes, is_heard = (), ()
            can_move.append(rule is INPUT)
        start, end = spans[place] if spans else (0, 0)
        of_rule = rule.name, rule.symbol, rule.form
        seen.append(_graph_node((place, name, *of_rule, parents, value, slopes, is_heard, can_move[-1], start, end)))
    return seen


def _free_stem(taken: set[str]) -> str:
    """A stem for the names of unnamed nodes that no named one begins with."""
    stems = [stem for stem in _NAME_STEMS if not any([name.startswith(stem) for name in taken if name])]
    return next(iter(stems), "_")


def backward_pass(nodes: Sequence[GraphNode], index: int, output: str = "") -> BackwardPass:
    """The gradients of the node at `index` toward every node, and the steps that gave them.

    Steps toward constants are not told: nobody can turn them.
    """
    gradients, told = _walk_back(nodes, index, {})
    if math.isfinite(nodes[index].value) and any([gradient != gradient for gradient in gradients]):
        gradients, told = _walk_back(nodes, index, _flats(nodes))  # as in node.py: infinity met a zero
    return BackwardPass(output or nodes[index].name, index, gradients, _Steps(nodes, told))


Told = tuple[int, int, int, float, float, float, float]


def _walk_back(
    nodes: Sequence[GraphNode], index: int, flats: Mapping[int, tuple[bool, ...]]
) -> tuple[list[float], list[Told]]:
    """The gradients, and what was handed on. flats: of nodes that are constant nearby, toward which parents."""
    gradients = [0.0] * len(nodes)
    is_reached = [False] * len(nodes)
    value = nodes[index].value
    gradients[index] = 1.0 if value == value else value
    is_reached[index] = True
    told: list[Told] = []
    for i in range(index, -1, -1):
        if not (is_reached[i] and nodes[i].can_move):
            continue
        node = nodes[i]
        for position, parent in enumerate(node.parents):
            if node.is_heard[position] and nodes[parent].can_move:
                is_flat = i in flats and flats[i][position]
                contribution = 0.0 if is_flat else gradients[i] * node.slopes[position]
                gradients[parent] += contribution
                is_reached[parent] = True
                told.append((i, parent, position, gradients[i], node.slopes[position], contribution, gradients[parent]))
    return gradients, told


def _flats(nodes: Sequence[GraphNode]) -> dict[int, tuple[bool, ...]]:
    """Toward which parents each node is constant nearby; without nodes that never are."""
    found = {}
    for node in nodes:
        is_flat = rule_called(node.rule).is_flat
        if is_flat:
            found[node.place] = is_flat(*[nodes[parent].value for parent in node.parents])
    return found


class _Steps(Sequence[BackwardStep]):
    """The steps of a pass, put into words only when somebody reads them."""

    def __init__(self, nodes: Sequence[GraphNode], told: list[Told]) -> None:
        self._nodes = nodes
        self._told = told

    @functools.cached_property
    def _uses(self) -> Counter[int]:
        return Counter(parent for _, parent, *_ in self._told)

    @functools.cached_property
    def _use(self) -> list[int]:
        so_far: Counter[int] = Counter()
        use = []
        for _, parent, *_ in self._told:
            so_far[parent] += 1
            use.append(so_far[parent])
        return use

    def __len__(self) -> int:
        return len(self._told)

    @overload
    def __getitem__(self, i: int) -> BackwardStep: ...

    @overload
    def __getitem__(self, i: slice) -> list[BackwardStep]: ...

    def __getitem__(self, i: int | slice) -> BackwardStep | list[BackwardStep]:
        if isinstance(i, slice):
            return [self._step(k) for k in range(*i.indices(len(self)))]
        return self._step(range(len(self))[i])

    def _step(self, i: int) -> BackwardStep:
        node, parent, position, upstream, slope, contribution, running_sum = self._told[i]
        return BackwardStep(
            i + 1,
            node,
            parent,
            self._nodes[node].name,
            self._nodes[parent].name,
            self._nodes[node].rule,
            position,
            upstream,
            slope,
            contribution,
            running_sum,
            self._use[i],
            self._uses[parent],
            explain_slope(self._nodes, node, position),
        )


def explain_slope(nodes: Sequence[GraphNode], index: int, position: int) -> str:
    """Why this node's slope toward the input at this position is what it is, with the names filled in."""
    node = nodes[index]
    rule = RULES[node.rule]
    # Of an operation on any number of inputs only one is spoken of; naming them all would make a long sum quadratic.
    spoken_of = (node.parents[position],) if rule.arity is None else node.parents
    letters = {letter: nodes[parent].name for letter, parent in zip("abc", spoken_of, strict=False)}
    return rule.sentence(position).format(out=node.name, **letters)


def explain(output: Value) -> Sequence[BackwardStep]:
    """The backward pass from this value, one record for each edge, in the order it happens.

    >>> x = Value(3.0, "x")
    >>> for step in explain(x * x):
    ...     print(step.rule, step.upstream, step.slope, step.contribution, step.running_sum, step.because)
    multiply 1.0 3.0 3.0 3.0 nudge x by ε and the product moves by x·ε
    multiply 1.0 3.0 3.0 6.0 nudge x by ε and the product moves by x·ε
    """
    nodes = graph(ancestors(output))
    return backward_pass(nodes, len(nodes) - 1).steps


def paths(output: Value, source: Value, most: int = MOST_PATHS) -> list[Path]:
    """The ways from the output back to the source, each with the product of the slopes along it.

    Their contributions add up to the gradient. At most `most` are listed; `n_paths` says how many there are.

    >>> x = Value(3.0, "x")
    >>> for path in paths(x * x + x, x):
    ...     print(" ← ".join(path.names), "contributes", path.contribution)
    v2 ← v1 ← x contributes 3.0
    v2 ← v1 ← x contributes 3.0
    v2 ← x contributes 1.0
    """
    nodes, source_place = _graph_to(output, source)
    return paths_in(nodes, len(nodes) - 1, source_place, most)


def n_paths(output: Value, source: Value) -> int:
    """How many ways lead from the output back to the source. They are counted, not walked: each doubling doubles them.

    >>> x = y = Value(1.0)
    >>> for _ in range(100):
    ...     y = y + y
    >>> n_paths(y, x) == 2**100
    True
    """
    nodes, source_place = _graph_to(output, source)
    return n_paths_in(nodes, len(nodes) - 1, source_place)


def paths_in(nodes: Sequence[GraphNode], output: int, source: int, most: int = MOST_PATHS) -> list[Path]:
    """The same between two places of a recorded graph."""
    leads_on = _leads_on(nodes, source, output)
    found: list[Path] = []
    stack: list[tuple[tuple[int, ...], tuple[float, ...], float]] = [((output,), (), 1.0)]
    while stack and len(found) < most:
        way, slopes, contribution = stack.pop()
        node = nodes[way[-1]]
        if node.place == source:
            found.append(Path(way, tuple(nodes[place].name for place in way), slopes, contribution))
            continue
        for position in range(len(node.parents) - 1, -1, -1):
            parent, slope = node.parents[position], node.slopes[position]
            if leads_on[parent] and node.is_heard[position]:
                stack.append(((*way, parent), (*slopes, slope), contribution * slope))
    return found


def n_paths_in(nodes: Sequence[GraphNode], output: int, source: int) -> int:
    """The same count between two places of a recorded graph."""
    ways = [0] * (output + 1)
    ways[output] = 1
    for place in range(output, source, -1):
        if ways[place]:
            for parent, is_heard in zip(nodes[place].parents, nodes[place].is_heard, strict=True):
                ways[parent] += ways[place] if is_heard else 0
    return ways[source]


def _graph_to(output: Value, source: Value) -> tuple[list[GraphNode], int]:
    made_from = ancestors(output)
    if source not in made_from:
        raise PellucidError(f"the output was not made from {source!r}", fix="Ask for a number that it was made from")
    return graph(made_from), made_from.index(source)


def _leads_on(nodes: Sequence[GraphNode], source: int, output: int) -> list[bool]:
    """For each node up to the output, whether it was made from the source."""
    leads_on = [False] * (output + 1)
    leads_on[source] = True
    for node in nodes[source + 1 : output + 1]:
        leads_on[node.place] = any(
            leads_on[parent] and is_heard for parent, is_heard in zip(node.parents, node.is_heard, strict=True)
        )
    return leads_on
