"""Where everything goes: boxes in columns, a number on each wire, and rows of columns where one would be too long.

The number of a wire sits on its last piece, straight before the box it enters. Each wire has its own height there,
so no number can lie on another one or on a foreign wire.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from pellucid.figures.graph.layers import Layers, arrange_layers

BOX_GAP = 20.0
BEND_GAP = 15.0
PORT_GAP = 19.0  # between wires that enter the same box; a number is a little lower than this
ARROW = 9.0
LANE = 12.0
TURN = 44.0  # room at the start of a row for wires to come to their heights
WIDEST_ROW = 1600.0
WORTH_BREAKING = 2600.0  # a drawing up to this width stays in one row
MOST_LANES = 6  # wires that may be led from the end of a row to the start of the next
SPREADING = 24
STRAIGHTENING = 12
STRETCH = 20.0  # pixels that a bend is moved at most to stand level with the next
WAITING = 0.001  # a place without wires on the looked-at side stays, if nothing pushes it
# How much a piece of wire wants to be straight: from box to box, where it meets a bend, between bends.
STRAIGHTNESS = (1.0, 2.0, 8.0)
SPINE = 12.0  # how much more so for the wire that a long computation runs along


class Size(NamedTuple):
    width: float
    height: float
    is_narrow: bool  # keeps its width; the others in its column take the widest one's


class PlacedBox(NamedTuple):
    left: float
    top: float
    width: float
    height: float


class GraphLayout(NamedTuple):
    boxes: list[PlacedBox]
    labels: list[tuple[float, float]]  # the middle of each wire's number
    trunks: list[str]  # the part of each wire that others from the same box may share, as SVG draws it
    branches: list[str]  # the rest of it
    width: float
    height: float


class ColumnPlace(NamedTuple):
    """The x of a column's parts: wires have come to their heights at `entry`, boxes reach from `left` to `right`."""

    entry: float
    left: float
    right: float


class Row(NamedTuple):
    """A stretch of columns, and how far they are moved."""

    first: int
    last: int
    right: float
    shift: float  # to be added to y
    bottom: float  # of its places, shifted
    lanes: dict[int, int]  # places whose wires go on in the next row, counted from the top


def lay_out(sizes: Sequence[Size], wires: Sequence[tuple[int, int]], label_widths: Sequence[float]) -> GraphLayout:
    """Positions for boxes of these sizes, each standing after the ones it is made from. One label for each wire."""
    ports = _ports(sizes, wires)
    leans = [port / sizes[end].height for (_, end), port in zip(wires, ports, strict=True)]
    drawing = arrange_layers(len(sizes), wires, leans)
    shifts = [link.lean * sizes[link.end].height if link.lean else 0.0 for link in drawing.links]
    y = heights(drawing, [size.height for size in sizes], shifts, BOX_GAP, BEND_GAP)
    room = [size.height for size in sizes] + [0.0] * (len(y) - len(sizes))
    columns = _columns(drawing, sizes, wires, label_widths, y, shifts)
    arrivals = _arrivals(drawing, y, shifts)
    rows, columns = _rows(drawing, columns, y, room, arrivals)
    row_of = {column: row for row in rows for column in range(row.first, row.last + 1)}
    at = [height + row_of[drawing.column[place]].shift for place, height in enumerate(y)]
    boxes = []
    for box, size in enumerate(sizes):
        column = columns[drawing.column[box]]
        width = size.width if size.is_narrow else column.right - column.left
        boxes.append(PlacedBox(column.right - width, at[box] - size.height / 2, width, size.height))
    labels: list[tuple[float, float]] = []
    paths: list[tuple[str, str]] = []
    for (_, end), port, width, route in zip(wires, ports, label_widths, drawing.routes, strict=True):
        left = boxes[end].left
        labels.append((left - ARROW - 5 - width / 2, at[end] + port))
        paths.append(_path(route, port, left, drawing, columns, row_of, at, arrivals))
    right = max((row.right for row in rows), default=0.0)
    bottom = max((row.bottom for row in rows), default=0.0)
    return GraphLayout(boxes, labels, [trunk for trunk, _ in paths], [branch for _, branch in paths], right, bottom)


def ports_height(n_wires: int) -> float:
    """The least height of a box that so many wires enter."""
    return n_wires * PORT_GAP + 4


