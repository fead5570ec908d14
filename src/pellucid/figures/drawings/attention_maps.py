"""What every head of a network attends to: a map for each head and layer, tokens on both axes."""

from collections.abc import Sequence
from typing import NamedTuple

from pellucid.figures.charts.matrix import (
    Rows,
    attention_breadth,
    attention_habit,
    heat_map,
    hundredths,
    weight_colour,
    weight_key,
)
from pellucid.figures.charts.panel import even_places
from pellucid.figures.charts.svg import INK, QUIET, move_marks, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, percent, token_label
from pellucid.records import Attended, AttentionMaps

MOST_HEADS = 4
MOST_TOKENS = 24  # whose labels can still be read
FEW_TOKENS = 12
# Of a map, where there are so many lines of them; and of its squares.
SIDES = {1: 310.0, 2: 250.0}
SMALL_SIDE, LARGEST_CELL, SMALLEST_CELL = 190.0, 44.0, 13.0
COLUMN_GAP, ROW_GAP, PART_GAP, HEADING = 30.0, 30.0, 50.0, 28.0
NARROWEST = 190.0  # what is said below a map needs that much


class _Map(NamedTuple):
    """One map of a part that is drawn."""

    layer: int  # both counted from 1
    head: int
    weights: Rows


def draw_attention_maps(seen: AttentionMaps) -> Picture:
    """A block for each kind of attention, side by side; in it the maps, layer by layer and head by head."""
    is_masked = any([0.0 in row for part in seen.parts for layer in part.layers for head in layer for row in head])
    marks = weight_key("may not be seen" if is_masked else "")
    left, bottom = 0.0, 0.0
    for part in seen.parts:
        block, width, height = _block(part, is_alone=len(seen.parts) == 1)
        marks += move_marks(block, left, 44)
        left, bottom = left + width + PART_GAP, max(bottom, height)
    n = sum([len(layer) for part in seen.parts for layer in part.layers])
    title = (
        f"What the {count_of(n, 'head')} of a network attend to" if n > 1 else "What the head of a network attends to"
    )
    return picture(title, _captions(seen), marks, max(560.0, left - PART_GAP), 44 + bottom)


def _block(part: Attended, *, is_alone: bool) -> tuple[list[str], float, float]:
    askers, asked = [[token_label(token) for token in tokens[-MOST_TOKENS:]] for tokens in (part.askers, part.asked)]
    lines = maps_in_lines(*_drawn_places(part, is_alone=is_alone), per_line=MOST_HEADS if is_alone else 2)
    side = SIDES.get(len(lines), SMALL_SIDE) if is_alone else SMALL_SIDE
    cell = min(LARGEST_CELL, max(SMALLEST_CELL, side / max(len(askers), len(asked))))
    marks = [] if is_alone else [svg_text(0, 20, part.name, INK, is_bold=True, size=19)]
    top, widest = 0.0 if is_alone else 40.0, 0.0
    for line in lines:
        left = bottom = 0.0
        for layer, head in line:
            weights = [row[-MOST_TOKENS:] for row in part.layers[layer][head][-MOST_TOKENS:]]
            says = [_row_words(asker, asked, row) for asker, row in zip(askers, weights, strict=True)]
            # The labels of the rows stand once, at the left: all maps of a line have the same.
            drawn = heat_map(weights, weight_colour, cell, () if left else askers, asked, written=hundredths, says=says)
            one = [
                svg_text(drawn.left, 16, f"layer {layer + 1}, head {head + 1}", INK, is_bold=True),
                *move_marks(drawn.marks, 0, HEADING),
                svg_text(drawn.left, HEADING + drawn.height + 20, _in_short(part, layer, head), QUIET),
            ]
            marks += move_marks(one, left, top)
            left += drawn.left + max(drawn.width - drawn.left, NARROWEST) + COLUMN_GAP
            bottom = max(bottom, HEADING + drawn.height + 26)
        top, widest = top + bottom + ROW_GAP, max(widest, left - COLUMN_GAP)
    return marks, widest, top - ROW_GAP


def _drawn_places(part: Attended, *, is_alone: bool) -> tuple[list[int], list[int]]:
    """Which layers and heads are drawn: fewer where each needs much room."""
    tokens = (*part.askers, *part.asked)
    is_short = max(len(part.askers), len(part.asked)) <= FEW_TOKENS and max([len(token) for token in tokens]) <= 2
    most_layers = 4 if is_alone and is_short else 2
    return even_places(len(part.layers), most_layers), even_places(len(part.layers[0]), MOST_HEADS)


