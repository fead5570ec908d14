"""Transformer: every token looks back at all before it, and decides itself which of them matter."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError
from pellucid.layers.attention import Attention
from pellucid.layers.feed_forward import FeedForward, squared_relu
from pellucid.layers.positions import build_positions
from pellucid.layers.positions.rotary import RotaryPositions
from pellucid.models.contracts import SequenceModel
from pellucid.models.sequences.configs import TransformerConfig


class Memory(NamedTuple):
    """What was read: keys and values, for each block (2, batch, heads, context, head_width), and how many tokens.

    Beside it what each token needs again, since to look it up for each costs as much as to use it: the matrices of each
    block, and what the positions have to give.
    """

    past: tuple[Tensor, ...]
    read: int
    matrices: tuple[tuple[Tensor, ...], ...]
    added: Tensor | None  # (context, width)
    spins: Tensor | None  # (context, 3, 1, head_width / 2), complex
    bias: Tensor | None  # (1, heads, 1, context), of the last position; that of one before is the end of it


class Block(nn.Module):
    """Attention, then feed-forward; each reads the normalised stream and adds to it."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        # Without weights of its own a layer norm is one fused kernel, and the matrix after it can scale as well.
        self.norm = nn.LayerNorm(config.width, elementwise_affine=False)
        self.attention = Attention(config.width, config.n_heads)
        self.feed_forward = FeedForward(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, stream: Tensor, turns: Tensor | None, bias: Tensor | None, past: Tensor | None = None, read: int = 0
    ) -> Tensor:
        stream = stream + self.dropout(self.attention(self.norm(stream), turns, bias, past, read))
        out: Tensor = stream + self.dropout(self.feed_forward(self.norm(stream)))
        return out

    def matrices(self) -> tuple[Tensor, ...]:
        """What a token is multiplied by on its way through: to project, combine, expand and contract."""
        attention, feed_forward = self.attention, self.feed_forward
        layers = (attention.combine, feed_forward.expand, feed_forward.contract)
        return attention.project.flatten(0, 1).t(), *(layer.weight.t() for layer in layers)


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
            config.positions, length=config.context, width=config.width, n_heads=config.n_heads, is_causal=True
        )

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self._pass(tokens, None)
        scores: Tensor = self.head(stream)
        return scores

    def begin(self, batch: int) -> Memory:
        config, like = self.config, self.head.weight
        shape = (2, batch, config.n_heads, config.context, config.width // config.n_heads)
        past = tuple(torch.empty(shape, dtype=like.dtype, device=like.device) for _ in self.blocks)
        return Memory(
            past,
            read=0,
            matrices=tuple(block.matrices() for block in self.blocks if isinstance(block, Block)),
            added=self.positions.added(0, config.context),
            spins=torch.view_as_complex(self.positions.spins) if isinstance(self.positions, RotaryPositions) else None,
            bias=None if (bias := self.positions.bias(1, config.context)) is None else bias[None],
        )

    def advance(self, tokens: Tensor, state: Memory) -> tuple[Tensor, Memory]:
        """The same numbers as `read` of one token for each row, without dropout.

        What one token costs are the calls, so these are few: queries, keys and values are turned at once, keys and
        values written at once, and what is added to the stream is added by the product that makes it.
        """
        read, batch = state.read, len(tokens)
        width, n_heads = self.config.width, self.config.n_heads
        self._require_room(read + 1)
        norm = torch.layer_norm  # the kernel itself, without the checks on its way
        stream = self.embedding.weight.index_select(0, tokens)  # (batch, width)
        if state.added is not None:
            stream = stream + state.added[read]
        spin = None if state.spins is None else state.spins[read]
        bias = None if state.bias is None else state.bias[..., self.longest - read - 1 :]
        for (project, combine, expand, contract), past in zip(state.matrices, state.past, strict=True):
            parts = torch.mm(norm(stream, (width,)), project)
            if spin is not None:
                parts = torch.view_as_real(torch.view_as_complex(parts.view(batch, 3, n_heads, -1, 2)) * spin)
            parts = parts.view(batch, 3, n_heads, -1).transpose(0, 1)
            past.select(3, read).copy_(parts[1:])
            keys, values = past.narrow(3, 0, read + 1).unbind()
            mixed = functional.scaled_dot_product_attention(parts[0].unsqueeze(2), keys, values, attn_mask=bias)
            stream = torch.addmm(stream, mixed.reshape(batch, width), combine)
            expanded = torch.mm(norm(stream, (width,)), expand)
            stream = torch.addmm(stream, squared_relu(expanded), contract)
        return torch.mm(norm(stream, (width,)), self.head.weight.t()), state._replace(read=read + 1)

    def read(self, tokens: Tensor, state: Memory) -> tuple[Tensor, Memory]:
        stream = self._pass(tokens, state)
        return self.head(stream[:, -1]), state._replace(read=state.read + tokens.shape[1])

    def keep(self, state: Memory, rows: Tensor) -> Memory:
        kept = []
        for past in state.past:
            kept.append(past.new_empty(2, len(rows), *past.shape[2:]))
            kept[-1][:, :, :, : state.read] = past[:, :, :, : state.read].index_select(1, rows)
        return state._replace(past=tuple(kept))

    def _pass(self, tokens: Tensor, state: Memory | None) -> Tensor:
        """tokens: (batch, time) -> the normalised stream after the last block, (batch, time, width)."""
        read = state.read if state else 0
        end = read + tokens.shape[1]
        self._require_room(end)
        stream = self.embedding(tokens)
        added, turns = self.positions.added(read, end), self.positions.turns(read, end)
        bias = self.positions.bias(tokens.shape[1], end)
        stream = self.dropout(stream if added is None else stream + added)
        for depth, block in enumerate(self.blocks):
            stream = block(stream, turns, bias, state.past[depth] if state else None, read)
        normed: Tensor = self.norm(stream)
        return normed

    def _require_room(self, n_tokens: int) -> None:
        if n_tokens > self.longest:
            raise PellucidError(
                f"{n_tokens} tokens came, and this transformer was made for {self.longest}",
                fix=f"Give it the last {self.longest}, or train one with --context {n_tokens}",
            )
