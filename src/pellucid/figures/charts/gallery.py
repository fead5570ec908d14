"""Examples side by side: pictures in a grid, or texts in rows, each with its truth and the answer to it."""

from collections.abc import Sequence
from typing import NamedTuple

from pellucid.figures.charts.gray_image import gray_image
from pellucid.figures.charts.panel import lettered
from pellucid.figures.charts.svg import BLUE, INK, LINE, ORANGE, QUIET
from pellucid.figures.graph.frame import safe
from pellucid.figures.words.answers import chance_words
from pellucid.figures.words.model_facts import cut
from pellucid.records import Answered

WIDTH = 960.0
SIDE, GAP, ACROSS = 140.0, 20.0, 6
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
LETTER = 0.62 * 16  # how wide one is in such a font
LONGEST = 26  # letters of one text


class Drawn(NamedTuple):
    """Marks and how much room they take."""

    marks: list[str]
    height: float


def image_grid(examples: Sequence[Answered]) -> Drawn:
    """Each image in a frame, orange where the answer is wrong, with what it is and what was answered below it."""
    marks = []
    for i, example in enumerate(examples):
        x, y = (i % ACROSS) * (SIDE + GAP), (i // ACROSS) * (SIDE + 78)
        colour = BLUE if example.is_right else ORANGE
        marks.append(f'<g transform="translate({x:.1f} {y:.1f})"><title>{safe(cut(example.what, 80))}</title>')
        marks += [gray_image(example.pixels, 3, 3, SIDE - 6), _frame(0, colour)]
        answer = f"says {cut(example.answer, 11)}"
        marks.append(lettered(0, SIDE + 20, cut(example.truth, 16), INK, is_bold=True))
        marks.append(lettered(0, SIDE + 40, answer, colour))
        sure = "" if example.probability is None else f"{example.probability:.2f}"
        marks.append(lettered(SIDE, SIDE + 40, sure, QUIET, align="end"))
        marks += [lettered(SIDE, SIDE + 20, cut(example.what, 14), QUIET, align="end", size=12), "</g>"]
    return Drawn(marks, -(-len(examples) // ACROSS) * (SIDE + 78) - 30)


def reconstruction_grid(examples: Sequence[Answered]) -> Drawn:
    """Each image above what came back of it."""
    below = SIDE + 8
    marks = []
    for i, example in enumerate(examples):
        x, y = (i % ACROSS) * (SIDE + GAP), (i // ACROSS) * (2 * SIDE + 64)
        marks.append(f'<g transform="translate({x:.1f} {y:.1f})"><title>{safe(cut(example.what, 80))}</title>')
        marks += [gray_image(example.pixels, 3, 3, SIDE - 6), _frame(0, LINE)]
        marks += [gray_image(example.answer_pixels, 3, below + 3, SIDE - 6), _frame(below, BLUE)]
        marks += [lettered(0, 2 * SIDE + 28, cut(example.truth or example.what, 16), INK), "</g>"]
    return Drawn(marks, -(-len(examples) // ACROSS) * (2 * SIDE + 64) - 20)


def _frame(top: float, colour: str) -> str:
    return (
        f'<rect x="1.5" y="{top + 1.5:.1f}" width="{SIDE - 3:.1f}" height="{SIDE - 3:.1f}" fill="none" '
        f'stroke="{colour}" stroke-width="3"/>'
    )


def text_rows(examples: Sequence[Answered], noun: str, *, by_letter: bool) -> Drawn:
    """A row for each: what was read, the truth, and the answer with an orange rule under it where it is wrong.

    by_letter: the rule is under the letters that differ, as of a text; a class is wrong as a whole.
    """
    columns = (0.0, 300.0, 590.0, WIDTH)
    marks = [
        lettered(x, 14, word, QUIET, align=align)
        for x, word, align in zip(
            columns, (noun, "truth", "answer", "probability"), ("start", "start", "start", "end"), strict=True
        )
        if word != "probability" or any(example.probability is not None for example in examples)
    ]
    for i, example in enumerate(examples):
        y = 48 + 32 * i
        marks.append(f'<path d="M0 {y - 22}H{WIDTH:.0f}" stroke="{LINE}"/>')
        texts = [cut(text, LONGEST) or "(empty)" for text in (example.what, example.truth, example.answer)]
        marks += [_spelled(x, y, text) for x, text in zip(columns[:3], texts, strict=True)]
        if not example.is_right:
            beside = texts[1] if by_letter else " " * len(texts[2])
            marks += _differing(columns[2], y, texts[2], beside)
        marks.append(lettered(WIDTH, y, chance_words(example.probability), QUIET, align="end"))
    return Drawn(marks, 48 + 32 * len(examples) - 12)


def _spelled(x: float, y: float, text: str) -> str:
    """The text in letters of one width, so that what stands under them can be told."""
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="16" font-family="{safe(MONO)}" fill="{INK}" '
        f'textLength="{LETTER * len(text):.1f}" xml:space="preserve">{safe(text)}</text>'
    )


def _differing(x: float, y: float, text: str, beside: str) -> list[str]:
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
