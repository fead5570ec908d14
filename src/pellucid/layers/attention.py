"""Attention: every query asks all keys that it may see, and takes of their values by how well each answers.

queries, keys, values      three views of a stream, or the queries of one and keys and values of another
scores                     scale · queries · keys: how well each key answers each query, and a bias on it
weights                    softargmax of the scores over what may be seen; each row sums to one
mixed                      the values' average by these weights
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, overload

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.layers.masks import CAUSAL, Causal, Mask
from pellucid.layers.positions.rotary import turned

Scale = float | Callable[[int], float]  # a number, or how it follows from the width of the queries


def inverse_root(width: int) -> float:
    """β = 1/√d: products of d numbers of variance 1 have variance d, and so scaled their variance is 1 again.

    >>> inverse_root(16)
    0.25
    """
    return 1 / math.sqrt(width)


@overload
def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: Scale = ...,
    mask: Mask = ...,
    bias: Tensor | None = ...,
    temperature: float = ...,
    hard: bool = ...,
    with_weights: Literal[False] = ...,
) -> Tensor: ...


@overload
def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: Scale = ...,
    mask: Mask = ...,
    bias: Tensor | None = ...,
    temperature: float = ...,
    hard: bool = ...,
    with_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: Scale = inverse_root,
    mask: Mask = CAUSAL,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    hard: bool = False,
    with_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """What each query gathers: `attention_weights(queries, keys, ...) @ values`, by one fused kernel where that can.

    queries: (..., n, d); keys: (..., m, d); values: (..., m, t); bias: broadcasts to (..., n, m). Back: (..., n, t).
    A query that may see nothing gathers zeros. With weights these come behind: (..., n, m); only then are they made.

    >>> attend(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))
    tensor([[1.],
            [2.]])
    """
    if hard or with_weights:
        weights = attention_weights(
            queries, keys, scale=scale, mask=mask, bias=bias, temperature=temperature, hard=hard
        )
        mixed = weights @ values
        return (mixed, weights) if with_weights else mixed
    _require_warm(temperature)
    beta = _beta(scale, queries) / temperature
    n, m = queries.shape[-2], keys.shape[-2]
    is_open = mask.hides_nothing(n, m)
    # torch's own is_causal counts from the first key; that is the same only when all positions ask. And it hides before
    # it scales: -∞ times 0 would be nan.
    is_torchs = isinstance(mask, Causal) and n == m and beta > 0
    if bias is None and (is_open or is_torchs):
        return functional.scaled_dot_product_attention(queries, keys, values, is_causal=not is_open, scale=beta)
    added = None if bias is None else bias / temperature
    if not is_open:
        seen = mask.seen((*queries.shape[:-1], m), queries.device)
        added = seen if added is None else torch.where(seen, added, -math.inf)
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=added, scale=beta)


def attention_weights(
    queries: Tensor,
    keys: Tensor,
    *,
    scale: Scale = inverse_root,
    mask: Mask = CAUSAL,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    hard: bool = False,
) -> Tensor:
    """How much of each key every query takes: softargmax((scale · queries · keys + bias) / temperature), written out.

    queries: (..., n, d); keys: (..., m, d) -> (..., n, m). Each row sums to one over what the mask leaves; one that it
    leaves nothing is zero. Scale 0 averages evenly. Hard is what temperature → 0 becomes: all weight on the best key,
    shared equally where several are equally good.

    >>> attention_weights(torch.zeros(2, 4), torch.zeros(2, 4))
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    >>> attention_weights(torch.ones(1, 1), torch.tensor([[5.0], [1.0], [5.0]]), hard=True)
    tensor([[0.5000, 0.0000, 0.5000]])
    """
    _require_warm(temperature)
    scores = queries @ keys.transpose(-2, -1) * _beta(scale, queries)
    if bias is not None:
        scores = scores + bias
    seen = mask.seen(scores.shape, scores.device)
    is_blind = ~seen.any(-1, keepdim=True)
    # A row of -∞ alone has no softargmax; a blind one sees all for a moment, and is emptied afterwards.
    scores = scores.masked_fill(~(seen | is_blind), -math.inf)
    if hard:
        is_best = (scores == scores.amax(-1, keepdim=True)).to(scores.dtype)
        weights = is_best / is_best.sum(-1, keepdim=True)
    else:
        weights = (scores / temperature).softmax(-1)
    return weights.masked_fill(is_blind, 0)


def later(n: int, time: int, like: Tensor) -> Tensor:
    """What the last n of `time` positions may not see, added to their scores: (n, time), -inf where it is later.

    >>> later(2, 3, like=torch.zeros(()))
    tensor([[0., 0., -inf],
            [0., 0., 0.]])
    """
    return CAUSAL.added((n, time), like)


def _beta(scale: Scale, queries: Tensor) -> float:
    return scale(queries.shape[-1]) if callable(scale) else scale


def _require_warm(temperature: float) -> None:
    if not temperature > 0:
        raise PellucidError(
            f"a temperature of {temperature:g} came", fix="Give one above 0; its limit at 0 is hard=True"
        )


class Attention(nn.Module):
    """Causal attention with several heads: (batch, time, width) -> (batch, time, width).

    The matrix that combines the heads begins at zero: a new block adds nothing to the stream.
    """

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        # Three matrices, one each for queries, keys and values, in one tensor: one product makes all three.
        self.project = nn.Parameter(torch.empty(3, width, width))
        self.combine = nn.Linear(width, width, bias=False)
        bound = 1 / math.sqrt(width)  # as torch's own linear layers begin
        nn.init.uniform_(self.project, -bound, bound)
        nn.init.zeros_(self.combine.weight)

    def forward(
        self,
        stream: Tensor,
        turns: Tensor | None = None,
        bias: Tensor | None = None,
        past: Tensor | None = None,
        read: int = 0,
    ) -> Tensor:
        """turns: (time, head_width / 2, 2), rotary positions of these tokens; without it nothing is turned.

        bias: (heads, time, read + time), added to the scores. past: (2, batch, heads, longest, head_width), keys and
        values of the `read` tokens before; those of the stream are written behind them.
        """
        batch, time, width = stream.shape
        parts = functional.linear(stream, self.project.view(3 * width, width))
        # Cut into three before heads are parted: back through this their gradients are copied once, else twice.
        queries, keys, values = (
            part.view(batch, time, self.n_heads, -1).transpose(1, 2) for part in parts.chunk(3, dim=-1)
        )
        if turns is not None:
            queries, keys = turned(queries, turns), turned(keys, turns)
        if past is not None:
            past[0, :, :, read : read + time] = keys
            past[1, :, :, read : read + time] = values
            keys, values = past[:, :, :, : read + time]
        mixed = attend(queries, keys, values, bias=bias)  # (batch, heads, time, head_width)
        out: Tensor = self.combine(mixed.transpose(1, 2).reshape(batch, time, width))
        return out
