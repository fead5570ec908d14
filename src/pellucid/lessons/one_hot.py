"""One-hot vectors: a neural n-gram multiplies them with its table, and each product is one row that can be looked up.

The context of an n-gram is n - 1 tokens. Written as one-hot vectors it is X of shape (n - 1, |V|), a single 1 in each
row. The table W has the shape (n - 1, |V|, |V|), and the scores of the next token are

    Σᵢ X[i] · W[i]  =  Σᵢ W[i, xᵢ]

so that the multiplications by 0 need not be made: what a row of X does is to name a row of W.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pellucid.errors import PellucidError, quoted
from pellucid.figures.charts.matrix import BARRED, balance_key, balanced_colours, difference, heat_map
from pellucid.figures.charts.svg import BLUE, INK, LINE, QUIET, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of, spoken_label, token_label
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

MOST_SYMBOLS = 64
MOST_WRITTEN = 3.0  # a weight this far from 0 has the deepest colour
ROW, TABLE = 378.0, 216.0  # the length of a row of X, and the side of a table, at most
LARGEST, LEAST = 46.0, 200.0  # the side of a square, and the room of each part
BESIDE, SIGN = 104.0, 44.0  # the room for the words before the rows, and for × and =
HOT = "#08284f"


class OneHotStudy(NamedTuple):
    """The context of one n-gram as one-hot vectors, its table, and their product in two ways."""

    symbols: tuple[str, ...]
    context: tuple[int, ...]  # the n - 1 tokens, the oldest first
    one_hot: Matrix  # X: (n - 1, vocab)
    tables: tuple[Matrix, ...]  # W: n - 1 of (vocab, vocab)
    rows: Matrix  # W[i, x_i]: (n - 1, vocab)
    by_product: tuple[float, ...]  # the scores of the next token, by multiplying: (vocab,)
    by_lookup: tuple[float, ...]  # and by adding the rows that were looked up
    by_network: tuple[float, ...]  # and as the neural n-gram says them
    n_multiplications: int  # of the product
    seed: int
    uniform: float  # ln |V|: the loss of a table of zeros
    expected_loss: float  # of a table from N(0, 1), over all such tables


@dataclass(frozen=True)
class OneHotKnobs:
    input: str = option("emm", "Text whose last n - 1 characters are the context.", value_name="TEXT")
    n: int = option(4, "Order of the n-gram: 2 for a bigram.", minimum=2, maximum=8)
    vocabulary: str = option(
        "",
        "Symbols in the order of their indices; by default a boundary and the letters of names.",
        value_name="SYMBOLS",
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: OneHotKnobs) -> OneHotStudy:
    """The context as one-hot vectors, times a table from N(0, 1).

    >>> study = measure(OneHotKnobs(input="bca", vocabulary="abc"))
    >>> study.context, study.one_hot
    ((1, 2, 0), ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)))
    """
    symbols, context = _read(knobs)
    import torch

    from pellucid.models.sequences.configs import NeuralNGramConfig
    from pellucid.models.sequences.windows import NeuralNGram, normal_start_loss
    from pellucid.training.rng import seed_torch

    n_places, vocab_size = len(context), len(symbols)
    with seed_torch(knobs.seed, 0, "one-hot"):
        network = NeuralNGram(NeuralNGramConfig(vocab_size, n=knobs.n, init="normal")).double()
    tokens, table = torch.tensor(context), network.table.detach()  # (n - 1,), (n - 1, vocab, vocab)
    one_hot = torch.nn.functional.one_hot(tokens, vocab_size).double()  # (n - 1, vocab)
    rows = table[torch.arange(n_places), tokens]  # (n - 1, vocab)
    with torch.inference_mode():
        by_network = network.of_windows(tokens[None])[0]
    return OneHotStudy(
        symbols=symbols,
        context=context,
        one_hot=as_matrix(one_hot),
        tables=tuple(as_matrix(one) for one in table),
        rows=as_matrix(rows),
        by_product=tuple(torch.einsum("iv,ivw->w", one_hot, table).tolist()),
        by_lookup=tuple(rows.sum(0).tolist()),
        by_network=tuple(by_network.tolist()),
        n_multiplications=n_places * vocab_size**2,
        seed=knobs.seed,
        uniform=normal_start_loss(vocab_size, 0.0),
        expected_loss=normal_start_loss(vocab_size, n_places**0.5),
    )


def _read(knobs: OneHotKnobs) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The symbols of the vocabulary, and the tokens of the context."""
    from pellucid.data.vocabularies import Characters

    n_places = knobs.n - 1
    if knobs.vocabulary:
        if len(set(knobs.vocabulary)) < len(knobs.vocabulary):
            raise PellucidError(
                "a symbol stands in {vocabulary} twice", fix="Write every one once", options={"vocabulary": None}
            )
        vocabulary = Characters(knobs.vocabulary, has_boundary=False)
        if len(knobs.input) < n_places:
            raise PellucidError(
                f"the context of a {knobs.n}-gram has {count_of(n_places, 'character')}, and "
                f"{quoted(knobs.input)} has {len(knobs.input)}",
                fix="Give a longer {input}, or a smaller {n}",
                options={"input": None, "n": None},
            )
    else:
        # What stands before the first letter is the boundary, as in a name.
        vocabulary = Characters(sorted({*"abcdefghijklmnopqrstuvwxyz", *knobs.input}))
    if len(vocabulary) > MOST_SYMBOLS:
        raise PellucidError(f"there are {len(vocabulary)} symbols, and {MOST_SYMBOLS} can be drawn", fix="Give fewer")
    tokens = [0] * n_places * vocabulary.has_boundary + vocabulary.encode(knobs.input)
    return tuple(vocabulary.tokens), tuple(tokens[-n_places:])


