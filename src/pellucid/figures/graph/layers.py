"""A layered drawing of a graph, after Sugiyama: which column each box stands in, and in which order from the top.

Wires that pass over columns are led through them by bends, which take part in the ordering like boxes. All wires
of one box share their bends, so that a value that is used in many places leaves as one trunk with branches.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import NamedTuple

SWEEPS = 16
# An operation moves right toward its use only over more columns than this: like parts of an expression, such as
# the neurons of a layer, read best when they stand below one another.
LONGEST_WAIT = 6
MOST_TO_SWAP = 2_000  # places; above, swapping neighbours costs more time than a reader gives


class Link(NamedTuple):
    """A piece of a wire between neighbouring columns."""

    start: int
    end: int
    lean: float  # where it enters the end: -0.5 is the top, 0.5 the bottom
    is_spine: bool  # whether it comes from the deepest part of what the end is made from


class Layers(NamedTuple):
    """Places 0 to n-1 are the boxes; those above are bends."""

    column: list[int]  # of each place
    rows: list[list[int]]  # the places of each column, from the top
    links: list[Link]
    routes: list[tuple[int, ...]]  # the places that each wire passes, from its start to its end


def arrange_layers(n: int, wires: Sequence[tuple[int, int]], leans: Sequence[float]) -> Layers:
    """Columns and order for n boxes, each standing after the ones it is made from. leans: one for each wire.

    >>> arrange_layers(3, [(0, 1), (1, 2), (0, 2)], [0.0, -0.2, 0.2]).rows
    [[0], [1, 3], [2]]
    """
    column = columns(n, wires)
    links, routes = _led_through(column, wires, leans, _spine(n, wires))
    rows: list[list[int]] = [[] for _ in range(max(column, default=-1) + 1)]
    sequence = _reading_order(n, wires, routes, len(column))
    for place in sorted(range(len(column)), key=sequence.__getitem__):
        rows[column[place]].append(place)
    return Layers(column, _fewer_crossings(rows, column, links), links, routes)


def _parents(n: int, wires: Sequence[tuple[int, int]]) -> list[list[int]]:
    """What each box is made from."""
    parents: list[list[int]] = [[] for _ in range(n)]
    for start, end in wires:
        parents[end].append(start)
    return parents


def columns(n: int, wires: Sequence[tuple[int, int]]) -> list[int]:
    """The column of each box: right of all it is made from, and near to where most of its wires go."""
    parents, children = _parents(n, wires), _parents(n, [(end, start) for start, end in wires])
    column = [0] * n
    for box in range(n):
        column[box] = max((column[parent] + 1 for parent in parents[box]), default=0)
    # A parent that is used nowhere else moves along, so its wire does not count when a box is moved.
    held = [len({parent for parent in parents[box] if len(set(children[parent])) > 1}) for box in range(n)]
    for _ in range(3):
        for box in reversed(range(n)):
            # An input stands just before its first use, not at the far left: its wires are the shortest there.
            if children[box] and len(set(children[box])) >= held[box]:
                before_use = min(column[child] for child in children[box]) - 1
                if not parents[box] or before_use - column[box] > LONGEST_WAIT:
                    column[box] = before_use
        for box in range(n):
            if parents[box] and len(set(children[box])) < held[box]:
                column[box] = max(column[parent] for parent in parents[box]) + 1
    first = min(column, default=0)
    return [at - first for at in column]


def _spine(n: int, wires: Sequence[tuple[int, int]]) -> list[bool]:
    """Which wires come from the one deepest of the parts that a box is made from."""
    parents = _parents(n, wires)
    depth = [0] * n
    for box in range(n):
        depth[box] = max((depth[parent] + 1 for parent in parents[box]), default=0)
    deepest = [sum([depth[parent] == depth[box] - 1 for parent in parents[box]]) for box in range(n)]
    return [depth[start] == depth[end] - 1 and deepest[end] == 1 for start, end in wires]


def _led_through(
    column: list[int], wires: Sequence[tuple[int, int]], leans: Sequence[float], spine: Sequence[bool]
) -> tuple[list[Link], list[tuple[int, ...]]]:
    """Adds the bends to `column`; gives the pieces of the wires and the places each wire passes."""
    trunks: dict[int, list[int]] = {}
    links: list[Link] = []
    routes: list[tuple[int, ...]] = []
    for (start, end), lean, is_spine in zip(wires, leans, spine, strict=True):
        trunk = trunks.setdefault(start, [start])
        n_bends = column[end] - column[start] - 1
        while len(trunk) <= n_bends:
            links.append(Link(trunk[-1], len(column), 0.0, False))
            trunk.append(len(column))
            column.append(column[start] + len(trunk) - 1)
        links.append(Link(trunk[n_bends], end, lean, is_spine))
        routes.append((*trunk[: n_bends + 1], end))
    return links, routes


def _reading_order(
    n: int, wires: Sequence[tuple[int, int]], routes: Sequence[tuple[int, ...]], n_places: int
) -> list[int]:
    """A first order: as one reads the expression from its outputs, operand by operand. For trees no wires cross."""
    parents, used = _parents(n, wires), {start for start, _ in wires}
    sequence = [-1] * n_places
    count = 0
    stack = [box for box in reversed(range(n)) if box not in used]
    while stack:
        box = stack.pop()
        if sequence[box] < 0:
            sequence[box] = count
            count += 1
            stack.extend(reversed(parents[box]))
    for route in routes:
        for bend in route[1:-1]:
            sequence[bend] = sequence[route[0]]
    return sequence


def _fewer_crossings(rows: list[list[int]], column: list[int], links: Sequence[Link]) -> list[list[int]]:
    """Sweeps to and fro: each column takes the order of what it is wired to. The best order seen is kept."""
    before: list[list[tuple[int, float]]] = [[] for _ in column]
    after: list[list[tuple[int, float]]] = [[] for _ in column]
    for link in links:
        before[link.end].append((link.start, 0.0))
        after[link.start].append((link.end, link.lean))
    position = [0.0] * len(column)
    _number(rows, position)
    by_gap = _by_gap(links, column, len(rows))
    best, fewest = [row[:] for row in rows], _crossings(by_gap, position)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        is_rightward = sweep % 2 == 1
        neighbours = before if is_rightward else after
        for row in rows if is_rightward else reversed(rows):
            row.sort(key=lambda place: _middle(place, neighbours[place], position, sweep))
            _number([row], position)
        if len(column) <= MOST_TO_SWAP:
            for row in rows:
                _swap_neighbours(row, before, after, position)
        n_crossings = _crossings(by_gap, position)
        if n_crossings < fewest:
            best, fewest = [row[:] for row in rows], n_crossings
    return best


def _number(rows: Sequence[Sequence[int]], position: list[float]) -> None:
    for row in rows:
        for at, place in enumerate(row):
            position[place] = float(at)


def _by_gap(links: Sequence[Link], column: Sequence[int], n_columns: int) -> list[list[Link]]:
    gaps: list[list[Link]] = [[] for _ in range(n_columns)]
    for link in links:
        gaps[column[link.start]].append(link)
    return gaps


def _middle(place: int, neighbours: Sequence[tuple[int, float]], position: Sequence[float], sweep: int) -> float:
    """Median or mean of the neighbours' positions; in turns, since each is stuck where the other is not."""
    if not neighbours:
        return position[place]
    at = sorted([position[other] + lean for other, lean in neighbours])
    half = len(at) // 2
    if sweep % 4 < 2:
        return sum(at) / len(at)
    return at[half] if len(at) % 2 else (at[half - 1] + at[half]) / 2


def _crossings(gaps: Sequence[Sequence[Link]], position: Sequence[float]) -> int:
    n_crossings = 0
    for gap in gaps:
        ends: list[float] = []
        for _, end in sorted([(position[link.start], position[link.end] + link.lean) for link in gap]):
            n_crossings += len(ends) - bisect_right(ends, end)
            insort(ends, end)
    return n_crossings


def _swap_neighbours(
    row: list[int],
    before: Sequence[Sequence[tuple[int, float]]],
    after: Sequence[Sequence[tuple[int, float]]],
    position: list[float],
) -> None:
    """Swaps two neighbours wherever that takes crossings away."""
    for at in range(len(row) - 1):
        upper, lower = row[at], row[at + 1]
        gain = 0
        for wired in (before, after):
            for other, lean in wired[upper]:
                for another, slant in wired[lower]:
                    a, b = position[other] + lean, position[another] + slant
                    gain += (a > b) - (a < b)
        if gain > 0:
            row[at], row[at + 1] = lower, upper
            position[upper], position[lower] = float(at + 1), float(at)
