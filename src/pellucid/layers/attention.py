"""Attention: every query asks all keys that it may see, and takes of their values by how well each answers.

attend, attention_weights    the formula, with vectors as rows: softargmax(Q Kᵀ β) V
attend_columns               the same with vectors as columns: V softargmax(β Kᵀ Q)
MultiHeadAttention           several attentions side by side, each head with its own queries, keys and values; all
                             vectors have one width, which the heads share
AsymmetricAttention          every width is its own: of what gives queries, keys and values, of the heads (d_k for
                             queries and keys, d_v for values), and of what comes out

queries, keys, values      three views of a stream, or the queries of one and keys and values of another
scores                     scale · queries · keys: how well each key answers each query, and a bias on it
weights                    softargmax of the scores over what may be seen; each row sums to one. Other choices than
                           softargmax, hard ones and drawn ones, are in softargmax.py
mixed                      the values' average by these weights
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.layers.kv_cache import Cache, KeyValueCache, RingCache
from pellucid.layers.masks import CAUSAL, EVERYTHING, Causal, Mask
from pellucid.layers.positions.encodings import rotate
from pellucid.layers.softargmax import WeightChoice, softargmax

Scale = float | Callable[[int], float]  # a number, or how it follows from the width of the queries


def inverse_root(width: int) -> float:
    """β = 1/√d: products of d numbers of variance 1 have variance d, and so scaled their variance is 1 again.

    >>> inverse_root(16)
    0.25
    """
    return 1 / math.sqrt(width)


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: Scale = inverse_root,
    mask: Mask = CAUSAL,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    choose: WeightChoice = softargmax,
    dropout: float = 0.0,
) -> Tensor:
    """What each query gathers: `attention_weights(queries, keys, ...) @ values`, by one fused kernel where that can.

    queries: (..., n, d); keys: (..., m, d); values: (..., m, t); bias: broadcasts to (..., n, m). Back: (..., n, t).
    A query that may see nothing gathers zeros. dropout: of the weights that share is set to 0, and the others grow to
    1 / (1 - dropout) of what they were, so that the mean stays; it is for training alone, and whoever calls knows that.

    >>> attend(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))
    tensor([[1.],
            [2.]])
    """
    _require_a_value_each(keys, values)
    if choose is not softargmax:
        weights = attention_weights(
            queries, keys, scale=scale, mask=mask, bias=bias, temperature=temperature, choose=choose
        )
        return functional.dropout(weights, dropout) @ values
    _require_warm(temperature)
    beta = _beta(scale, queries) / temperature
    n, m = queries.shape[-2], keys.shape[-2]
    is_open = mask.hides_nothing(n, m)
    # torch's own is_causal counts from the first key; that is the same only when all positions ask. And it hides before
    # it scales: -∞ times 0 would be nan.
    is_torchs = isinstance(mask, Causal) and n == m and beta > 0
    if bias is None and (is_open or is_torchs):
        return functional.scaled_dot_product_attention(
            queries, keys, values, dropout_p=dropout, is_causal=not is_open, scale=beta
        )
    added = None if bias is None else bias / temperature
    if not is_open:
        seen = mask.visible((*queries.shape[:-1], m), queries.device)
        added = seen if added is None else torch.where(seen, added, -math.inf)
    return functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=added, dropout_p=dropout, scale=beta
    )


def attention_weights(
    queries: Tensor,
    keys: Tensor,
    *,
    scale: Scale = inverse_root,
    mask: Mask = CAUSAL,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    choose: WeightChoice = softargmax,
) -> Tensor:
    """How much of each key every query takes: softargmax((scale · queries · keys + bias) / temperature), written out.

    queries: (..., n, d); keys: (..., m, d) -> (..., n, m). Each row sums to one over what the mask leaves; one that it
    leaves nothing is zero. Scale 0 averages evenly. choose: what makes weights of scores in place of softargmax.

    >>> attention_weights(torch.zeros(2, 4), torch.zeros(2, 4))
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    >>> from pellucid.layers.softargmax import hardargmax
    >>> attention_weights(torch.ones(1, 1), torch.tensor([[5.0], [1.0], [5.0]]), mask=EVERYTHING, choose=hardargmax)
    tensor([[0.5000, 0.0000, 0.5000]])
    """
    _require_warm(temperature)
    scores = queries @ keys.transpose(-2, -1) * _beta(scale, queries)
    if bias is not None:
        scores = scores + bias
    seen = mask.visible(scores.shape, scores.device)
    is_blind = ~seen.any(-1, keepdim=True)
    # A row of -∞ alone has no softargmax; a blind one sees all for a moment, and is emptied afterwards.
    scores = scores.masked_fill(~(seen | is_blind), -math.inf)
    return choose(scores, temperature).masked_fill(is_blind, 0)


class ColumnAttention(NamedTuple):
    """Attention whose vectors are columns, as formulas of linear algebra have them: its three matrices.

    >>> Q, K, V = torch.randn(4, 3), torch.randn(4, 5), torch.randn(2, 5)       # d × n, d × m, t × m
    >>> S, A, H = attend_columns(Q, K, V)
    >>> tuple(S.shape), tuple(A.shape), tuple(H.shape)
    ((5, 3), (5, 3), (2, 3))
    """

    scores: Tensor  # S = KᵀQ: (..., m, n)
    weights: Tensor  # A = softargmax_β(S) by columns, each of which sums to one: (..., m, n)
    outputs: Tensor  # H = VA: (..., t, n)


def attend_columns(
    queries: Tensor, keys: Tensor, values: Tensor, *, scale: Scale = inverse_root, mask: Mask = EVERYTHING
) -> ColumnAttention:
    """S = KᵀQ, A = softargmax_β(S) by columns, H = VA: what `attend` computes, with everything transposed.

    queries: (..., d, n); keys: (..., d, m); values: (..., t, m). A query that may see nothing has no weights here.

    >>> columns = attend_columns(torch.ones(1, 2), torch.tensor([[5.0, 5.0]]), torch.tensor([[1.0, 3.0]]), mask=CAUSAL)
    >>> columns.weights, columns.outputs
    (tensor([[1.0000, 0.5000],
            [0.0000, 0.5000]]), tensor([[1., 2.]]))
    """
    scores = keys.mT @ queries  # (..., m, n)
    beta = scale(queries.shape[-2]) if callable(scale) else scale
    seen = mask.visible(scores.mT.shape, scores.device).mT  # (..., m, n), or what broadcasts to it
    weights = (beta * scores).masked_fill(~seen, -math.inf).softmax(-2)
    return ColumnAttention(scores, weights, values @ weights)


def split_heads(vectors: Tensor, n_heads: int) -> Tensor:
    """(batch, time, n_heads · head_width) -> (batch, n_heads, time, head_width): each head has its own numbers.

    >>> split_heads(torch.tensor([[[1, 2, 3, 4]]]), n_heads=2)
    tensor([[[[1, 2]],
             [[3, 4]]]])
    """
    return vectors.view(*vectors.shape[:2], n_heads, -1).transpose(1, 2)


def join_heads(heads: Tensor) -> Tensor:
    """What `split_heads` cut apart: (batch, n_heads, time, head_width) -> (batch, time, n_heads · head_width).

    >>> vectors = torch.randn(2, 3, 8)
    >>> torch.equal(join_heads(split_heads(vectors, n_heads=4)), vectors)
    True
    """
    return heads.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """stream: (batch, n, width) asks memory: (batch, m, width) -> (batch, n, width). Self-attention asks itself.

    >>> from pellucid.layers.masks import CAUSAL, EVERYTHING
    >>> attention = MultiHeadAttention(width=8, n_heads=2)
    >>> stream, memory = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    >>> attention(stream, stream, mask=CAUSAL).shape, attention(stream, memory, mask=EVERYTHING).shape
    (torch.Size([1, 3, 8]), torch.Size([1, 3, 8]))
    >>> attention.weights(stream, memory, mask=EVERYTHING).shape
    torch.Size([1, 2, 3, 5])

    has_output=False leaves W_O out: what the heads found stands side by side, and nothing mixes it. dropout is of the
    weights, in training alone. scale: of the scores, from the width of a head.
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        *,
        has_bias: bool = True,
        has_output: bool = True,
        dropout: float = 0.0,
        scale: Scale = inverse_root,
    ) -> None:
        super().__init__()
        if width % n_heads:
            raise PellucidError(
                f"width {width} cannot be shared equally by {n_heads} heads "
                f"({width} / {n_heads} = {width / n_heads:g})",
                fix=f"The nearest width that can is {max(1, round(width / n_heads)) * n_heads}",
            )
        self.width, self.n_heads, self.dropout, self.scale = width, n_heads, dropout, scale
        # Three matrices, one each for queries, keys and values, in one tensor: one product makes all three.
        self.project = nn.Parameter(torch.empty(3, width, width))
        self.shift = nn.Parameter(torch.zeros(3 * width)) if has_bias else None
        self.combine = nn.Linear(width, width, bias=has_bias) if has_output else nn.Identity()
        bound = inverse_root(width)  # as torch's own linear layers begin
        nn.init.uniform_(self.project, -bound, bound)
        if has_bias and isinstance(self.combine, nn.Linear):
            nn.init.zeros_(self.combine.bias)

    def forward(
        self, stream: Tensor, memory: Tensor, *, mask: Mask, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """bias: on the scores, broadcasts to (batch, heads, n, m). angles: rotary, in self-attention alone."""
        queries, keys, values = self._project(stream, memory, angles)
        return self._combine(
            attend(queries, keys, values, scale=self.scale, mask=mask, bias=bias, dropout=self._dropout)
        )

    def weights(
        self, stream: Tensor, memory: Tensor, *, mask: Mask, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """How much of each position of the memory each head takes: (batch, heads, n, m). Only this call makes them."""
        queries, keys, _ = self._project(stream, memory, angles)
        return attention_weights(queries, keys, scale=self.scale, mask=mask, bias=bias)

    def advance(
        self, stream: Tensor, cache: Cache, *, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """Self-attention of the next positions, (batch, n, width), on all that the cache holds and on themselves."""
        queries, keys, values = self._project(stream, stream, angles)
        keys, values = cache.append(keys, values)
        return self._combine(attend(queries, keys, values, scale=self.scale, mask=cache.mask, bias=bias))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory that is asked again and again: each (batch, heads, m, head_width)."""
        keys, values = self._linear(memory, 1, 3)
        return keys, values

    def recall(self, stream: Tensor, keys: Tensor, values: Tensor, *, mask: Mask, bias: Tensor | None = None) -> Tensor:
        """What the stream gathers from a memory by its `project_memory` keys and values."""
        (queries,) = self._linear(stream, 0, 1)
        return self._combine(
            attend(queries, keys, values, scale=self.scale, mask=mask, bias=bias, dropout=self._dropout)
        )

    def cache(self, batch: int, longest: int) -> KeyValueCache:
        """An empty one for this attention: up to `longest` positions."""
        d = self.width // self.n_heads
        return KeyValueCache(
            batch=batch, n_heads=self.n_heads, longest=longest, key_width=d, value_width=d, like=self.project.data
        )

    def ring(self, batch: int, before: int) -> RingCache:
        """An empty one for this attention under `Local(before, after=0)`."""
        d = self.width // self.n_heads
        return RingCache(
            batch=batch, n_heads=self.n_heads, before=before, key_width=d, value_width=d, like=self.project.data
        )

    def _project(self, stream: Tensor, memory: Tensor, angles: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the stream, keys and values of the memory: each (batch, heads, time, head_width)."""
        if memory is stream:
            queries, keys, values = self._linear(stream, 0, 3)
        else:
            (queries,), (keys, values) = self._linear(stream, 0, 1), self._linear(memory, 1, 3)
        if angles is not None:
            assert memory is stream, "positions of two sequences have no distance"
            queries, keys = rotate(queries, angles), rotate(keys, angles)
        return queries, keys, values

    def _linear(self, vectors: Tensor, first: int, last: int) -> list[Tensor]:
        """By these of the three matrices: (batch, time, width) -> for each of them (batch, heads, time, head_width)."""
        matrix: Tensor = self.project.view(-1, self.width)
        shift: Tensor | None = self.shift
        if last - first < 3:  # even a slice of everything would copy the gradient on its way back
            rows = slice(first * self.width, last * self.width)
            matrix, shift = matrix[rows], None if shift is None else shift[rows]
        parts = functional.linear(vectors, matrix, shift)
        # Cut before heads are split: back through this their gradients are copied once, else twice.
        return [split_heads(part, self.n_heads) for part in parts.chunk(last - first, dim=-1)]

    def _combine(self, mixed: Tensor) -> Tensor:
        out: Tensor = self.combine(join_heads(mixed))
        return out

    @property
    def _dropout(self) -> float:
        return self.dropout if self.training else 0.0


class AsymmetricAttention(nn.Module):
    """Every width its own, as the formulas of attention allow: Q is d wide, K too or not, V is t wide.

    stream: (batch, n, query_width) asks keys_from: (batch, m, key_width) and takes of values_from: (batch, m,
    value_width). In each head queries and keys are d_k wide and values d_v; W_O makes out_width of all heads together.
    The usual choice is d_k = d / n_heads, d_v = t / n_heads and out_width = t. out_width=None: no W_O, and what comes
    out is as wide as all heads, n_heads · d_v.

    >>> from pellucid.layers.masks import EVERYTHING
    >>> attention = AsymmetricAttention(
    ...     query_width=8, key_width=8, value_width=6, n_heads=2, d_k=4, d_v=3, out_width=6
    ... )
    >>> stream, keys_from, values_from = torch.randn(1, 3, 8), torch.randn(1, 7, 8), torch.randn(1, 7, 6)
    >>> attention(stream, keys_from, values_from, mask=EVERYTHING).shape
    torch.Size([1, 3, 6])
    """

    def __init__(
        self,
        *,
        query_width: int,
        key_width: int,
        value_width: int,
        n_heads: int,
        d_k: int,
        d_v: int,
        out_width: int | None,
        has_bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.queries = nn.Linear(query_width, n_heads * d_k, bias=has_bias)
        self.keys = nn.Linear(key_width, n_heads * d_k, bias=has_bias)
        self.values = nn.Linear(value_width, n_heads * d_v, bias=has_bias)
        self.combine = nn.Identity() if out_width is None else nn.Linear(n_heads * d_v, out_width, bias=has_bias)

    def forward(
        self, stream: Tensor, keys_from: Tensor, values_from: Tensor, *, mask: Mask, bias: Tensor | None = None
    ) -> Tensor:
        queries, keys, values = self.queries(stream), self.keys(keys_from), self.values(values_from)
        queries, keys, values = (split_heads(each, self.n_heads) for each in (queries, keys, values))
        mixed = attend(
            queries, keys, values, mask=mask, bias=bias, dropout=self.dropout if self.training else 0.0
        )  # (batch, heads, n, d_v)
        out: Tensor = self.combine(join_heads(mixed))
        return out

    def weights(self, stream: Tensor, keys_from: Tensor, *, mask: Mask, bias: Tensor | None = None) -> Tensor:
        """How much of each position each head takes: (batch, heads, n, m). The values have no say in it."""
        queries, keys = split_heads(self.queries(stream), self.n_heads), split_heads(self.keys(keys_from), self.n_heads)
        return attention_weights(queries, keys, mask=mask, bias=bias)


def _beta(scale: Scale, queries: Tensor) -> float:
    return scale(queries.shape[-1]) if callable(scale) else scale


def _require_a_value_each(keys: Tensor, values: Tensor) -> None:
    # torch's fused kernel on the processor counts the values alone: with fewer it passes over the last keys, and with
    # more it reads keys from behind their end.
    if keys.shape[-2] != values.shape[-2]:
        raise PellucidError(
            f"{keys.shape[-2]} keys came with {values.shape[-2]} values", fix="Give each key one value of its own"
        )


def _require_warm(temperature: float) -> None:
    if not temperature > 0:
        raise PellucidError(
            f"a temperature of {temperature:g} came", fix="Give one above 0; its limit at 0 is choose=hardargmax"
        )
