"""Digits as on house numbers: 32×32 gray images, one digit in the centre, its neighbours cut off at the edges."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pellucid.data.kinds import PixelsData
from pellucid.data.sets import DatasetCard, fingerprint_of, require_count

if TYPE_CHECKING:
    import numpy
    from PIL.Image import Image as Picture

SIDE = 32
OVERSAMPLED = 2  # drawn at twice the size, then averaged, so that edges are soft
STRIP = (240, 128)  # room for three digits side by side
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


def load(seed: int = 0, n: int = 2_000) -> PixelsData:
    """n images with their digits; as many as you like, and image i depends on the seed and on i alone."""
    import numpy

    require_count(n, "images", most=2_000_000)
    labels = _draws(seed, 0).integers(0, 10, n)
    pixels = numpy.empty((n, SIDE, SIDE), dtype=numpy.uint8)
    # One stream for each purpose: a longer set begins with the shorter one.
    shape = _draws(seed, 1).random((n, 12))
    light = _draws(seed, 2).random((n, 8))
    around = _draws(seed, 3).integers(0, 10, (n, 2))
    grain = _draws(seed, 4)
    for i in range(n):
        noise = grain.standard_normal((SIDE, SIDE), dtype=numpy.float32)
        mask = _mask(int(labels[i]), around[i], shape[i])
        pixels[i] = _lit(mask, light[i], noise)
    return PixelsData(
        name="house-numbers",
        pixels=pixels,
        labels=labels,
        classes=tuple("0123456789"),
        because=f"generated, seed {seed}",
        fingerprint=fingerprint_of(pixels, labels),
    )


def _draws(seed: int, purpose: int) -> "numpy.random.Generator":
    import numpy

    return numpy.random.default_rng([seed, purpose])


def _mask(digit: int, neighbours: "numpy.ndarray[Any, Any]", u: "numpy.ndarray[Any, Any]") -> "Picture":
    """Where the paint is: the digit and what is left of its neighbours, slanted, turned, stretched and shifted."""
    import math

    from PIL import Image

    faces = glyphs()
    face = faces[int(u[0] * len(faces))]
    strip = Image.new("L", STRIP)
    middle = face[digit]
    left = (STRIP[0] - middle.width) // 2
    top = (STRIP[1] - GLYPH_HEIGHT) // 2
    gap = int(2 + 12 * u[1])
    strip.paste(middle, (left, top))
    if u[2] < 0.75:
        other = face[int(neighbours[0])]
        strip.paste(other, (left - gap - other.width, top + round(6 * (u[10] - 0.5))))
    if u[3] < 0.75:
        strip.paste(face[int(neighbours[1])], (left + middle.width + gap, top + round(6 * (u[11] - 0.5))))
    height = (19 + 10 * u[4]) * OVERSAMPLED  # of the digit, in pixels of the canvas
    scale_y = GLYPH_HEIGHT / height
    scale_x = scale_y / (0.8 + 0.45 * u[5])
    turn = math.radians(14 * (u[6] - 0.5))
    slant = 0.5 * (u[7] - 0.5) if u[7] < 0.5 else 0.0
    size = SIDE * OVERSAMPLED
    dx, dy = 4 * OVERSAMPLED * (u[8] - 0.5), 4 * OVERSAMPLED * (u[9] - 0.5)
    a, b = scale_x * math.cos(turn), scale_x * (math.sin(turn) - slant)
    c, d = -scale_y * math.sin(turn), scale_y * math.cos(turn)
    centre = size / 2
    x0 = STRIP[0] / 2 - a * (centre + dx) - b * (centre + dy)
    y0 = STRIP[1] / 2 - c * (centre + dx) - d * (centre + dy)
    canvas = strip.transform((size, size), Image.Transform.AFFINE, (a, b, x0, c, d, y0), Image.Resampling.BILINEAR)
    return canvas.resize((SIDE, SIDE), Image.Resampling.BOX)


def _lit(mask: "Picture", u: "numpy.ndarray[Any, Any]", noise: "numpy.ndarray[Any, Any]") -> "numpy.ndarray[Any, Any]":
    """Paint on a wall: two gray levels, light from one side, sometimes a shadow, blur and grain."""
    import numpy
    from PIL import ImageFilter

    wall = 40 + 175 * u[0]
    contrast = 35 + 130 * u[1] ** 1.5
    is_dark = u[2] < 0.5
    if not 15 <= (wall - contrast if is_dark else wall + contrast) <= 240:
        is_dark = not is_dark
    paint = wall - contrast if is_dark else wall + contrast
    blur = float(0.3 + 1.1 * u[3] ** 2)
    covered = numpy.asarray(mask.filter(ImageFilter.GaussianBlur(blur)), dtype=numpy.float32) / 255
    picture = wall + (paint - wall) * covered
    if u[4] < 0.3:
        # A shadow down to the right, darker than the wall.
        cast = numpy.roll(covered, (1, 1), axis=(0, 1)) * (1 - covered)
        cast[0], cast[:, 0] = 0, 0
        picture = picture - 0.45 * contrast * cast
    ramp = numpy.linspace(-1, 1, SIDE, dtype=numpy.float32)
    picture = picture + 40 * (u[5] - 0.5) * ramp[None, :] + 40 * (u[6] - 0.5) * ramp[:, None]
    picture = picture + (1 + 9 * u[7] ** 2) * noise
    levels: numpy.ndarray[Any, Any] = numpy.clip(numpy.rint(picture), 0, 255).astype(numpy.uint8)
    return levels


@lru_cache(maxsize=1)
def glyphs() -> list[list["Picture"]]:
    """Faces of ten digits each, white on black, all of one height: three weights of each font."""
    faces = [[_print_digit(str(digit), stroke) for digit in range(10)] for stroke in (0, 2, 4)]
    for strokes in (_ROUND, _CORNERS):
        faces += [[_draw_strokes(strokes[str(digit)], width) for digit in range(10)] for width in (7, 11, 15)]
    return faces


def _print_digit(digit: str, stroke: int) -> "Picture":
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=80)
    page = Image.new("L", (160, 160))
    ImageDraw.Draw(page).text((40, 20), digit, fill=255, font=font, stroke_width=stroke)
    return _crop_ink(page)


def _draw_strokes(strokes: tuple[tuple[float, ...], ...], width: int) -> "Picture":
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
    return _crop_ink(page)


def _crop_ink(page: "Picture") -> "Picture":
    """The ink alone, at the height of all glyphs."""
    from PIL import Image

    box = page.getbbox()
    assert box is not None
    ink = page.crop(box)
    return ink.resize((max(8, round(ink.width * GLYPH_HEIGHT / ink.height)), GLYPH_HEIGHT), Image.Resampling.LANCZOS)


DATASET = DatasetCard(
    name="house-numbers",
    kind="images",
    summary="32×32 gray images of digits as on house numbers, with neighbours cut off at the edges; unlimited",
    source="drawn by pellucid in the form of SVHN (Netzer et al. 2011): the font of Pillow and two of our own, with "
    "changing weight, width, slant, turn, contrast, shadow, blur and grain; no photograph is in it",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
