"""Rows of different lengths as one tensor, filled up with 0: the boundary, which stands inside none of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import PellucidError


def pad_rows(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of tokens, filled up with 0 on the right: (batch, longest), at least one place wide.

    >>> pad_rows([[3, 1], [2]])
    tensor([[3, 1],
            [2, 0]])
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    filled = np.zeros((len(rows), max(1, int(lengths.max(initial=0)))), np.int64)
    tokens = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
    filled[np.arange(filled.shape[1]) < lengths[:, None]] = tokens
    return torch.from_numpy(filled)


def lengths_of(sources: Tensor) -> Tensor:
    """How many tokens each source has without what fills it up: (batch, source) -> (batch,).

    >>> lengths_of(torch.tensor([[3, 1, 0], [2, 0, 0]]))
    tensor([2, 1])
    """
    return (sources != 0).sum(1)


def trim_padding(sources: Tensor, longest: int) -> Tensor:
    """The same sources as wide as the longest of them, and at least 1; one of more than `longest` tokens is refused.

    >>> trim_padding(torch.tensor([[3, 1, 0, 0], [2, 0, 0, 0]]), longest=8)
    tensor([[3, 1],
            [2, 0]])
    """
    if torch.compiler.is_compiling():
        return sources  # a graph has no width that follows from numbers; what pads changes none of them
    n_tokens = int(lengths_of(sources).max()) if sources.numel() else 0
    if n_tokens > longest:
        raise PellucidError(
            f"a source of {n_tokens} tokens came, and this network was made for {longest}",
            fix=f"Give it at most {longest}, or train one on longer sources",
        )
    return sources[:, : max(n_tokens, 1)]


def align_right(sources: Tensor, room: int) -> Tensor:
    """The same sources, each ending at the last of `room` places, with zeros before them: (batch, room).

    >>> align_right(torch.tensor([[3, 1, 0], [2, 0, 0]]), room=4)
    tensor([[0, 0, 3, 1],
            [0, 0, 0, 2]])
    """
    sources = trim_padding(sources, room)
    wide = torch.nn.functional.pad(sources, (0, room - sources.shape[1]))
    n_empty = room - lengths_of(sources)
    places = (torch.arange(room, device=sources.device) - n_empty[:, None]) % room  # the zeros go round to the front
    return wide.gather(1, places)


def require_target_room(n_tokens: int, longest: int) -> None:
    """Refuse to read more of a target than its opening boundary and `longest` tokens."""
    if n_tokens > longest + 1:
        raise PellucidError(
            f"a target of {n_tokens - 1} tokens came, and this network was made for {longest}",
            fix=f"Give it at most {longest}, or train one on longer targets",
        )
