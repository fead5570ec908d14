"""Several attentions side by side: each head has its own queries, keys and values, and a matrix combines them.

MultiHeadAttention     all vectors have one width, which the heads share
AsymmetricAttention    every width is its own: of the stream, of what gives keys, of what gives values, and in the
                       heads d for queries and keys, t for values
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.layers.attention import attend, attention_weights, inverse_root
from pellucid.layers.caches import Cache, KeyValueCache, RingCache
from pellucid.layers.masks import Mask
from pellucid.layers.positions.rotary import turned


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
        self, stream: Tensor, memory: Tensor, *, mask: Mask, bias: Tensor | None = None, turns: Tensor | None = None
    ) -> Tensor:
        """bias: on the scores, broadcasts to (batch, heads, n, m). turns: rotary positions, in self-attention alone."""
        queries, keys, values = self._projected(stream, memory, turns)
        return self._combined(attend(queries, keys, values, mask=mask, bias=bias))

    def weights(
        self, stream: Tensor, memory: Tensor, *, mask: Mask, bias: Tensor | None = None, turns: Tensor | None = None
    ) -> Tensor:
        """How much of each position of the memory each head takes: (batch, heads, n, m). Only this call makes them."""
        queries, keys, _ = self._projected(stream, memory, turns)
        return attention_weights(queries, keys, mask=mask, bias=bias)

    def advance(
        self, stream: Tensor, cache: Cache, *, bias: Tensor | None = None, turns: Tensor | None = None
    ) -> Tensor:
        """Self-attention of the next positions, (batch, n, width), on all that the cache holds and on themselves."""
        queries, keys, values = self._projected(stream, stream, turns)
        keys, values = cache.append(keys, values)
        return self._combined(attend(queries, keys, values, mask=cache.mask, bias=bias))

    def remembered(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory that is asked again and again: each (batch, heads, m, head_width)."""
        keys, values = self._linear(memory, 1, 3)
        return keys, values

    def recall(self, stream: Tensor, keys: Tensor, values: Tensor, *, mask: Mask) -> Tensor:
        """What the stream gathers from a memory by its `remembered` keys and values."""
        (queries,) = self._linear(stream, 0, 1)
        return self._combined(attend(queries, keys, values, mask=mask))

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

    def _projected(self, stream: Tensor, memory: Tensor, turns: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the stream, keys and values of the memory: each (batch, heads, time, head_width)."""
        if memory is stream:
            queries, keys, values = self._linear(stream, 0, 3)
        else:
            (queries,), (keys, values) = self._linear(stream, 0, 1), self._linear(memory, 1, 3)
        if turns is not None:
            assert memory is stream, "positions of two sequences have no distance"
            queries, keys = turned(queries, turns), turned(keys, turns)
        return queries, keys, values

    def _linear(self, vectors: Tensor, first: int, last: int) -> list[Tensor]:
        """By these of the three matrices: (batch, time, width) -> for each of them (batch, heads, time, head_width)."""
        matrix: Tensor = self.project.view(-1, self.width)
        shift: Tensor | None = self.shift
        if last - first < 3:  # even a slice of everything would copy the gradient on its way back
            rows = slice(first * self.width, last * self.width)
            matrix, shift = matrix[rows], None if shift is None else shift[rows]
        parts = functional.linear(vectors, matrix, shift)
        # Cut before they are parted: back through this their gradients are copied once, else twice.
        return [parted(part, self.n_heads) for part in parts.chunk(last - first, dim=-1)]

    def _combined(self, mixed: Tensor) -> Tensor:
        out: Tensor = self.combine(joined(mixed))
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
        queries, keys, values = (parted(each, self.n_heads) for each in (queries, keys, values))
        out: Tensor = self.combine(joined(attend(queries, keys, values, mask=mask, bias=bias)))
        return out

    def weights(self, stream: Tensor, keys_from: Tensor, *, mask: Mask, bias: Tensor | None = None) -> Tensor:
        """How much of each position each head takes: (batch, heads, n, m). The values have no say in it."""
        queries, keys = parted(self.queries(stream), self.n_heads), parted(self.keys(keys_from), self.n_heads)
        return attention_weights(queries, keys, mask=mask, bias=bias)


def parted(vectors: Tensor, n_heads: int) -> Tensor:
    """(batch, time, n_heads · head_width) -> (batch, n_heads, time, head_width)."""
    return vectors.view(*vectors.shape[:2], n_heads, -1).transpose(1, 2)


def joined(heads: Tensor) -> Tensor:
    """What `parted` parted: (batch, n_heads, time, head_width) -> (batch, time, n_heads · head_width).

    >>> vectors = torch.randn(2, 3, 8)
    >>> torch.equal(joined(parted(vectors, n_heads=4)), vectors)
    True
    """
    return heads.transpose(1, 2).flatten(2)
