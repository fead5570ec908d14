"""The transformer token by token: keys and values of what was read are kept, so a new token costs one position.

What one token costs are the calls, so `advance` makes few: queries, keys and values are turned at once, keys and values
written at once, and what is added to the stream is added by the product that makes it. Its numbers are those of
`Transformer.forward`, which a test holds for every position encoding. All of it is for eval mode: nothing is dropped.
Blocks of another form than "pre" are read on by `read`, which asks the blocks themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional

from pellucid.layers.attention import attend, join_heads
from pellucid.layers.blocks import NORM_ORDERS
from pellucid.layers.feed_forward import squared_relu
from pellucid.layers.positions.encodings import RotaryPositions

if TYPE_CHECKING:
    from pellucid.models.sequences.transformer import Block, Transformer


class DecodingState(NamedTuple):
    """What was read: keys and values, for each block (2, batch, heads, context, head_width), and how many tokens.

    Beside it what each token needs again, since to look it up for each costs as much as to use it: the matrices of each
    block, and what the positions have to give.
    """

    kv_cache: tuple[Tensor, ...]
    n_read: int
    matrices: tuple[tuple[Tensor, ...], ...]  # of each block: to project, combine, expand and contract
    embeddings: Tensor | None  # of positions, (context, width)
    rotations: Tensor | None  # (context, 3, 1, head_width / 2), complex
    bias: Tensor | None  # (1, heads, 1, context), of the last position; that of one before is the end of it

    def keep(self, rows: Tensor) -> DecodingState:
        """The state of these rows alone, in this order; a row may come twice."""
        kept = []
        for past in self.kv_cache:
            kept.append(past.new_empty(2, len(rows), *past.shape[2:]))
            kept[-1][:, :, :, : self.n_read] = past[:, :, :, : self.n_read].index_select(1, rows)
        return self._replace(kv_cache=tuple(kept))


def begin(model: Transformer, batch: int) -> DecodingState:
    """The state before anything was read."""
    config, positions, like = model.config, model.positions, model.head.weight
    shape = (2, batch, config.n_heads, config.context, config.width // config.n_heads)
    matrices = []
    for block in _blocks(model):
        layers = (block.attention.combine, block.feed_forward.expand, block.feed_forward.contract)
        matrices.append((block.attention.project.flatten(0, 1).t(), *(layer.weight.t() for layer in layers)))
    return DecodingState(
        kv_cache=tuple(torch.empty(shape, dtype=like.dtype, device=like.device) for _ in model.blocks),
        n_read=0,
        matrices=tuple(matrices),
        embeddings=positions.embeddings(0, config.context),
        rotations=torch.view_as_complex(positions.qkv_angles) if isinstance(positions, RotaryPositions) else None,
        bias=None if (bias := positions.bias(1, config.context)) is None else bias[None],
    )


def advance(model: Transformer, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
    """tokens: (batch,) -> logits of what comes next, (batch, vocab), and the next state."""
    if model.config.form != "pre":
        return read(model, tokens[:, None], state)
    n_read, batch = state.n_read, len(tokens)
    width, n_heads = model.config.width, model.config.n_heads
    model.require_room(n_read + 1)
    norm = torch.layer_norm  # the kernel itself, without the checks on its way
    x = model.embedding.weight.index_select(0, tokens)  # (batch, width)
    if state.embeddings is not None:
        x = x + state.embeddings[n_read]
    rotation = None if state.rotations is None else state.rotations[n_read]
    bias = None if state.bias is None else state.bias[..., model.longest - n_read - 1 :]
    for (project, combine, expand, contract), past in zip(state.matrices, state.kv_cache, strict=True):
        parts = torch.mm(norm(x, (width,)), project)  # (batch, 3 · width)
        if rotation is not None:
            parts = torch.view_as_real(torch.view_as_complex(parts.view(batch, 3, n_heads, -1, 2)) * rotation)
        parts = parts.view(batch, 3, n_heads, -1).transpose(0, 1)  # (3, batch, heads, head_width)
        past.select(3, n_read).copy_(parts[1:])
        k, v = past.narrow(3, 0, n_read + 1).unbind()  # (batch, heads, n_read + 1, head_width) each
        mixed = functional.scaled_dot_product_attention(parts[0].unsqueeze(2), k, v, attn_mask=bias)
        x = torch.addmm(x, mixed.reshape(batch, width), combine)
        expanded = torch.mm(norm(x, (width,)), expand)
        x = torch.addmm(x, squared_relu(expanded), contract)
    return torch.mm(norm(x, (width,)), model.head.weight.t()), state._replace(n_read=n_read + 1)


def read(model: Transformer, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
    """tokens: (batch, time), several at once -> logits after the last of them, (batch, vocab), and the next state."""
    time = tokens.shape[1]
    start, end = state.n_read, state.n_read + time
    model.require_room(end)
    x = model.embedding(tokens)  # (batch, time, width)
    if state.embeddings is not None:
        x = x + state.embeddings[start:end]
    angles, bias = model.positions.angles(start, end), model.positions.bias(time, end)
    for block, past in zip(_blocks(model), state.kv_cache, strict=True):
        order = NORM_ORDERS[block.form]
        q, k, v = block.attention.project_heads(order.read(x, block.norm), angles)  # (batch, heads, time, head_width)
        past[0, :, :, start:end], past[1, :, :, start:end] = k, v
        mixed = attend(q, *past[:, :, :, :end], bias=bias)
        x = block.feed(order.add(x, block.attention.combine(join_heads(mixed)), block.norm))
    return model.head(model.norm(x[:, -1])), state._replace(n_read=end)


def _blocks(model: Transformer) -> list[Block]:
    """The blocks by their type, which a ModuleList forgets."""
    return cast("list[Block]", list(model.blocks))
