"""Which path contributed what: the gradient as a sum over all ways from the output back to a number.

>>> x = Value(3.0, "x")
>>> for path in paths(x * x + x, x):
...     print(" ← ".join(path.names), "contributes", path.contribution)
v2 ← v1 ← x contributes 3.0
v2 ← v1 ← x contributes 3.0
v2 ← x contributes 1.0
"""

from collections.abc import Sequence

from pellucid.autograd.explanation import graph
from pellucid.autograd.value import Value, ancestors
from pellucid.errors import PellucidError
from pellucid.records import GraphNode, Path

MOST_PATHS = 1000


def paths(output: Value, source: Value, most: int = MOST_PATHS) -> list[Path]:
    """The ways from the output back to the source, each with the product of the slopes along it.

    Their contributions add up to the gradient. At most `most` are listed; `n_paths` says how many there are.
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
    leads_on = _leads_to(nodes, source, output)
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


def _leads_to(nodes: Sequence[GraphNode], source: int, output: int) -> list[bool]:
    """For each node up to the output, whether it was made from the source."""
    leads_on = [False] * (output + 1)
    leads_on[source] = True
    for node in nodes[source + 1 : output + 1]:
        leads_on[node.place] = any(
            leads_on[parent] and is_heard for parent, is_heard in zip(node.parents, node.is_heard, strict=True)
        )
    return leads_on
