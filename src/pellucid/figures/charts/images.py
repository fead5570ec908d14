"""Small images inside a picture: one pixel for each colour, and examples side by side with their truth and answer."""

import base64
import io
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from pellucid.figures.charts.svg import BLUE, INK, LINE, ORANGE, QUIET, escape_text, svg_text
from pellucid.figures.words.notation import chance_words, cut_end
from pellucid.records import AnsweredExample

WIDTH = 960.0
SIDE, GAP, ACROSS = 140.0, 20.0, 6
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
LETTER = 0.62 * 16  # how wide one is in such a font
LONGEST = 26  # letters of one text


def pixel_image(rows: Sequence[Sequence[str]], width: float, height: float, x: float = 0.0, y: float = 0.0) -> str:
    """Rows of colours (such as "#ff8800") as an image of that size, one pixel for each: a few kilobytes for thousands.

    Rows that are too short end in white.
    """
    across = max([len(row) for row in rows], default=1)
    pixels = b"".join([bytes.fromhex("".join(row).replace("#", "")).ljust(3 * across, b"\xff") for row in rows])
    file = io.BytesIO()
    Image.frombytes("RGB", (across, max(1, len(rows))), pixels or b"\xff\xff\xff").save(file, "PNG", optimize=True)
    address = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    at = f'x="{x:.1f}" y="{y:.1f}" ' if x or y else ""
    # Both words for "do not blend neighbours": one for browsers, one for what makes PNG of it.
    return (
        f'<image {at}width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'image-rendering="optimizeSpeed" style="image-rendering:pixelated" href="{address}"/>'
    )


def gray_image(pixels: Sequence[Sequence[int]], x: float, y: float, size: float) -> str:
    """A gray image (0 to 255) in a square of that size, its shape kept."""
    width, height = max([len(row) for row in pixels]), len(pixels)
    scale = size / max(width, height)
    colours = [["#" + f"{min(max(gray, 0), 255):02x}" * 3 for gray in row] for row in pixels]
    left, top = x + (size - width * scale) / 2, y + (size - height * scale) / 2
    return pixel_image(colours, width * scale, height * scale, left, top)


class Gallery(NamedTuple):
    """Marks and how much room they take."""

    marks: list[str]
    height: float


def image_grid(examples: Sequence[AnsweredExample]) -> Gallery:
    """Each image in a frame, orange where the answer is wrong, with what it is and what was answered below it."""
    marks = []
    for i, example in enumerate(examples):
        x, y = (i % ACROSS) * (SIDE + GAP), (i // ACROSS) * (SIDE + 78)
        colour = BLUE if example.is_right else ORANGE
        marks.append(
            f'<g transform="translate({x:.1f} {y:.1f})"><title>{escape_text(cut_end(example.what, 80))}</title>'
        )
        marks += [gray_image(example.pixels, 3, 3, SIDE - 6), _frame(0, colour)]
        answer = f"says {cut_end(example.answer, 11)}"
        marks.append(svg_text(0, SIDE + 20, cut_end(example.truth, 16), INK, is_bold=True))
        marks.append(svg_text(0, SIDE + 40, answer, colour))
        sure = "" if example.probability is None else f"{example.probability:.2f}"
        marks.append(svg_text(SIDE, SIDE + 40, sure, QUIET, align="end"))
        marks += [svg_text(SIDE, SIDE + 20, cut_end(example.what, 14), QUIET, align="end", size=12), "</g>"]
    return Gallery(marks, -(-len(examples) // ACROSS) * (SIDE + 78) - 30)


def reconstruction_grid(examples: Sequence[AnsweredExample]) -> Gallery:
    """Each image above what came back of it."""
    below = SIDE + 8
    marks = []
    for i, example in enumerate(examples):
        x, y = (i % ACROSS) * (SIDE + GAP), (i // ACROSS) * (2 * SIDE + 64)
        marks.append(
            f'<g transform="translate({x:.1f} {y:.1f})"><title>{escape_text(cut_end(example.what, 80))}</title>'
        )
        marks += [gray_image(example.pixels, 3, 3, SIDE - 6), _frame(0, LINE)]
        marks += [gray_image(example.answer_pixels, 3, below + 3, SIDE - 6), _frame(below, BLUE)]
        marks += [svg_text(0, 2 * SIDE + 28, cut_end(example.truth or example.what, 16), INK), "</g>"]
    return Gallery(marks, -(-len(examples) // ACROSS) * (2 * SIDE + 64) - 20)


def _frame(top: float, colour: str) -> str:
    return (
        f'<rect x="1.5" y="{top + 1.5:.1f}" width="{SIDE - 3:.1f}" height="{SIDE - 3:.1f}" fill="none" '
        f'stroke="{colour}" stroke-width="3"/>'
    )


def text_rows(examples: Sequence[AnsweredExample], noun: str, *, by_letter: bool) -> Gallery:
    """A row for each: what was read, the truth, and the answer with an orange rule under it where it is wrong.

    by_letter: the rule is under the letters that differ, as of a text; a class is wrong as a whole.
    """
    columns = (0.0, 300.0, 590.0, WIDTH)
    marks = [
        svg_text(x, 14, word, QUIET, align=align)
        for x, word, align in zip(
            columns, (noun, "truth", "answer", "probability"), ("start", "start", "start", "end"), strict=True
        )
        if word != "probability" or any(example.probability is not None for example in examples)
    ]
    for i, example in enumerate(examples):
        y = 48 + 32 * i
        marks.append(f'<path d="M0 {y - 22}H{WIDTH:.0f}" stroke="{LINE}"/>')
        texts = [cut_end(text, LONGEST) or "(empty)" for text in (example.what, example.truth, example.answer)]
        marks += [_mono_text(x, y, text) for x, text in zip(columns[:3], texts, strict=True)]
        if not example.is_right:
            beside = texts[1] if by_letter else " " * len(texts[2])
            marks += _mark_differences(columns[2], y, texts[2], beside)
        marks.append(svg_text(WIDTH, y, chance_words(example.probability), QUIET, align="end"))
    return Gallery(marks, 48 + 32 * len(examples) - 12)


def _mono_text(x: float, y: float, text: str) -> str:
    """The text in letters of one width, so that what stands under them can be told."""
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="16" font-family="{escape_text(MONO)}" fill="{INK}" '
        f'textLength="{LETTER * len(text):.1f}" xml:space="preserve">{escape_text(text)}</text>'
    )


def _mark_differences(x: float, y: float, text: str, beside: str) -> list[str]:
    """A rule under each letter that differs from the one beside it, a dotted one where letters are missing."""
    marks = []
    for i, letter in enumerate(text):
        if beside[i : i + 1] != letter:
            at = x + LETTER * i
            marks.append(f'<path d="M{at:.1f} {y + 6}h{LETTER:.1f}" stroke="{ORANGE}" stroke-width="3"/>')
    n_missing = len(beside) - len(text)
    if n_missing > 0:
        at = x + LETTER * len(text)
        marks.append(
            f'<path d="M{at:.1f} {y + 6}h{LETTER * n_missing:.1f}" stroke="{ORANGE}" stroke-width="3" '
            'stroke-dasharray="3 3"/>'
        )
    return marks
