"""Heads of attention beside groups of a convolution: where they are the same, and where not.

A convolution in groups cuts its channels into groups, and each group's outputs read that group's inputs alone. Heads
cut what they put out in the same way. Measured on a sequence of vectors, without biases:

    reads      which channels of the input each channel of the output depends on, by derivatives: blocks, or all
    the same   heads that read their own channels by weights of positions alone are a convolution in groups, whose
               kernel is one matrix for each group times one weight for each offset; with a head for each offset, any
               kernel can be made
    not        weights of attention depend on what is read, so twice the input is not twice the output; they are never
               below 0; and heads usually read all channels
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.matrix import difference, heat_map, part_key
from pellucid.figures.charts.svg import INK, QUIET, move_marks, shade, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import percent
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

if TYPE_CHECKING:
    from torch import Tensor

TIME = 6  # positions of the sequence
SIDE, GAP, ROW_GAP, NARROWEST = 220.0, 36.0, 30.0, 330.0


class ChannelReads(NamedTuple):
    """One layer: how many numbers it learns, which channels read which, and how linear it is."""

    name: str
    parameters: int
    reads: Matrix  # (out, in): the size of the derivative over all positions; the largest is 1
    outside: float  # the share of squared derivatives that is of other groups
    bend: float  # how far f(2x) is from 2 f(x), as a part of it


class HeadsAndGroups(NamedTuple):
    """Convolutions and attentions of equal width, and what they share."""

    source: str
    width: int
    heads: int
    kernel: int
    layers: tuple[ChannelReads, ...]
    fixed_off: float  # between heads with weights of positions alone and the convolution in groups that they are
    shifts_off: float  # between any convolution in groups and a head for each group and offset
    one_head: float  # the share of a drawn group kernel that the best single head can make, in the mean


@dataclass(frozen=True)
class HeadsAndGroupsKnobs:
    seed: int = seed_knob()
    width: int = option(8, "Channels of each position.", minimum=1, maximum=64)
    heads: int = option(4, "Heads of attention, and groups of the convolution.", minimum=1, maximum=64)
    kernel: int = option(3, "Positions that the convolution looks at; odd.", minimum=1, maximum=9)

    def __post_init__(self) -> None:
        check_options(self)
        if self.width % self.heads or self.kernel % 2 == 0:
            raise PellucidError(
                f"{self.width} channels in {self.heads} groups, by a kernel of {self.kernel}, cannot be",
                fix="Choose {width} as a multiple of {heads}, and an odd {kernel}",
                options={"width": self.heads * max(1, round(self.width / self.heads)), "heads": None, "kernel": 3},
            )


def measure(knobs: HeadsAndGroupsKnobs) -> HeadsAndGroups:
    """Five layers with drawn weights, their derivatives, and the two ways in which heads become a convolution.

    >>> found = measure(HeadsAndGroupsKnobs())
    >>> [(each.parameters, round(each.outside, 3)) for each in found.layers]
    [(192, 0.802), (48, 0.0), (48, 0.0), (192, 0.656), (256, 0.806)]
    >>> max(found.fixed_off, found.shifts_off) < 1e-12
    True
    """
    import torch
    from torch.nn import functional

    from pellucid.training.rng import torch_rng

    width, heads, kernel = knobs.width, knobs.heads, knobs.kernel
    rng = torch_rng(knobs.seed, 0, "heads and groups")
    x = torch.randn(1, width, TIME, generator=rng, dtype=torch.float64)
    dense = torch.randn(width, width, kernel, generator=rng, dtype=torch.float64) / (width * kernel) ** 0.5
    grouped = dense[:, : width // heads] * heads**0.5
    project = torch.randn(3, width, width, generator=rng, dtype=torch.float64) / width**0.5
    output = torch.randn(width, width, generator=rng, dtype=torch.float64) / width**0.5
    group = torch.arange(width) // (width // heads)
    own = (group[:, None] == group).double()  # 1 where both channels are of one group

    def attention(matrices: Tensor, combine: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        return lambda columns: multi_head(columns, matrices, heads, combine)

    layers = (
        ("convolution", dense.numel(), lambda c: functional.conv1d(c, dense, padding=kernel // 2)),
        (
            f"convolution in {heads} groups",
            grouped.numel(),
            lambda c: functional.conv1d(c, grouped, padding=kernel // 2, groups=heads),
        ),
        (f"{heads} heads, own channels", int(3 * own.sum()), attention(project * own * heads**0.5)),
        (f"{heads} heads, all channels", project.numel(), attention(project)),
        (f"{heads} heads, all channels, W_O", project.numel() + output.numel(), attention(project, output)),
    )
    return HeadsAndGroups(
        source=f"{TIME} positions of {width} channels, inputs and weights drawn at random, seed {knobs.seed}",
        width=width,
        heads=heads,
        kernel=kernel,
        layers=tuple(_look_at(name, parameters, layer, x, own) for name, parameters, layer in layers),
        fixed_off=_compare_fixed(x, project[2] * own, heads, kernel, knobs.seed),
        shifts_off=_compare_shifts(x, grouped, heads),
        one_head=sum(best_single_head(group) for group in grouped.chunk(heads)) / heads,
    )


def multi_head(columns: Tensor, project: Tensor, n_heads: int, output: Tensor | None = None) -> Tensor:
    """Self-attention of columns, (batch, width, time) -> the same. project: W_Q, W_K and W_V, (3, width, width)."""
    from pellucid.layers.attention import attend, join_heads, split_heads
    from pellucid.layers.masks import EVERYTHING

    queries, keys, values = (split_heads((matrix @ columns).mT, n_heads) for matrix in project)
    found = join_heads(attend(queries, keys, values, mask=EVERYTHING)).mT
    return found if output is None else output @ found


def _look_at(name: str, parameters: int, layer: Callable[[Tensor], Tensor], x: Tensor, own: Tensor) -> ChannelReads:
    import torch

    slopes = torch.func.jacrev(layer)(x)[0, :, :, 0]  # (out, time, in, time)
    reads = slopes.square().sum(dim=(1, 3))  # (out, in)
    once, twice = layer(x), layer(2 * x)
    return ChannelReads(
        name=name,
        parameters=parameters,
        reads=as_matrix((reads / reads.max()).sqrt()),
        outside=float((reads * (1 - own)).sum() / reads.sum()),
        bend=float((twice - 2 * once).norm() / (2 * once).norm()),
    )


def _compare_fixed(x: Tensor, values: Tensor, heads: int, kernel: int, seed: int) -> float:
    """Weights of positions alone, one kernel for each head, beside the convolution in groups that they are.

    values: W_V, with blocks for the heads. At both ends so many zeros stand that no weight is missing there.
    """
    import torch
    from torch.nn import functional

    from pellucid.layers.attention import attend, join_heads, split_heads
    from pellucid.layers.masks import Local
    from pellucid.training.rng import torch_rng

    half, width = kernel // 2, x.shape[1]
    shares = torch.rand(heads, kernel, generator=torch_rng(seed, 0, "shares"), dtype=torch.float64).add(0.1)
    shares = shares / shares.sum(-1, keepdim=True)
    padded = functional.pad(x, (half, half))
    time = padded.shape[-1]
    distance = torch.arange(time) - torch.arange(time)[:, None]  # of the key from the query
    bias = shares.log()[:, (distance + half).clamp(0, kernel - 1)]
    silent = torch.zeros(1, heads, time, 1, dtype=torch.float64)
    mixed = attend(silent, silent, split_heads((values @ padded).mT, heads), mask=Local(half, half), bias=bias)
    by_heads = join_heads(mixed).mT[:, :, half : time - half]
    d = width // heads
    own = torch.cat([values[i * d : i * d + d, i * d : i * d + d] for i in range(heads)])  # (width, d)
    weight = own[:, :, None] * shares.repeat_interleave(d, dim=0)[:, None]
    wanted = functional.conv1d(x, weight, padding=half, groups=heads)
    return float((by_heads - wanted).abs().max())


def _compare_shifts(x: Tensor, grouped: Tensor, heads: int) -> float:
    """A head for each group and each offset, which looks at nothing but the position there, and their sum."""
    import torch
    from torch.nn import functional

    from pellucid.layers.attention import attend
    from pellucid.layers.masks import BooleanMask

    kernel, time = grouped.shape[-1], x.shape[-1]
    silent = torch.zeros(1, time, 1, dtype=torch.float64)
    found = []
    for channels, weight in zip(x.chunk(heads, dim=1), grouped.chunk(heads), strict=True):
        total = torch.zeros(1, len(weight), time, dtype=torch.float64)
        for offset in range(kernel):
            there = torch.eye(time, dtype=torch.bool).roll(offset - kernel // 2, dims=1)
            # What rolls over an end is not there: such a query sees nothing and gathers zeros, as padding does.
            there &= (torch.arange(time) - torch.arange(time)[:, None]).abs() <= kernel // 2
            values = (weight[:, :, offset] @ channels).mT
            total = total + attend(silent, silent, values, mask=BooleanMask(there)).mT
        found.append(total)
    wanted = functional.conv1d(x, grouped, padding=kernel // 2, groups=heads)
    return float((torch.cat(found, dim=1) - wanted).abs().max())


def best_single_head(kernel: Tensor) -> float:
    """Of a group's kernel, (out, in, offsets), the share of its squares that one head of fixed weights can make.

    One head makes matrix × weights, with no weight below 0. The best weights a make aᵀMa / aᵀa largest, M being what
    the offsets' matrices have in common; on the offsets that it uses, such an a is an eigenvector of that part of M.

    >>> import torch
    >>> best_single_head(torch.tensor([[[0.25, 0.5, 0.25]]])), best_single_head(torch.tensor([[[-1.0, 0.0, 1.0]]]))
    (1.0, 0.5)
    """
    import torch

    flat = kernel.flatten(0, 1).double()  # (out · in, offsets)
    common = flat.T @ flat
    best = 0.0
    for n in range(1, len(common) + 1):
        for used in combinations(range(len(common)), n):
            values, vectors = torch.linalg.eigh(common[list(used)][:, list(used)])
            if bool((vectors[:, -1] >= -1e-12).all() | (vectors[:, -1] <= 1e-12).all()):
                best = max(best, float(values[-1]))
    return round(best / float(common.trace()), 12)


def draw(record: HeadsAndGroups) -> Picture:
    """For each layer, which channels read which; below it what it costs and how linear it is."""
    marks = part_key("derivative: 0", "the layer's largest")
    cell = min(40.0, SIDE / record.width)
    names = [str(i + 1) for i in range(record.width)] if record.width <= 16 else []
    left, top, bottom = 0.0, 44.0, 0.0
    for i, layer in enumerate(record.layers):
        if i == 2:  # convolutions above, attentions below
            left, top = 0.0, bottom + ROW_GAP
        drawn = heat_map(layer.reads, lambda part: shade(part) if part > 0 else "#ffffff", cell, names, names)
        one = [
            svg_text(drawn.left, 18, layer.name, INK, is_bold=True, size=18),
            *move_marks(drawn.marks, 0, 30),
            svg_text(drawn.left, 30 + drawn.height + 22, f"{layer.parameters:,} parameters", QUIET),
            svg_text(drawn.left, 30 + drawn.height + 44, f"{percent(layer.outside)} read of other groups", QUIET),
            svg_text(drawn.left, 30 + drawn.height + 66, f"f(2x) is off 2f(x) by {percent(layer.bend)}", QUIET),
        ]
        marks += move_marks(one, left, top)
        left += max(drawn.width, NARROWEST) + GAP
        bottom = max(bottom, top + 30 + drawn.height + 70)
    title = "Heads of attention beside groups of a convolution: which channels read which"
    return picture(title, _captions(record), marks, 3 * (NARROWEST + GAP) - GAP, bottom)


def _captions(record: HeadsAndGroups) -> list[str]:
    return [
        f"{record.source}. Rows are channels that come out, columns those that went in; kernel {record.kernel}.",
        f"The same: heads with weights of positions alone are a convolution in groups (off by "
        f"{difference(record.fixed_off)} at most), and a head for each offset makes any such convolution "
        f"(off by {difference(record.shifts_off)}).",
        f"Not the same: a single head for each group makes {percent(record.one_head)} of the drawn kernel at best, its "
        "weights depend on the input, so it is not linear, and heads usually read all channels.",
    ]


LESSON = Lesson(
    name="heads-and-groups",
    summary="Heads of attention beside groups of a convolution: which channels read which, where they are equal.",
    measure=measure,
    draw=draw,
    knobs=HeadsAndGroupsKnobs,
)
