"""The road to attention and the kinds of positions, as plain records for pictures."""

from __future__ import annotations

import torch

from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.layers.positions import POSITIONS, Positions, positions_called
from pellucid.layers.road import averaging_matrix, wei, weights_by_data
from pellucid.models.exam import rows
from pellucid.records.attention import PositionsShown, RoadShown


def road_shown(text: str, width: int = 8, seed: int = 0) -> RoadShown:
    """The four matrices over the characters of a text.

    Queries and keys are drawn: a vector for each character, and two matrices that make a query and a key of it. So
    equal characters ask and answer alike, which is all that a network without training knows of them.

    >>> road_shown("bad dab").tokens
    ('b', 'a', 'd', ' ', 'd', 'a', 'b')
    """
    if not text:
        raise PellucidError("the text is empty, so there is no past to average", fix="Give at least one character")
    draw = torch.Generator().manual_seed(seed)
    symbols = sorted(set(text))
    embedding = torch.randn(len(symbols), width, generator=draw)
    # Of variance 1 / width, so that queries and keys have variance 1 as the embeddings do.
    to_queries, to_keys = torch.randn(2, width, width, generator=draw) / width**0.5
    stream = embedding[[symbols.index(character) for character in text]]
    time = len(text)
    return RoadShown(
        tokens=tuple(text),
        averaging=rows(averaging_matrix(time)),
        wei=rows(wei(time)),
        softmax_of_wei=rows(wei(time).softmax(dim=-1)),
        weights=rows(weights_by_data(stream @ to_queries, stream @ to_keys)),
    )


@torch.no_grad()
def positions_shown(kind: str, positions: Positions, length: int) -> PositionsShown:
    """What these positions give the first `length` tokens; a trained network's can be shown as well as new ones.

    >>> from pellucid.layers.positions import IndexPositions
    >>> positions_shown("index", IndexPositions(width=2), 3).products
    ((0.0, 0.0, 0.0), (0.0, 1.0, 2.0), (0.0, 2.0, 4.0))
    """
    bias, added, turns = positions.bias(length, length), positions.added(0, length), positions.turns(0, length)
    if bias is not None:
        return PositionsShown(kind, positions.acts_on, encodings=(), products=rows(bias[0]))
    if added is not None:
        encodings = added
    elif turns is not None:
        encodings = turns.flatten(1)
    else:
        encodings = torch.zeros(length, 1)
    return PositionsShown(kind, positions.acts_on, rows(encodings), rows(encodings.double() @ encodings.double().t()))


def new_positions_shown(kind: str, length: int, width: int, seed: int = 0) -> PositionsShown:
    """The same for positions as they begin, in a causal network with a single head.

    >>> new_positions_shown("rotary", length=4, width=8).acts_on
    'queries and keys'
    """
    if kind not in POSITIONS:
        raise PellucidError(
            f"there are no positions called {quoted(kind)}",
            fix=did_you_mean(kind, POSITIONS),
        )
    if kind == "rotary" and width % 2:
        raise PellucidError(f"rotary positions turn pairs, and {width} is odd", fix=f"Choose width {width + 1}")
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        positions = positions_called(kind, length=length, width=width, n_heads=1, is_causal=True)
    return positions_shown(kind, positions, length)
