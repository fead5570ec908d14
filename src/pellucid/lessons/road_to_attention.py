"""The road to attention: the average of the past, four times, each a small step from the one before.

by a loop            for each position, add up what was read so far and divide
by a matrix          the same as one product with L̄, a lower-triangular matrix whose rows sum to one
by a softmax         L̄ as the softmax of "wei", which is 0 where one may look and -∞ where not
by the data          the zeros become scores: what each position asks for, times what each one offers

Only the last one lets a position choose. All four are products of weights with values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.matrix import added_map, difference, largest_difference, weight_map
from pellucid.figures.charts.svg import INK, QUIET, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import percent, token_label
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

if TYPE_CHECKING:
    from torch import Tensor

SIDE, LARGEST_CELL, GAP = 330.0, 48.0, 40.0
MOST_TOKENS = 16


class AttentionRoad(NamedTuple):
    """Four matrices over the same tokens, each row a position and what it takes of those before it."""

    tokens: tuple[str, ...]
    seed: int  # of the queries and keys
    averaging: Matrix  # L̄
    wei: Matrix  # 0 where one may look, -inf where not
    softmax_of_wei: Matrix  # L̄ again
    weights: Matrix  # by the data: softmax(queries · keys / √d + wei)


def average_by_loop(values: Tensor) -> Tensor:
    """The mean of each position and all before it, added up one by one: (time, width) -> (time, width).

    >>> import torch
    >>> average_by_loop(torch.tensor([[1.0], [3.0], [5.0]])).flatten()
    tensor([1., 2., 3.])
    """
    import torch

    total = torch.zeros_like(values[0])
    averages = []
    for n_read, value in enumerate(values, start=1):
        total = total + value
        averages.append(total / n_read)
    return torch.stack(averages)


def averaging_matrix(time: int) -> Tensor:
    """L̄: 1/i in the first i places of row i, and 0 behind them: (time, time).

    >>> averaging_matrix(3)
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """
    import torch

    lower = torch.ones(time, time).tril()
    return lower / lower.sum(dim=1, keepdim=True)


def average_by_matrix(values: Tensor) -> Tensor:
    """The same as one product, L̄ · values, for all positions at once.

    >>> import torch
    >>> average_by_matrix(torch.tensor([[1.0], [3.0], [5.0]])).flatten()
    tensor([1., 2., 3.])
    """
    return averaging_matrix(len(values)).to(values) @ values


def wei(time: int) -> Tensor:
    """Scores that know nothing but the order: 0 where one may look, -∞ at what comes later: (time, time).

    >>> wei(3)
    tensor([[0., -inf, -inf],
            [0., 0., -inf],
            [0., 0., 0.]])
    """
    import torch

    return torch.full((time, time), -math.inf).triu(diagonal=1)


def average_by_softmax(values: Tensor) -> Tensor:
    """The same with L̄ as softmax(wei): equal scores are equal weights, and exp(-∞) is none.

    >>> import torch
    >>> average_by_softmax(torch.tensor([[1.0], [3.0], [5.0]])).flatten()
    tensor([1., 2., 3.])
    """
    return wei(len(values)).to(values).softmax(dim=-1) @ values


def weights_by_data(queries: Tensor, keys: Tensor) -> Tensor:
    """softmax(queries · keysᵀ / √d + wei): where wei was 0, how well a key answers a query: (time, d) -> (time, time).

    >>> import torch
    >>> weights_by_data(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [-1.0]]))
    tensor([[1.0000, 0.0000],
            [0.9820, 0.0180]])
    """
    time, width = queries.shape
    scores = queries @ keys.t() / math.sqrt(width)
    return (scores + wei(time).to(scores)).softmax(dim=-1)


def average_by_data(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """An average of the past in which each position chooses: that is attention.

    Without a preference, when all queries are zero, it is the plain average again.

    >>> import torch
    >>> average_by_data(torch.zeros(3, 2), torch.ones(3, 2), torch.tensor([[1.0], [3.0], [5.0]])).flatten()
    tensor([1., 2., 3.])
    """
    return weights_by_data(queries, keys) @ values


@dataclass(frozen=True)
class RoadKnobs:
    input: str = option("bad dab", "Text whose characters attend to one another.", value_name="TEXT")
    seed: int = seed_knob()
    width: int = option(8, "Numbers of each query and key.", minimum=1, maximum=1024)

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: RoadKnobs) -> AttentionRoad:
    """The four matrices over the characters of a text.

    Queries and keys are drawn: a vector for each character, and two matrices that make a query and a key of it. So
    equal characters ask and answer alike, which is all that a network without training knows of them.

    >>> measure(RoadKnobs(input="bad dab")).tokens
    ('b', 'a', 'd', ' ', 'd', 'a', 'b')
    """
    input, seed, width = knobs.input, knobs.seed, knobs.width
    if not input:
        raise PellucidError("the text is empty, so there is no past to average", fix="Give at least one character")
    import torch

    rng = torch.Generator().manual_seed(seed)
    symbols = sorted(set(input))
    embedding = torch.randn(len(symbols), width, generator=rng)
    # Of variance 1 / width, so that queries and keys have variance 1 as the embeddings do.
    to_queries, to_keys = torch.randn(2, width, width, generator=rng) / width**0.5
    stream = embedding[[symbols.index(character) for character in input]]
    time = len(input)
    return AttentionRoad(
        tokens=tuple(input),
        seed=seed,
        averaging=as_matrix(averaging_matrix(time)),
        wei=as_matrix(wei(time)),
        softmax_of_wei=as_matrix(wei(time).softmax(dim=-1)),
        weights=as_matrix(weights_by_data(stream @ to_queries, stream @ to_keys)),
    )


def draw(record: AttentionRoad) -> Picture:
    """Four matrices from left to right, each a small step from the one before."""
    if len(record.tokens) > MOST_TOKENS:
        raise PellucidError(
            f"the text has {len(record.tokens):,} characters, and {MOST_TOKENS} can be drawn", fix="Give a shorter one"
        )
    names = [token_label(token) for token in record.tokens]
    cell = min(LARGEST_CELL, SIDE / len(names))
    stations = (
        ("L", "averages the past", weight_map(record.averaging, cell, names)),
        ("wei", "0: look, −∞: do not", added_map(record.wei, cell, names)),
        ("softmax(wei)", "the same average again", weight_map(record.softmax_of_wei, cell, names)),
        ("softmax(q·k/√d + wei)", "the data have a say", weight_map(record.weights, cell, names)),
    )
    marks: list[str] = []
    left = height = 0.0
    for heading, words, drawn in stations:
        marks.append(svg_text(left + drawn.left, 20, heading, INK, is_bold=True, size=20))
        if heading == "L":
            # The bar is drawn: with one from a font, the whole line would be set in the one font that has it.
            marks.append(f'<path d="M{left + drawn.left + 1:.1f} 2h11" stroke="{INK}" stroke-width="2"/>')
        marks.append(svg_text(left + drawn.left, 46, words, QUIET))
        marks += move_marks(drawn.marks, left, 62)
        left, height = left + max(drawn.width, drawn.left + 230.0) + GAP, 62 + drawn.height
    return picture("The road from an average to attention", _captions(record), marks, left - GAP, height)


def _captions(record: AttentionRoad) -> list[str]:
    apart = largest_difference(record.averaging, record.softmax_of_wei)
    said = [
        "Each row is a position and how much it takes of itself and of those before it.",
        f"softmax(wei) is the averaging matrix again: the largest difference is {difference(apart)}.",
    ]
    moves = [
        (weight - even, i, j)
        for i, (row, average) in enumerate(zip(record.weights, record.averaging, strict=True))
        for j, (weight, even) in enumerate(zip(row, average, strict=True))
    ]
    most, i, j = max(moves)
    if most > 0:
        # Characters by their place too, since a text has most of them more than once.
        said.append(
            f"With scores of the data position {i + 1} ({token_label(record.tokens[i])}) gives "
            f"{percent(record.weights[i][j])} to position {j + 1} ({token_label(record.tokens[j])}), "
            f"in place of {percent(record.averaging[i][j])}."
        )
    said.append(f"Queries and keys are drawn at random, seed {record.seed}: equal characters ask and answer alike.")
    return said


LESSON = Lesson(
    name="road",
    summary="The road to attention over a text: an averaging matrix, wei, its softmax, and weights by the data.",
    measure=measure,
    draw=draw,
    knobs=RoadKnobs,
)
