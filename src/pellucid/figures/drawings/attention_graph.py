"""Attention as a graph of who hears whom: tokens are vertices, and an arrow goes from who is heard to who hears.

The weight of an arrow is the part of its hearer's attention; all arrows that reach a vertex, with what it takes of
itself, sum to 1. Self-attention stands in one row, arrows that go on above it and those that go back below; where one
sequence asks another, those who are asked stand above.
"""

import math

from pellucid.figures.charts.matrix import Rows, is_dark, weight_colour, weight_key
from pellucid.figures.charts.svg import INK, PAPER, QUIET, escape_text, move_marks, shade, svg_text
from pellucid.figures.drawings.attention_maps import MOST_TOKENS
from pellucid.figures.drawings.bigram_graph import Point, bent_arrow
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, percent, token_label
from pellucid.records import Attended, AttentionGraph

RADIUS, PITCH, APART = 17.0, 58.0, 190.0  # of the circles, and how far they and two rows of them stand apart
RISE, BEND = 26.0, 0.46  # how high the bends of an arrow stand: at least, and for each unit of its length
THINNEST, THICKEST = 1.0, 7.0
GAP, ROW_GAP, HEADING, WIDEST = 60.0, 34.0, 30.0, 1280.0


def draw_attention_graph(seen: AttentionGraph) -> Picture:
    """A graph for each head that was chosen, those of one layer side by side where there is room."""
    marks = weight_key()
    if any([_is_of_one_row(part) for part in seen.maps.parts]):
        marks.append(svg_text(310, 17, "in a circle: what it takes of itself", QUIET))
    top, widest = 46.0, 560.0
    for part in seen.maps.parts:
        if len(seen.maps.parts) > 1:
            marks.append(svg_text(0, top + 14, part.name, INK, is_bold=True, size=19))
            top += 34
        left = bottom = 0.0
        chosen = [(layer, head) for layer in seen.layers for head in seen.heads]
        room = _room(part, [_edges(part, *one, seen.least) for one in chosen])
        for layer, head in chosen:
            one, width, height = _draw_graph(part, layer, head, seen.least, room)
            if left and left + width > WIDEST:
                left, top = 0.0, top + bottom + ROW_GAP
                bottom = 0.0
            marks += move_marks(one, left, top)
            left, bottom, widest = left + width + GAP, max(bottom, height), max(widest, left + width)
        top += bottom + ROW_GAP
    title = "Who hears whom: attention as a graph"
    return picture(title, _captions(seen), marks, widest, top - ROW_GAP)


def _edges(part: Attended, layer: int, head: int, least: float) -> list[tuple[float, int, int]]:
    """Weight, who is heard and who hears, of the tokens that are drawn; the strongest last."""
    weights = [row[-MOST_TOKENS:] for row in part.layers[layer][head][-MOST_TOKENS:]]
    is_one_row = _is_of_one_row(part)
    return sorted(
        [
            (weight, heard, hearer)
            for hearer, row in enumerate(weights)
            for heard, weight in enumerate(row)
            if weight >= least and weight > 0 and not (is_one_row and heard == hearer)
        ]
    )


def _room(part: Attended, graphs: list[list[tuple[float, int, int]]]) -> tuple[float, float]:
    """What the arrows of all graphs need above the row of tokens and below it, so that all rows stand alike."""
    if not _is_of_one_row(part):
        return 0.0, APART
    lengths = [hearer - heard for edges in graphs for _, heard, hearer in edges]
    on, back = max([0, *lengths]), -min([0, *lengths])
    # A cubic curve rises to three quarters of the height of its bends.
    above, below = [0.75 * (RISE + BEND * PITCH * length) if length else 0.0 for length in (on, back)]
    return above, below


