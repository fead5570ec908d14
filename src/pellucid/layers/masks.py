"""Masks: which keys a query may see. A mask is a value; `&` leaves what both leave.

    EVERYTHING              every query sees every key
    CAUSAL                  nothing later than itself
    Local(before, after)    a band: so many positions before itself, so many after
    PaddingMask(lengths)    in each example the first so many keys; what follows only fills up the batch
    BooleanMask(allowed)    any tensor of yes and no

Of n queries and m keys in one row the queries are the last n positions, as when the first m - n were read before.

In formulas a mask is added to the scores, 0 where a key may be seen and -∞ where not, since softargmax makes of -∞ a
weight of 0. That form is `additive`. The softargmax of it alone averages what may be seen:

>>> CAUSAL.additive((3, 3), like=torch.zeros(())).softmax(-1)
tensor([[1.0000, 0.0000, 0.0000],
        [0.5000, 0.5000, 0.0000],
        [0.3333, 0.3333, 0.3333]])
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.errors import PellucidError


class Mask(ABC):
    """What may be seen. The shape it is asked for is that of the scores, (..., n queries, m keys).

    >>> class EveryOther(Mask):
    ...     def visible(self, shape, device):
    ...         return torch.arange(shape[-1], device=device) % 2 == 0
    >>> (CAUSAL & EveryOther()).visible((3, 3), torch.device("cpu"))
    tensor([[ True, False, False],
            [ True, False, False],
            [ True, False,  True]])
    """

    @abstractmethod
    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor:
        """True where a query may see a key; of this shape, or one that broadcasts to it."""

    def hides_nothing(self, n: int, m: int) -> bool:
        """Whether all m keys may be seen by all n queries for certain; then nothing has to be masked."""
        return False

    def additive(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """The same as numbers to add to the scores: 0 where a key may be seen, -∞ where not."""
        seen = self.visible(shape, like.device)
        return torch.zeros(seen.shape, dtype=like.dtype, device=like.device).masked_fill(~seen, -math.inf)

    def __and__(self, other: Mask) -> Mask:
        if isinstance(other, Everything):
            return self
        return other if isinstance(self, Everything) else Both(self, other)


@dataclass(frozen=True)
class Everything(Mask):
    """Every query sees every key.

    >>> EVERYTHING.visible((1, 3), torch.device("cpu")), EVERYTHING.hides_nothing(n=2, m=3)
    (tensor([[True, True, True]]), True)
    """

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor:
        return torch.ones(shape[-2], shape[-1], dtype=torch.bool, device=device)

    def hides_nothing(self, n: int, m: int) -> bool:
        return True


@dataclass(frozen=True)
class Causal(Mask):
    """Each query sees itself and all before it.

    >>> CAUSAL.visible((2, 3), torch.device("cpu"))
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor:
        n, m = _one_row(shape)
        return torch.ones(n, m, dtype=torch.bool, device=device).tril_(m - n)

    def hides_nothing(self, n: int, m: int) -> bool:
        return n == 1  # the last position comes after all others


@dataclass(frozen=True)
class Local(Mask):
    """Each query sees itself, `before` positions before it and `after` after it; with after=0 it is causal.

    >>> Local(before=1, after=0).visible((3, 3), torch.device("cpu"))
    tensor([[ True, False, False],
            [ True,  True, False],
            [False,  True,  True]])
    """

    before: int
    after: int

    def __post_init__(self) -> None:
        if min(self.before, self.after) < 0:
            raise PellucidError(
                f"a band of {self.before} positions before and {self.after} after leaves out the query itself",
                fix="Neither may be below 0",
            )

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor:
        n, m = _one_row(shape)
        band = torch.ones(n, m, dtype=torch.bool, device=device)
        return band.tril_(m - n + self.after).triu_(m - n - self.before)

    def hides_nothing(self, n: int, m: int) -> bool:
        return self.before >= m - 1 and self.after >= n - 1


@dataclass(frozen=True, eq=False)
class PaddingMask(Mask):
    """In each example of a batch the first keys may be seen, as many as its length says. lengths: (batch,).

    The scores' first dimension is the batch, whether there are heads behind it or not.

    >>> PaddingMask(torch.tensor([1, 3])).visible((2, 4, 3), torch.device("cpu"))
    tensor([[[ True, False, False]],
            [[ True,  True,  True]]])
    """

    lengths: Tensor

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor:
        lengths = self.lengths.to(device).view(-1, *(1 for _ in shape[1:]))
        return torch.arange(shape[-1], device=device) < lengths


@dataclass(frozen=True, eq=False)
class BooleanMask(Mask):
    """What this tensor says, True where a key may be seen: (n, m), or any shape that broadcasts to the scores'.

    >>> a_ring = BooleanMask(torch.eye(3, dtype=torch.bool).roll(1, dims=1))  # each sees the next, the last the first
    >>> a_ring.additive((3, 3), like=torch.zeros(())).softmax(-1)
    tensor([[0., 1., 0.],
            [0., 0., 1.],
            [1., 0., 0.]])
    """

    allowed: Tensor

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor:
        assert self.allowed.dtype == torch.bool, f"a mask of {self.allowed.dtype} is not one of yes and no"
        return self.allowed.to(device)


@dataclass(frozen=True, eq=False)
class Both(Mask):
    """What may be seen by one mask and by the other: what `&` makes of two.

    >>> (CAUSAL & Local(before=1, after=1)).visible((3, 3), torch.device("cpu"))
    tensor([[ True, False, False],
            [ True,  True, False],
            [False,  True,  True]])
    """

    one: Mask
    other: Mask

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor:
        return self.one.visible(shape, device) & self.other.visible(shape, device)

    def hides_nothing(self, n: int, m: int) -> bool:
        return self.one.hides_nothing(n, m) and self.other.hides_nothing(n, m)


EVERYTHING = Everything()
CAUSAL = Causal()


def _one_row(shape: Sequence[int]) -> tuple[int, int]:
    """n and m, where the queries must be the last n of the m positions."""
    n, m = shape[-2], shape[-1]
    if n > m:
        raise PellucidError(
            f"{n} queries cannot be the last of {m} positions",
            fix="Where queries and keys come from two sequences, use the mask EVERYTHING or a PaddingMask",
        )
    return n, m
