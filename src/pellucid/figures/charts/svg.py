"""How every picture looks: sizes that can be read from the last row, colours that everyone can tell apart."""

import base64
import io
import math
from collections.abc import Sequence
from html import escape

from pellucid.errors import printable

# All of one width, letter by letter, so that what was measured here fits wherever the picture is opened.
FONT = "Arial, Helvetica, 'Liberation Sans', Arimo, sans-serif"
PAPER, INK, QUIET, LINE = "#fcfcfa", "#1f2933", "#52606d", "#d5dade"
BLUE, ORANGE = "#2a6db0", "#c26a16"  # apart in every common kind of colour blindness
# Apart from each other in the common kinds of colour blindness; after the last one the dashes change.
COLOURS = (BLUE, ORANGE, "#00795c", "#8e4b9e", "#4c5661", "#b3282d", "#3f9fc4", "#8a7a12")
DASHES = ("", "9 5", "2 5", "12 4 2 4")
SIZE = 16.0  # of letters
WIDE = 0.56  # the mean width of a character beside its size, in the fonts that are named
# Light to dark in one hue, so that darker is more for everyone.
SHADES = ("#eaf2fa", "#c6dcf1", "#94bfe4", "#5b9bd1", "#2a6db0", "#124a85", "#08284f")


def depth(n: float, most: float) -> float:
    """Where on the scale of shades a count stands, from 0 to 1. By the root, so that the rare ones are seen too."""
    return math.sqrt(n / most) if most else 0.0


def shade(part: float) -> str:
    """The colour at a depth from 0 to 1.

    >>> shade(0.0), shade(1.0)
    ('#eaf2fa', '#08284f')
    """
    place = part * (len(SHADES) - 1)
    left = min(int(place), len(SHADES) - 2)
    ends = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in SHADES[left : left + 2]]
    mixed = [round(a + (b - a) * (place - left)) for a, b in zip(*ends, strict=True)]
    return "#" + "".join([f"{part:02x}" for part in mixed])


def line_style(i: int) -> tuple[str, str]:
    """A colour and a dash for the i-th of many lines; no two of the first 32 are alike.

    >>> line_style(0), line_style(8)
    (('#2a6db0', ''), ('#2a6db0', '9 5'))
    """
    return COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]


def depth_marks(most: int) -> list[int]:
    """Counts to write beside the scale of shades: round ones between the least and the most.

    >>> depth_marks(6763), depth_marks(2)
    ([1, 400, 2000, 4000, 6763], [1, 2])
    """
    between = [most * part * part for part in (0.25, 0.5, 0.75)]
    rounded = [int(float(f"{count:.1g}")) for count in between if count >= 1]
    return sorted({1, *[count for count in rounded if 1.4 * count < most], most})


def text_width(text: str, size: float) -> float:
    """A width that the text never exceeds: monospaced fonts are at most 0.61 of their size wide, others unknown."""
    return size * sum([0.61 if ord(c) < 0x250 or c == "…" else 1.1 if ord(c) < 0x10000 else 1.5 for c in text])


def escape_text(text: str) -> str:
    """Text that can stand in XML and HTML: nothing in it is read as markup or moves a cursor."""
    return escape("\n".join(printable(line) for line in text.split("\n")))


def svg_text(
    x: float, y: float, text: str, colour: str = INK, *, align: str = "start", is_bold: bool = False, size: float = SIZE
) -> str:
    """Words as SVG."""
    weight = ' font-weight="600"' if is_bold else ""
    anchor = f' text-anchor="{align}"' if align != "start" else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}"{weight}{anchor}>{escape_text(text)}</text>'
    )


def move_marks(marks: Sequence[str], x: float, y: float) -> list[str]:
    """The same marks at another place."""
    return [f'<g transform="translate({x:.1f} {y:.1f})">', *marks, "</g>"]


def tooltip(says: str) -> str:
    """What is told under the pointer, where there is something to tell."""
    return f"<title>{escape_text(says)}</title>" if says else ""


def dashes(pattern: str) -> str:
    """The attribute that makes a line dashed; none where it is whole."""
    return f' stroke-dasharray="{pattern}"' if pattern else ""


def line_key(parts: Sequence[tuple[float, str, str, float, str]], left: float) -> list[str]:
    """What the lines of a chart are: where each stands, its colour, dash, width and words; 24 units high."""
    return [
        mark
        for x, colour, dash, width, words in parts
        for mark in (
            f'<path d="M{left + x} 12h36" stroke="{colour}" stroke-width="{width:g}"{dashes(dash)}/>',
            svg_text(left + x + 44, 17, words, QUIET),
        )
    ]


def pixel_image(
    rows: Sequence[Sequence[str]],
    width: float,
    height: float,
    x: float = 0.0,
    y: float = 0.0,
    *,
    is_photo: bool = True,
) -> str:
    """Rows of colours (such as "#ff8800") as an image of that size, one pixel for each: a few kilobytes for thousands.

    Rows that are too short end in white. is_photo: its colours are those of the data, on a dark page too.
    """
    from PIL import Image

    across = max([len(row) for row in rows], default=1)
    pixels = b"".join([bytes.fromhex("".join(row).replace("#", "")).ljust(3 * across, b"\xff") for row in rows])
    file = io.BytesIO()
    Image.frombytes("RGB", (across, max(1, len(rows))), pixels or b"\xff\xff\xff").save(file, "PNG", optimize=True)
    address = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    at = f'x="{x:.1f}" y="{y:.1f}" ' if x or y else ""
    kind = 'class="photo" ' if is_photo else ""
    # Both words for "do not blend neighbours": one for browsers, one for what makes PNG of it.
    return (
        f'<image {kind}{at}width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'image-rendering="optimizeSpeed" style="image-rendering:pixelated" href="{address}"/>'
    )


def pixel_grid(rows: Sequence[Sequence[str]], wide: float, tall: float) -> list[str]:
    """Rows of colours as cells of that size in a frame, with lines between them where they are large enough."""
    across, down = max([len(row) for row in rows], default=0), len(rows)
    marks = [pixel_image(rows, across * wide, down * tall, is_photo=False)]
    if wide >= 8:
        marks.append(f'<path stroke="{PAPER}" stroke-width="1" d="{grid_lines(across, down, wide, tall)}"/>')
    frame = f'<rect width="{across * wide:.1f}" height="{down * tall:.1f}" fill="none" stroke="{LINE}"/>'
    return [*marks, frame]


def grid_lines(across: int, down: int, wide: float, tall: float) -> str:
    """The lines between cells, as a path."""
    lines = [f"M{x * wide:.1f} 0v{down * tall:.1f}" for x in range(1, across)]
    return "".join(lines + [f"M0 {y * tall:.1f}h{across * wide:.1f}" for y in range(1, down)])
