"""What the class token of a vision transformer attends to in an image: in each head, and through all layers."""

from collections.abc import Callable, Sequence

from pellucid.figures.charts.matrix import heat_map, part_key
from pellucid.figures.charts.panel import even_places
from pellucid.figures.charts.svg import INK, QUIET, move_marks, pixel_image, shade, svg_text
from pellucid.figures.drawings.attention_maps import drawn_heads_words, maps_in_lines
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import percent
from pellucid.records import PatchAttention

SIDE, GAP, LINE_GAP, HEADING = 190.0, 34.0, 30.0, 26.0
MOST_LAYERS = MOST_HEADS = 4
PER_LINE = 4


def draw_patch_attention(seen: PatchAttention) -> Picture:
    """The image and the rollout first, then a map of the patches for each head."""
    marks = part_key("weight: 0", "the largest of each map")
    marks += move_marks(_image(seen), 0, 40)
    marks += move_marks(_map(seen, seen.rollout, "rollout, all layers"), SIDE + GAP, 40)
    left = 2 * (SIDE + GAP) + GAP
    layers = even_places(len(seen.layers), MOST_LAYERS)
    heads = even_places(len(seen.layers[0]), MOST_HEADS)
    lines = maps_in_lines(layers, heads, PER_LINE)
    for y, line in enumerate(lines):
        for x, (layer, head) in enumerate(line):
            one = _map(seen, seen.layers[layer][head], f"layer {layer + 1}, head {head + 1}")
            marks += move_marks(one, left + x * (SIDE + GAP), 40 + y * (SIDE + HEADING + 32 + LINE_GAP))
    width = left + max([len(line) for line in lines]) * (SIDE + GAP) - GAP
    height = 40 + len(lines) * (SIDE + HEADING + 32 + LINE_GAP) - LINE_GAP
    title = "What the class token of a vision transformer attends to"
    return picture(title, _captions(seen, len(layers), len(heads)), marks, width, height)


def _image(seen: PatchAttention) -> list[str]:
    height, width = len(seen.pixels), len(seen.pixels[0])
    scale = SIDE / max(height, width)
    return [
        svg_text(0, 16, "the image", INK, is_bold=True),
        pixel_image(seen.pixels, width * scale, height * scale, y=HEADING),
    ]


def _map(seen: PatchAttention, weights: Sequence[float], heading: str) -> list[str]:
    """The weights of the patches in their places; that of the class token itself is told below."""
    rows, columns = seen.grid
    own, patches = weights[0], weights[1:]
    most = max(patches)
    values = [patches[first : first + columns] for first in range(0, rows * columns, columns)]
    says = [", ".join([percent(weight) for weight in row]) for row in values]
    drawn = heat_map(values, _relative(most), SIDE / max(rows, columns), (), (), says=says)
    below = f"up to {percent(most)}; itself {percent(own)}"
    return [
        svg_text(0, 16, heading, INK, is_bold=True),
        *move_marks(drawn.marks, 0, HEADING),
        svg_text(0, HEADING + drawn.height + 20, below, QUIET),
    ]


def _relative(most: float) -> Callable[[float], str]:
    return lambda weight: shade(weight / most if most else 0.0)


def _captions(seen: PatchAttention, n_layers: int, n_heads: int) -> list[str]:
    rows, columns = seen.grid
    n = rows * columns
    said = [
        f"{seen.source}. It says {seen.answer} with {percent(seen.probability)}"
        f"{f', and it is {seen.truth}' if seen.truth else ''}.",
        f"{rows} × {columns} patches; even attention would give {percent(1 / (n + 1))} to each, and as much to the "
        "class token itself. Each map is coloured by its own largest weight.",
    ]
    place = max(range(n), key=lambda i: seen.rollout[1 + i])
    said.append(
        f"Rollout, the heads' mean of every layer with what the stream keeps: {percent(seen.rollout[0])} stays in "
        f"the class token, and most of the rest, {percent(seen.rollout[1 + place])}, comes from row "
        f"{place // columns + 1}, column {place % columns + 1}."
    )
    if n_layers < len(seen.layers) or n_heads < len(seen.layers[0]):
        said.append(drawn_heads_words(seen.layers, n_layers, n_heads))
    return said


FIGURE = FigureCard(
    name="patch-attention",
    summary="What the class token of a vision transformer attends to in an image, by head and by rollout.",
    needs=PatchAttention,
    draw=draw_patch_attention,
    options=("input", "seed"),
)
