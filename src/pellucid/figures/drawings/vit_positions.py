"""How alike the positions are that a vision transformer learned: for each patch a map of all patches, in its place."""

from pellucid.figures.charts.matrix import balance_key, balanced_colours, heat_map
from pellucid.figures.charts.svg import INK, QUIET, move_marks, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.records import PatchPositions

SIDE, GAP = 720.0, 10.0
MOST = 12  # rows and columns of maps that can still be told apart


def draw_vit_positions(seen: PatchPositions) -> Picture:
    """A grid of grids: where a map stands is the patch it belongs to, and its own square there has a frame."""
    rows, columns = seen.grid
    down, across = min(rows, MOST), min(columns, MOST)
    side = min(160.0, SIDE / max(down, across) - GAP)
    cell = side / max(rows, columns)
    marks = balance_key("cosine: −1", "1")
    for row in range(down):
        for column in range(across):
            cosines = seen.cosines[row * columns + column]
            values = [cosines[first : first + columns] for first in range(0, rows * columns, columns)]
            drawn = heat_map(
                values, balanced_colours(1.0), cell, (), (), says=[f"patch {row + 1}, {column + 1}"] * rows
            )
            own = (
                f'<rect x="{column * cell:.1f}" y="{row * cell:.1f}" width="{cell:.1f}" height="{cell:.1f}" '
                f'fill="none" stroke="{INK}" stroke-width="2"/>'
            )
            marks += move_marks([*drawn.marks, own], 30 + column * (side + GAP), 76 + row * (side + GAP))
    for row in range(down):
        marks.append(svg_text(18, 76 + row * (side + GAP) + side / 2 + 5, str(row + 1), QUIET, align="end"))
    for column in range(across):
        marks.append(svg_text(30 + column * (side + GAP) + side / 2, 66, str(column + 1), QUIET, align="middle"))
    width, height = 30 + across * (side + GAP) - GAP, 76 + down * (side + GAP) - GAP
    title = "What a vision transformer learned about where patches stand"
    return picture(title, _captions(seen, down, across), marks, max(width, 420.0), height)


def _captions(seen: PatchPositions, down: int, across: int) -> list[str]:
    rows, columns = seen.grid
    said = [
        f"{seen.source}. {rows} × {columns} patches: each map shows how alike the position of its own patch (framed) "
        "is to those of all patches.",
        f"The mean cosine is {seen.neighbours:.3f} between patches that touch and {seen.others:.3f} between all "
        "others. Nothing told the network which touch.".replace("-", "−"),
    ]
    if down < rows or across < columns:
        said.append(f"Drawn: the maps of the first {down} rows and {across} columns.")
    return said


FIGURE = FigureCard(
    name="vit-positions",
    summary="How alike the learned positions of a vision transformer's patches are: a grid of grids.",
    needs=PatchPositions,
    draw=draw_vit_positions,
    options=("seed",),
)
