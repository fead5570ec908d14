"""Positions that act on the scores: what is added depends on how far the key is from the query, and on nothing else."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pellucid.layers.positions.interface import Positions

N_BUCKETS = 32  # both as T5 has them
FARTHEST = 128


def distances(n: int, time: int, device: torch.device | None = None) -> Tensor:
    """How far back each key is from each of the last n of `time` positions: (n, time); negative is ahead.

    >>> distances(2, 3)
    tensor([[ 1,  0, -1],
            [ 2,  1,  0]])
    """
    places = torch.arange(time, device=device)
    return places[time - n :, None] - places


def buckets(back: Tensor, *, is_causal: bool, n_buckets: int = N_BUCKETS, farthest: int = FARTHEST) -> Tensor:
    """The bucket of each distance, as in T5 (Raffel et al. 2020): near ones have their own, far ones share.

    Half of the buckets hold one distance each; the others grow by a constant factor, and the last has all that are as
    far as `farthest` or farther. What is ahead has buckets of its own where it may be seen, else that of distance 0.

    >>> buckets(torch.tensor([0, 1, 15, 16, 30, 1000, -4]), is_causal=True)
    tensor([ 0,  1, 15, 16, 20, 31,  0])
    >>> buckets(torch.tensor([0, 1, 15, 1000, -1, -1000]), is_causal=False)
    tensor([ 0,  1,  9, 15, 17, 31])
    """
    if is_causal:
        shift, far, room = torch.zeros_like(back), back.clamp(min=0), n_buckets
    else:
        room = n_buckets // 2
        shift, far = (back < 0) * room, back.abs()
    n_alone = room // 2
    steps = (far.clamp(min=1).double() / n_alone).log() / math.log(farthest / n_alone) * (room - n_alone)
    shared = (n_alone + steps.clamp(min=0).long()).clamp(max=room - 1)
    return shift + torch.where(far < n_alone, far, shared)


class RelativeBias(Positions):
    """A learned number for each head and each bucket of distances, added to the scores; all blocks share them.

    They begin at zero: at first every distance is alike.

    >>> RelativeBias(n_heads=2, is_causal=True).bias(3, 5).shape
    torch.Size([2, 3, 5])
    """

    acts_on = "scores"

    def __init__(self, n_heads: int, *, is_causal: bool, n_buckets: int = N_BUCKETS, farthest: int = FARTHEST) -> None:
        super().__init__()
        self.is_causal, self.farthest = is_causal, farthest
        self.table = nn.Embedding(n_buckets, n_heads)
        nn.init.zeros_(self.table.weight)

    @classmethod
    def for_attention(cls, *, length: int, width: int, n_heads: int, is_causal: bool) -> RelativeBias:
        return cls(n_heads, is_causal=is_causal)

    def bias(self, n: int, time: int) -> Tensor:
        table = self.table.weight
        back = distances(n, time, table.device)
        found = buckets(back, is_causal=self.is_causal, n_buckets=len(table), farthest=self.farthest)
        return table[found].permute(2, 0, 1)


def slopes(n_heads: int) -> Tensor:
    """How steeply each head's scores fall with the distance, as in ALiBi (Press et al. 2022): (heads,).

    For 2^k heads they are 2^(-8/2^k), its square, and so on down to 2^-8. Other numbers of heads have those of the
    power of two below, and then every other one of the power above.

    >>> slopes(4).tolist(), slopes(3).tolist()
    ([0.25, 0.0625, 0.015625, 0.00390625], [0.0625, 0.00390625, 0.25])
    """
    below = 1 << (n_heads.bit_length() - 1)
    own = [2 ** (-8 * (head + 1) / below) for head in range(below)]
    between = [2 ** (-8 * (head + 1) / (2 * below)) for head in range(0, 2 * (n_heads - below), 2)]
    return torch.tensor(own + between, dtype=torch.get_default_dtype())


class ALiBi(Positions):
    """The farther, the less: each head takes its slope times the distance off the scores; nothing is learned.

    Either way from the query, and for any length.

    >>> ALiBi(n_heads=1).bias(1, 4)
    tensor([[[-0.0117, -0.0078, -0.0039, -0.0000]]])
    """

    acts_on = "scores"
    slopes: Tensor  # (heads,)

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", slopes(n_heads), persistent=False)

    @classmethod
    def for_attention(cls, *, length: int, width: int, n_heads: int, is_causal: bool) -> ALiBi:
        return cls(n_heads)

    def bias(self, n: int, time: int) -> Tensor:
        back = distances(n, time, self.slopes.device).abs()
        return -self.slopes[:, None, None] * back.to(self.slopes.dtype)