def _ports(sizes: Sequence[Size], wires: Sequence[tuple[int, int]]) -> list[float]:
    """How far from the middle of its end each wire arrives: in the order of the operands, evenly."""
    entering: dict[int, list[int]] = defaultdict(list)
    for wire, (_, end) in enumerate(wires):
        entering[end].append(wire)
    ports = [0.0] * len(wires)
    for end, arriving in entering.items():
        gap = max(PORT_GAP, min(26.0, (sizes[end].height - 4) / len(arriving)))
        for i, wire in enumerate(arriving):
            ports[wire] = (i - (len(arriving) - 1) / 2) * gap
    return ports


def _columns(
    drawing: Layers,
    sizes: Sequence[Size],
    wires: Sequence[tuple[int, int]],
    label_widths: Sequence[float],
    y: Sequence[float],
    shifts: Sequence[float],
) -> list[ColumnPlace]:
    n = len(drawing.rows)
    widths = [max((sizes[p].width for p in row if p < len(sizes)), default=0.0) for row in drawing.rows]
    labels = [0.0] * n
    for (_, end), width in zip(wires, label_widths, strict=True):
        slack = widths[drawing.column[end]] - sizes[end].width if sizes[end].is_narrow else 0.0
        labels[drawing.column[end]] = max(labels[drawing.column[end]], width + ARROW + 10 - slack)
    steepest = [0.0] * n
    for link, shift in zip(drawing.links, shifts, strict=True):
        column = drawing.column[link.end]
        steepest[column] = max(steepest[column], abs(y[link.end] + shift - y[link.start]))
    columns: list[ColumnPlace] = []
    x = 0.0
    for width, label, drop in zip(widths, labels, steepest, strict=True):
        # A steep wire needs room to turn; between boxes on one line a short piece is enough.
        entry = x + (min(90.0, 14 + drop / 4) if columns else 0.0)
        x = entry + label + width
        columns.append(ColumnPlace(entry, entry + label, x))
    return columns


def _arrivals(drawing: Layers, y: Sequence[float], shifts: Sequence[float]) -> list[float]:
    """The height at which the wires of each place would best enter the next column."""
    targets: list[list[float]] = [[] for _ in y]
    for link, shift in zip(drawing.links, shifts, strict=True):
        targets[link.start].append(y[link.end] + shift)
    return [sum(heights) / len(heights) if heights else at for heights, at in zip(targets, y, strict=True)]


def _rows(
    drawing: Layers, columns: list[ColumnPlace], y: Sequence[float], room: Sequence[float], arrivals: Sequence[float]
) -> tuple[list[Row], list[ColumnPlace]]:
    """Breaks a long drawing into rows where few wires cross, like lines of text."""
    if not columns:
        return [], columns
    passing: list[set[int]] = [set() for _ in columns]
    for link in drawing.links:
        passing[drawing.column[link.start]].add(link.start)
    cuts = _cuts(columns, passing) if columns[-1].right > WORTH_BREAKING else []
    if any(len(passing[cut]) > MOST_LANES for cut in cuts):
        cuts = []
    rows: list[Row] = []
    moved: list[ColumnPlace] = []
    top = 0.0
    for first, last in pairwise([-1, *cuts, len(columns) - 1]):
        places = [place for row in drawing.rows[first + 1 : last + 1] for place in row]
        arriving = passing[first] if rows else set()
        highest = min([y[p] - room[p] / 2 for p in places] + [arrivals[p] for p in arriving])
        lowest = max([y[p] + room[p] / 2 for p in places] + [arrivals[p] for p in arriving])
        leaving = sorted(passing[last], key=y.__getitem__) if last < len(columns) - 1 else []
        start = columns[first + 1].entry - (TURN + len(arriving) * LANE if rows else 0.0)
        moved += [ColumnPlace(c.entry - start, c.left - start, c.right - start) for c in columns[first + 1 : last + 1]]
        right = moved[-1].right + (12 + len(leaving) * LANE if leaving else 0.0)
        lanes = {place: lane for lane, place in enumerate(leaving)}
        rows.append(Row(first + 1, last, right, top - highest, top + lowest - highest, lanes))
        top = rows[-1].bottom + 34 + len(leaving) * LANE
    return rows, moved