def draw(record: OneHotStudy) -> Picture:
    """For each place of the window its one-hot row, the table it is multiplied with, and the row that comes out."""
    names = [symbol if i == 0 and len(symbol) == 1 else token_label(symbol) for i, symbol in enumerate(record.symbols)]
    colours, size = balanced_colours(MOST_WRITTEN), len(names)
    cell, side = min(LARGEST, ROW / size), min(LARGEST, TABLE / size)  # squares of rows, and of tables
    table, band = side * size, max(side * size, 2 * cell + 40) + 34
    x_hot, room = BESIDE, max(size * cell, LEAST)
    x_table = x_hot + room + SIGN + 20
    x_row = x_table + max(table, LEAST) + SIGN
    marks = [
        svg_text(x_hot, 20, f"X: {len(record.context)} × {size}", INK, is_bold=True, size=18),
        svg_text(x_table, 20, f"W: {size} × {size} for each", INK, is_bold=True, size=18),
        svg_text(x_row, 20, "the row that X names", INK, is_bold=True, size=18),
    ]
    for place, token in enumerate(record.context):
        top = 44 + place * band
        middle = top + band / 2
        marks.append(svg_text(0, middle - 4, names[token], INK, is_bold=True, size=24))
        marks.append(svg_text(0, middle + 20, f"{len(record.context) - place} before", QUIET, size=14))
        hot = heat_map([record.one_hot[place]], _hot_colour, cell, (), names, written="{:.0f}".format)
        marks += move_marks(hot.marks, x_hot, middle - hot.top - cell / 2)
        marks.append(_frame(x_hot, middle - cell / 2, size * cell, cell, LINE))
        marks.append(svg_text(x_hot + size * cell + SIGN / 2, middle + 8, "×", INK, align="middle", size=24))
        y = middle - table / 2
        marks += move_marks(heat_map(record.tables[place], colours, side, (), (), written=_tenths).marks, x_table, y)
        marks.append(_frame(x_table, y + token * side, table, side, BLUE, 2.5))
        marks.append(svg_text(x_table - 6, y + (token + 0.5) * side + 5, names[token], BLUE, align="end"))
        marks.append(svg_text(x_table + table + SIGN / 2, middle + 8, "=", INK, align="middle", size=24))
        row = heat_map([record.rows[place]], colours, cell, (), names, written=_tenths)
        marks += move_marks(row.marks, x_row, middle - row.top - cell / 2)
        marks.append(_frame(x_row, middle - cell / 2, size * cell, cell, BLUE, 2.5))
    top = 44 + len(record.context) * band + 20
    total = heat_map([record.by_lookup], colours, cell, (), names, written=_tenths)
    marks += move_marks(total.marks, x_row, top)
    marks.append(_frame(x_row, top + total.top, size * cell, cell, INK))
    marks.append(svg_text(x_row - 16, top + total.top + cell / 2 + 6, "their sum: scores of the next", align="end"))
    below = top + total.height + 20
    marks += move_marks(balance_key(f"−{MOST_WRITTEN:.0f}", f"{MOST_WRITTEN:.0f} or more"), x_hot, below)
    return picture("One-hot vectors look up rows", _captions(record, names), marks, x_row + room + 10, below + 24)


def _hot_colour(value: float) -> str:
    return HOT if value else BARRED


def _tenths(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def _frame(x: float, y: float, width: float, height: float, colour: str, thick: float = 1.0) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="none" stroke="{colour}" '
        f'stroke-width="{thick:g}"/>'
    )


def _captions(record: OneHotStudy, names: list[str]) -> list[str]:
    n, size = len(record.context) + 1, len(names)
    apart = max(
        [
            abs(one - other)
            for others in (record.by_lookup, record.by_network)
            for one, other in zip(record.by_product, others, strict=True)
        ]
    )
    read = " ".join([spoken_label(names[token]) for token in record.context])
    return [
        f"The context {read} of a {n}-gram over {size} symbols: X has the shape ({n - 1}, {size}) and W, from N(0, 1) "
        f"with seed {record.seed}, ({n - 1}, {size}, {size}).",
        f"The product with W takes {count_of(record.n_multiplications, 'multiplication')}, all but "
        f"{(n - 1) * size:,} of them by 0; looking up {count_of(n - 1, 'row')} and adding them takes none. The largest "
        f"difference between both, and the network itself, is {difference(apart)}.",
        f"Before any training such a table costs {record.expected_loss:.4f} nats a token on average, where zeros cost "
        f"ln {size} = {record.uniform:.4f}: it has opinions that nothing has taught it.",
    ]


LESSON = Lesson(
    name="one-hot",
    summary="The context of an n-gram as one-hot vectors, their product with the table, and the rows it looks up.",
    measure=measure,
    draw=draw,
    knobs=OneHotKnobs,
    argument="input",
)
