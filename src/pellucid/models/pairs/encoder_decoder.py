"""Encoder-decoder: one stack of blocks reads the source in both directions, another writes the target and asks it.

    memory = encoder(embed(source))             every token of the source sees every other
    stream = decoder(embed(target), memory)     each sees the target up to itself, and the whole memory
    scores = head(stream)

It is the transformer of Vaswani et al. 2017. In their form, "post", each sum is normalised; in the form "pre" what is
added is computed from the normalised stream, and the stream itself never is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.layers.blocks import (
    DecoderBlock,
    DecoderWeights,
    EncoderBlock,
    NoResidualBlock,
    NoResidualDecoderBlock,
    PostNormBlock,
    PostNormDecoderBlock,
    PreNormBlock,
    PreNormDecoderBlock,
)
from pellucid.layers.feed_forward import ActivatedFeedForward
from pellucid.layers.kv_cache import DecoderState
from pellucid.layers.masks import CAUSAL, Mask, PaddingMask
from pellucid.layers.positions import build_positions
from pellucid.models.contracts import PairModel
from pellucid.models.pairs.configs import EncoderConfig, EncoderDecoderConfig
from pellucid.models.pairs.padding import lengths_of, require_target_room, trim_padding

# By their form: "pre" normalises what a block reads, "post" what it has written; "none" has no residual connections.
ENCODER_BLOCKS: Mapping[str, type[EncoderBlock]] = MappingProxyType(
    {"pre": PreNormBlock, "post": PostNormBlock, "none": NoResidualBlock}
)
DECODER_BLOCKS: Mapping[str, type[DecoderBlock]] = MappingProxyType(
    {"pre": PreNormDecoderBlock, "post": PostNormDecoderBlock, "none": NoResidualDecoderBlock}
)
StackConfig = EncoderDecoderConfig | EncoderConfig


class Stack(nn.Module):
    """Blocks one after another: embedded tokens get their positions, and what comes out of the last is normalised.

    As `torch.nn.TransformerEncoder` and `TransformerDecoder` do inside `torch.nn.Transformer`.
    """

    def __init__(
        self, config: StackConfig, longest: int, block: type[EncoderBlock | DecoderBlock], *, is_causal: bool
    ) -> None:
        super().__init__()
        self.longest = longest
        self.positions = build_positions(
            config.positions, length=longest, width=config.width, n_heads=config.n_heads, is_causal=is_causal
        )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList()
        for _ in range(config.depth):
            feed_forward = ActivatedFeedForward(config.width, nn.ReLU(), dropout=config.dropout)
            self.blocks.append(block(config.width, config.n_heads, feed_forward=feed_forward, dropout=config.dropout))
        self.norm = nn.LayerNorm(config.width)

    def place(self, stream: Tensor, start: int = 0) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The stream, (batch, time, width), with its positions from `start` on; and what these give to every block."""
        end = start + stream.shape[1]
        embeddings = self.positions.embeddings(start, end)
        placed = self.dropout(stream if embeddings is None else stream + embeddings)
        return placed, self.positions.bias(end - start, end), self.positions.angles(start, end)


class EncoderStack(Stack):
    """stream: (batch, time, width) -> the same; every position sees all that the mask leaves, before and after it."""

    def __init__(self, config: StackConfig, longest: int) -> None:
        super().__init__(config, longest, ENCODER_BLOCKS[config.form], is_causal=False)

    def forward(self, stream: Tensor, mask: Mask) -> Tensor:
        stream, bias, angles = self.place(stream)
        for block in self.blocks:
            stream = block(stream, mask=mask, bias=bias, angles=angles)
        normed: Tensor = self.norm(stream)
        return normed

    def maps(self, stream: Tensor, mask: Mask) -> Tensor:
        """What each head of each block takes of each position: (depth, batch, heads, time, time)."""
        stream, bias, angles = self.place(stream)
        found = []
        for block in cast("list[EncoderBlock]", list(self.blocks)):  # by their type, which a ModuleList forgets
            found.append(block.weights(stream, mask=mask, bias=bias, angles=angles))
            stream = block(stream, mask=mask, bias=bias, angles=angles)
        return torch.stack(found)


class DecoderStates(NamedTuple):
    """What each block of a decoder goes on with, and how many tokens were read, the opening boundary included."""

    blocks: tuple[DecoderState, ...]
    read: int


class DecoderStack(Stack):
    """stream: (batch, time, width), memory: (batch, m, width) -> as the stream.

    Each position sees itself, those before it, and of the memory what its mask leaves.
    """

    def __init__(self, config: StackConfig, longest: int) -> None:
        super().__init__(config, longest, DECODER_BLOCKS[config.form], is_causal=True)

    def forward(self, stream: Tensor, memory: Tensor, memory_mask: Mask) -> Tensor:
        stream, bias, angles = self.place(stream)
        for block in self.blocks:
            stream = block(stream, memory, mask=CAUSAL, memory_mask=memory_mask, bias=bias, angles=angles)
        normed: Tensor = self.norm(stream)
        return normed

    def begin(self, memory: Tensor, memory_mask: Mask) -> DecoderStates:
        """Before anything was read. Keys and values of the memory are computed here, once."""
        caches = [(block, block.attention.cache(len(memory), self.longest)) for block in self._each()]
        return DecoderStates(
            tuple(block.begin(memory, cache, memory_mask=memory_mask) for block, cache in caches), read=0
        )

    def advance(self, stream: Tensor, state: DecoderStates) -> tuple[Tensor, DecoderStates]:
        """stream: (batch, width), the next position alone -> (batch, width) and the next state."""
        stream, bias, angles = self.place(stream[:, None], state.read)
        for block, own in zip(self._each(), state.blocks, strict=True):
            stream = block.advance(stream, own, bias=bias, angles=angles)
        return self.norm(stream[:, 0]), state._replace(read=state.read + 1)

    def maps(self, stream: Tensor, memory: Tensor, memory_mask: Mask) -> DecoderWeights:
        """What each head of each block takes: of its own past, (depth, batch, heads, time, time), and of the memory."""
        stream, bias, angles = self.place(stream)
        found = []
        for block in self._each():
            found.append(block.weights(stream, memory, memory_mask=memory_mask, bias=bias, angles=angles))
            stream = block(stream, memory, memory_mask=memory_mask, bias=bias, angles=angles)
        return DecoderWeights(*(torch.stack(parts) for parts in zip(*found, strict=True)))

    def _each(self) -> list[DecoderBlock]:
        """The blocks by their type, which a ModuleList forgets."""
        return cast("list[DecoderBlock]", list(self.blocks))


def _even_head(config: StackConfig) -> nn.Linear:
    """A head for which every token is as likely at first, so that the first loss is ln |V|."""
    head = nn.Linear(config.width, config.vocab_size)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


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
        self.head = _even_head(config)

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
        self.head = _even_head(config)

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
        # A graph is made for any width, so that no width of it decides: it has all places that there can be.
        wanted = self.encoder.longest if torch.compiler.is_compiling() else max(n_written, sources.shape[1])
        places = functional.pad(sources, (0, wanted - sources.shape[1]))
        return self.embedding(places), PaddingMask(lengths_of(sources))
