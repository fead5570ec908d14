"""Blocks: attention, then feed-forward; each reads the stream and adds to it what it found.

    PreNormBlock            x + attention(norm(x)), then x + feed_forward(norm(x)); no norm is on the stream itself
    PostNormBlock           norm(x + attention(x)), then norm(x + feed_forward(x)): the original of Vaswani et al. 2017
    PreNormDecoderBlock     the same two ways with a memory to ask, between attention and feed-forward
    PostNormDecoderBlock

Every block has norms of its own, and dropout on whatever is added to the stream. The attention's weights have none:
it would cost the fused kernel. `norm` makes a norm for a width; `feed_forward` is the block's own module.

The blocks without a memory ask under any mask: EVERYTHING makes an encoder of them, CAUSAL a language model. `begin`
and `advance` read on token by token, and what was read before is not computed again (see `caches.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from pellucid.layers.attention import MultiHeadAttention
from pellucid.layers.kv_cache import Cache, DecoderState
from pellucid.layers.masks import CAUSAL, EVERYTHING, BooleanMask, Mask

MakeNorm = Callable[[int], nn.Module]


class PreNormBlock(nn.Module):
    """stream: (batch, time, width) -> the same.

    >>> import torch
    >>> from pellucid.layers.feed_forward import GatedFeedForward
    >>> PreNormBlock(8, n_heads=2, feed_forward=GatedFeedForward(8, nn.SiLU()))(torch.randn(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self, width: int, n_heads: int, *, feed_forward: nn.Module, dropout: float = 0.0, norm: MakeNorm = nn.LayerNorm
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, n_heads)
        self.feed_forward = feed_forward
        self.attention_norm = norm(width)
        self.feed_forward_norm = norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, stream: Tensor, *, mask: Mask = EVERYTHING, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        level = self.attention_norm(stream)
        return self._rest(stream, self.attention(level, level, mask=mask, bias=bias, angles=angles))

    def weights(
        self, stream: Tensor, *, mask: Mask = EVERYTHING, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """What each head takes of each position of this stream: (batch, heads, time, time)."""
        level = self.attention_norm(stream)
        return self.attention.weights(level, level, mask=mask, bias=bias, angles=angles)

    def advance(
        self, stream: Tensor, cache: Cache, *, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """The next positions, (batch, n, width), after those that the cache of `attention` holds."""
        level = self.attention_norm(stream)
        return self._rest(stream, self.attention.advance(level, cache, bias=bias, angles=angles))

    def _rest(self, stream: Tensor, gathered: Tensor) -> Tensor:
        stream = stream + self.dropout(gathered)
        out: Tensor = stream + self.dropout(self.feed_forward(self.feed_forward_norm(stream)))
        return out


class PostNormBlock(nn.Module):
    """stream: (batch, time, width) -> the same.

    >>> import torch
    >>> from pellucid.layers.feed_forward import ActivatedFeedForward
    >>> PostNormBlock(8, n_heads=2, feed_forward=ActivatedFeedForward(8, nn.ReLU()))(torch.randn(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self, width: int, n_heads: int, *, feed_forward: nn.Module, dropout: float = 0.0, norm: MakeNorm = nn.LayerNorm
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, n_heads)
        self.feed_forward = feed_forward
        self.attention_norm = norm(width)
        self.feed_forward_norm = norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, stream: Tensor, *, mask: Mask = EVERYTHING, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        return self._rest(stream, self.attention(stream, stream, mask=mask, bias=bias, angles=angles))

    def weights(
        self, stream: Tensor, *, mask: Mask = EVERYTHING, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """What each head takes of each position of this stream: (batch, heads, time, time)."""
        return self.attention.weights(stream, stream, mask=mask, bias=bias, angles=angles)

    def advance(
        self, stream: Tensor, cache: Cache, *, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """The next positions, (batch, n, width), after those that the cache of `attention` holds."""
        return self._rest(stream, self.attention.advance(stream, cache, bias=bias, angles=angles))

    def _rest(self, stream: Tensor, gathered: Tensor) -> Tensor:
        stream = self.attention_norm(stream + self.dropout(gathered))
        out: Tensor = self.feed_forward_norm(stream + self.dropout(self.feed_forward(stream)))
        return out


class DecoderWeights(NamedTuple):
    """What the heads of a decoder block take of their own stream and of the memory: (batch, heads, n, n) and (…, m)."""

    own: Tensor
    memory: Tensor


class PreNormDecoderBlock(nn.Module):
    """stream: (batch, n, width), memory: (batch, m, width) -> as the stream.

    >>> import torch
    >>> from pellucid.layers.feed_forward import ActivatedFeedForward
    >>> block = PreNormDecoderBlock(8, n_heads=2, feed_forward=ActivatedFeedForward(8, nn.GELU()))
    >>> stream, memory = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    >>> state = block.begin(memory, block.attention.cache(batch=1, longest=3))
    >>> one_by_one = torch.cat([block.advance(stream[:, [time]], state) for time in range(3)], dim=1)
    >>> torch.allclose(one_by_one, block(stream, memory), atol=1e-5)
    True
    """

    def __init__(
        self, width: int, n_heads: int, *, feed_forward: nn.Module, dropout: float = 0.0, norm: MakeNorm = nn.LayerNorm
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, n_heads)
        self.memory_attention = MultiHeadAttention(width, n_heads)
        self.feed_forward = feed_forward
        self.attention_norm = norm(width)
        self.memory_norm = norm(width)
        self.feed_forward_norm = norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        stream: Tensor,
        memory: Tensor,
        *,
        mask: Mask = CAUSAL,
        memory_mask: Mask = EVERYTHING,
        bias: Tensor | None = None,
        angles: Tensor | None = None,
    ) -> Tensor:
        level = self.attention_norm(stream)
        stream = stream + self.dropout(self.attention(level, level, mask=mask, bias=bias, angles=angles))
        return self._rest(stream, *self.memory_attention.project_memory(memory), memory_mask)

    def weights(
        self,
        stream: Tensor,
        memory: Tensor,
        *,
        mask: Mask = CAUSAL,
        memory_mask: Mask = EVERYTHING,
        bias: Tensor | None = None,
        angles: Tensor | None = None,
    ) -> DecoderWeights:
        """What each head takes, for this stream and this memory, without dropout."""
        level = self.attention_norm(stream)
        own = self.attention.weights(level, level, mask=mask, bias=bias, angles=angles)
        level = self.memory_norm(stream + self.attention(level, level, mask=mask, bias=bias, angles=angles))
        return DecoderWeights(own, self.memory_attention.weights(level, memory, mask=memory_mask))

    def begin(self, memory: Tensor, own: Cache, *, memory_mask: Mask = EVERYTHING) -> DecoderState:
        """Before anything was read. own: empty, made by `attention`; the memory's mask is the same for all queries."""
        return _begin_decoder(self.memory_attention, memory, own, memory_mask)

    def advance(
        self, stream: Tensor, state: DecoderState, *, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """The next positions, (batch, n, width). What the state keeps of the past is changed by it."""
        level = self.attention_norm(stream)
        stream = stream + self.dropout(self.attention.advance(level, state.own, bias=bias, angles=angles))
        return self._rest(stream, state.keys, state.values, BooleanMask(state.visible))

    def _rest(self, stream: Tensor, keys: Tensor, values: Tensor, memory_mask: Mask) -> Tensor:
        level = self.memory_norm(stream)
        stream = stream + self.dropout(self.memory_attention.recall(level, keys, values, mask=memory_mask))
        out: Tensor = stream + self.dropout(self.feed_forward(self.feed_forward_norm(stream)))
        return out


class PostNormDecoderBlock(nn.Module):
    """stream: (batch, n, width), memory: (batch, m, width) -> as the stream. It is asked as `PreNormDecoderBlock` is.

    >>> import torch
    >>> from pellucid.layers.feed_forward import ActivatedFeedForward
    >>> block = PostNormDecoderBlock(8, n_heads=2, feed_forward=ActivatedFeedForward(8, nn.ReLU()))
    >>> block(torch.randn(1, 3, 8), torch.randn(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self, width: int, n_heads: int, *, feed_forward: nn.Module, dropout: float = 0.0, norm: MakeNorm = nn.LayerNorm
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, n_heads)
        self.memory_attention = MultiHeadAttention(width, n_heads)
        self.feed_forward = feed_forward
        self.attention_norm = norm(width)
        self.memory_norm = norm(width)
        self.feed_forward_norm = norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        stream: Tensor,
        memory: Tensor,
        *,
        mask: Mask = CAUSAL,
        memory_mask: Mask = EVERYTHING,
        bias: Tensor | None = None,
        angles: Tensor | None = None,
    ) -> Tensor:
        gathered = self.attention(stream, stream, mask=mask, bias=bias, angles=angles)
        stream = self.attention_norm(stream + self.dropout(gathered))
        return self._rest(stream, *self.memory_attention.project_memory(memory), memory_mask)

    def weights(
        self,
        stream: Tensor,
        memory: Tensor,
        *,
        mask: Mask = CAUSAL,
        memory_mask: Mask = EVERYTHING,
        bias: Tensor | None = None,
        angles: Tensor | None = None,
    ) -> DecoderWeights:
        """What each head takes, for this stream and this memory, without dropout."""
        own = self.attention.weights(stream, stream, mask=mask, bias=bias, angles=angles)
        gathered = self.attention(stream, stream, mask=mask, bias=bias, angles=angles)
        stream = self.attention_norm(stream + gathered)
        return DecoderWeights(own, self.memory_attention.weights(stream, memory, mask=memory_mask))

    def begin(self, memory: Tensor, own: Cache, *, memory_mask: Mask = EVERYTHING) -> DecoderState:
        """Before anything was read. own: empty, made by `attention`; the memory's mask is the same for all queries."""
        return _begin_decoder(self.memory_attention, memory, own, memory_mask)

    def advance(
        self, stream: Tensor, state: DecoderState, *, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """The next positions, (batch, n, width). What the state keeps of the past is changed by it."""
        gathered = self.attention.advance(stream, state.own, bias=bias, angles=angles)
        stream = self.attention_norm(stream + self.dropout(gathered))
        return self._rest(stream, state.keys, state.values, BooleanMask(state.visible))

    def _rest(self, stream: Tensor, keys: Tensor, values: Tensor, memory_mask: Mask) -> Tensor:
        gathered = self.memory_attention.recall(stream, keys, values, mask=memory_mask)
        stream = self.memory_norm(stream + self.dropout(gathered))
        out: Tensor = self.feed_forward_norm(stream + self.dropout(self.feed_forward(stream)))
        return out


def _begin_decoder(attention: MultiHeadAttention, memory: Tensor, own: Cache, mask: Mask) -> DecoderState:
    keys, values = attention.project_memory(memory)
    batch, m, _ = memory.shape
    seen = mask.visible((batch, attention.n_heads, 1, m), memory.device).expand(batch, 1, 1, m)
    return DecoderState(own, keys, values, seen)
