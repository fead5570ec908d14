"""Every kind of positions, and what each answers, so that a network need not know which kind it has.

input               the index itself, waves of many lengths, or one learned row for each: added to the embeddings
queries and keys    rotary (Su et al. 2021): turned, so that their product keeps the distance alone
scores              relative biases and ALiBi: what is added depends on how far the key is from the query, nothing else
"""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.errors import PellucidError

SLOWEST = 10_000.0  # how much slower the last pair turns than the first
N_BUCKETS = 32  # of relative biases; both as T5 has them
FARTHEST = 128


class Positions(nn.Module):
    """Where tokens stand. Each kind acts in one place, says which, and has nothing to give in the others.

    "nothing"             the tokens are a set
    "input"               `embeddings`: something is added to the embeddings, once, before the first block
    "queries and keys"    `angles`: queries and keys are turned in every block, values are not
    "scores"              `bias`: something is added to the scores of every block

    >>> class CountDown(Positions):
    ...     acts_on = "scores"
    ...     def bias(self, n, time):
    ...         return -torch.arange(time).expand(1, n, time)      # the first is the most important
    >>> CountDown().bias(2, 3), CountDown().embeddings(0, 3)
    (tensor([[[ 0, -1, -2],
              [ 0, -1, -2]]]), None)
    """

    acts_on: str = "nothing"

    @classmethod
    def for_attention(
        cls, *, length: int, width: int, n_heads: int, is_causal: bool, rotary_base: float = SLOWEST
    ) -> Self:
        """As a network has it, for up to `length` tokens of `width` numbers, shared by `n_heads` heads.

        rotary_base: of rotary positions, how much slower the last pair turns than the first.
        """
        return cls()

    def embeddings(self, start: int, end: int) -> Tensor | None:
        """To the embeddings of the tokens from `start` up to `end`: (end - start, width)."""
        return None

    def angles(self, start: int, end: int) -> Tensor | None:
        """Cosines and sines for `rotate`, of the tokens from `start` up to `end`: (end - start, head_width / 2, 2)."""
        return None

    def bias(self, n: int, time: int) -> Tensor | None:
        """To the scores of the last n of `time` tokens, which ask all of them: (heads, n, time).

        It depends on distances alone, so the last row for a long `time` ends with the last row for a shorter one.
        """
        return None


class NoPositions(Positions):
    """Attention as it is: it gathers from a set. Under a causal mask, how many came before can still be learned.

    >>> NoPositions().embeddings(0, 3), NoPositions().bias(2, 3)
    (None, None)
    """