def maps_in_lines(layers: list[int], heads: list[int], per_line: int) -> list[list[tuple[int, int]]]:
    """Which maps stand side by side: those of whole layers, where a line has room for them.

    >>> maps_in_lines([0, 1], [0, 1], per_line=4)
    [[(0, 0), (0, 1), (1, 0), (1, 1)]]
    >>> maps_in_lines([0, 1], [0, 1, 2], per_line=4)
    [[(0, 0), (0, 1), (0, 2)], [(1, 0), (1, 1), (1, 2)]]
    """
    maps = [(layer, head) for layer in layers for head in heads]
    length = per_line // len(heads) * len(heads) or per_line
    return [maps[first : first + length] for first in range(0, len(maps), length)]


def _row_words(asker: str, asked: list[str], row: list[float] | tuple[float, ...]) -> str:
    """The row's largest weights, for the pointer."""
    ranked = sorted(range(len(row)), key=lambda i: -row[i])[:3]
    return f"{asker} looks at " + ", ".join([f"{asked[i]} {percent(row[i])}" for i in ranked if row[i] > 0])


def _in_short(part: Attended, layer: int, head: int) -> str:
    weights = part.layers[layer][head]
    if not _is_of_one_row(part):
        return f"over {attention_breadth(weights):.1f} of {count_of(len(part.asked), 'token')}"
    found = attention_habit(weights)
    return f"{percent(found.share)} on {found.place}"


def _is_of_one_row(part: Attended) -> bool:
    """Whether those who ask are those who are asked, so that the one before is known."""
    return part.askers == part.asked


def _captions(seen: AttentionMaps) -> list[str]:
    said = [f"{seen.source}. A row for each token that looks, a column for each it looks at; rows sum to 1."]
    for part in seen.parts:
        lead = f"{part.name[:1].upper()}{part.name[1:]}. " if len(seen.parts) > 1 else ""
        said.append(lead + " ".join(_in_words(part)))
    return said + _left_out(seen)


def _in_words(part: Attended) -> list[str]:
    maps = [_Map(i + 1, j + 1, head) for i, layer in enumerate(part.layers) for j, head in enumerate(layer)]
    said = []
    if _is_of_one_row(part):
        most = max(maps, key=lambda one: attention_habit(one.weights).share)
        found = attention_habit(most.weights)
        said.append(
            f"Layer {most.layer}, head {most.head} looks one way most: {percent(found.share)} on {found.place}, "
            f"where even attention would give {percent(found.even)}."
        )
    if len(maps) == 1:
        return [*said, f"The look is over {attention_breadth(maps[0].weights):.1f} tokens: 2 to the mean entropy."]
    by_breadth = sorted(maps, key=lambda one: attention_breadth(one.weights))
    narrow, wide = by_breadth[0], by_breadth[-1]
    said.append(
        f"The narrowest look is over {attention_breadth(narrow.weights):.1f} tokens (layer {narrow.layer}, head "
        f"{narrow.head}), the widest over {attention_breadth(wide.weights):.1f} (layer {wide.layer}, "
        f"head {wide.head}): 2 to the mean entropy."
    )
    return said


def _left_out(seen: AttentionMaps) -> list[str]:
    said = []
    longest = max([len(tokens) for part in seen.parts for tokens in (part.askers, part.asked)])
    if longest > MOST_TOKENS:
        said.append(f"Drawn: the last {MOST_TOKENS} of {longest:,} tokens; all of them are in the numbers above.")
    part = max(seen.parts, key=lambda one: len(one.layers) * len(one.layers[0]))
    layers, heads = _drawn_places(part, is_alone=len(seen.parts) == 1)
    if len(layers) < len(part.layers) or len(heads) < len(part.layers[0]):
        said.append(drawn_heads_words(part.layers, len(layers), len(heads)))
    return said


def drawn_heads_words(layers: Sequence[Sequence[object]], n_layers: int, n_heads: int) -> str:
    """How many layers and heads of all there are were drawn."""
    of_layers, of_heads = count_of(len(layers), "layer"), count_of(len(layers[0]), "head")
    return f"Drawn: {n_layers} of {of_layers} and {n_heads} of {of_heads}, evenly from the first to the last."


FIGURE = FigureCard(
    name="attention-maps",
    summary="What every head of a transformer attends to while it reads a text: a map for each head.",
    needs=AttentionMaps,
    draw=draw_attention_maps,
    options=("input", "seed"),
)