def _draw_graph(
    part: Attended, layer: int, head: int, least: float, room: tuple[float, float]
) -> tuple[list[str], float, float]:
    """The marks of one head, and how wide and high they are."""
    askers, asked = [[token_label(token) for token in tokens[-MOST_TOKENS:]] for tokens in (part.askers, part.asked)]
    weights = [row[-MOST_TOKENS:] for row in part.layers[layer][head][-MOST_TOKENS:]]
    is_one_row, edges = _is_of_one_row(part), _edges(part, layer, head, least)
    above, below = room
    middle = HEADING + above + RADIUS
    arrows = []
    for weight, heard, hearer in edges:
        start, end = Point(heard * PITCH, 0.0), Point(hearer * PITCH, 0.0 if is_one_row else APART)
        if is_one_row:
            rise = math.copysign(RISE, start.x - end.x) - BEND * (end.x - start.x)  # on: above; back: below
            bends = Point(start.x + (end.x - start.x) * 0.2, rise), Point(end.x - (end.x - start.x) * 0.2, rise)
        else:
            bends = Point(start.x, APART * 0.4), Point(end.x, APART * 0.6)
        arrow = bent_arrow(start, RADIUS, bends, end, RADIUS + 1)
        says = f"{askers[hearer]} (place {hearer + 1}) hears {asked[heard]} (place {heard + 1}): {percent(weight)}"
        drawn = arrow.marks(shade(weight), THINNEST + (THICKEST - THINNEST) * weight)
        arrows.append(f'<g class="edge"><title>{escape_text(says)}</title>{drawn}</g>')
    marks = [*arrows]
    for i, name in enumerate(asked):
        marks += _vertex(Point(i * PITCH, 0.0), name, weights[i][i] if is_one_row else None)
    for i, name in enumerate([] if is_one_row else askers):
        marks += _vertex(Point(i * PITCH, APART), name, None)
    width = PITCH * (max(len(askers), len(asked)) - 1) + 2 * RADIUS
    words = f"layer {layer + 1}, head {head + 1}: {count_of(len(edges), 'arrow')}"
    heading = svg_text(0, 16, words, INK, is_bold=True)
    return [heading, *move_marks(marks, RADIUS, middle)], max(width, 230.0), middle + below + RADIUS + 4


def _vertex(at: Point, name: str, own: float | None) -> list[str]:
    """A token in its circle; the darker, the more it takes of itself."""
    fill = PAPER if own is None else weight_colour(own)
    ink = PAPER if is_dark(fill) else INK
    says = name if own is None else f"{name}: {percent(own)} of itself"
    size = 17.0 if len(name) < 3 else 17.0 * 2.6 / len(name)
    return [
        f'<g class="vertex"><title>{escape_text(says)}</title><circle cx="{at.x:.1f}" cy="{at.y:.1f}" r="{RADIUS}" '
        f'fill="{fill}" stroke="{QUIET}" stroke-width="1.6"/>',
        svg_text(at.x, at.y + size * 0.35, name, ink, align="middle", size=round(size, 1)),
        "</g>",
    ]


def _is_of_one_row(part: Attended) -> bool:
    return part.askers == part.asked


def _captions(seen: AttentionGraph) -> list[str]:
    said = [
        f"{seen.maps.source}. An arrow goes from who is heard to who hears; the thicker and darker, the more. "
        f"Drawn from {percent(seen.least)} on."
    ]
    for part in seen.maps.parts:
        lead = f"{part.name[:1].upper()}{part.name[1:]}: " if len(seen.maps.parts) > 1 else ""
        said.append(lead + " ".join(_in_words(part, seen)))
    longest = max([len(tokens) for part in seen.maps.parts for tokens in (part.askers, part.asked)])
    if longest > MOST_TOKENS:
        said.append(f"Drawn: the last {MOST_TOKENS} of {longest:,} tokens.")
    return said


def _in_words(part: Attended, seen: AttentionGraph) -> list[str]:
    """Who is heard most by others, of the heads that are drawn, and how much of all weight the arrows hold."""
    maps = [part.layers[layer][head] for layer in seen.layers for head in seen.heads]
    is_one_row = _is_of_one_row(part)
    heard = [
        math.fsum([heard_by_others(weights, place, is_one_row) for weights in maps]) for place in range(len(part.asked))
    ]
    most = max(range(len(heard)), key=lambda place: heard[place])
    of_others = [
        weight
        for weights in maps
        for hearer, row in enumerate(weights)
        for place, weight in enumerate(row)
        if not (is_one_row and place == hearer)
    ]
    total, shown = math.fsum(of_others), math.fsum([weight for weight in of_others if weight >= seen.least])
    if not total:
        return ["Nobody hears another."]
    return [
        f"The arrows hold {percent(shown, total)} of what is heard of others.",
        f"Heard most: {token_label(part.asked[most])} at place {most + 1}, {percent(heard[most], total)} of it.",
    ]


def heard_by_others(weights: Rows, place: int, is_one_row: bool) -> float:
    """What all hearers take of the token at a place; itself is not asked where both are one row.

    >>> heard_by_others([[1.0, 0.0], [0.75, 0.25]], 0, is_one_row=True)
    0.75
    """
    return math.fsum([row[place] for hearer, row in enumerate(weights) if not (is_one_row and hearer == place)])


FIGURE = FigureCard(
    name="attention-graph",
    summary="Who hears whom: tokens as vertices and an arrow for each weight of attention, head by head.",
    needs=AttentionGraph,
    draw=draw_attention_graph,
    options=("input", "seed", "layer", "head", "least"),
)
