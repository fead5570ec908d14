"""Attention: every query asks all keys that it may see, and takes of their values by how well each answers.

attend, attention_weights    the formula
MultiHeadAttention           several attentions side by side, each head with its own queries, keys and values; all
                             vectors have one width, which the heads share
AsymmetricAttention          every width is its own: of the stream, of what gives keys, of what gives values, and in
                             the heads d for queries and keys, t for values

queries, keys, values      three views of a stream, or the queries of one and keys and values of another
scores                     scale · queries · keys: how well each key answers each query, and a bias on it
weights                    softargmax of the scores over what may be seen; each row sums to one
mixed                      the values' average by these weights
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.layers.kv_cache import Cache, KeyValueCache, RingCache
from pellucid.layers.masks import CAUSAL, Causal, Mask
from pellucid.layers.positions.encodings import rotate

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
    hard: bool = False,
) -> Tensor:
    """What each query gathers: `attention_weights(queries, keys, ...) @ values`, by one fused kernel where that can.

    queries: (..., n, d); keys: (..., m, d); values: (..., m, t); bias: broadcasts to (..., n, m). Back: (..., n, t).
    A query that may see nothing gathers zeros.

    >>> attend(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))
    tensor([[1.],
            [2.]])
    """
    if hard:
        weights = attention_weights(
            queries, keys, scale=scale, mask=mask, bias=bias, temperature=temperature, hard=True
        )
        return weights @ values
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
        seen = mask.visible((*queries.shape[:-1], m), queries.device)
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
    seen = mask.visible(scores.shape, scores.device)
    is_blind = ~seen.any(-1, keepdim=True)
    # A row of -∞ alone has no softargmax; a blind one sees all for a moment, and is emptied afterwards.
    scores = scores.masked_fill(~(seen | is_blind), -math.inf)
    if hard:
        is_best = (scores == scores.amax(-1, keepdim=True)).to(scores.dtype)
        weights = is_best / is_best.sum(-1, keepdim=True)
    else:
        weights = (scores / temperature).softmax(-1)
    return weights.masked_fill(is_blind, 0)


def split_heads(vectors: Tensor, n_heads: int) -> Tensor:
    """(batch, time, n_heads · head_width) -> (batch, n_heads, time, head_width)."""
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
    """

    def __init__(self, width: int, n_heads: int, *, has_bias: bool = True) -> None:
        super().__init__()
        if width % n_heads:
            raise PellucidError(
                f"width {width} cannot be shared equally by {n_heads} heads "
                f"({width} / {n_heads} = {width / n_heads:g})",
                fix=f"The nearest width that can is {max(1, round(width / n_heads)) * n_heads}",
            )
        self.width, self.n_heads = width, n_heads
        # Three matrices, one each for queries, keys and values, in one tensor: one product makes all three.
        self.project = nn.Parameter(torch.empty(3, width, width))
        self.shift = nn.Parameter(torch.zeros(3 * width)) if has_bias else None
        self.combine = nn.Linear(width, width, bias=has_bias)
        bound = inverse_root(width)  # as torch's own linear layers begin
        nn.init.uniform_(self.project, -bound, bound)
        if has_bias:
            nn.init.zeros_(self.combine.bias)

    def forward(
        self, stream: Tensor, memory: Tensor, *, mask: Mask, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """bias: on the scores, broadcasts to (batch, heads, n, m). angles: rotary, in self-attention alone."""
        queries, keys, values = self._project(stream, memory, angles)
        return self._combine(attend(queries, keys, values, mask=mask, bias=bias))

    def weights(
        self, stream: Tensor, memory: Tensor, *, mask: Mask, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """How much of each position of the memory each head takes: (batch, heads, n, m). Only this call makes them."""
        queries, keys, _ = self._project(stream, memory, angles)
        return attention_weights(queries, keys, mask=mask, bias=bias)

    def advance(
        self, stream: Tensor, cache: Cache, *, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """Self-attention of the next positions, (batch, n, width), on all that the cache holds and on themselves."""
        queries, keys, values = self._project(stream, stream, angles)
        keys, values = cache.append(keys, values)
        return self._combine(attend(queries, keys, values, mask=cache.mask, bias=bias))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory that is asked again and again: each (batch, heads, m, head_width)."""
        keys, values = self._linear(memory, 1, 3)
        return keys, values

    def recall(self, stream: Tensor, keys: Tensor, values: Tensor, *, mask: Mask) -> Tensor:
        """What the stream gathers from a memory by its `project_memory` keys and values."""
        (queries,) = self._linear(stream, 0, 1)
        return self._combine(attend(queries, keys, values, mask=mask))

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


class AsymmetricAttention(nn.Module):
    """Every width its own, as the formulas of attention allow.

    stream: (batch, n, width) asks keys_from: (batch, m, key_width) and takes of values_from: (batch, m, value_width).

    >>> from pellucid.layers.masks import EVERYTHING
    >>> attention = AsymmetricAttention(width=8, key_width=5, value_width=3, n_heads=2, d=6, t=4)
    >>> stream, keys_from, values_from = torch.randn(1, 3, 8), torch.randn(1, 7, 5), torch.randn(1, 7, 3)
    >>> attention(stream, keys_from, values_from, mask=EVERYTHING).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self, *, width: int, key_width: int, value_width: int, n_heads: int, d: int, t: int, has_bias: bool = True
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.queries = nn.Linear(width, n_heads * d, bias=has_bias)
        self.keys = nn.Linear(key_width, n_heads * d, bias=has_bias)
        self.values = nn.Linear(value_width, n_heads * t, bias=has_bias)
        self.combine = nn.Linear(n_heads * t, width, bias=has_bias)

    def forward(
        self, stream: Tensor, keys_from: Tensor, values_from: Tensor, *, mask: Mask, bias: Tensor | None = None
    ) -> Tensor:
        queries, keys, values = self.queries(stream), self.keys(keys_from), self.values(values_from)
        queries, keys, values = (split_heads(each, self.n_heads) for each in (queries, keys, values))
        out: Tensor = self.combine(join_heads(attend(queries, keys, values, mask=mask, bias=bias)))
        return out

    def weights(self, stream: Tensor, keys_from: Tensor, *, mask: Mask, bias: Tensor | None = None) -> Tensor:
        """How much of each position each head takes: (batch, heads, n, m). The values have no say in it."""
        queries, keys = split_heads(self.queries(stream), self.n_heads), split_heads(self.keys(keys_from), self.n_heads)
        return attention_weights(queries, keys, mask=mask, bias=bias)


def _beta(scale: Scale, queries: Tensor) -> float:
    return scale(queries.shape[-1]) if callable(scale) else scale


def _require_warm(temperature: float) -> None:
    if not temperature > 0:
        raise PellucidError(
            f"a temperature of {temperature:g} came", fix="Give one above 0; its limit at 0 is hard=True"
        )
