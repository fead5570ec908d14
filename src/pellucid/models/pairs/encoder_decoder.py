"""Encoder-decoder: one stack of blocks reads the source in both directions, another writes the target and asks it.

    memory = encoder(embed(source))             every token of the source sees every other
    stream = decoder(embed(target), memory)     each sees the target up to itself, and the whole memory
    scores = head(stream)

It is the transformer of Vaswani et al. 2017. In their form, "post", each sum is normalised; in the form "pre" what is
added is computed from the normalised stream, and the stream itself never is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pellucid.layers.masks import Padding
from pellucid.models.pairs.configs import EncoderDecoderConfig
from pellucid.models.pairs.contract import PairModel
from pellucid.models.pairs.sources import lengths_of, require_target_room, trimmed
from pellucid.models.pairs.stacks import DecoderStack, EncoderStack, Written


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
        memory, mask = self.remembered(sources)
        scores: Tensor = self.head(self.decoder(self.embedding(tokens), memory, mask))
        return scores

    def remembered(self, sources: Tensor) -> tuple[Tensor, Padding]:
        """What the encoder makes of the sources, (batch, source, width), and which of it there is to see."""
        sources = trimmed(sources, self.longest_source)
        mask = Padding(lengths_of(sources))
        return self.encoder(self.embedding(sources), mask), mask

    def begin(self, sources: Tensor) -> Written:
        return self.decoder.begin(*self.remembered(sources))

    def advance(self, tokens: Tensor, state: Written) -> tuple[Tensor, Written]:
        require_target_room(state.read + 1, self.longest_target)
        stream, state = self.decoder.advance(self.embedding(tokens), state)
        return self.head(stream), state

    def keep(self, state: Written, rows: Tensor) -> Written:
        return state._replace(blocks=tuple(block.keep(rows) for block in state.blocks))

    @torch.no_grad()
    def attention_maps(self, sources: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """What each head of each block takes of each position, without dropout; no other call makes these weights.

        "source": (depth, batch, heads, source, source), "target": (…, time, time), "cross": (…, time, source).
        """
        require_target_room(tokens.shape[1], self.longest_target)
        ready = self.for_inference()
        memory, mask = ready.remembered(sources)
        source = ready.encoder.maps(ready.embedding(trimmed(sources, self.longest_source)), mask)
        own, cross = ready.decoder.maps(ready.embedding(tokens), memory, mask)
        return {"source": source, "target": own, "cross": cross}
