"""The transformer token by token by `_decoder.c`, where a C compiler was there at install.

It stands in for fast_decoding.py, whose functions choose between both: blocks of the form "pre" with any positions, of
single or double precision on the CPU, where nobody asks for gradients. Its logits are those of `Transformer.forward` up
to rounding. Every sum in it is taken in an order that depends on nothing but the row itself. So a row has the same bits
alone and among any others, and a beginning read at once has the same as one read token by token.

`PELLUCID_COMPILED_DECODING=0` in the environment leaves it out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from pellucid.models.rows_apart import RowsApart

try:
    from pellucid.models.sequences import _decoder
except ImportError:  # it was installed without a C compiler
    _decoder = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from pellucid.models.sequences.transformer import Block, Transformer

Indices = npt.NDArray[np.int64]
_HELD: WeakKeyDictionary[Transformer, Pool] = WeakKeyDictionary()

# Keys and values are most of what a step reads, and those of few rows stay in the processor's own caches.
NEAR = 1 << 24  # bytes
FEWEST = 16  # rows, and always a multiple of so many: with fewer, weights are read too often


def can_decode(model: Transformer) -> bool:
    """Whether this network is read on by the compiled decoder, here and now: not where gradients are asked for, and not
    while somebody follows what torch computes, who would see nothing.
    """
    weight = model.head.weight
    return (
        _decoder is not None
        and os.environ.get("PELLUCID_COMPILED_DECODING", "1") != "0"
        and model.config.form == "pre"
        and weight.device.type == "cpu"
        and weight.dtype in (torch.float32, torch.float64)
        and not (torch.is_grad_enabled() and weight.requires_grad)
        and _get_current_dispatch_mode() is None
    )


def hold_weights(model: Transformer) -> None:
    """Lay out the weights once for all that is decoded from now on: of a network that nobody changes any more.

    Its keys and values stay where those of what was decoded before it were: fresh memory costs more than what is done
    in it. So one thread at a time decodes with it.
    """
    with torch.inference_mode():
        if can_decode(model):
            _HELD[model] = Pool(lay_out(model))


def rows_at_once(model: Transformer, most: int) -> int:
    """How many rows of a network whose weights are held are best read on together, up to so many."""
    config = model.config
    bytes_of_row = 2 * config.depth * config.context * config.width * model.head.weight.element_size()
    near = NEAR // bytes_of_row // FEWEST * FEWEST
    return min(most, max(FEWEST, near)) if model in _HELD else most


def lay_out(model: Transformer, *, instructions: int = 2) -> _decoder.Decoder:
    """The weights as they are now. instructions: with those of AVX2 (1) and of AVX-512 (2), where there are any."""
    config, positions = model.config, model.positions
    places, angles = positions.embeddings(0, config.context), positions.angles(0, config.context)
    bias = positions.bias(1, config.context)
    blocks = []
    for block in cast("list[Block]", list(model.blocks)):
        layers = (block.attention.combine, block.feed_forward.expand, block.feed_forward.contract)
        project, (combine, expand, contract) = block.attention.project, (layer.weight for layer in layers)
        blocks.append((_numbers(project), _numbers(combine), _numbers(expand), _numbers(contract)))
    return _decoder.Decoder(
        is_double=model.head.weight.dtype == torch.float64,
        n_tokens=model.embedding.num_embeddings,
        vocab_size=model.head.out_features,
        context=config.context,
        width=config.width,
        n_heads=config.n_heads,
        embedding=_numbers(model.embedding.weight),
        head=_numbers(model.head.weight),
        blocks=tuple(blocks),
        places=None if places is None else _numbers(places.to(model.head.weight.dtype)),
        angles=None if angles is None else _numbers(angles),
        bias=None if bias is None else _numbers(bias),
        wide=cast("Block", model.blocks[0]).feed_forward.expand.out_features if len(model.blocks) else 1,
        instructions=instructions,
    )


def _numbers(tensor: Tensor) -> npt.NDArray[np.floating]:
    found: npt.NDArray[np.floating] = tensor.detach().contiguous().numpy()
    return found


class Pool:
    """Slots of keys and values, each of one sequence, and how many hold on to each."""

    def __init__(self, decoder: _decoder.Decoder) -> None:
        self.decoder = decoder
        self.past = _decoder.Past(decoder)
        self.n_holders: Indices = np.zeros(0, np.int64)
        self.n_slots = 0
        self.free: list[int] = []

    def take(self, n: int) -> Indices:
        """Slots that nobody holds; whatever is in them is not read."""
        if n > len(self.free):
            grown = max(self.n_slots + n - len(self.free), min(2 * self.n_slots, self.n_slots + 16))
            self.past.reserve(grown)
            self.free.extend(range(self.n_slots, grown))
            self.n_slots = grown
            self.n_holders = np.concatenate([self.n_holders, np.zeros(grown - len(self.n_holders), np.int64)])
        found = np.array(self.free[len(self.free) - n :], np.int64)
        del self.free[len(self.free) - n :]
        return found


class Hold:
    """Some slots of a pool, none of them twice. When it goes they are free, unless another holds them too."""

    def __init__(self, pool: Pool, slots: Indices) -> None:
        self.pool, self.slots = pool, slots
        self.is_shared = False  # another hold goes on in these slots: what is written behind the end may be its own
        pool.n_holders[slots] += 1

    def __del__(self) -> None:
        left = self.pool.n_holders
        left[self.slots] -= 1
        self.pool.free.extend(self.slots[left[self.slots] == 0].tolist())


class CompiledState(NamedTuple):
    """What was read: a slot of keys and values for each row, and how many tokens."""

    hold: Hold
    n_read: int
    vocab_size: int
    dtype: torch.dtype

    def keep(self, rows: Tensor) -> CompiledState:
        """The state of these rows alone, in this order; a row may come twice.

        Nothing is copied for a row that comes once: it goes on in its slot. This state could still be used, and would
        then be the one that copies.
        """
        return self._replace(hold=self._hold_of(rows.cpu().numpy()))

    def _hold_of(self, rows: Indices) -> Hold:
        pool, slots = self.hold.pool, self.hold.slots[rows]
        if self.hold.is_shared:
            is_new = np.ones(len(slots), bool)
        else:
            is_new = np.ones(len(slots), bool)
            is_new[np.unique(slots, return_index=True)[1]] = False
            self.hold.is_shared = True
        targets = pool.take(int(np.count_nonzero(is_new)))
        if len(targets):
            pool.past.copy(pool.past, slots[is_new], targets, self.n_read)
            slots[is_new] = targets
        return Hold(pool, slots)

    def read(self, tokens: Tensor) -> tuple[Tensor, CompiledState]:
        """tokens: (batch, time) -> logits after the last of them, (batch, vocab), and the next state."""
        batch, time = tokens.shape
        state = self
        if self.hold.is_shared:
            state = self._replace(hold=self._hold_of(np.arange(batch)))
        slots = state.hold.slots
        assert len(slots) == batch, "a token for each row"
        logits = torch.empty(batch, self.vocab_size, dtype=self.dtype)
        if time == 1:
            columns, positions = tokens.reshape(-1), np.full(batch, self.n_read, np.int64)
        else:  # one position after another, so that what is asked for stands at the end
            columns, slots = tokens.t().reshape(-1), np.tile(slots, time)
            positions = np.repeat(np.arange(self.n_read, self.n_read + time), batch)
        state.hold.pool.past.advance(columns.long().contiguous().numpy(), slots, positions, logits.numpy())
        return logits, state._replace(n_read=self.n_read + time)


def begin(model: Transformer, batch: int) -> CompiledState:
    """The state before anything was read."""
    pool = _HELD.get(model) or Pool(lay_out(model))
    weight = model.head.weight
    return CompiledState(Hold(pool, pool.take(batch)), 0, len(weight), weight.dtype)


class CompiledRows(RowsApart):
    """Rows of which each has read a number of tokens of its own."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.past = _decoder.Past(held.decoder if (held := _HELD.get(model)) else lay_out(model))
        self.slots: Indices = np.zeros(0, np.int64)  # one for each row that there is or was
        self.n_read: Indices = np.zeros(0, np.int64)

    def put(self, row: int, state: CompiledState) -> None:
        assert isinstance(state, CompiledState), "begun under gradients, and so by torch"
        if row >= len(self.slots):
            room = max(2 * len(self.slots), row + 1)
            self.past.reserve(room)
            self.slots = np.concatenate([self.slots, np.arange(len(self.slots), room)])
            self.n_read = np.concatenate([self.n_read, np.zeros(room - len(self.n_read), np.int64)])
        self.past.copy(state.hold.pool.past, state.hold.slots[:1], self.slots[[row]], state.n_read)
        self.n_read[row] = state.n_read

    def move(self, source: int, target: int) -> None:
        here, there, n_read = self.slots[[source]], self.slots[[target]], int(self.n_read[source])
        self.past.copy(self.past, here, there, n_read)
        self.n_read[target] = n_read

    def advance(self, tokens: Tensor) -> Tensor:
        n = len(tokens)
        self.model.require_room(int(self.n_read[:n].max()) + 1)
        weight = self.model.head.weight
        logits = torch.empty(n, len(weight), dtype=weight.dtype)
        self.past.advance(tokens.long().contiguous().numpy(), self.slots[:n], self.n_read[:n], logits.numpy())
        self.n_read[:n] += 1
        return logits
