"""Stacks of blocks: one that reads a sequence in both directions, and one that writes another and asks the first.

Both take embedded tokens, add or hand on their positions, and normalise what comes out of the last block, as
`torch.nn.TransformerEncoder` and `TransformerDecoder` do inside `torch.nn.Transformer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.layers.blocks import PostNormBlock, PostNormDecoderBlock, PreNormBlock, PreNormDecoderBlock
from pellucid.layers.caches import DecoderState
from pellucid.layers.feed_forward import ActivatedFeedForward
from pellucid.layers.masks import CAUSAL, Mask
from pellucid.layers.positions import build_positions
from pellucid.models.pairs.configs import EncoderConfig, EncoderDecoderConfig

EncoderBlock = PreNormBlock | PostNormBlock
DecoderBlock = PreNormDecoderBlock | PostNormDecoderBlock
# By their form: "pre" normalises what a block reads, "post" what it has written.
ENCODER_BLOCKS: Mapping[str, type[EncoderBlock]] = MappingProxyType({"pre": PreNormBlock, "post": PostNormBlock})
DECODER_BLOCKS: Mapping[str, type[DecoderBlock]] = MappingProxyType(
    {"pre": PreNormDecoderBlock, "post": PostNormDecoderBlock}
)


StackConfig = EncoderDecoderConfig | EncoderConfig


class EncoderStack(nn.Module):
    """stream: (batch, time, width) -> the same; every position sees all that the mask leaves, before and after it."""

    def __init__(self, config: StackConfig, longest: int) -> None:
        super().__init__()
        self.positions = build_positions(
            config.positions, length=longest, width=config.width, n_heads=config.n_heads, is_causal=False
        )
        self.dropout = nn.Dropout(config.dropout)
        block = ENCODER_BLOCKS[config.form]
        self.blocks = nn.ModuleList(
            [
                block(config.width, config.n_heads, feed_forward=_feed_forward(config), dropout=config.dropout)
                for _ in range(config.depth)
            ]
        )
        self.norm = nn.LayerNorm(config.width)

    def forward(self, stream: Tensor, mask: Mask) -> Tensor:
        time = stream.shape[1]
        stream = self.dropout(_placed(stream, self.positions.added(0, time)))
        bias, turns = self.positions.bias(time, time), self.positions.turns(0, time)
        for block in self.blocks:
            stream = block(stream, mask=mask, bias=bias, turns=turns)
        normed: Tensor = self.norm(stream)
        return normed

    def maps(self, stream: Tensor, mask: Mask) -> Tensor:
        """What each head of each block takes of each position: (depth, batch, heads, time, time)."""
        time = stream.shape[1]
        stream = _placed(stream, self.positions.added(0, time))
        bias, turns = self.positions.bias(time, time), self.positions.turns(0, time)
        found = []
        for block in self._each():
            found.append(block.weights(stream, mask=mask, bias=bias, turns=turns))
            stream = block(stream, mask=mask, bias=bias, turns=turns)
        return torch.stack(found)

    def _each(self) -> Iterator[EncoderBlock]:
        for block in self.blocks:
            assert isinstance(block, EncoderBlock)
            yield block


class DecoderMaps(NamedTuple):
    """What each head of each block takes: of the own past (depth, batch, heads, time, time), of the memory (…, m)."""

    own: Tensor
    memory: Tensor


class Written(NamedTuple):
    """What each block of a decoder goes on with, and how many tokens were read, the opening boundary included."""

    blocks: tuple[DecoderState, ...]
    read: int


class DecoderStack(nn.Module):
    """stream: (batch, time, width), memory: (batch, m, width) -> as the stream.

    Each position sees itself, those before it, and of the memory what its mask leaves.
    """

    def __init__(self, config: StackConfig, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.positions = build_positions(
            config.positions, length=longest, width=config.width, n_heads=config.n_heads, is_causal=True
        )
        self.dropout = nn.Dropout(config.dropout)
        block = DECODER_BLOCKS[config.form]
        self.blocks = nn.ModuleList(
            [
                block(config.width, config.n_heads, feed_forward=_feed_forward(config), dropout=config.dropout)
                for _ in range(config.depth)
            ]
        )
        self.norm = nn.LayerNorm(config.width)

    def forward(self, stream: Tensor, memory: Tensor, memory_mask: Mask) -> Tensor:
        time = stream.shape[1]
        stream = self.dropout(_placed(stream, self.positions.added(0, time)))
        bias, turns = self.positions.bias(time, time), self.positions.turns(0, time)
        for block in self.blocks:
            stream = block(stream, memory, mask=CAUSAL, memory_mask=memory_mask, bias=bias, turns=turns)
        normed: Tensor = self.norm(stream)
        return normed

    def begin(self, memory: Tensor, memory_mask: Mask) -> Written:
        """Before anything was read. Keys and values of the memory are computed here, once."""
        batch = len(memory)
        return Written(
            tuple(
                block.begin(memory, block.attention.cache(batch, self.longest), memory_mask=memory_mask)
                for block in self._each()
            ),
            read=0,
        )

    def advance(self, stream: Tensor, state: Written) -> tuple[Tensor, Written]:
        """stream: (batch, width), the next position alone -> (batch, width) and the next state."""
        start, end = state.read, state.read + 1
        stream = self.dropout(_placed(stream[:, None], self.positions.added(start, end)))
        bias, turns = self.positions.bias(1, end), self.positions.turns(start, end)
        for block, own in zip(self._each(), state.blocks, strict=True):
            stream = block.advance(stream, own, bias=bias, turns=turns)
        return self.norm(stream[:, 0]), state._replace(read=end)

    def maps(self, stream: Tensor, memory: Tensor, memory_mask: Mask) -> DecoderMaps:
        time = stream.shape[1]
        stream = _placed(stream, self.positions.added(0, time))
        bias, turns = self.positions.bias(time, time), self.positions.turns(0, time)
        found = []
        for block in self._each():
            found.append(block.weights(stream, memory, memory_mask=memory_mask, bias=bias, turns=turns))
            stream = block(stream, memory, memory_mask=memory_mask, bias=bias, turns=turns)
        return DecoderMaps(torch.stack([each.own for each in found]), torch.stack([each.memory for each in found]))

    def _each(self) -> Iterator[DecoderBlock]:
        for block in self.blocks:
            assert isinstance(block, DecoderBlock)
            yield block


def _feed_forward(config: StackConfig) -> nn.Module:
    return ActivatedFeedForward(config.width, nn.ReLU(), dropout=config.dropout)


def _placed(stream: Tensor, added: Tensor | None) -> Tensor:
    return stream if added is None else stream + added
