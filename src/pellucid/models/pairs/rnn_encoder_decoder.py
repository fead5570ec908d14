"""RNN encoder-decoder: one recurrent network reads the source, another goes on from what it remembered and writes.

    memory, last = encoder(embed(source))              in both directions, each with half of the width
    states = decoder(embed(target), start=last)        each state knows the target up to itself
    scores = head(ask(states, memory))

Without attention all that the decoder gets of a source is its last state, one vector however long the source was
(Cho et al. 2014, Sutskever et al. 2014). With attention each state asks the memory of every token, as in Luong et al.
2015: the states come first, for all tokens, and what they gathered joins them on the way to the head. How well a token
answers is a product of vectors ("dot", Luong), or a small network of their sum ("additive", Bahdanau et al. 2015).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from pellucid.layers.attention import attention_weights
from pellucid.layers.feed_forward import output_head
from pellucid.layers.masks import PaddingMask
from pellucid.models.contracts import PairModel
from pellucid.models.pairs.configs import RNNEncoderDecoderConfig
from pellucid.models.pairs.padding import lengths_of, require_target_room, trim_padding
from pellucid.models.sequences.recurrent import open_forget_gates

RECURRENT: Mapping[str, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = MappingProxyType(
    {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
)


class WithoutAttention(nn.Module):
    """states: (batch, time, width) -> the same: what the decoder carries is all that it knows of the source."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, states: Tensor, memory: Tensor, mask: PaddingMask) -> Tensor:
        return states


class SourceAttention(nn.Module, ABC):
    """states: (batch, time, width) ask memory: (batch, m, width) -> tanh(W · [gathered, state]), as the states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.combine = nn.Linear(2 * width, width)

    def forward(self, states: Tensor, memory: Tensor, mask: PaddingMask) -> Tensor:
        gathered = self.weights(states, memory, mask) @ memory  # (batch, time, width)
        return torch.tanh(self.combine(torch.cat([gathered, states], dim=-1)))

    @abstractmethod
    def weights(self, states: Tensor, memory: Tensor, mask: PaddingMask) -> Tensor:
        """How much of each token of the source each state takes: (batch, time, m). Each row sums to one."""


class DotAttention(SourceAttention):
    """A token answers as well as the product of its memory and the state is large."""

    def weights(self, states: Tensor, memory: Tensor, mask: PaddingMask) -> Tensor:
        return attention_weights(states, memory, scale=1.0, mask=mask)


class AdditiveAttention(SourceAttention):
    """How well a token answers is v · tanh(W · state + U · memory): a network of one hidden layer."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.of_state = nn.Linear(width, width)
        self.of_memory = nn.Linear(width, width, bias=False)
        self.answer = nn.Linear(width, 1, bias=False)

    def weights(self, states: Tensor, memory: Tensor, mask: PaddingMask) -> Tensor:
        sums = self.of_state(states)[:, :, None] + self.of_memory(memory)[:, None]  # (batch, time, m, width)
        scores: Tensor = self.answer(torch.tanh(sums))[..., 0]
        return scores.masked_fill(~mask.visible(scores.shape, scores.device), -math.inf).softmax(-1)


ATTENTIONS: Mapping[str, type[WithoutAttention] | type[SourceAttention]] = MappingProxyType(
    {"none": WithoutAttention, "dot": DotAttention, "additive": AdditiveAttention}
)


class RNNDecoderState(NamedTuple):
    """What the decoder carries, (depth, batch, width), of an LSTM twice; and the source that it may ask."""

    carried: Any
    memory: Tensor  # (batch, source, width)
    lengths: Tensor  # of the sources, (batch,)
    read: int  # tokens, the opening boundary included