def _cuts(columns: Sequence[ColumnPlace], passing: Sequence[set[int]]) -> list[int]:
    """The last column of each row but the final one: where the fewest wires pass, in the last third of a full row."""
    cuts: list[int] = []
    start = 0.0
    for column in range(len(columns)):
        if columns[column].right - start > WIDEST_ROW and column - 1 > (cuts[-1] if cuts else -1):
            fits = range((cuts[-1] if cuts else -1) + 1, column)
            late = [c for c in fits if columns[c].right - start > WIDEST_ROW * 0.67] or [fits[-1]]
            cuts.append(min(reversed(late), key=lambda c: len(passing[c])))
            start = columns[cuts[-1] + 1].entry
    return cuts


def _path(
    route: Sequence[int],
    port: float,
    left: float,
    drawing: Layers,
    columns: Sequence[ColumnPlace],
    row_of: dict[int, Row],
    at: Sequence[float],
    arrivals: Sequence[float],
) -> tuple[str, str]:
    x, y = columns[drawing.column[route[0]]].right, at[route[0]]
    trunk, pieces = "", [f"M{x:.1f} {y:.1f}"]
    for place, following in pairwise(route):
        if following == route[-1] and len(route) > 2:
            trunk, pieces = "".join(pieces), [f"M{x:.1f} {y:.1f}"]
        row, next_row = row_of[drawing.column[place]], row_of[drawing.column[following]]
        column = columns[drawing.column[following]]
        if row is not next_row:
            lane = _next_row(row, next_row, place, y, arrivals[place] + next_row.shift, columns)
            pieces.append(lane)
            x, y = columns[next_row.first].entry - TURN + 12, arrivals[place] + next_row.shift
        is_end = following == route[-1]
        height = at[following] + (port if is_end else 0.0)
        turn = (column.entry - x) / 2
        if abs(height - y) < 0.05:
            pieces.append(f"H{column.entry:.1f}")
        else:
            pieces.append(f"C{x + turn:.1f} {y:.1f} {x + turn:.1f} {height:.1f} {column.entry:.1f} {height:.1f}")
        x, y = column.right, height
        pieces.append(f"H{left - 2 if is_end else x:.1f}")
    return trunk, "".join(pieces)


def _next_row(row: Row, next_row: Row, place: int, start: float, arrival: float, columns: Sequence[ColumnPlace]) -> str:
    """From the end of a row round to the start of the next. The topmost wire goes outside on the right and inside
    on the left, so that these wires do not cross one another."""
    lane, n = row.lanes[place], len(row.lanes)
    right = columns[row.last].right + 12 + (n - lane - 1) * LANE
    between = row.bottom + 17 + (n - lane - 1) * LANE
    left = columns[next_row.first].entry - TURN - lane * LANE
    r = 6.0
    return (
        f"H{right - r:.1f}Q{right:.1f} {start:.1f} {right:.1f} {start + r:.1f}"
        f"V{between - r:.1f}Q{right:.1f} {between:.1f} {right - r:.1f} {between:.1f}"
        f"H{left + r:.1f}Q{left:.1f} {between:.1f} {left:.1f} {between + r:.1f}"
        f"V{arrival - r:.1f}Q{left:.1f} {arrival:.1f} {left + r:.1f} {arrival:.1f}"
        f"H{columns[next_row.first].entry - TURN + 12:.1f}"
    )


class Pull(NamedTuple):
    """Where a wire wants a place to be: `shift` from where the other place is."""

    other: int
    shift: float
    weight: float


def heights(
    drawing: Layers, rooms: Sequence[float], shifts: Sequence[float], gap: float, bend_gap: float
) -> list[float]:
    """The middle of each place, from the top: as straight as its wires allow, and never on another.

    One column at a time is set as well as it can be for its neighbours, with the least room between its places as a
    bound: an isotonic regression, solved by pooling adjacent violators. First squared distances spread the boxes, then
    plain distances let the wires that can be straight become straight.

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
            settled = _pool_wishes(wanted, has_means=sweep < SPREADING)
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


def _pool_wishes(wanted: Sequence[list[tuple[float, float]]], has_means: bool) -> list[float]:
    """Numbers that never fall, as near as possible to the wishes [(number, weight), ...] of each.

    >>> _pool_wishes([[(1.0, 1.0)], [(5.0, 1.0)], [(3.0, 1.0)]], has_means=True)
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
