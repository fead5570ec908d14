"""Transformer: every token looks back at all before it, and decides itself which of them matter.

A decoder as GPT has it (Radford et al. 2018), with what was found better since: rotary positions, norms before each
part and without weights, no biases, ReLU² in the feed-forward. Vaswani et al. 2017, "Attention Is All You Need".

The form "post" has the norm where the original has it, on the stream behind each part, and "none" has no residual
connections: each part's output takes the place of what it read. Both begin with drawn weights in every matrix, where
"pre" begins with blocks that add nothing: without residual connections, blocks that begin at zero would stay there.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.layers.attention import attend, join_heads, split_heads
from pellucid.layers.blocks import NORM_ORDERS
from pellucid.layers.feed_forward import FeedForward
from pellucid.layers.positions import build_positions
from pellucid.layers.positions.encodings import rotate
from pellucid.layers.row_attention import TokenRows, attend_rows
from pellucid.models.contracts import SequenceModel
from pellucid.models.rows_apart import RowsApart
from pellucid.models.sequences import fast_decoding
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.fast_decoding import DecodingState

SHARPNESS = 3.0  # of heads that look back: how far the score of the place they ask is above that of its neighbours
# Of first embeddings. A norm hides it from what reads them, but beside smaller ones what blocks add weighs more, and a
# step of AdamW turns them further. Dev from scratch, 3 seeds each, is lower than with 1 by 0.003 to 0.007 on names,
# 0.019 to 0.023 on words, 0.023 to 0.034 on fortunes, and by 0.017, 0.002 and 0.000 on Shakespeare (large).
EMBEDDING_SIZE = 0.5


class CausalSelfAttention(nn.Module):
    """Each token asks itself and those before it: (batch, time, width) -> the same."""

    def __init__(self, width: int, n_heads: int, dropout: float = 0.0, *, starts_silent: bool = True) -> None:
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout  # of the weights, in training
        self.project = nn.Parameter(torch.empty(3, width, width))  # to queries, keys and values
        self.combine = nn.Linear(width, width, bias=False)
        bound = 1 / math.sqrt(width)  # as torch's own linear layers begin
        nn.init.uniform_(self.project, -bound, bound)
        if starts_silent:
            nn.init.zeros_(self.combine.weight)  # a new block adds nothing to the stream

    def forward(
        self, x: Tensor, angles: Tensor | None = None, bias: Tensor | None = None, rows: TokenRows | None = None
    ) -> Tensor:
        """angles: of rotary positions, (time, head_width / 2, 2); bias: added to the scores, (heads, time, time).

        rows: how the tokens stand, where x is theirs alone, (n, width).
        """
        projected = functional.linear(x, self.project.flatten(0, 1))  # (batch, time, 3 · width)
        dropout = self.dropout if self.training else 0.0
        # Outside of training only where nothing can follow the operations: what is exported stays the fused kernel.
        is_followed = not (torch.is_inference_mode_enabled() or (self.training and torch.is_grad_enabled()))
        mixed = None
        if bias is None and not dropout and not is_followed:
            mixed = attend_rows(projected, self.n_heads, angles, rows)
        if mixed is None:
            q, k, v = self.turn_heads(projected if rows is None else rows.pad(projected), angles)
            mixed = join_heads(attend(q, k, v, bias=bias, dropout=dropout))  # (batch, time, width)
            mixed = mixed if rows is None else rows.take(mixed)
        out: Tensor = self.combine(mixed)  # as x is
        return out

    @torch.no_grad()
    def look_back(self, shared: Tensor, angles: Tensor) -> None:
        """Head h begins by asking mostly the token h + 1 places back, whatever that is.

        shared: (width,), of length 1, what every input has about √(width / 2) of; angles: of rotary positions. Of what
        is shared a head makes one query and one key for all tokens, and the query of each pair is turned back by as
        much as a token so many places ahead of the key is turned forward: there alone all pairs answer as one.
        """
        width, pairs = len(shared), max(1, angles.shape[1] // 2)  # the faster half: slow ones hardly tell places apart
        head_width = width // self.n_heads
        # Of the answer from one place farther every pair has only the cosine of its angle.
        amplitude = (SHARPNESS * head_width**0.5 / (1 - angles[1, :pairs, 0]).sum()) ** 0.5 / (width / 2) ** 0.5
        key = torch.tensor([1.0, 0.0]).repeat(pairs)
        for head, place in enumerate(range(1, min(self.n_heads + 1, len(angles)))):
            query = (angles[place, :pairs] * angles.new_tensor([1, -1])).flatten()
            rows = slice(head * head_width, head * head_width + 2 * pairs)
            for matrix, wanted in zip(self.project[:2, rows], (query, key), strict=True):
                matrix += torch.outer(amplitude * wanted - matrix @ shared, shared)

    def project_heads(self, x: Tensor, angles: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of each head; rotary positions turn queries and keys."""
        return self.turn_heads(functional.linear(x, self.project.flatten(0, 1)), angles)

    def turn_heads(self, projected: Tensor, angles: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The same of what is projected already, (batch, time, 3 · width)."""
        q, k, v = (split_heads(part, self.n_heads) for part in projected.chunk(3, dim=-1))
        if angles is not None:
            q, k = rotate(q, angles), rotate(k, angles)
        return q, k, v  # (batch, heads, time, head_width) each


class Block(nn.Module):
    """Attention, then feed-forward; in the form "pre" each reads the normalised stream and adds to it."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        # Without weights of its own a layer norm is one fused kernel, and the matrix after it can scale as well.
        self.norm = nn.LayerNorm(config.width, elementwise_affine=False)
        self.form, is_silent = config.form, config.form == "pre"
        self.attention = CausalSelfAttention(
            config.width, config.n_heads, config.attention_dropout, starts_silent=is_silent
        )
        self.feed_forward = FeedForward(config.width, starts_silent=is_silent)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, angles: Tensor | None, bias: Tensor | None, rows: TokenRows | None = None) -> Tensor:
        order = NORM_ORDERS[self.form]
        x = order.add(x, self.dropout(self.attention(order.read(x, self.norm), angles, bias, rows)), self.norm)
        return self.feed(x)  # (batch, time, width)

    def feed(self, x: Tensor) -> Tensor:
        """The second half, behind attention: (batch, time, width) -> the same."""
        order = NORM_ORDERS[self.form]
        return order.add(x, self.dropout(self.feed_forward(order.read(x, self.norm))), self.norm)


