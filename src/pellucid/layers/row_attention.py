"""Causal self-attention of the rows of a batch: no padding is computed, and rotary positions are part of it.

Attention is all in a transformer that lets tokens meet. So a batch of rows of different lengths can go through it as
its tokens alone, (n, width), if attention knows where each row begins (`TokenRows`).

`attend_rows` does that in one call of C, there and back, where a compiler was there at install: 128 names take a third
of the time of the few products in torch that are its twin, and windows of 64 tokens 0.4 of the fused kernel's. Longer
rows, other types of numbers, devices and positions have that kernel, which pads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import _get_current_dispatch_mode

from pellucid.layers.attention import inverse_root, join_heads, split_heads

try:
    from pellucid.layers import _attention
except ImportError:  # it was installed without a C compiler
    _attention = None  # type: ignore[assignment]

LONGEST_COMPILED = 256  # tokens of a row, up to which the fused kernel was slower on all sizes that were tried
LONGEST_IN_TORCH = 32  # and up to which it is slower than matrix products one after the other
TILE, LANES = 4, 8  # tokens and positions that the compiled code works on at once


class TokenRows(NamedTuple):
    """How the tokens of a batch stand: each row's from its first place on, and padding behind them."""

    batch: int
    time: int
    real: Tensor  # (n,), places in the batch as one row that hold tokens

    def pad(self, tokens: Tensor) -> Tensor:
        """(n, width) -> (batch, time, width), with zeros where no token is."""
        padded = tokens.new_zeros(self.batch * self.time, tokens.shape[-1]).index_copy(0, self.real, tokens)
        return padded.view(self.batch, self.time, -1)

    def take(self, padded: Tensor) -> Tensor:
        """(batch, time, width) -> (n, width)."""
        return padded.flatten(0, 1).index_select(0, self.real)


def attend_rows(projected: Tensor, n_heads: int, angles: Tensor | None, rows: TokenRows | None = None) -> Tensor | None:
    """What `rotate` and `attend` say, causally and for all heads; None where the fused kernel is the faster way.

    projected: (batch, time, 3 · width), queries, keys and values side by side -> (batch, time, width); with rows (n,
    3 · width) -> (n, width). angles: of rotary positions, (time, head_width / 2, 2), or None.

    >>> attend_rows(torch.tensor([[[0.0, 0.0, 1.0], [0.0, 0.0, 3.0]]]), n_heads=1, angles=None)
    tensor([[[1.],
             [2.]]])
    """
    if projected.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return None
    time = projected.shape[1] if rows is None else rows.time
    if time <= LONGEST_COMPILED and _is_compiled_for(projected):
        starts = np.arange(len(projected) + 1) * time if rows is None else _starts(rows)
        flat = projected.view(-1, projected.shape[-1])
        attended: Tensor = _CompiledRows.apply(flat, starts, n_heads, angles)  # type: ignore[no-untyped-call]
        return attended.view(*projected.shape[:-1], -1)
    if time > LONGEST_IN_TORCH:
        return None
    if rows is None:
        return attend_short_rows(projected, n_heads, angles)
    return rows.take(attend_short_rows(rows.pad(projected), n_heads, angles))


