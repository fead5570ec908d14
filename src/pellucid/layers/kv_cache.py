"""What attention keeps of the past while it reads token by token: keys and values, in room that is taken once.

    KeyValueCache    of everything that was read, up to a longest
    RingCache        of the last so many positions alone: reading on for ever takes no more room

`append` writes what is new and gives back what the new positions are to look at; `mask` says which of it each may see.
The numbers are those of the full pass under the same mask. To append changes the cache; `keep` copies rows of it.
They are for reading, not for learning: within `torch.no_grad()`, else all that was read is kept for its gradients.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.layers.masks import CAUSAL, Local, Mask


class Cache(ABC):
    """Keys (batch, heads, room, d) and values (batch, heads, room, t) of positions read before, `read` of them.

    Attention makes the one that suits it, and reads on with it:

    >>> from pellucid.layers.attention import MultiHeadAttention
    >>> attention, stream = MultiHeadAttention(width=8, n_heads=2), torch.randn(1, 6, 8)
    >>> caches: list[Cache] = [attention.cache(batch=1, longest=6), attention.ring(batch=1, before=2)]
    >>> for cache in caches:
    ...     whole = attention(stream, stream, mask=cache.mask)
    ...     with torch.no_grad():
    ...         one_by_one = torch.cat([attention.advance(stream[:, [time]], cache) for time in range(6)], dim=1)
    ...     print(cache.mask, cache.keys.shape[2], torch.allclose(one_by_one, whole, atol=1e-5))
    Causal() 6 True
    Local(before=2, after=0) 6 True
    """

    keys: Tensor
    values: Tensor
    read: int
    mask: Mask

    @abstractmethod
    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, heads, n, d) and (batch, heads, n, t) of the next n positions -> those they look at, themselves last.

        What comes back may be a view: it is to be used before the next is appended.
        """

    @abstractmethod
    def keep(self, rows: Tensor) -> Cache:
        """A cache of these rows of the batch alone, in this order; a row may come twice."""


class KeyValueCache(Cache):
    """Everything that was read, up to `longest` positions.

    >>> cache = KeyValueCache(batch=1, n_heads=1, longest=4, key_width=2, value_width=2, like=torch.zeros(()))
    >>> for _ in range(3):
    ...     keys, values = cache.append(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2))
    >>> keys.shape
    torch.Size([1, 1, 3, 2])
    """

    def __init__(
        self, *, batch: int, n_heads: int, longest: int, key_width: int, value_width: int, like: Tensor
    ) -> None:
        self.keys = like.new_empty(batch, n_heads, longest, key_width)
        self.values = like.new_empty(batch, n_heads, longest, value_width)
        self.read = 0
        self.mask = CAUSAL

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        longest, end = self.keys.shape[2], self.read + keys.shape[2]
        if end > longest:
            raise PellucidError(f"{end} positions came, and there is room for {longest}", fix="Make the cache longer")
        self.keys[:, :, self.read : end] = keys
        self.values[:, :, self.read : end] = values
        self.read = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def keep(self, rows: Tensor) -> KeyValueCache:
        kept = copy.copy(self)
        # Room for as many positions, of which only those that were read are copied.
        kept.keys, kept.values = (past.new_empty(len(rows), *past.shape[1:]) for past in (self.keys, self.values))
        kept.read = 0
        kept.append(self.keys[rows, :, : self.read], self.values[rows, :, : self.read])
        return kept


class RingCache(Cache):
    """The last positions alone, for attention under `Local(before, after=0)`.

    It has two rounds of before + 1 places. Position p is written in both, at p modulo before + 1, over what no later
    position may see: so the last before + 1 positions always lie somewhere in one piece and in order.

    >>> ring = RingCache(batch=1, n_heads=1, before=2, key_width=1, value_width=1, like=torch.zeros(()))
    >>> for position in range(100):
    ...     keys, _ = ring.append(torch.full((1, 1, 1, 1), float(position)), torch.zeros(1, 1, 1, 1))
    >>> keys.flatten(), ring.keys.shape[2]
    (tensor([97., 98., 99.]), 6)
    """

    def __init__(
        self, *, batch: int, n_heads: int, before: int, key_width: int, value_width: int, like: Tensor
    ) -> None:
        self.round = before + 1
        self.keys = like.new_empty(batch, n_heads, 2 * self.round, key_width)
        self.values = like.new_empty(batch, n_heads, 2 * self.round, value_width)
        self.read = 0
        self.mask = Local(before, after=0)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if keys.shape[2] == 1:
            self._write(keys, values)
            return self.last(self.round)
        # The first of several looks at positions that the last of them overwrites, so both are laid side by side.
        past_keys, past_values = self.last(self.round - 1)
        together = torch.cat([past_keys, keys], dim=2), torch.cat([past_values, values], dim=2)
        self.read += max(0, keys.shape[2] - self.round)  # these are gone before the last of the new ones
        self._write(keys[:, :, -self.round :], values[:, :, -self.round :])
        return together

    def keep(self, rows: Tensor) -> RingCache:
        kept = copy.copy(self)
        kept.keys, kept.values = self.keys[rows], self.values[rows]
        return kept

    def last(self, n: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the last n positions, at most before + 1, or of all where fewer were read."""
        end = self.read if self.read <= self.round else (self.read - 1) % self.round + 1 + self.round
        start = max(0, end - n)
        return self.keys[:, :, start:end], self.values[:, :, start:end]

    def _write(self, keys: Tensor, values: Tensor) -> None:
        """At most one round of positions: where they come to lie, and once more a round later or earlier."""
        n, start = keys.shape[2], self.read % self.round
        n_first = min(n, self.round - start)  # of them lie in the first round
        for kept, new in ((self.keys, keys), (self.values, values)):
            kept[:, :, start : start + n] = new
            kept[:, :, start + self.round : start + self.round + n_first] = new[:, :, :n_first]
            if n_first < n:
                kept[:, :, : n - n_first] = new[:, :, n_first:]
        self.read += n


class DecoderState(NamedTuple):
    """What a decoder block reads on with: its own past, and keys and values of a memory that stays as it is.

    >>> from pellucid.layers.blocks import PreNormDecoderBlock
    >>> block = PreNormDecoderBlock(8, n_heads=2, feed_forward=torch.nn.Identity())
    >>> state = block.begin(torch.randn(2, 5, 8), block.attention.cache(batch=2, longest=4))
    >>> state.keys.shape, state.keep(torch.tensor([1, 1, 0])).keys.shape
    (torch.Size([2, 2, 5, 4]), torch.Size([3, 2, 5, 4]))
    """

    own: Cache
    keys: Tensor  # (batch, heads, m, d)
    values: Tensor  # (batch, heads, m, t)
    visible: Tensor  # which of the memory may be seen: (batch, 1, 1, m)

    def keep(self, rows: Tensor) -> DecoderState:
        return DecoderState(self.own.keep(rows), self.keys[rows], self.values[rows], self.visible[rows])
