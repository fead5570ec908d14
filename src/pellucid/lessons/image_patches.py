"""Patches: an image cut into the pieces that a vision transformer reads, in the order in which it reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.data.kinds import IMAGE_ENDINGS
from pellucid.errors import PellucidError, quoted
from pellucid.figures.charts.svg import INK, LINE, ORANGE, QUIET, grid_lines, move_marks, pixel_image, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option
from pellucid.records.answers import Colours

if TYPE_CHECKING:
    import numpy

SIDE, GAP, NUMBERS = 440.0, 56.0, 22.0  # of the image, to the row of patches, and for the number above each
MOST_PATCHES = 64
SMALLEST_NUMBERED = 22.0  # the side of a patch of the image that has room for its number


FITTED = 96  # pixels of the side to which a picture of any size is fitted
PATCHES = 4  # on a side, where nothing else is asked for


class ImagePatches(NamedTuple):
    """An image and the patches that it is cut into."""

    source: str
    pixels: Colours
    patch: int  # the side of one, in pixels
    channels: int

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return len(self.pixels) // self.patch, len(self.pixels[0]) // self.patch


@dataclass(frozen=True)
class PatchKnobs:
    source: str = "digits"
    patch: int | None = option(None, "Patch size in pixels; by default a quarter of the image.", minimum=1, maximum=96)
    kind: str = option("", "Read the data as images, whatever they look like.")
    encoding: str = option("utf-8", "Character encoding of the file.")

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: PatchKnobs) -> ImagePatches:
    """An image file, or the first image of a data set, cut into squares of `patch` pixels: a quarter, if not said."""
    from pellucid.data.readers.images import colours_of

    pixels, described = _open_image(knobs.source, knobs.kind, knobs.encoding)
    height, width = pixels.shape[:2]
    side = max(1, min(height, width) // PATCHES) if knobs.patch is None else knobs.patch
    if height % side or width % side:
        sides = [each for each in range(1, min(height, width) + 1) if height % each == 0 and width % each == 0]
        near = min(sides, key=lambda each: (abs(each - side), each))
        raise PellucidError(
            f"patches of {side} pixels do not fill {width}×{height}", fix=f"The nearest side that does is {near}"
        )
    return ImagePatches(described, colours_of(pixels), side, 1 if pixels.ndim == 2 else pixels.shape[2])


def _open_image(source: str, kind: str, encoding: str) -> tuple[numpy.ndarray[Any, Any], str]:
    """The pixels, and what they are of."""
    path = Path(source)
    if path.suffix.lower() in IMAGE_ENDINGS and path.is_file():
        return _fit(path), f"{quoted(path.name)}, fitted to {FITTED}×{FITTED}"
    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ImagesData, PixelsData

    data = open_data(source, kind=kind, encoding=encoding)
    require_kind(data, "images")
    if isinstance(data, PixelsData):
        return data.pixels[0], f"The first image of {data.name}, a {data.classes[data.labels[0]]}"
    assert isinstance(data, ImagesData)
    first = data.files[0]
    return _fit(first.path), f"The first image of {data.name}, a {first.label}, fitted to {FITTED}×{FITTED}"


def _fit(path: Path) -> numpy.ndarray[Any, Any]:
    from pellucid.data.readers.images import decode_image, find_trouble

    content = path.read_bytes()
    *_, trouble = find_trouble(content)
    if trouble:
        raise PellucidError(f"{quoted(path.name)} cannot be read: {trouble}", fix="Give another image")
    return decode_image(content, "rgb", (FITTED, FITTED))


def draw(record: ImagePatches) -> Picture:
    """The image with its cuts on the left; on the right the patches one after another, numbered."""
    rows, columns = record.grid
    cell = SIDE / max(rows, columns)
    marks = [svg_text(0, 18, f"{rows} × {columns} patches", INK, is_bold=True, size=19)]
    marks += move_marks(_cut_image(record, cell), 0, 34)
    shown = min(MOST_PATCHES, rows * columns)
    across = min(8 if shown <= 32 else 16, shown)
    side = min(84.0, 900 / across - 14, (SIDE - NUMBERS) / -(-shown // across) - NUMBERS - 8)
    left = columns * cell + GAP
    marks.append(svg_text(left, 18, "as they are read: one row of tokens", INK, is_bold=True, size=19))
    for i in range(shown):
        x, y = left + i % across * (side + 14), 34 + i // across * (side + NUMBERS + 8)
        marks += move_marks(_one(record, i, side), x, y)
    right = left + max(across * (side + 14) - 14, 330.0)
    return picture(
        "An image as a row of patches", _captions(record, shown), marks, right, 34 + max(rows * cell, SIDE) + 8
    )


def _cut_image(record: ImagePatches, cell: float) -> list[str]:
    rows, columns = record.grid
    lines = grid_lines(columns, rows, cell, cell)
    marks = _image(record.pixels, columns * cell, rows * cell)
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


def _one(record: ImagePatches, i: int, side: float) -> list[str]:
    columns = record.grid[1]
    top, left = i // columns * record.patch, i % columns * record.patch
    pixels = [row[left : left + record.patch] for row in record.pixels[top : top + record.patch]]
    return [
        svg_text(side / 2, 16, str(i + 1), QUIET, align="middle"),
        *move_marks(_image(pixels, side, side), 0, NUMBERS),
    ]


def _image(pixels: Sequence[Sequence[str]], width: float, height: float) -> list[str]:
    return [
        pixel_image(pixels, width, height),
        f'<rect width="{width:.1f}" height="{height:.1f}" fill="none" stroke="{LINE}"/>',
    ]


def _captions(record: ImagePatches, shown: int) -> list[str]:
    rows, columns = record.grid
    side = record.patch
    n, size = rows * columns, side**2 * record.channels
    said = [
        f"{record.source}: {len(record.pixels[0])}×{len(record.pixels)} pixels in patches of {side}×{side}, "
        f"{n} of them, read row by row from the upper left.",
        f"Each is {count_of(size, 'number')} ({side}·{side}·{record.channels}), which one matrix makes a "
        f"token of. With the class token before them a vision transformer reads {n + 1} tokens: {(n + 1) ** 2:,} "
        "weights for each head.",
    ]
    if shown < n:
        said.append(f"Drawn on the right: the first {shown} of {n}.")
    return said


LESSON = Lesson(
    name="patches",
    summary="An image cut into patches, in the order in which a vision transformer reads them.",
    measure=measure,
    draw=draw,
    knobs=PatchKnobs,
    argument="source",
)
