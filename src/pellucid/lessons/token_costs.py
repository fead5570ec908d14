"""What tokenisation costs: the same text as characters, bytes, words and byte pairs, in tokens and in FLOPs.

One layer of a transformer spends on n tokens of width d

    attention   4 n² d     scores (2 n² d) and their mixture (2 n² d)
    linear      24 n d²    four projections (8 n d²) and a feed-forward of four times the width (16 n d²)

and the model spends 2 n d V once, on the scores of a vocabulary of V. A multiplication and an addition count two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import with_prefix
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option
from pellucid.records import TokenCost

if TYPE_CHECKING:
    from pellucid.data import Vocabulary

EXAMPLE = (
    "A network reads tokens, and every token costs. Cut a text into characters and there are many of them; cut it into "
    "words and there are few, but the vocabulary grows. Byte pairs learned from the text lie between the two."
)
LABELS, WIDTH, ROW, BAR = 130.0, 620.0, 96.0, 26.0


class TokenCosts(NamedTuple):
    """Ways to cut one text, side by side."""

    n_characters: int
    width: int
    n_layers: int
    ways: tuple[TokenCost, ...]


@dataclass(frozen=True)
class TokenCostKnobs:
    input: str = option(EXAMPLE, "Text that is cut into tokens; by default three sentences.", value_name="TEXT")
    width: int = option(64, "Embedding (model) dimension of the transformer.", minimum=1)
    layers: int = option(4, "Layers of the transformer.", minimum=1, maximum=1000)
    bpe: int = option(512, "Size of the vocabulary of byte pairs.", minimum=257, maximum=100_000)

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: TokenCostKnobs) -> TokenCosts:
    """A text as characters, bytes, words and byte pairs, read by a transformer."""
    costs = token_costs(knobs.input, width=knobs.width, n_layers=knobs.layers, bpe_size=knobs.bpe)
    return TokenCosts(len(knobs.input), knobs.width, knobs.layers, costs)


def token_costs(text: str, *, width: int = 64, n_layers: int = 4, bpe_size: int = 512) -> tuple[TokenCost, ...]:
    """Characters, bytes, words and byte pairs learned from this very text, side by side.

    Twenty words of five letters are 119 characters, and by attention alone 35.4 times the work:

    >>> costs = token_costs(" ".join(["words"] * 20))
    >>> [(cost.name, cost.n_tokens) for cost in costs][:3]
    [('characters', 119), ('bytes', 119), ('words', 20)]
    >>> round(costs[0].attention_flops / costs[2].attention_flops, 1)
    35.4
    """
    if not text.strip():
        raise PellucidError("there is no text to cut into tokens", fix="Give it some words")
    from pellucid.data.vocabularies import BPE, Bytes, Characters, Words

    ways: list[tuple[str, Vocabulary]] = [
        ("characters", Characters(sorted(set(text)), has_boundary=False)),
        ("bytes", Bytes(has_boundary=False)),
        ("words", Words.of([text], has_boundary=True)),
        ("bpe", BPE.train([text], bpe_size, has_boundary=False)),
    ]
    rows = []
    for name, vocabulary in ways:
        n = len(vocabulary.encode(text))
        vocab_size = len(vocabulary) - vocabulary.has_boundary
        attention = n_layers * 4 * n * n * width
        linear = n_layers * 24 * n * width * width + 2 * n * width * vocab_size
        rows.append((name, n, vocab_size, attention, linear))
    least_attention = min(attention for _, _, _, attention, _ in rows)
    least = min(attention + linear for _, _, _, attention, linear in rows)
    return tuple(
        TokenCost(name, n, size, attention, linear, attention / least_attention, (attention + linear) / least)
        for name, n, size, attention, linear in rows
    )


def draw(record: TokenCosts) -> Picture:
    """Two bars for each way: what attention costs, and what everything else costs."""
    most = max([max(way.attention_flops, way.linear_flops) for way in record.ways])
    marks = [
        svg_text(0, 16, "attention", ORANGE, is_bold=True),
        svg_text(120, 16, "everything else", BLUE, is_bold=True),
    ]
    for i, way in enumerate(record.ways):
        top = 44 + i * ROW
        marks.append(svg_text(0, top + 18, way.name, INK, is_bold=True, size=19))
        marks.append(svg_text(0, top + 42, f"{way.n_tokens:,} tokens", QUIET))
        marks.append(svg_text(0, top + 64, f"vocabulary {way.vocab_size:,}", QUIET))
        for flops, colour, y in ((way.attention_flops, ORANGE, top), (way.linear_flops, BLUE, top + BAR + 6)):
            length = WIDTH * flops / most
            marks.append(
                f'<rect x="{LABELS:.0f}" y="{y:.0f}" width="{length:.1f}" height="{BAR:.0f}" fill="{colour}">'
                f"<title>{flops:,} FLOPs</title></rect>"
            )
            marks.append(svg_text(LABELS + length + 8, y + 18, f"{with_prefix(flops)}FLOPs", INK))
    title = "What tokens cost: one text, cut in four ways"
    return picture(title, _captions(record), marks, LABELS + WIDTH + 120, 44 + len(record.ways) * ROW)


def _captions(record: TokenCosts) -> list[str]:
    dear = max(record.ways, key=lambda way: way.attention_ratio)
    cheap = min(record.ways, key=lambda way: way.attention_ratio)
    return [
        f"{record.n_characters:,} characters, read as one sequence by a transformer of {record.n_layers} layers, "
        f"width {record.width}.",
        f"{dear.name.capitalize()} are {dear.n_tokens / cheap.n_tokens:.1f} times as many tokens as {cheap.name}, and "
        f"{dear.attention_ratio:.1f} times the work for attention, which grows with their square.",
        "In all: " + ", ".join([f"{way.name} {way.total_ratio:.1f}×" for way in record.ways]) + " the least work.",
    ]


LESSON = Lesson(
    name="token-costs",
    summary="What a text costs to read as characters, bytes, words and byte pairs, in tokens and in FLOPs.",
    measure=measure,
    draw=draw,
    knobs=TokenCostKnobs,
)
