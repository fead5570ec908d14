"""An image cut into patches, in the order in which a vision transformer reads them."""

from collections.abc import Sequence

from pellucid.figures.charts.images import pixel_image
from pellucid.figures.charts.svg import INK, LINE, ORANGE, QUIET, lettered, moved
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.numbers import counted
from pellucid.records import PatchesShown

SIDE, GAP, NUMBERS = 440.0, 56.0, 22.0  # of the image, to the row of patches, and for the number above each
MOST_PATCHES = 64
SMALLEST_NUMBERED = 22.0  # the side of a patch of the image that has room for its number


def draw_patches(seen: PatchesShown) -> Picture:
    """The image with its cuts on the left; on the right the patches one after another, numbered."""
    rows, columns = seen.grid
    cell = SIDE / max(rows, columns)
    marks = [lettered(0, 18, f"{rows} × {columns} patches", INK, is_bold=True, size=19)]
    marks += moved(_cut(seen, cell), 0, 34)
    shown = min(MOST_PATCHES, rows * columns)
    across = min(8 if shown <= 32 else 16, shown)
    side = min(84.0, 900 / across - 14, (SIDE - NUMBERS) / -(-shown // across) - NUMBERS - 8)
    left = columns * cell + GAP
    marks.append(lettered(left, 18, "as they are read: one row of tokens", INK, is_bold=True, size=19))
    for i in range(shown):
        x, y = left + i % across * (side + 14), 34 + i // across * (side + NUMBERS + 8)
        marks += moved(_one(seen, i, side), x, y)
    right = left + max(across * (side + 14) - 14, 330.0)
    return picture(
        "An image as a row of patches", _captions(seen, shown), marks, right, 34 + max(rows * cell, SIDE) + 8
    )


def _cut(seen: PatchesShown, cell: float) -> list[str]:
    rows, columns = seen.grid
    lines = "".join([f"M{x * cell:.1f} 0v{rows * cell:.1f}" for x in range(1, columns)])
    lines += "".join([f"M0 {y * cell:.1f}h{columns * cell:.1f}" for y in range(1, rows)])
    marks = [*_image(seen.pixels, columns * cell, rows * cell)]
    marks.append(f'<path d="{lines}" stroke="{ORANGE}" stroke-width="2.5" fill="none"/>')
    size = min(20.0, cell * 0.4)
    for i in range(rows * columns if cell >= SMALLEST_NUMBERED else 0):
        x, y = i % columns * cell + 4, i // columns * cell + size
        # Light letters with a dark edge: they are read on any picture.
        marks.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:.0f}" font-weight="600" fill="#ffffff" stroke="{INK}" '
            f'stroke-width="{size * 0.15:.1f}" paint-order="stroke">{i + 1}</text>'
        )
    return marks


def _one(seen: PatchesShown, i: int, side: float) -> list[str]:
    columns = seen.grid[1]
    top, left = i // columns * seen.patch, i % columns * seen.patch
    pixels = [row[left : left + seen.patch] for row in seen.pixels[top : top + seen.patch]]
    return [
        lettered(side / 2, 16, str(i + 1), QUIET, align="middle"),
        *moved(_image(pixels, side, side), 0, NUMBERS),
    ]


def _image(pixels: Sequence[Sequence[str]], width: float, height: float) -> list[str]:
    return [
        pixel_image(pixels, width, height),
        f'<rect width="{width:.1f}" height="{height:.1f}" fill="none" stroke="{LINE}"/>',
    ]


def _captions(seen: PatchesShown, shown: int) -> list[str]:
    rows, columns = seen.grid
    n, size = rows * columns, seen.patch**2 * seen.channels
    said = [
        f"{seen.source}: {len(seen.pixels[0])}×{len(seen.pixels)} pixels in patches of {seen.patch}×{seen.patch}, "
        f"{n} of them, read row by row from the upper left.",
        f"Each is {counted(size, 'number')} ({seen.patch}·{seen.patch}·{seen.channels}), which one matrix makes a "
        f"token of. With the class token before them a vision transformer reads {n + 1} tokens: {(n + 1) ** 2:,} "
        "weights for each head.",
    ]
    if shown < n:
        said.append(f"Drawn on the right: the first {shown} of {n}.")
    return said


FIGURE = FigureCard(
    name="patches",
    says="An image cut into patches (--patch 4), in the order in which a vision transformer reads them.",
    needs=PatchesShown,
    draw=draw_patches,
    options=("--patch",),
    tiny=PatchesShown(
        "a tiny image",
        (("#000000", "#ffffff", "#ff8800", "#0088ff"), ("#ffffff", "#000000", "#0088ff", "#ff8800")),
        patch=2,
        channels=3,
    ),
)
