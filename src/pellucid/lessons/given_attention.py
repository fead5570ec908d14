"""Attention that is told what to do: the identity, a permutation and a convolution, from given positions and a scale.

Keys are the positions, so attention goes where a query points, whatever the tokens are; values are left to the caller.
With the scale the best answer takes all: of n orthonormal positions, β leaves e^β / (e^β + n - 1) on the one meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.matrix import Rows, weight_key, weight_map
from pellucid.figures.charts.svg import INK, QUIET, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import rough
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

if TYPE_CHECKING:
    from torch import Tensor

CELL, GAP, ROW_GAP, NARROWEST, INDENT = 38.0, 34.0, 30.0, 190.0, 16.0


KERNEL = (0.25, 0.5, 0.25)
SCALES = (1.0, 3.0, 10.0)


class GivenWeights(NamedTuple):
    """What attention made of it with one scale."""

    scale: float
    weights: Matrix
    farthest: float  # the largest difference to what was wanted


class GivenAttention(NamedTuple):
    """Attention that was told what to do, and how near it came."""

    name: str
    description: str
    wanted: Matrix
    tried: tuple[GivenWeights, ...]


class GivenAttentions(NamedTuple):
    """Attention as the identity, as a permutation and as a convolution, with several scales."""

    source: str
    attentions: tuple[GivenAttention, ...]


def identity_attention(positions: Tensor, scale: float) -> Tensor:
    """Each position asks for itself: (time, width) -> the attention matrix, (time, time), near the identity.

    It needs rows of one length, none twice: then no other has as large a product with a row as the row itself.

    >>> import torch
    >>> identity_attention(torch.eye(3), scale=20.0).round(decimals=4)
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """
    return permutation_attention(positions, range(len(positions)), scale)


def permutation_attention(positions: Tensor, order: Sequence[int], scale: float) -> Tensor:
    """Position i asks for position order[i]: (time, width) -> (time, time), near a permutation matrix.

    >>> import torch
    >>> permutation_attention(torch.eye(3), order=[2, 0, 1], scale=20.0).round(decimals=4)
    tensor([[0., 0., 1.],
            [1., 0., 0.],
            [0., 1., 0.]])
    """
    if sorted(order) != list(range(len(positions))):
        raise PellucidError(
            f"{', '.join(map(str, order))} does not name each of {len(positions)} positions once",
            fix="Give each number from 0 on once",
        )
    from pellucid.layers.attention import attention_weights
    from pellucid.layers.masks import EVERYTHING

    return attention_weights(positions[list(order)], positions, scale=scale, mask=EVERYTHING)


def convolution_attention(positions: Tensor, kernel: Sequence[float], scale: float) -> Tensor:
    """Each position takes of its neighbours by the kernel: (time, width) -> (time, time), near a banded matrix.

    kernel: an odd number of shares above 0 that sum to 1, as .25 .5 .25. A softargmax cannot give weights but through
    exp, so a query is made whose product with the key at distance δ is 1 + ln(share) / β, and with all others 0. At
    the ends what would fall outside is missing, and softargmax shares it among the rest.

    >>> import torch
    >>> convolution_attention(torch.eye(4), kernel=(0.25, 0.5, 0.25), scale=20.0).round(decimals=4)
    tensor([[0.6667, 0.3333, 0.0000, 0.0000],
            [0.2500, 0.5000, 0.2500, 0.0000],
            [0.0000, 0.2500, 0.5000, 0.2500],
            [0.0000, 0.0000, 0.3333, 0.6667]])
    """
    import torch

    if len(kernel) % 2 == 0 or min(kernel) <= 0 or not math.isclose(sum(kernel), 1):
        raise PellucidError(
            f"a kernel of {', '.join(f'{share:g}' for share in kernel)} is no average around its middle",
            fix="Give an odd number of shares above 0 that sum to 1, as .25 .5 .25",
        )
    time, width = positions.shape
    if torch.linalg.matrix_rank(positions) < time:
        raise PellucidError(
            f"{time} positions of {width} numbers are not independent, so not every product can be chosen",
            fix=f"Give positions of at least {time} numbers, such as the rows of the identity",
        )
    wanted = torch.zeros(time, time, dtype=positions.dtype)
    for offset, share in enumerate(kernel, start=-(len(kernel) // 2)):
        n_there = time - abs(offset)
        if n_there > 0:
            wanted += torch.diag(torch.full((n_there,), 1 + math.log(share) / scale, dtype=positions.dtype), offset)
    queries = wanted @ torch.linalg.pinv(positions.t())
    from pellucid.layers.attention import attention_weights
    from pellucid.layers.masks import EVERYTHING

    return attention_weights(queries, positions, scale=scale, mask=EVERYTHING)


@dataclass(frozen=True)
class GivenAttentionKnobs:
    order: tuple[float, ...] = option(
        (3, 1, 2, 6, 4, 5),
        "The position that each one asks for in a permutation, counted from 1.",
        minimum=1,
        maximum=10,
        example="2,1,3",
    )
    kernel: tuple[float, ...] = option(
        KERNEL,
        "Shares of the neighbours in a convolution: an odd number that sum to 1.",
        minimum=0,
        is_minimum_open=True,
        maximum=1,
        example="0.25,0.5,0.25",
    )
    scales: tuple[float, ...] = option(
        SCALES, "Scales β of the scores.", minimum=0, is_minimum_open=True, maximum=1000, example="1,3,10"
    )

    def __post_init__(self) -> None:
        check_options(self)
        if sorted(self.order) != [*range(1, len(self.order) + 1)]:
            raise PellucidError(
                f"{','.join(f'{place:g}' for place in self.order)} is no order of {len(self.order)} positions",
                fix=f"Name each of 1 to {len(self.order)} once",
            )


def measure(knobs: GivenAttentionKnobs) -> GivenAttentions:
    """The identity, a permutation and a convolution, by attention whose positions and scale are given.

    >>> [[round(each.farthest, 4) for each in one.tried] for one in measure(GivenAttentionKnobs()).attentions]
    [[0.6478, 0.1993, 0.0002], [0.6478, 0.1993, 0.0002], [0.4416, 0.1399, 0.0002]]
    """
    import torch

    places = [int(place) - 1 for place in knobs.order]
    positions = torch.eye(len(places), dtype=torch.float64)
    order = " ".join(str(place + 1) for place in places)
    kernel = " ".join(f"{share:g}" for share in knobs.kernel)
    banded = _band(positions, knobs.kernel)
    compare = partial(_compare, knobs.scales)
    return GivenAttentions(
        source=f"{len(places)} positions, the rows of the identity matrix",
        attentions=(
            compare("identity", "each asks for itself", positions, partial(identity_attention, positions)),
            compare(
                "permutation",
                f"they ask for {order}",
                positions[places],
                partial(permutation_attention, positions, places),
            ),
            compare(
                "convolution",
                f"neighbours by {kernel}",
                banded,
                partial(convolution_attention, positions, knobs.kernel),
            ),
        ),
    )


def _compare(
    scales: Sequence[float], name: str, description: str, wanted: Tensor, attention: Callable[[float], Tensor]
) -> GivenAttention:
    tried = []
    for scale in scales:
        weights = attention(scale)
        tried.append(GivenWeights(scale, as_matrix(weights), float((wanted - weights).abs().max())))
    return GivenAttention(name, description, as_matrix(wanted), tuple(tried))


def _band(like: Tensor, kernel: Sequence[float]) -> Tensor:
    """The kernel around each position; at the ends what would fall outside is shared among the rest."""
    import torch

    band = torch.zeros_like(like)
    for offset, share in enumerate(kernel, start=-(len(kernel) // 2)):
        if abs(offset) < len(like):
            band += share * torch.diag(torch.ones(len(like) - abs(offset), dtype=like.dtype), offset)
    return band / band.sum(-1, keepdim=True)


def draw(record: GivenAttentions) -> Picture:
    """A row for each task: what is wanted, then what attention gives with a scale that grows."""
    marks = weight_key()
    top, widest = 44.0, 560.0
    for attention in record.attentions:
        marks.append(svg_text(INDENT, top + 18, attention.name, INK, is_bold=True, size=19))
        marks.append(svg_text(INDENT + 12 * len(attention.name) + 16, top + 18, attention.description, QUIET))
        left, bottom = 0.0, 0.0
        for words, below, weights in _maps(attention):
            numbers = [str(i + 1) for i in range(len(weights))]
            drawn = weight_map(weights, CELL, numbers)
            marks += move_marks(drawn.marks, left, top + 58)
            marks.append(svg_text(left + drawn.left, top + 50, words, INK))
            marks.append(svg_text(left + drawn.left, top + 58 + drawn.height + 22, below, QUIET))
            left, bottom = left + max(drawn.width, NARROWEST) + GAP, 58 + drawn.height + 28
        top, widest = top + bottom + ROW_GAP, max(widest, left - GAP)
    title = "Attention as identity, permutation and convolution"
    return picture(title, _captions(record), marks, widest, top - ROW_GAP)


def _maps(attention: GivenAttention) -> list[tuple[str, str, Rows]]:
    wanted: list[tuple[str, str, Rows]] = [("wanted", "", attention.wanted)]
    return wanted + [
        (f"β = {one.scale:g}", f"off by up to {rough(one.farthest)}", one.weights) for one in attention.tried
    ]


def _captions(record: GivenAttentions) -> list[str]:
    said = [f"{record.source}. Rows ask, columns are asked. Keys are the positions; a query points at those it wants."]
    tried = [one.tried for one in record.attentions]
    least, most = min([each[0].scale for each in tried]), max([each[-1].scale for each in tried])
    farthest = [max([each[place].farthest for each in tried]) for place in (0, -1)]
    said.append(
        f"With β = {least:g} a weight is off by up to {rough(farthest[0])}, with β = {most:g} by {rough(farthest[1])}."
    )
    return said


LESSON = Lesson(
    name="convolution-like",
    summary="Attention told to be the identity, a permutation or a convolution, and how near it comes by scale.",
    measure=measure,
    draw=draw,
    knobs=GivenAttentionKnobs,
)
