"""Blocks: attention, then feed-forward; each reads the stream and adds to it what it found.

    PreNormBlock            x + attention(norm(x)), then x + feed_forward(norm(x)); no norm is on the stream itself
    PostNormBlock           norm(x + attention(x)), then norm(x + feed_forward(x)): the original of Vaswani et al. 2017
    NoResidualBlock         attention(norm(x)), then feed_forward(norm(x)): nothing is added to what came in, to see why
                            everybody adds
    PreNormDecoderBlock     the same three ways with a memory to ask, between attention and feed-forward
    PostNormDecoderBlock
    NoResidualDecoderBlock

Every block has norms of its own, and dropout on whatever is added to the stream. The attention's weights have none
unless `attention_dropout` says so, for it costs the fused kernel. `norm` makes a norm for a width; `feed_forward` is
the block's own module.

The blocks without a memory ask under any mask: EVERYTHING makes an encoder of them, CAUSAL a language model. `begin`
and `advance` read on token by token, and what was read before is not computed again (see `kv_cache.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from torch import Tensor, nn

from pellucid.layers.attention import MultiHeadAttention
from pellucid.layers.kv_cache import Cache, DecoderState
from pellucid.layers.masks import CAUSAL, EVERYTHING, BooleanMask, Mask

MakeNorm = Callable[[int], nn.Module]


class NormOrder(nn.Module, ABC):
    """Where the norm of each part of a block stands: a part is given `read(x)`, and `add` puts in what it found.

    >>> import torch
    >>> class NoNorm(NormOrder):
    ...     def read(self, stream, norm):
    ...         return stream
    ...     def add(self, stream, found, norm):
    ...         return stream + found
    >>> class NoNormBlock(NoNorm, EncoderBlock):
    ...     pass
    >>> NoNormBlock(8, n_heads=2, feed_forward=nn.Linear(8, 8))(torch.randn(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    @abstractmethod
    def read(self, stream: Tensor, norm: nn.Module) -> Tensor:
        """What a part of the block is given of the stream."""

    @abstractmethod
    def add(self, stream: Tensor, found: Tensor, norm: nn.Module) -> Tensor:
        """The stream with what that part found."""


class PreNorm(NormOrder):
    """x + part(norm(x)).

    >>> import torch
    >>> order, norm, x = PreNorm(), nn.LayerNorm(2), torch.tensor([3.0, 5.0])
    >>> found = order.read(x, norm)  # of a part that gives back what it is given
    >>> order.add(x, found, norm).detach().round(decimals=2)
    tensor([2., 6.])
    """

    def read(self, stream: Tensor, norm: nn.Module) -> Tensor:
        level: Tensor = norm(stream)
        return level

    def add(self, stream: Tensor, found: Tensor, norm: nn.Module) -> Tensor:
        return stream + found


class PostNorm(NormOrder):
    """norm(x + part(x)).

    >>> import torch
    >>> order, norm, x = PostNorm(), nn.LayerNorm(2), torch.tensor([3.0, 5.0])
    >>> order.add(x, order.read(x, norm), norm).detach().round(decimals=2)
    tensor([-1.,  1.])
    """

    def read(self, stream: Tensor, norm: nn.Module) -> Tensor:
        return stream

    def add(self, stream: Tensor, found: Tensor, norm: nn.Module) -> Tensor:
        level: Tensor = norm(stream + found)
        return level


class NoResidual(NormOrder):
    """part(norm(x)): what a part does not hand on is lost, and the gradient has no way around it.

    >>> import torch
    >>> order, norm, x = NoResidual(), nn.LayerNorm(2), torch.tensor([3.0, 5.0])
    >>> order.add(x, order.read(x, norm), norm).detach().round(decimals=2)
    tensor([-1.,  1.])
    """

    def read(self, stream: Tensor, norm: nn.Module) -> Tensor:
        level: Tensor = norm(stream)
        return level

    def add(self, stream: Tensor, found: Tensor, norm: nn.Module) -> Tensor:
        return found


# By the form of a block, as users choose it. They hold nothing, so that one of each serves all blocks.
NORM_ORDERS: Mapping[str, NormOrder] = MappingProxyType({"pre": PreNorm(), "post": PostNorm(), "none": NoResidual()})


class EncoderBlock(NormOrder):
    """stream: (batch, time, width) -> the same. PreNormBlock and PostNormBlock say where the norms stand.

    >>> import torch
    >>> from pellucid.layers.feed_forward import ActivatedFeedForward
    >>> block: EncoderBlock = PostNormBlock(8, n_heads=2, feed_forward=ActivatedFeedForward(8, nn.ReLU()))
    >>> stream, cache = torch.randn(1, 3, 8), block.attention.cache(batch=1, longest=3)
    >>> one_by_one = torch.cat([block.advance(stream[:, [time]], cache) for time in range(3)], dim=1)
    >>> torch.allclose(one_by_one, block(stream, mask=CAUSAL), atol=1e-5)
    True
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        *,
        feed_forward: nn.Module,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        norm: MakeNorm = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, n_heads, dropout=attention_dropout)
        self.feed_forward = feed_forward
        self.attention_norm = norm(width)
        self.feed_forward_norm = norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, stream: Tensor, *, mask: Mask = EVERYTHING, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        level = self.read(stream, self.attention_norm)
        return self._rest(stream, self.attention(level, level, mask=mask, bias=bias, angles=angles))

    def weights(
        self, stream: Tensor, *, mask: Mask = EVERYTHING, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """What each head takes of each position of this stream: (batch, heads, time, time)."""
        level = self.read(stream, self.attention_norm)
        return self.attention.weights(level, level, mask=mask, bias=bias, angles=angles)

    def advance(
        self, stream: Tensor, cache: Cache, *, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """The next positions, (batch, n, width), after those that the cache of `attention` holds."""
        level = self.read(stream, self.attention_norm)
        return self._rest(stream, self.attention.advance(level, cache, bias=bias, angles=angles))

    def project_keys(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of these positions, each (batch, heads, n, head_width), for whoever asks them later."""
        return self.attention.project_memory(self.read(stream, self.attention_norm))

    def recall(
        self, stream: Tensor, keys: Tensor, values: Tensor, *, mask: Mask = EVERYTHING, bias: Tensor | None = None
    ) -> Tensor:
        """The block of these positions, (batch, n, width), whose keys and values are given: also those after them."""
        level = self.read(stream, self.attention_norm)
        return self._rest(stream, self.attention.recall(level, keys, values, mask=mask, bias=bias))

    def _rest(self, stream: Tensor, gathered: Tensor) -> Tensor:
        stream = self.add(stream, self.dropout(gathered), self.attention_norm)
        found = self.feed_forward(self.read(stream, self.feed_forward_norm))
        return self.add(stream, self.dropout(found), self.feed_forward_norm)


class PreNormBlock(PreNorm, EncoderBlock):
    """stream: (batch, time, width) -> the same.

    >>> import torch
    >>> from pellucid.layers.feed_forward import GatedFeedForward
    >>> PreNormBlock(8, n_heads=2, feed_forward=GatedFeedForward(8, nn.SiLU()))(torch.randn(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """


class PostNormBlock(PostNorm, EncoderBlock):
    """stream: (batch, time, width) -> the same.

    >>> import torch
    >>> from pellucid.layers.feed_forward import ActivatedFeedForward
    >>> PostNormBlock(8, n_heads=2, feed_forward=ActivatedFeedForward(8, nn.ReLU()))(torch.randn(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """


class NoResidualBlock(NoResidual, EncoderBlock):
    """stream: (batch, time, width) -> the same.

    >>> import torch
    >>> block = NoResidualBlock(8, n_heads=2, feed_forward=nn.Identity(), norm=lambda width: nn.Identity())
    >>> stream = torch.randn(1, 3, 8)
    >>> torch.equal(block(stream), block.attention(stream, stream, mask=EVERYTHING))
    True
    """


class DecoderWeights(NamedTuple):
    """What the heads of a decoder block take of their own stream and of the memory: (batch, heads, n, n) and (…, m).

    >>> import torch
    >>> block = PreNormDecoderBlock(8, n_heads=2, feed_forward=nn.Identity())
    >>> seen = block.weights(torch.randn(1, 3, 8), torch.randn(1, 5, 8))
    >>> seen.own.shape, seen.memory.shape
    (torch.Size([1, 2, 3, 3]), torch.Size([1, 2, 3, 5]))
    """

    own: Tensor
    memory: Tensor


class DecoderBlock(NormOrder):
    """stream: (batch, n, width), memory: (batch, m, width) -> as the stream.

    PreNormDecoderBlock and PostNormDecoderBlock say where the norms stand. What a stream asks of a memory is left out
    for what its mask hides:

    >>> import torch
    >>> from pellucid.layers.masks import PaddingMask
    >>> block: DecoderBlock = PreNormDecoderBlock(8, n_heads=2, feed_forward=nn.Identity())
    >>> stream, memory = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    >>> two_of_five = block(stream, memory, memory_mask=PaddingMask(torch.tensor([2])))
    >>> torch.allclose(two_of_five, block(stream, memory[:, :2]), atol=1e-5)
    True
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        *,
        feed_forward: nn.Module,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        norm: MakeNorm = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, n_heads, dropout=attention_dropout)
        self.memory_attention = MultiHeadAttention(width, n_heads, dropout=attention_dropout)
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
        level = self.read(stream, self.attention_norm)
        gathered = self.attention(level, level, mask=mask, bias=bias, angles=angles)
        return self._rest(stream, gathered, *self.memory_attention.project_memory(memory), memory_mask)

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
        level = self.read(stream, self.attention_norm)
        own = self.attention.weights(level, level, mask=mask, bias=bias, angles=angles)
        gathered = self.attention(level, level, mask=mask, bias=bias, angles=angles)
        level = self.read(self.add(stream, gathered, self.attention_norm), self.memory_norm)
        return DecoderWeights(own, self.memory_attention.weights(level, memory, mask=memory_mask))

    def begin(self, memory: Tensor, own: Cache, *, memory_mask: Mask = EVERYTHING) -> DecoderState:
        """Before anything was read. own: empty, made by `attention`; the memory's mask is the same for all queries."""
        keys, values = self.memory_attention.project_memory(memory)
        batch, m, _ = memory.shape
        seen = memory_mask.visible((batch, self.memory_attention.n_heads, 1, m), memory.device)
        return DecoderState(own, keys, values, seen.expand(batch, 1, 1, m))

    def advance(
        self, stream: Tensor, state: DecoderState, *, bias: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """The next positions, (batch, n, width). What the state keeps of the past is changed by it."""
        level = self.read(stream, self.attention_norm)
        gathered = self.attention.advance(level, state.own, bias=bias, angles=angles)
        return self._rest(stream, gathered, state.keys, state.values, BooleanMask(state.visible))

    def _rest(self, stream: Tensor, gathered: Tensor, keys: Tensor, values: Tensor, memory_mask: Mask) -> Tensor:
        stream = self.add(stream, self.dropout(gathered), self.attention_norm)
        level = self.read(stream, self.memory_norm)
        recalled = self.memory_attention.recall(level, keys, values, mask=memory_mask)
        stream = self.add(stream, self.dropout(recalled), self.memory_norm)
        found = self.feed_forward(self.read(stream, self.feed_forward_norm))
        return self.add(stream, self.dropout(found), self.feed_forward_norm)


class PreNormDecoderBlock(PreNorm, DecoderBlock):
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


class PostNormDecoderBlock(PostNorm, DecoderBlock):
    """stream: (batch, n, width), memory: (batch, m, width) -> as the stream.

    >>> import torch
    >>> from pellucid.layers.feed_forward import ActivatedFeedForward
    >>> block = PostNormDecoderBlock(8, n_heads=2, feed_forward=ActivatedFeedForward(8, nn.ReLU()))
    >>> block(torch.randn(1, 3, 8), torch.randn(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """


class NoResidualDecoderBlock(NoResidual, DecoderBlock):
    """stream: (batch, n, width), memory: (batch, m, width) -> as the stream.

    >>> import torch
    >>> block = NoResidualDecoderBlock(8, n_heads=2, feed_forward=nn.Identity())
    >>> block(torch.randn(1, 3, 8), torch.randn(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """
