"""Which path contributed what: the gradient as a sum over all ways from the output back to a node."""

from collections.abc import Sequence

from pellucid.records import GraphNode, Path

MOST_PATHS = 1000


def n_paths(nodes: Sequence[GraphNode], output: int, source: int) -> int:
    """How many ways lead from the output back to the source. Twice as many for each doubling, so it is counted,
    not walked."""
    ways = [0] * (output + 1)
    ways[output] = 1
    for index in range(output, source, -1):
        if ways[index]:
            for parent, is_heard in zip(nodes[index].parents, nodes[index].is_heard, strict=True):
                ways[parent] += ways[index] if is_heard else 0
    return ways[source]


def paths(nodes: Sequence[GraphNode], output: int, source: int, most: int = MOST_PATHS) -> list[Path]:
    """The ways from the output back to the source, each with the product of the slopes along it.

    Their contributions add up to the gradient. At most `most` are listed; `n_paths` says how many there are.
    """
    leads_on = _leads_to(nodes, source, output)
    found: list[Path] = []
    stack: list[tuple[tuple[int, ...], tuple[float, ...], float]] = [((output,), (), 1.0)]
    while stack and len(found) < most:
        way, slopes, contribution = stack.pop()
        node = nodes[way[-1]]
        if node.index == source:
            found.append(Path(way, slopes, contribution))
            continue
        for position in range(len(node.parents) - 1, -1, -1):
            parent, slope = node.parents[position], node.slopes[position]
            if leads_on[parent] and node.is_heard[position]:
                stack.append(((*way, parent), (*slopes, slope), contribution * slope))
    return found


def _leads_to(nodes: Sequence[GraphNode], source: int, output: int) -> list[bool]:
    """For each node up to the output, whether it was made from the source."""
    leads_on = [False] * (output + 1)
    leads_on[source] = True
    for node in nodes[source + 1 : output + 1]:
        leads_on[node.index] = any(
            leads_on[parent] and is_heard for parent, is_heard in zip(node.parents, node.is_heard, strict=True)
        )
    return leads_on