class RNNEncoderDecoder(PairModel):
    """Source and target are looked up in one embedding.

    >>> config = RNNEncoderDecoderConfig(vocab_size=5, longest_source=4, longest_target=3, width=8)
    >>> RNNEncoderDecoder(config)(torch.tensor([[4, 1, 1]]), torch.tensor([[0, 1]])).shape
    torch.Size([1, 2, 5])
    """

    def __init__(self, config: RNNEncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.longest_source, self.longest_target = config.longest_source, config.longest_target
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.dropout = nn.Dropout(config.dropout)
        cell, between = RECURRENT[config.cell], config.dropout if config.depth > 1 else 0.0
        shape = {"num_layers": config.depth, "batch_first": True, "dropout": between}
        self.encoder = cell(config.width, config.width // 2, bidirectional=True, **shape)
        self.decoder = cell(config.width, config.width, **shape)
        for part in (self.encoder, self.decoder):
            if isinstance(part, nn.LSTM):
                open_forget_gates(part)
        self.ask = ATTENTIONS[config.attention](config.width)
        self.head = output_head(config.width, config.vocab_size, 1.0)

    def forward(self, sources: Tensor, tokens: Tensor) -> Tensor:
        require_target_room(tokens.shape[1], self.longest_target)
        return self._write(tokens, self.begin(sources))[0]

    def begin(self, sources: Tensor) -> RNNDecoderState:
        """Each source is read up to its own end. One without tokens is read as a single boundary."""
        sources = trim_padding(sources, self.longest_source)
        lengths = lengths_of(sources).clamp(min=1)
        rows = pack_padded_sequence(
            self.dropout(self.embedding(sources)), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        read, last = self.encoder(rows)
        memory, _ = pad_packed_sequence(read, batch_first=True)
        carried = tuple(map(join_directions, last)) if isinstance(last, tuple) else join_directions(last)
        return RNNDecoderState(carried, memory, lengths, read=0)

    def advance(self, tokens: Tensor, state: RNNDecoderState) -> tuple[Tensor, RNNDecoderState]:
        require_target_room(state.read + 1, self.longest_target)
        scores, state = self._write(tokens[:, None], state)
        return scores[:, -1], state

    def keep(self, state: RNNDecoderState, rows: Tensor) -> RNNDecoderState:
        carried = state.carried
        kept = tuple(part[:, rows] for part in carried) if isinstance(carried, tuple) else carried[:, rows]
        return state._replace(carried=kept, memory=state.memory[rows], lengths=state.lengths[rows])

    @torch.no_grad()
    def attention_maps(self, sources: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """What each token of the target takes of the source, "cross": (1, batch, 1, time, source); or {}, if none."""
        require_target_room(tokens.shape[1], self.longest_target)
        ready = self.for_inference()
        if isinstance(ready.ask, WithoutAttention):
            return {}
        assert isinstance(ready.ask, SourceAttention)
        state = ready.begin(sources)
        states, _ = ready.decoder(ready.embedding(tokens), state.carried)
        return {"cross": ready.ask.weights(states, state.memory, PaddingMask(state.lengths))[None, :, None]}

    def _write(self, tokens: Tensor, state: RNNDecoderState) -> tuple[Tensor, RNNDecoderState]:
        """tokens: (batch, time), the next of each row -> their scores, (batch, time, vocab), and the next state."""
        states, carried = self.decoder(self.dropout(self.embedding(tokens)), state.carried)
        gathered = self.ask(states, state.memory, PaddingMask(state.lengths))
        return self.head(self.dropout(gathered)), state._replace(carried=carried, read=state.read + tokens.shape[1])


def join_directions(last: Tensor) -> Tensor:
    """What both directions remembered at their ends, as one vector: (2 · depth, batch, half) -> (depth, batch, width).

    >>> join_directions(torch.arange(4.0).view(2, 1, 2))
    tensor([[[0., 1., 2., 3.]]])
    """
    layers = last.view(-1, 2, *last.shape[1:])  # (depth, direction, batch, half)
    return torch.cat([layers[:, 0], layers[:, 1]], dim=-1)
