"""A few examples with their truth and what a network answered, the wrong ones first."""

from collections.abc import Sequence

from pellucid.errors import PellucidError
from pellucid.figures.charts.svg import (
    BLUE,
    INK,
    LINE,
    ORANGE,
    QUIET,
    escape_text,
    move_marks,
    pixel_image,
    svg_text,
    tooltip,
)
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.answers import example_noun, judged_words, metrics_words, source_noun
from pellucid.figures.words.notation import chance_words, count_of, cut_end
from pellucid.records import AnsweredExample, TrainingReport

MOST_IMAGES, MOST_ROWS = 24, 20
WIDTH = 960.0
SIDE, GAP, ACROSS = 140.0, 20.0, 6
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
LETTER = 0.62 * 16  # how wide one is in such a font
LONGEST = 26  # letters of one text


def draw_mistakes(seen: TrainingReport) -> Picture:
    """Images in a grid; rows and pairs as text, where the letters that differ are marked."""
    examples = seen.answers.examples if seen.answers and seen.data.task != "reconstruction" else ()
    if not examples:
        raise PellucidError(
            f"the run {seen.name} answers nothing that could be right or wrong",
            fix="Draw loss-curves, which every run has",
        )
    with_pixels = [example for example in examples if example.pixels]
    shown = with_pixels[:MOST_IMAGES] or list(examples[:MOST_ROWS])
    marks, height = (
        _image_grid(shown)
        if with_pixels
        else _text_rows(shown, source_noun(seen.data.kind), by_letter=seen.data.kind == "pairs")
    )
    wrong = sum([not example.is_right for example in shown])
    title = f"What the {seen.network.name} gets wrong" if wrong else f"What the {seen.network.name} answers"
    return picture(title, _captions(seen, len(shown), wrong), marks, WIDTH, height)


def _image_grid(examples: Sequence[AnsweredExample]) -> tuple[list[str], float]:
    """Each image in a frame, orange where the answer is wrong, with what it is and what was answered below it."""
    marks: list[str] = []
    for i, example in enumerate(examples):
        colour = BLUE if example.is_right else ORANGE
        one = [
            tooltip(cut_end(example.what, 80)),
            *framed_image(example.pixels, 0, colour),
            svg_text(0, SIDE + 20, cut_end(example.truth, 14), INK, is_bold=True),
            svg_text(0, SIDE + 40, f"says {cut_end(example.answer, 11)}", colour),
            svg_text(0, SIDE + 58, cut_end(example.what.rpartition("/")[2], 15), QUIET, size=12),
            svg_text(
                SIDE,
                SIDE + 58,
                "" if example.probability is None else f"{example.probability:.2f}",
                QUIET,
                align="end",
                size=12,
            ),
        ]
        marks += move_marks(one, (i % ACROSS) * (SIDE + GAP), (i // ACROSS) * (SIDE + 78))
    return marks, -(-len(examples) // ACROSS) * (SIDE + 78) - 14


def framed_image(pixels: Sequence[Sequence[int]], top: float, colour: str) -> list[str]:
    """A gray image (0 to 255) in a square frame, its shape kept."""
    width, height = max([len(row) for row in pixels]), len(pixels)
    scale = (SIDE - 6) / max(width, height)
    colours = [["#" + f"{min(max(gray, 0), 255):02x}" * 3 for gray in row] for row in pixels]
    x, y = (SIDE - width * scale) / 2, top + (SIDE - height * scale) / 2
    return [
        pixel_image(colours, width * scale, height * scale, x, y),
        f'<rect x="1.5" y="{top + 1.5:.1f}" width="{SIDE - 3:.1f}" height="{SIDE - 3:.1f}" fill="none" '
        f'stroke="{colour}" stroke-width="3"/>',
    ]


def _text_rows(examples: Sequence[AnsweredExample], noun: str, *, by_letter: bool) -> tuple[list[str], float]:
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
    return marks, 48 + 32 * len(examples) - 12


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


def _captions(seen: TrainingReport, n_shown: int, n_wrong: int) -> list[str]:
    assert seen.answers is not None
    noun = example_noun(seen.data.kind)
    said = [f"{judged_words(seen, seen.answers.n)}: {metrics_words(seen.answers.metrics, '')}."]
    if seen.data.task == "regression":
        return [*said, f"{count_of(n_shown, noun).capitalize()}, those farthest off first."]
    wrong = f"of which {n_wrong} {'is' if n_wrong == 1 else 'are'} wrong" if n_wrong else "and none is wrong"
    return [*said, f"{count_of(n_shown, noun)} are shown, {wrong}."]


FIGURE = FigureCard(
    name="mistakes",
    summary="Images, rows or pairs that a run's network answers wrong, with the truth, its answer and how sure it was.",
    needs=TrainingReport,
    draw=draw_mistakes,
)
