"""How high each place of a layered drawing stands: as straight as its wires allow, and never on another.

One column at a time is set as well as it can be for its neighbours, with the least room between its places as a
bound: an isotonic regression, solved by pooling adjacent violators. First squared distances spread the boxes, then
plain distances let the wires that can be straight become straight.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pellucid.figures.graph.layers import Layers

SPREADING = 24
STRAIGHTENING = 12
STRETCH = 20.0  # pixels that a bend is moved at most to stand level with the next
WAITING = 0.001  # a place without wires on the looked-at side stays, if nothing pushes it
# How much a piece of wire wants to be straight: from box to box, where it meets a bend, between bends.
STRAIGHTNESS = (1.0, 2.0, 8.0)
SPINE = 12.0  # how much more so for the wire that a long computation runs along


class Pull(NamedTuple):
    """Where a wire wants a place to be: `shift` from where the other place is."""

    other: int
    shift: float
    weight: float


def heights(
    drawing: Layers, rooms: Sequence[float], shifts: Sequence[float], gap: float, bend_gap: float
) -> list[float]:
    """The middle of each place, from the top.

    rooms: the height of each box. shifts: how far from the middle of its end each link arrives.
    """
    n_boxes = len(rooms)
    room = [*rooms, *[0.0] * (len(drawing.column) - n_boxes)]
    before: list[list[Pull]] = [[] for _ in room]
    after: list[list[Pull]] = [[] for _ in room]
    for link, shift in zip(drawing.links, shifts, strict=True):
        weight = STRAIGHTNESS[(link.start >= n_boxes) + (link.end >= n_boxes)] * (SPINE if link.is_spine else 1.0)
        before[link.end].append(Pull(link.start, -shift, weight))
        after[link.start].append(Pull(link.end, shift, weight))
    offsets = [_offsets(row, room, n_boxes, gap, bend_gap) for row in drawing.rows]
    y = [0.0] * len(room)
    for row, offset in zip(drawing.rows, offsets, strict=True):
        for place, above in zip(row, offset, strict=True):
            y[place] = above - offset[-1] / 2
    columns = list(zip(drawing.rows, offsets, strict=True))
    for sweep in range(SPREADING + STRAIGHTENING):
        if sweep == SPREADING:
            _level(drawing, after, y)
        is_rightward = sweep % 2 == 1
        for row, offset in columns if is_rightward else reversed(columns):
            wanted = []
            for place, above in zip(row, offset, strict=True):
                # The first sweeps look one way only, which carries a shape through the whole drawing at once.
                pulls = before[place] + after[place] if sweep >= 4 else (before if is_rightward else after)[place]
                ends = [(y[pull.other] + pull.shift - above, pull.weight) for pull in pulls]
                wanted.append(ends or [(y[place] - above, WAITING)])
            settled = _pooled(wanted, has_means=sweep < SPREADING)
            for place, above, at in zip(row, offset, settled, strict=True):
                y[place] = at + above
    _stretch_trunks(drawing, offsets, y)
    top = min((y[place] - room[place] / 2 for place in range(len(y))), default=0.0)
    return [at - top for at in y]


def _level(drawing: Layers, after: Sequence[Sequence[Pull]], y: list[float]) -> None:
    """Moves each column, with all that is right of it, to where most wires into it are level.

    No single column can do that: between neighbours that stand on a staircase each step looks right.
    """
    moved = 0.0
    for row, next_row in pairwise(drawing.rows):
        # A pull wants the place at the other's height plus its shift, so this much is the other one too high.
        too_high = [(y[place] - pull.shift - y[pull.other], pull.weight) for place in row for pull in after[place]]
        moved = _median(too_high) if too_high else moved
        for place in next_row:
            y[place] += moved


def _stretch_trunks(drawing: Layers, offsets: Sequence[Sequence[float]], y: list[float]) -> None:
    """Gives the bends of a trunk one height for as long as their neighbours leave room for it."""
    slot = {
        place: (row, offset, i)
        for row, offset in zip(drawing.rows, offsets, strict=True)
        for i, place in enumerate(row)
    }

    def room(place: int) -> tuple[float, float]:
        row, offset, i = slot[place]
        highest = y[row[i - 1]] + offset[i] - offset[i - 1] if i else -math.inf
        lowest = y[row[i + 1]] - offset[i + 1] + offset[i] if i + 1 < len(row) else math.inf
        return max(highest, y[place] - STRETCH), min(lowest, y[place] + STRETCH)

    longest: dict[int, tuple[int, ...]] = {}
    for route in drawing.routes:
        if len(route) > len(longest.get(route[0], ())):
            longest[route[0]] = route
    for route in longest.values():
        level: list[int] = []
        top, bottom = -math.inf, math.inf
        for place in [*route[1:-1], None]:
            highest, lowest = room(place) if place is not None else (math.inf, -math.inf)
            if max(top, highest) > min(bottom, lowest):
                middle = sorted(y[bend] for bend in level)[len(level) // 2] if level else 0.0
                for bend in level:
                    y[bend] = min(max(middle, top), bottom)
                level, top, bottom = [], -math.inf, math.inf
            if place is not None:
                level.append(place)
                top, bottom = max(top, highest), min(bottom, lowest)


def _offsets(row: Sequence[int], room: Sequence[float], n_boxes: int, gap: float, bend_gap: float) -> list[float]:
    """How far below the first place of the column each one is when nothing stands loose."""
    offsets = [0.0] * len(row)
    for at in range(1, len(row)):
        upper, lower = row[at - 1], row[at]
        between = gap if upper < n_boxes and lower < n_boxes else bend_gap
        offsets[at] = offsets[at - 1] + room[upper] / 2 + between + room[lower] / 2
    return offsets


def _pooled(wanted: Sequence[list[tuple[float, float]]], has_means: bool) -> list[float]:
    """Numbers that never fall, as near as possible to the wishes [(number, weight), ...] of each.

    >>> _pooled([[(1.0, 1.0)], [(5.0, 1.0)], [(3.0, 1.0)]], has_means=True)
    [1.0, 4.0, 4.0]
    """
    centre = _mean if has_means else _median
    pools: list[tuple[float, list[tuple[float, float]], int]] = []
    for wishes in wanted:
        pool, size = wishes, 1
        at = centre(pool)
        while pools and pools[-1][0] > at:
            _, earlier, n = pools.pop()
            pool, size = earlier + pool, size + n
            at = centre(pool)
        pools.append((at, pool, size))
    return [at for at, _, size in pools for _ in range(size)]


def _mean(wishes: Sequence[tuple[float, float]]) -> float:
    return sum([at * weight for at, weight in wishes]) / sum([weight for _, weight in wishes])


def _median(wishes: Sequence[tuple[float, float]]) -> float:
    """The weighted median; halfway between the two middle ones when both are as good."""
    ordered = sorted(wishes)
    half = sum([weight for _, weight in ordered]) / 2
    so_far = 0.0
    for i, (at, weight) in enumerate(ordered):
        so_far += weight
        if so_far > half:
            return at
        if so_far == half:
            return (at + ordered[min(i + 1, len(ordered) - 1)][0]) / 2
    return ordered[-1][0]
