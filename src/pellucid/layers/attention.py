"""Attention: every position asks all positions before it, and takes from each in proportion to how well it answers.

queries, keys, values      three views of the same stream, split among the heads
scores                     queries · keys / √(head width): how well each key answers each query
weights                    softargmax of the scores over what may be seen; each row sums to one
mixed                      the values' average by these weights
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.layers.positions import turned


def attention_weights(queries: Tensor, keys: Tensor) -> Tensor:
    """How much of each position every query takes: (batch, heads, n, head_width) -> (batch, heads, n, time).

    The queries are the last n positions. Each sees itself and all before it, and its weights sum to one.

    >>> attention_weights(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4))[0, 0]
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
    return (scores + later(queries.shape[-2], keys.shape[-2], like=scores)).softmax(-1)


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """What each query gathers: `attention_weights(queries, keys) @ values`, in one fused kernel.

    queries: (batch, heads, n, head_width); keys, values: (batch, heads, time, head_width); back: as queries.

    >>> attend(torch.zeros(1, 1, 2, 1), torch.zeros(1, 1, 2, 1), torch.tensor([[[[1.0], [3.0]]]]))[0, 0]
    tensor([[1.],
            [2.]])
    """
    n, time = queries.shape[-2], keys.shape[-2]
    # torch's own is_causal counts from the first key; that is the same only when all positions ask.
    mask = later(n, time, like=queries) if 1 < n < time else None
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=1 < n == time)


def later(n: int, time: int, like: Tensor) -> Tensor:
    """What the last n of `time` positions may not see, added to their scores: (n, time), -inf where it is later.

    >>> later(2, 3, like=torch.zeros(()))
    tensor([[0., 0., -inf],
            [0., 0., 0.]])
    """
    return torch.full((n, time), -math.inf, dtype=like.dtype, device=like.device).triu_(time - n + 1)


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

    def forward(self, stream: Tensor, turns: Tensor | None = None, past: Tensor | None = None, read: int = 0) -> Tensor:
        """turns: (time, head_width / 2, 2), rotary positions of these tokens; without it nothing is turned.

        past: (2, batch, heads, longest, head_width), keys and values of the `read` tokens before; those of the
        stream are written behind them.
        """
        batch, time, width = stream.shape
        parts = functional.linear(stream, self.project.view(3 * width, width))
        queries, keys, values = parts.view(batch, time, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        if turns is not None:
            queries, keys = turned(queries, turns), turned(keys, turns)
        if past is not None:
            past[0, :, :, read : read + time] = keys
            past[1, :, :, read : read + time] = values
            keys, values = past[:, :, :, : read + time]
        mixed = attend(queries, keys, values)  # (batch, heads, time, head_width)
        out: Tensor = self.combine(mixed.transpose(1, 2).reshape(batch, time, width))
        return out
