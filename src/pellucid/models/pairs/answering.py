"""What a network for pairs answers when it is left alone: the likeliest token, then the likeliest after it, to the end.

Greedy answers of many sources at once. The best of several beginnings are found by the beam search of
`pellucid.decoding` over a `PairReading` (`reading.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.models.pairs.contract import PairModel

AT_ONCE = 1024  # sources; more would be no faster, and memory stays flat


@torch.inference_mode()
def answers(model: PairModel, sources: Tensor) -> list[list[int]]:
    """The answer to each source, without its closing boundary. sources: (batch, source), filled up with 0.

    One that has not ended after `longest_target` + 1 tokens is cut there: it is longer than any target, and so cannot
    be taken for a right one.

    >>> from pellucid.models.catalogue import find_network
    >>> card = find_network("transformer", "pairs")
    >>> model = card.build(card.tiny)  # it knows nothing yet, and of equals the first is said: 0, the end
    >>> answers(model, torch.tensor([[3, 1, 0], [2, 2, 2]]))
    [[], []]
    """
    ready = model.for_inference()
    starts = range(0, len(sources), AT_ONCE)
    return [answer for start in starts for answer in _together(ready, sources[start : start + AT_ONCE])]


def _together(model: PairModel, sources: Tensor) -> list[list[int]]:
    """The answers of one batch. Rows that have ended are left out of what is still computed."""
    found: list[list[int]] = [[] for _ in sources]
    state = model.begin(sources)
    is_whose = list(range(len(sources)))  # which source each open row answers
    tokens = torch.zeros(len(sources), dtype=torch.int64, device=sources.device)
    for _ in range(model.longest_target + 1):
        scores, state = model.advance(tokens, state)
        tokens = scores.argmax(-1)  # of equals the first
        is_open = tokens != 0
        if not is_open.all():
            rows = is_open.nonzero().flatten()
            if not len(rows):
                break
            state, tokens = model.keep(state, rows), tokens[rows]
            is_whose = [is_whose[row] for row in rows.tolist()]
        for source, token in zip(is_whose, tokens.tolist(), strict=True):
            found[source].append(token)
    return found
