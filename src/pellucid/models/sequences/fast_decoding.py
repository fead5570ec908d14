"""The transformer token by token: keys and values of what was read are kept, so a new token costs one position.

What one token costs are the calls, so `advance` makes few: queries, keys and values are turned at once, keys and values
written at once, and what is added to the stream is added by the product that makes it. Its numbers are those of
`Transformer.forward`, which a test holds for every position encoding. All of it is for eval mode: nothing is dropped.
Blocks of another form than "pre" are read on by `read`, which asks the blocks themselves.

Where a C compiler was there at install, most of it is done by compiled_decoding.py instead, several times faster; how a
state was begun decides how it goes on. This is its twin, to be read, and serves all that it does not.

Rows that have all read as many tokens have one `DecodingState`. `RaggedRows` are rows of which each has read its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional

from pellucid.layers.attention import attend, join_heads
from pellucid.layers.blocks import NORM_ORDERS
from pellucid.layers.feed_forward import squared_relu
from pellucid.layers.positions.encodings import RotaryPositions
from pellucid.models.rows_apart import EVEN, RowsApart, SeparateRows, even
from pellucid.models.sequences import compiled_decoding
from pellucid.models.sequences.compiled_decoding import CompiledRows, CompiledState

if TYPE_CHECKING:
    from pellucid.models.sequences.transformer import Block, Transformer


class TorchState(NamedTuple):
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

    def keep(self, rows: Tensor) -> TorchState:
        """The state of these rows alone, in this order; a row may come twice."""
        kept = []
        for past in self.kv_cache:
            kept.append(past.new_empty(2, len(rows), *past.shape[2:]))
            kept[-1][:, :, :, : self.n_read] = past[:, :, :, : self.n_read].index_select(1, rows)
        return self._replace(kv_cache=tuple(kept))


DecodingState = TorchState | CompiledState


def begin(model: Transformer, batch: int) -> DecodingState:
    """The state before anything was read."""
    return (
        compiled_decoding.begin(model, batch) if compiled_decoding.can_decode(model) else begin_in_torch(model, batch)
    )


def begin_in_torch(model: Transformer, batch: int) -> TorchState:
    """The same, to be gone on with by torch alone."""
    config, positions, like = model.config, model.positions, model.head.weight
    shape = (2, batch, config.n_heads, config.context, config.width // config.n_heads)
    matrices = []
    for block in _blocks(model):
        layers = (block.attention.combine, block.feed_forward.expand, block.feed_forward.contract)
        matrices.append((block.attention.project.flatten(0, 1).t(), *(layer.weight.t() for layer in layers)))
    return TorchState(
        kv_cache=tuple(torch.empty(shape, dtype=like.dtype, device=like.device) for _ in model.blocks),
        n_read=0,
        matrices=tuple(matrices),
        embeddings=positions.embeddings(0, config.context),
        rotations=torch.view_as_complex(positions.qkv_angles) if isinstance(positions, RotaryPositions) else None,
        bias=None if (bias := positions.bias(1, config.context)) is None else bias[None],
    )


def advance(model: Transformer, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
    """tokens: (batch,) -> logits of what comes next, (batch, vocab), and the next state."""
    if isinstance(state, CompiledState) or model.config.form != "pre":
        return read(model, tokens[:, None], state)
    n_read = state.n_read
    model.require_room(n_read + 1)
    x = model.embedding.weight.index_select(0, tokens)  # (batch, width)
    if state.embeddings is not None:
        x = x + state.embeddings[n_read]

    def remember(past: Tensor, new: Tensor) -> Tensor:
        past.select(3, n_read).copy_(new)
        return past.narrow(3, 0, n_read + 1)

    rotation = None if state.rotations is None else state.rotations[n_read]
    bias = None if state.bias is None else state.bias[..., model.longest - n_read - 1 :]
    return _pass_blocks(model, x, state, rotation, bias, remember), state._replace(n_read=n_read + 1)


def _pass_blocks(
    model: Transformer,
    x: Tensor,
    state: TorchState,
    rotation: Tensor | None,
    bias: Tensor | None,
    remember: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """One token of each row through all blocks of the form "pre": x, (batch, width) -> logits, (batch, vocab).

    rotation: broadcasts to (batch, 3, heads, head_width / 2), complex; bias: to (batch, heads, 1, time).
    remember: writes new keys and values, (2, batch, heads, head_width), into a block's past, and gives back those that
    are looked at, (2, batch, heads, time, head_width).
    """
    batch, width, n_heads = len(x), model.config.width, model.config.n_heads
    norm = torch.layer_norm  # the kernel itself, without the checks on its way
    for (project, combine, expand, contract), past in zip(state.matrices, state.kv_cache, strict=True):
        parts = torch.mm(norm(x, (width,)), project)  # (batch, 3 · width)
        if rotation is not None:
            parts = torch.view_as_real(torch.view_as_complex(parts.view(batch, 3, n_heads, -1, 2)) * rotation)
        parts = parts.view(batch, 3, n_heads, -1).transpose(0, 1)  # (3, batch, heads, head_width)
        k, v = remember(past, parts[1:]).unbind()  # (batch, heads, time, head_width) each
        mixed = functional.scaled_dot_product_attention(parts[0].unsqueeze(2), k, v, attn_mask=bias)
        x = torch.addmm(x, mixed.reshape(batch, width), combine)
        expanded = torch.mm(norm(x, (width,)), expand)
        x = torch.addmm(x, squared_relu(expanded), contract)
    return torch.mm(norm(x, (width,)), model.head.weight.t())


class RaggedRows(RowsApart):
    """Rows of a transformer of which each has read a number of tokens of its own; what none has read yet is masked.

    Rows and positions are computed in even numbers (see `EVEN`), so that the logits of a row are the same to the bit
    whichever others are beside it.
    """

    def __init__(self, model: Transformer) -> None:
        assert model.config.form == "pre", "other forms are read by their blocks, which know one number of tokens"
        self.model = model
        self.state = self._room_for(EVEN)
        self.n_read = torch.zeros(EVEN, dtype=torch.long)
        self.hidden = torch.full((), -torch.inf, dtype=model.head.weight.dtype)

    def _room_for(self, rows: int) -> TorchState:
        state = begin_in_torch(self.model, 0)
        shape = list(state.kv_cache[0].shape)
        shape[1], shape[3] = rows, even(shape[3])
        # What was never written is multiplied by a weight of 0, and so has to be a number.
        return state._replace(kv_cache=tuple(past.new_zeros(shape) for past in state.kv_cache))

    def put(self, row: int, state: TorchState) -> None:
        assert isinstance(state, TorchState), "begun without gradients, and so by the compiled decoder"
        if row >= len(self.n_read):
            larger = self._room_for(2 * len(self.n_read))
            for past, before in zip(larger.kv_cache, self.state.kv_cache, strict=True):
                past[:, : len(self.n_read)] = before
            self.state, self.n_read = larger, torch.cat([self.n_read, torch.zeros_like(self.n_read)])
        for past, other in zip(self.state.kv_cache, state.kv_cache, strict=True):
            past[:, row, :, : state.n_read] = other[:, 0, :, : state.n_read]
        self.n_read[row] = state.n_read

    def move(self, source: int, target: int) -> None:
        n_read = int(self.n_read[source])
        for past in self.state.kv_cache:
            past[:, target, :, :n_read] = past[:, source, :, :n_read]
        self.n_read[target] = n_read

    def advance(self, tokens: Tensor) -> Tensor:
        model, state, n, wide = self.model, self.state, len(tokens), even(len(tokens))
        self.n_read[n:wide] = 0  # of idle rows, which write where nobody reads
        places = self.n_read[:wide]
        longest = int(places.max()) + 1
        model.require_room(longest)
        x = model.embedding.weight.index_select(0, functional.pad(tokens, (0, wide - n)))  # (rows, width)
        if state.embeddings is not None:
            x = x + state.embeddings[places]
        time = torch.arange(even(longest))
        is_ahead = time > places[:, None]  # (rows, time)
        if state.bias is None:
            bias = torch.where(is_ahead, self.hidden, 0.0)[:, None, None]
        else:
            back = (model.longest - 1 - places[:, None] + time).clamp(max=model.longest - 1)
            bias = torch.where(is_ahead, self.hidden, state.bias[0, :, 0, back]).transpose(0, 1)[:, :, None]
        rows = torch.arange(wide)

        def remember(past: Tensor, new: Tensor) -> Tensor:
            past[:, rows, :, places] = new.transpose(0, 1)
            return past[:, :wide, :, : len(time)]

        rotation = None if state.rotations is None else state.rotations[places]  # (rows, 3, 1, head_width / 2)
        logits = _pass_blocks(model, x, state, rotation, bias, remember)
        self.n_read[:n] += 1
        return logits[:n]


def rows_apart(model: Transformer) -> RowsApart:
    """Rows that each read on by themselves, begun in the same way as `begin` would here and now."""
    if model.config.form != "pre":
        return SeparateRows(model)
    return CompiledRows(model) if compiled_decoding.can_decode(model) else RaggedRows(model)


def read(model: Transformer, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
    """tokens: (batch, time), several at once -> logits after the last of them, (batch, vocab), and the next state."""
    time = tokens.shape[1]
    start, end = state.n_read, state.n_read + time
    model.require_room(end)
    if isinstance(state, CompiledState):
        return state.read(tokens)
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