def sinusoids(length: int, width: int, start: int = 0) -> Tensor:
    """The original transformer's: PE(p, 2i) = sin(p / 10000^(2i / width)), and the cosine beside it: (length, width).

    For any length, without training, and all numbers within [-1, 1]. PE(p + k) is PE(p) with each pair of numbers
    turned by an angle that depends on k alone, so a distance is one linear map wherever it is measured.

    >>> sinusoids(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    pairs = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = torch.arange(start, start + length, dtype=torch.float64)[:, None] * SLOWEST**-pairs
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return waves[:, :width].to(torch.get_default_dtype())  # of an odd width the last cosine has no place


class IndexPositions(Positions):
    """p = i: the index, added to the first number of each embedding. It is here to show why nobody does it.

    It grows without end, so far from the start it drowns the token beside it, while 512 and 513 are hardly told apart.
    Added to all numbers alike it would not even be seen: layer norm takes away what all have in common.

    >>> IndexPositions(width=3).embeddings(4, 6)
    tensor([[4., 0., 0.],
            [5., 0., 0.]])
    """

    acts_on = "input"
    first: Tensor  # (width,), 1 and then zeros

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("first", torch.eye(1, width)[0], persistent=False)

    @classmethod
    def for_attention(
        cls, *, length: int, width: int, n_heads: int, is_causal: bool, rotary_base: float = SLOWEST
    ) -> IndexPositions:
        return cls(width)

    def embeddings(self, start: int, end: int) -> Tensor:
        return torch.arange(start, end, dtype=self.first.dtype, device=self.first.device)[:, None] * self.first


class SinusoidalPositions(Positions):
    """Waves of many lengths, from 2π to 10000·2π tokens. Nothing is learned, and no length is the last.

    length: how far they are kept ready; past it they are computed when asked for.

    >>> positions = SinusoidalPositions(length=2, width=4)
    >>> torch.equal(positions.embeddings(1, 5)[0], positions.embeddings(1, 2)[0])
    True
    """

    acts_on = "input"
    table: Tensor  # (length, width)

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        # What follows from the configuration is not saved.
        self.register_buffer("table", sinusoids(length, width), persistent=False)

    @classmethod
    def for_attention(
        cls, *, length: int, width: int, n_heads: int, is_causal: bool, rotary_base: float = SLOWEST
    ) -> SinusoidalPositions:
        return cls(length, width)

    def embeddings(self, start: int, end: int) -> Tensor:
        length, width = self.table.shape
        return self.table[start:end] if end <= length else sinusoids(end - start, width, start).to(self.table)


class LearnedPositions(Positions):
    """One row for each position, drawn at random and learned. There are `length` of them and no more.

    >>> LearnedPositions(length=6, width=4).embeddings(2, 5).shape
    torch.Size([3, 4])
    """

    acts_on = "input"

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(length, width)

    @classmethod
    def for_attention(
        cls, *, length: int, width: int, n_heads: int, is_causal: bool, rotary_base: float = SLOWEST
    ) -> LearnedPositions:
        return cls(length, width)

    def embeddings(self, start: int, end: int) -> Tensor:
        return self.table.weight[start:end]

    @torch.no_grad()
    def resize(self, length: int) -> LearnedPositions:
        """Other positions for another length, read off between these; these stay as they are.

        >>> LearnedPositions(length=6, width=4).resize(9).embeddings(0, 9).shape
        torch.Size([9, 4])
        """
        rows = self.table.weight
        other = LearnedPositions(length, rows.shape[1]).to(rows)
        other.table.weight.copy_(resize_row(rows, length))
        return other


def resize_row(positions: Tensor, length: int) -> Tensor:
    """positions: (old length, width) -> (length, width), on the straight lines between neighbours.

    The first stays the first and the last the last.

    >>> resize_row(torch.tensor([[0.0], [3.0]]), length=4).flatten()
    tensor([0., 1., 2., 3.])
    """
    _require_places((length,))
    lines = positions.t()[None]  # (1, width, old length)
    return functional.interpolate(lines, size=length, mode="linear", align_corners=True)[0].t()


def resize_grid(positions: Tensor, old_grid: tuple[int, int], new_grid: tuple[int, int], n_apart: int = 0) -> Tensor:
    """positions: (n_apart + old rows · old columns, width) -> the same for the rows and columns of the new grid.

    n_apart: how many rows stand before the grid and are kept as they are, as that of a class token, which has no place
    in the picture. Between neighbours it is linear in both directions; corners stay corners, as in the vision
    transformer's own code.

    >>> resize_grid(torch.tensor([[9.0], [0.0], [2.0]]), (1, 2), (1, 3), n_apart=1).flatten()
    tensor([9., 0., 1., 2.])
    """
    _require_places(old_grid)
    _require_places(new_grid)
    rows, columns = old_grid
    if len(positions) != n_apart + rows * columns:
        raise PellucidError(
            f"{len(positions)} positions came, and a grid of {rows} × {columns} with {n_apart} apart has "
            f"{n_apart + rows * columns}",
            fix="Give the grid that they were learned for",
        )
    apart, grid = positions[:n_apart], positions[n_apart:]
    picture = grid.t().reshape(1, -1, rows, columns)  # width as channels
    larger = functional.interpolate(picture, size=new_grid, mode="bilinear", align_corners=True)
    return torch.cat([apart, larger[0].flatten(1).t()])


def _require_places(grid: tuple[int, ...]) -> None:
    if min(grid) < 1:
        raise PellucidError(f"there is no place in {' × '.join(map(str, grid))}", fix="Choose at least 1")


def rotary_angles(length: int, head_width: int, base: float = SLOWEST) -> Tensor:
    """The cosine and the sine by which each pair of each position is turned: (length, head_width / 2, 2).

    Position 0 is not turned at all. base: about how much slower the last pair turns than the first.

    >>> rotary_angles(2, 4)[0]
    tensor([[1., 0.],
            [1., 0.]])
    """
    pairs = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    angles = torch.arange(length, dtype=torch.float64)[:, None] * base**-pairs
    return torch.stack([angles.cos(), angles.sin()], dim=-1).to(torch.get_default_dtype())


def rotate(vectors: Tensor, angles: Tensor) -> Tensor:
    """vectors: (..., time, head_width) -> the same shape, each pair of numbers turned by its angle.

    angles: (time, head_width / 2, 2), cosines and sines. A turn in the plane is the product with a complex number,
    which is one pass over the numbers where sines and cosines written out are five.

    >>> rotate(torch.tensor([[1.0, 0.0]]), angles=torch.tensor([[[0.0, 1.0]]]))
    tensor([[0., 1.]])
    """
    pairs = torch.view_as_complex(vectors.reshape(*vectors.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.view_as_complex(angles)).flatten(-2)


class RotaryPositions(Positions):
    """Queries and keys turned by their positions, up to `length` of them; nothing is learned.

    Each pair of a query's and a key's numbers is turned by an angle that grows with the position. A turn of both by the
    same angle changes no product, so what is left of two positions is their difference.

    >>> RotaryPositions(length=8, head_width=4).angles(2, 5).shape
    torch.Size([3, 2, 2])
    """

    acts_on = "queries and keys"
    table: Tensor  # (length, head_width / 2, 2)
    qkv_angles: Tensor  # (length, 3, 1, head_width / 2, 2): the same for queries and keys; values are not turned

    def __init__(self, length: int, head_width: int, base: float = SLOWEST) -> None:
        super().__init__()
        # What follows from the configuration is not saved.
        angles = rotary_angles(length, head_width, base)
        self.register_buffer("table", angles, persistent=False)
        still = angles[:1].expand_as(angles)
        self.register_buffer("qkv_angles", torch.stack([angles, angles, still], dim=1)[:, :, None], persistent=False)

    @classmethod
    def for_attention(
        cls, *, length: int, width: int, n_heads: int, is_causal: bool, rotary_base: float = SLOWEST
    ) -> RotaryPositions:
        return cls(length, width // n_heads, rotary_base)

    def angles(self, start: int, end: int) -> Tensor:
        return self.table[start:end]


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
    def for_attention(
        cls, *, length: int, width: int, n_heads: int, is_causal: bool, rotary_base: float = SLOWEST
    ) -> RelativeBias:
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
    def for_attention(
        cls, *, length: int, width: int, n_heads: int, is_causal: bool, rotary_base: float = SLOWEST
    ) -> ALiBi:
        return cls(n_heads)

    def bias(self, n: int, time: int) -> Tensor:
        back = distances(n, time, self.slopes.device).abs()
        return -self.slopes[:, None, None] * back.to(self.slopes.dtype)
