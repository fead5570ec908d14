"""Encoder-decoder: one stack of blocks reads the source in both directions, another writes the target and asks it.

    memory = encoder(embed(source))             every token of the source sees every other
    stream = decoder(embed(target), memory)     each sees the target up to itself, and the whole memory
    scores = head(stream)

It is the transformer of Vaswani et al. 2017. In their form, "post", each sum is normalised; in the form "pre" what is
added is computed from the normalised stream, and the stream itself never is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.layers.blocks import PostNormBlock, PostNormDecoderBlock, PreNormBlock, PreNormDecoderBlock
from pellucid.layers.feed_forward import ActivatedFeedForward
from pellucid.layers.kv_cache import DecoderState
from pellucid.layers.masks import CAUSAL, Mask, PaddingMask
from pellucid.layers.positions import build_positions
from pellucid.models.contracts import PairModel
from pellucid.models.pairs.configs import EncoderConfig, EncoderDecoderConfig
from pellucid.models.pairs.padding import lengths_of, require_target_room, trim_padding

EncoderBlock = PreNormBlock | PostNormBlock
DecoderBlock = PreNormDecoderBlock | PostNormDecoderBlock
# By their form: "pre" normalises what a block reads, "post" what it has written.
ENCODER_BLOCKS: Mapping[str, type[EncoderBlock]] = MappingProxyType({"pre": PreNormBlock, "post": PostNormBlock})
DECODER_BLOCKS: Mapping[str, type[DecoderBlock]] = MappingProxyType(
    {"pre": PreNormDecoderBlock, "post": PostNormDecoderBlock}
)


StackConfig = EncoderDecoderConfig | EncoderConfig


class EncoderStack(nn.Module):
    """stream: (batch, time, width) -> the same; every position sees all that the mask leaves, before and after it.

    Stacks of blocks: one that reads a sequence in both directions, and one that writes another and asks the first. Both
    take embedded tokens, add or hand on their positions, and normalise what comes out of the last block, as
    `torch.nn.TransformerEncoder` and `TransformerDecoder` do inside `torch.nn.Transformer`.
    """

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
        stream = self.dropout(_add_positions(stream, self.positions.embeddings(0, time)))
        bias, angles = self.positions.bias(time, time), self.positions.angles(0, time)
        for block in self.blocks:
            stream = block(stream, mask=mask, bias=bias, angles=angles)
        normed: Tensor = self.norm(stream)
        return normed

    def maps(self, stream: Tensor, mask: Mask) -> Tensor:
        """What each head of each block takes of each position: (depth, batch, heads, time, time)."""
        time = stream.shape[1]
        stream = _add_positions(stream, self.positions.embeddings(0, time))
        bias, angles = self.positions.bias(time, time), self.positions.angles(0, time)
        found = []
        for block in self._each():
            found.append(block.weights(stream, mask=mask, bias=bias, angles=angles))
            stream = block(stream, mask=mask, bias=bias, angles=angles)
        return torch.stack(found)

    def _each(self) -> Iterator[EncoderBlock]:
        for block in self.blocks:
            assert isinstance(block, EncoderBlock)
            yield block


class DecoderMaps(NamedTuple):
    """What each head of each block takes: of the own past (depth, batch, heads, time, time), of the memory (…, m)."""

    own: Tensor
    memory: Tensor


class DecoderStates(NamedTuple):
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
        stream = self.dropout(_add_positions(stream, self.positions.embeddings(0, time)))
        bias, angles = self.positions.bias(time, time), self.positions.angles(0, time)
        for block in self.blocks:
            stream = block(stream, memory, mask=CAUSAL, memory_mask=memory_mask, bias=bias, angles=angles)
        normed: Tensor = self.norm(stream)
        return normed

    def begin(self, memory: Tensor, memory_mask: Mask) -> DecoderStates:
        """Before anything was read. Keys and values of the memory are computed here, once."""
        batch = len(memory)
        return DecoderStates(
            tuple(
                block.begin(memory, block.attention.cache(batch, self.longest), memory_mask=memory_mask)
                for block in self._each()
            ),
            read=0,
        )

    def advance(self, stream: Tensor, state: DecoderStates) -> tuple[Tensor, DecoderStates]:
        """stream: (batch, width), the next position alone -> (batch, width) and the next state."""
        start, end = state.read, state.read + 1
        stream = self.dropout(_add_positions(stream[:, None], self.positions.embeddings(start, end)))
        bias, angles = self.positions.bias(1, end), self.positions.angles(start, end)
        for block, own in zip(self._each(), state.blocks, strict=True):
            stream = block.advance(stream, own, bias=bias, angles=angles)
        return self.norm(stream[:, 0]), state._replace(read=end)

    def maps(self, stream: Tensor, memory: Tensor, memory_mask: Mask) -> DecoderMaps:
        time = stream.shape[1]
        stream = _add_positions(stream, self.positions.embeddings(0, time))
        bias, angles = self.positions.bias(time, time), self.positions.angles(0, time)
        found = []
        for block in self._each():
            found.append(block.weights(stream, memory, memory_mask=memory_mask, bias=bias, angles=angles))
            stream = block(stream, memory, memory_mask=memory_mask, bias=bias, angles=angles)
        return DecoderMaps(torch.stack([each.own for each in found]), torch.stack([each.memory for each in found]))

    def _each(self) -> Iterator[DecoderBlock]:
        for block in self.blocks:
            assert isinstance(block, DecoderBlock)
            yield block


def _feed_forward(config: StackConfig) -> nn.Module:
    return ActivatedFeedForward(config.width, nn.ReLU(), dropout=config.dropout)


def _add_positions(stream: Tensor, added: Tensor | None) -> Tensor:
    return stream if added is None else stream + added


class EncoderDecoder(PairModel):
    """Source and target are looked up in one embedding; each has positions of its own, counted from its first token.

    >>> config = EncoderDecoderConfig(vocab_size=5, longest_source=4, longest_target=3, width=8, depth=2, n_heads=2)
    >>> EncoderDecoder(config)(torch.tensor([[4, 1, 1]]), torch.tensor([[0, 1]])).shape
    torch.Size([1, 2, 5])
    """

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.longest_source, self.longest_target = config.longest_source, config.longest_target
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.encoder = EncoderStack(config, longest=config.longest_source)
        self.decoder = DecoderStack(config, longest=config.longest_target + 1)
        self.head = nn.Linear(config.width, config.vocab_size)
        # So every token is as likely at first, and the first loss is ln |V|.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, sources: Tensor, tokens: Tensor) -> Tensor:
        require_target_room(tokens.shape[1], self.longest_target)
        memory, mask = self.encode(sources)
        scores: Tensor = self.head(self.decoder(self.embedding(tokens), memory, mask))
        return scores

    def encode(self, sources: Tensor) -> tuple[Tensor, PaddingMask]:
        """What the encoder makes of the sources, (batch, source, width), and which of it there is to see."""
        sources = trim_padding(sources, self.longest_source)
        mask = PaddingMask(lengths_of(sources))
        return self.encoder(self.embedding(sources), mask), mask

    def begin(self, sources: Tensor) -> DecoderStates:
        return self.decoder.begin(*self.encode(sources))

    def advance(self, tokens: Tensor, state: DecoderStates) -> tuple[Tensor, DecoderStates]:
        require_target_room(state.read + 1, self.longest_target)
        stream, state = self.decoder.advance(self.embedding(tokens), state)
        return self.head(stream), state

    def keep(self, state: DecoderStates, rows: Tensor) -> DecoderStates:
        return state._replace(blocks=tuple(block.keep(rows) for block in state.blocks))

    @torch.no_grad()
    def attention_maps(self, sources: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """What each head of each block takes of each position, without dropout; no other call makes these weights.

        "source": (depth, batch, heads, source, source), "target": (…, time, time), "cross": (…, time, source).
        """
        require_target_room(tokens.shape[1], self.longest_target)
        ready = self.for_inference()
        memory, mask = ready.encode(sources)
        source = ready.encoder.maps(ready.embedding(trim_padding(sources, self.longest_source)), mask)
        own, cross = ready.decoder.maps(ready.embedding(tokens), memory, mask)
        return {"source": source, "target": own, "cross": cross}


class EncoderAnswer(NamedTuple):
    """All that there is to say, (batch, longest_target + 1, vocab), and how much of it was said."""

    scores: Tensor
    said: int


class Encoder(PairModel):
    """It reads the source in both directions and writes the whole target in one pass.

        places     0   1   2   3
        read       D   A   A   0        source DAA, padded with 0
        written    A   D   0            the target's first token is read off at the first place, and so on to the end

    What it writes at one place does not know what it writes at another: it is not autoregressive, and the tokens of the
    target that it is given only say how many places are asked for. Where the target is a label, of a single token,
    nothing is lost by it. Places past the end of a source are read too, since a target may be longer; but no place sees
    what is in them.

    >>> model = Encoder(EncoderConfig(5, longest_source=4, longest_target=3, width=8, depth=2, n_heads=2))
    >>> model(torch.tensor([[4, 1, 1]]), torch.tensor([[0, 1]])).shape
    torch.Size([1, 2, 5])
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.longest_source, self.longest_target = config.longest_source, config.longest_target
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.encoder = EncoderStack(config, longest=max(config.longest_source, config.longest_target + 1))
        self.head = nn.Linear(config.width, config.vocab_size)
        # So every token is as likely at first, and the first loss is ln |V|.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, sources: Tensor, tokens: Tensor) -> Tensor:
        """Of the tokens only their number counts: the scores at t are those of the target's token t, whatever it is."""
        require_target_room(tokens.shape[1], self.longest_target)
        return self._scores(sources, tokens.shape[1])

    def begin(self, sources: Tensor) -> EncoderAnswer:
        return EncoderAnswer(self._scores(sources, self.longest_target + 1), said=0)

    def advance(self, tokens: Tensor, state: EncoderAnswer) -> tuple[Tensor, EncoderAnswer]:
        require_target_room(state.said + 1, self.longest_target)
        return state.scores[:, state.said], state._replace(said=state.said + 1)

    def keep(self, state: EncoderAnswer, rows: Tensor) -> EncoderAnswer:
        return state._replace(scores=state.scores[rows])

    @torch.no_grad()
    def attention_maps(self, sources: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """What each head of each block takes of each place, without dropout; no other call makes these weights.

        "source": (depth, batch, heads, places, places); the tokens say how many places are written.
        """
        require_target_room(tokens.shape[1], self.longest_target)
        return {"source": self.for_inference().encoder.maps(*self._embed_places(sources, tokens.shape[1]))}

    def _scores(self, sources: Tensor, n_written: int) -> Tensor:
        scores: Tensor = self.head(self.encoder(*self._embed_places(sources, n_written))[:, :n_written])
        return scores

    def _embed_places(self, sources: Tensor, n_written: int) -> tuple[Tensor, PaddingMask]:
        """The embedded places, at least as many as are written, and which of them may be seen: those of the source."""
        sources = trim_padding(sources, self.longest_source)
        places = functional.pad(sources, (0, max(0, n_written - sources.shape[1])))
        return self.embedding(places), PaddingMask(lengths_of(sources))
