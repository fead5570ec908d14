"""Encoder for pairs: it reads the source in both directions and writes the whole target in one pass.

    places     0   1   2   3
    read       D   A   A   0        source DAA, filled up with 0
    written    A   D   0            the target's first token is read off at the first place, and so on to the end

What it writes at one place does not know what it writes at another: it is not autoregressive, and the tokens of the
target that it is given only say how many places are asked for. One pass answers; and where the target is a label, of a
single token, nothing is lost by it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.layers.masks import Padding
from pellucid.models.pairs.configs import EncoderConfig
from pellucid.models.pairs.contract import PairModel
from pellucid.models.pairs.sources import lengths_of, require_target_room, trimmed
from pellucid.models.pairs.stacks import EncoderStack


class Answered(NamedTuple):
    """All that there is to say, (batch, longest_target + 1, vocab), and how much of it was said."""

    scores: Tensor
    said: int


class Encoder(PairModel):
    """Places past the end of a source are read too, since a target may be longer; but no place sees what is in them.

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

    def begin(self, sources: Tensor) -> Answered:
        return Answered(self._scores(sources, self.longest_target + 1), said=0)

    def advance(self, tokens: Tensor, state: Answered) -> tuple[Tensor, Answered]:
        require_target_room(state.said + 1, self.longest_target)
        return state.scores[:, state.said], state._replace(said=state.said + 1)

    def keep(self, state: Answered, rows: Tensor) -> Answered:
        return state._replace(scores=state.scores[rows])

    @torch.no_grad()
    def attention_maps(self, sources: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """What each head of each block takes of each place, without dropout; no other call makes these weights.

        "source": (depth, batch, heads, places, places); the tokens say how many places are written.
        """
        require_target_room(tokens.shape[1], self.longest_target)
        return {"source": self.for_inference().encoder.maps(*self._read(sources, tokens.shape[1]))}

    def _scores(self, sources: Tensor, n_written: int) -> Tensor:
        scores: Tensor = self.head(self.encoder(*self._read(sources, n_written))[:, :n_written])
        return scores

    def _read(self, sources: Tensor, n_written: int) -> tuple[Tensor, Padding]:
        """The embedded places, at least as many as are written, and which of them may be seen: those of the source."""
        sources = trimmed(sources, self.longest_source)
        places = functional.pad(sources, (0, max(0, n_written - sources.shape[1])))
        return self.embedding(places), Padding(lengths_of(sources))
