"""Digits to print house numbers with: the font that Pillow carries, and two of our own drawn with lines and arcs."""

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

GLYPH_HEIGHT = 64

# Strokes of each digit in a box 2 wide and 4 high, y downwards: lines as points, arcs as (x0, y0, x1, y1, from, to) in
# degrees clockwise from three o'clock.
_ROUND: dict[str, tuple[tuple[float, ...], ...]] = {
    "0": ((0, 0, 2, 4, 0, 360),),
    "1": ((0.3, 0.8, 1.1, 0.0), (1.1, 0.0, 1.1, 4.0)),
    "2": ((0, 0, 2, 2, 180, 385), (1.88, 1.45, 0.0, 4.0), (0.0, 4.0, 2.0, 4.0)),
    "3": ((0, 0, 1.9, 2, 200, 450), (0, 1.9, 2, 4, 270, 520)),
    "4": ((1.4, 4.0, 1.4, 0.0), (1.4, 0.0, 0.0, 2.8), (0.0, 2.8, 2.0, 2.8)),
    "5": ((1.8, 0.0, 0.3, 0.0), (0.3, 0.0, 0.15, 1.8), (0, 1.45, 2, 4, 215, 510)),
    "6": ((0, 1.7, 2, 4, 0, 360), (0.02, 2.8, 1.35, 0.0)),
    "7": ((0.0, 0.0, 2.0, 0.0), (2.0, 0.0, 0.7, 4.0)),
    "8": ((0.15, 0, 1.85, 1.9, 0, 360), (0, 1.9, 2, 4, 0, 360)),
    "9": ((0, 0, 2, 2.3, 0, 360), (1.98, 1.2, 0.65, 4.0)),
}
_CORNERS: dict[str, tuple[tuple[float, ...], ...]] = {
    "0": ((0, 0, 2, 0), (2, 0, 2, 4), (2, 4, 0, 4), (0, 4, 0, 0)),
    "1": ((0.4, 0.6, 1, 0), (1, 0, 1, 4), (0.3, 4, 1.7, 4)),
    "2": ((0, 0, 2, 0), (2, 0, 2, 2), (2, 2, 0, 2), (0, 2, 0, 4), (0, 4, 2, 4)),
    "3": ((0, 0, 2, 0), (2, 0, 2, 4), (2, 4, 0, 4), (0.5, 2, 2, 2)),
    "4": ((0, 0, 0, 2), (0, 2, 2, 2), (2, 0, 2, 4)),
    "5": ((2, 0, 0, 0), (0, 0, 0, 2), (0, 2, 2, 2), (2, 2, 2, 4), (2, 4, 0, 4)),
    "6": ((2, 0, 0, 0), (0, 0, 0, 4), (0, 4, 2, 4), (2, 4, 2, 2), (2, 2, 0, 2)),
    "7": ((0, 0, 2, 0), (2, 0, 1, 4)),
    "8": ((0, 0, 2, 0), (2, 0, 2, 4), (2, 4, 0, 4), (0, 4, 0, 0), (0, 2, 2, 2)),
    "9": ((0, 4, 2, 4), (2, 4, 2, 0), (2, 0, 0, 0), (0, 0, 0, 2), (0, 2, 2, 2)),
}


@lru_cache(maxsize=1)
def glyphs() -> list[list["Picture"]]:
    """Faces of ten digits each, white on black, all of one height: three weights of each font."""
    faces = [[_printed(str(digit), stroke) for digit in range(10)] for stroke in (0, 2, 4)]
    for strokes in (_ROUND, _CORNERS):
        faces += [[_drawn(strokes[str(digit)], width) for digit in range(10)] for width in (7, 11, 15)]
    return faces


def _printed(digit: str, stroke: int) -> "Picture":
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=80)
    page = Image.new("L", (160, 160))
    ImageDraw.Draw(page).text((40, 20), digit, fill=255, font=font, stroke_width=stroke)
    return _cut(page)


def _drawn(strokes: tuple[tuple[float, ...], ...], width: int) -> "Picture":
    """Strokes with round ends, drawn at four times the size and averaged down."""
    from PIL import Image, ImageDraw

    unit, edge, pen = 64, 48, width * 4
    page = Image.new("L", (2 * unit + 2 * edge, 4 * unit + 2 * edge))
    draw = ImageDraw.Draw(page)
    for stroke in strokes:
        if len(stroke) == 6:
            x0, y0, x1, y1, begin, end = stroke
            outer = [edge + unit * at + side * pen / 2 for at, side in ((x0, -1), (y0, -1), (x1, 1), (y1, 1))]
            draw.arc((outer[0], outer[1], outer[2], outer[3]), begin, end, fill=255, width=pen)
            continue
        points = [(edge + stroke[i] * unit, edge + stroke[i + 1] * unit) for i in (0, 2)]
        draw.line(points, fill=255, width=pen)
        for x, y in points:
            draw.ellipse((x - pen / 2, y - pen / 2, x + pen / 2, y + pen / 2), fill=255)
    return _cut(page)


def _cut(page: "Picture") -> "Picture":
    """The ink alone, at the height of all glyphs."""
    from PIL import Image

    box = page.getbbox()
    assert box is not None
    ink = page.crop(box)
    return ink.resize((max(8, round(ink.width * GLYPH_HEIGHT / ink.height)), GLYPH_HEIGHT), Image.Resampling.LANCZOS)