def _starts(rows: TokenRows) -> npt.NDArray[np.int64]:
    """Of each row, where among the tokens it begins, and where the last one ends.

    >>> _starts(TokenRows(2, 3, torch.tensor([0, 1, 2, 3])))
    array([0, 3, 4])
    """
    lengths = np.bincount(rows.real.numpy() // rows.time, minlength=rows.batch)
    return np.concatenate([[0], np.cumsum(lengths)])


def _is_compiled_for(projected: Tensor) -> bool:
    """Not while somebody follows what torch computes, who would see nothing."""
    return (
        _attention is not None
        and projected.dtype == torch.float32
        and not torch.compiler.is_compiling()
        and _get_current_dispatch_mode() is None
    )


class _CompiledRows(torch.autograd.Function):
    """Kept for the way back are what came in and the weights, of each row and head (time, time) in whole vectors."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, starts: npt.NDArray[np.int64], n_heads: int, angles: Tensor | None
    ) -> Tensor:
        parts = projected.detach().contiguous()
        n, width = len(parts), parts.shape[1] // 3
        lengths = np.diff(starts)
        n_weights = n_heads * int((-(-lengths // TILE) * TILE * (-(-lengths // LANES)) * LANES).sum())
        weights, mixed = parts.new_empty(n_weights), parts.new_empty(n, width)
        turns = None if angles is None else angles.contiguous()
        _attention.forward(parts.numpy(), starts, n_heads, width, _numbers(turns), weights.numpy(), mixed.numpy())
        ctx.save_for_backward(parts, weights, turns)
        ctx.starts, ctx.n_heads = starts, n_heads
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        parts, weights, turns = ctx.saved_tensors
        slopes = torch.empty_like(parts)
        _attention.backward(
            parts.numpy(),
            ctx.starts,
            ctx.n_heads,
            gradient.shape[1],
            _numbers(turns),
            weights.numpy(),
            gradient.contiguous().numpy(),
            slopes.numpy(),
        )
        return slopes, None, None, None


def _numbers(tensor: Tensor | None) -> npt.NDArray[np.float32] | None:
    return None if tensor is None else tensor.numpy()


def attend_short_rows(projected: Tensor, n_heads: int, angles: Tensor | None) -> Tensor:
    """The same in torch, of rows of one length: (batch, time, 3 · width) -> (batch, time, width).

    The fused kernel is made for long rows: of 128 names it takes, there and back, twice the time of these few products.

    >>> attend_short_rows(torch.tensor([[[0.0, 0.0, 1.0], [0.0, 0.0, 3.0]]]), n_heads=1, angles=None)
    tensor([[[1.],
             [2.]]])
    """
    mixed: Tensor = _ShortRows.apply(projected, n_heads, angles)  # type: ignore[no-untyped-call]  # torch gives it none
    return mixed


class _ShortRows(torch.autograd.Function):
    """Heads are put apart, turned and joined again in one pass each; kept for the way back are they and the weights."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, n_heads: int, angles: Tensor | None) -> Tensor:
        batch, time, _ = projected.shape
        parts = projected.view(batch, time, 3, n_heads, -1)
        heads = projected.new_empty(3, batch, n_heads, time, parts.shape[-1])
        _turn_into(heads.permute(1, 3, 0, 2, 4), parts, angles)
        q, k, v = heads.flatten(1, 2)  # (batch · heads, time, head_width) each
        hidden = torch.full((time, time), -math.inf, dtype=q.dtype, device=q.device).triu_(1)
        weights = torch.baddbmm(hidden, q, k.mT, alpha=inverse_root(q.shape[-1])).softmax(-1)
        ctx.save_for_backward(heads, weights, angles)
        return join_heads(torch.bmm(weights, v).view(heads.shape[1:]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        heads, weights, angles = ctx.saved_tensors
        _, batch, n_heads, time, head_width = heads.shape
        q, k, v = heads.flatten(1, 2)
        of_mixed = split_heads(gradient, n_heads).reshape(q.shape)
        slopes = torch.empty_like(heads)
        of_q, of_k, of_v = slopes.flatten(1, 2)
        torch.bmm(weights.mT, of_mixed, out=of_v)
        of_weights = torch.bmm(of_mixed, v.mT)
        # Of softargmax: w · (g - Σ w g).
        of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype).mul_(inverse_root(head_width))
        torch.bmm(of_scores, k, out=of_q)
        torch.bmm(of_scores.mT, q, out=of_k)
        joined = gradient.new_empty(batch, time, 3, n_heads, head_width)
        # Turned back: by the same angles the other way.
        _turn_into(
            joined, slopes.permute(1, 3, 0, 2, 4), None if angles is None else angles * angles.new_tensor([1, -1])
        )
        return joined.view(batch, time, -1), None, None


def _turn_into(target: Tensor, source: Tensor, angles: Tensor | None) -> None:
    """Copy (batch, time, 3, heads, head_width), queries and keys turned on the way as by `rotate`."""
    if angles is None:
        target.copy_(source)
        return
    pairs, turned = (torch.view_as_complex(torch.unflatten(one[:, :, :2], -1, (-1, 2))) for one in (source, target))
    torch.mul(pairs, torch.view_as_complex(angles)[:, None, None], out=turned)
    target[:, :, 2].copy_(source[:, :, 2])