class Transformer(SequenceModel):
    """A decoder: embedding, blocks, norm, head.

    >>> model = Transformer(TransformerConfig(vocab_size=5, context=8, width=8, depth=2, n_heads=2))
    >>> model(torch.tensor([[0, 1, 2]])).shape
    torch.Size([1, 3, 5])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.vocab_size, self.longest = config.vocab_size, config.context
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.depth)])
        self.norm = nn.LayerNorm(config.width, elementwise_affine=False)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        nn.init.zeros_(self.head.weight)  # so every token is as likely at first, and the first loss is ln |V|
        self.positions = build_positions(
            config.positions,
            length=config.context,
            width=config.width,
            n_heads=config.n_heads,
            is_causal=True,
            rotary_base=config.rotary_base,
        )

    @property
    def skips_padding(self) -> bool:
        return True

    def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        """real: see `skips_padding`. With it, (batch, time) below is (n,) everywhere but inside attention."""
        batch, time = tokens.shape
        self.require_room(time)
        rows = None if real is None else TokenRows(batch, time, real)
        x = self.embedding(tokens if real is None else tokens.flatten()[real])  # (batch, time, width)
        embeddings = self.positions.embeddings(0, time)
        if embeddings is not None:
            x = x + (embeddings if real is None else embeddings[real % time])
        x = self.dropout(x)
        angles, bias = self.positions.angles(0, time), self.positions.bias(time, time)
        for block in self.blocks:
            x = block(x, angles, bias, rows)  # (batch, time, width)
        logits: Tensor = self.head(self.norm(x))  # (batch, time, vocab)
        return logits

    @torch.no_grad()
    def look_back(self) -> None:
        """First weights with which the heads of the first block ask the tokens just before, one head for each.

        Otherwise the first hundred steps go by until some head has found them. All embeddings are given a part that
        they share, which makes queries and keys that depend on places alone; it serves as a bias too. Then they are
        made smaller, which changes nothing that is asked.
        """
        angles = self.positions.angles(0, self.longest)
        if angles is None or self.config.form != "pre" or self.longest < 2 or not self.blocks:
            return
        signs = torch.ones(self.config.width)
        signs[1::2] = -1  # of mean 0, which a norm takes away
        self.embedding.weight.add_(signs).mul_(EMBEDDING_SIZE)
        cast("Block", self.blocks[0]).attention.look_back(signs / signs.norm(), angles)

    def require_room(self, n_tokens: int) -> None:
        if n_tokens > self.longest:
            raise PellucidError(
                f"{n_tokens} tokens came, and this transformer was made for {self.longest}",
                fix=f"Give it the last {self.longest}, or train one with {{context}}",
                options={"context": n_tokens},
            )

    # The same numbers, read on token by token: see fast_decoding.py.

    def begin(self, batch: int) -> DecodingState:
        return fast_decoding.begin(self, batch)

    def advance(self, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        return fast_decoding.advance(self, tokens, state)

    def read(self, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        return fast_decoding.read(self, tokens, state)

    def keep(self, state: DecodingState, rows: Tensor) -> DecodingState:
        return state.keep(rows)

    def rows_apart(self) -> RowsApart:
        return fast_decoding.rows_apart(self)
