"""Attention: shapes and kinds. What may be multiplied with what, what comes out, and what a mask makes of a block.

Vectors are rows, as in the notes: X has T rows of C numbers, and matrices make d of them; in the homework they are
columns. Every shape up to a size is tried.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, yes
from pellucid.errors import PellucidError
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class ProjectionKnobs:
    largest: int = option(6, "T, C and d are all numbers up to this.", minimum=2, maximum=12)
    rows: str = option("T", "Rows of the matrices: tokens T, or channels C", choices=("T", "C"))

    def __post_init__(self) -> None:
        check_options(self)


def multiply_projections(knobs: ProjectionKnobs) -> Numbers:
    """X (T, C) times a matrix with d columns, for all T, C and d: in which part of the cases there is a product."""
    import torch

    cases = []
    for tokens, channels, d in itertools.product(range(1, knobs.largest + 1), repeat=3):
        x, matrix = (
            torch.empty(shape, device="meta")
            for shape in ((tokens, channels), (tokens if knobs.rows == "T" else channels, d))
        )
        try:
            cases.append((x @ matrix).shape == (tokens, d))
        except RuntimeError:
            cases.append(False)
    return {"part that can be multiplied": sum(cases) / len(cases), "cases": float(len(cases))}


def count_projections_that_fit(knobs: ProjectionKnobs) -> Numbers:
    """The channels of X must be the rows of the matrix: T = C in one of `largest` cases."""
    return {"part that can be multiplied": 1 / knobs.largest if knobs.rows == "T" else 1.0}


@dataclass(frozen=True)
class OutputShapeKnobs:
    largest: int = option(4, "T, C and d are all numbers up to this.", minimum=2, maximum=8)
    values: str = option("d", "Columns of W_V: as many as of W_Q and W_K, or one more", choices=("d", "one more"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_output_shape(knobs: OutputShapeKnobs) -> Numbers:
    """Self-attention of one head, without an output matrix, for all T, C and d: how often it gives (T, d)."""
    import torch

    from pellucid.layers.attention import AsymmetricAttention
    from pellucid.layers.masks import EVERYTHING

    cases = []
    for tokens, channels, d in itertools.product(range(1, knobs.largest + 1), repeat=3):
        d_v = d if knobs.values == "d" else d + 1
        with torch.device("meta"):
            head = AsymmetricAttention(
                query_width=channels,
                key_width=channels,
                value_width=channels,
                n_heads=1,
                d_k=d,
                d_v=d_v,
                out_width=None,
            )
            x = torch.empty(1, tokens, channels)
            cases.append(head(x, x, x, mask=EVERYTHING).shape[1:] == (tokens, d))
    return {"part that is (T, d)": sum(cases) / len(cases), "cases": float(len(cases))}


def multiply_output_shape(knobs: OutputShapeKnobs) -> Numbers:
    """By the rule of products, (a, b) (b, c) = (a, c), from X W_Q to the end."""

    def product(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        assert one[1] == other[0], f"{one} cannot be multiplied with {other}"
        return one[0], other[1]

    cases = []
    for tokens, channels, d in itertools.product(range(1, knobs.largest + 1), repeat=3):
        d_v = d if knobs.values == "d" else d + 1
        queries = keys = product((tokens, channels), (channels, d))
        values = product((tokens, channels), (channels, d_v))
        cases.append(product(product(queries, (keys[1], keys[0])), values) == (tokens, d))
    return {"part that is (T, d)": sum(cases) / len(cases)}


@dataclass(frozen=True)
class CrossKnobs:
    largest: int = option(6, "Both sequences have all lengths up to this.", minimum=2, maximum=12)
    keys: str = option(
        "queries' sequence",
        "Where the keys come from; the values come from the other sequence",
        choices=("queries' sequence", "values' sequence"),
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_cross(knobs: CrossKnobs) -> Numbers:
    """Two sequences of all lengths: how often there is an output, and whether the weights depend on the other one."""
    import torch

    from pellucid.layers.attention import AsymmetricAttention
    from pellucid.layers.masks import EVERYTHING
    from pellucid.training.rng import seed_torch, torch_rng

    with seed_torch(knobs.seed, 0, "weights"):
        head = AsymmetricAttention(
            query_width=8, key_width=8, value_width=8, n_heads=1, d_k=8, d_v=8, out_width=None, has_bias=False
        )
    cases, rng = [], torch_rng(knobs.seed, 0, "sequences")
    for n, m in itertools.product(range(1, knobs.largest + 1), repeat=2):
        stream, other = torch.randn(1, n, 8, generator=rng), torch.randn(1, m, 8, generator=rng)
        keys_from = stream if knobs.keys == "queries' sequence" else other
        try:
            cases.append(head(stream, keys_from, other, mask=EVERYTHING).shape == (1, n, 8))
        except PellucidError:  # there are more keys than values, or fewer
            cases.append(False)
    stream, other, another = torch.randn(3, 1, knobs.largest, 8, generator=rng)
    with torch.no_grad():
        one, two = (
            head.weights(stream, stream if knobs.keys == "queries' sequence" else memory, mask=EVERYTHING)
            for memory in (other, another)
        )
    return {
        "part of the lengths that work": sum(cases) / len(cases),
        "weights that the other sequence moves": float((one != two).double().mean()),
    }


def count_cross(knobs: CrossKnobs) -> Numbers:
    """Weights of (n, keys) meet values of (m, d): keys must be m."""
    pairs = itertools.product(range(1, knobs.largest + 1), repeat=2)
    fits = [(n if knobs.keys == "queries' sequence" else m) == m for n, m in pairs]
    return {"part of the lengths that work": sum(fits) / len(fits)}


@dataclass(frozen=True)
class ColumnShapeKnobs:
    largest: int = option(4, "d, m, n and t are all numbers up to this.", minimum=2, maximum=6)
    softmax: str = option("columns", "What softmax makes sum to one", choices=("columns", "rows"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_columns(knobs: ColumnShapeKnobs) -> Numbers:
    """Q d × n, K d × m, V t × m of all sizes: shapes of S, A and H, and how far a column of A is from one in sum."""
    import torch

    from pellucid.layers.attention import attend_columns
    from pellucid.training.rng import torch_rng

    rng, shapes, off, entry = torch_rng(knobs.seed, 0, "columns"), [], 0.0, 0.0
    for d, n, m, t in itertools.product(range(1, knobs.largest + 1), repeat=4):
        queries, keys, values = (
            torch.randn(size, generator=rng, dtype=torch.float64) for size in ((d, n), (d, m), (t, m))
        )
        scores, weights, outputs = attend_columns(queries, keys, values)
        if knobs.softmax == "rows":
            weights = (scores / math.sqrt(d)).softmax(-1)
            outputs = values @ weights
        shapes.append(scores.shape == weights.shape == (m, n) and outputs.shape == (t, n))
        off = max(off, float((weights.sum(0) - 1).abs().max()))
        entry = float(outputs[-1, -1])
    return {"part with these shapes": sum(shapes) / len(shapes), "column off one by": off, "last number of H": entry}


def sum_columns(knobs: ColumnShapeKnobs) -> Numbers:
    """The last number of the last H by sums of products, and what a column of A sums to, in plain Python."""
    import torch

    from pellucid.training.rng import torch_rng

    rng = torch_rng(knobs.seed, 0, "columns")
    for d, n, m, t in itertools.product(range(1, knobs.largest + 1), repeat=4):
        queries, keys, values = (
            torch.randn(size, generator=rng, dtype=torch.float64).tolist() for size in ((d, n), (d, m), (t, m))
        )
    if knobs.softmax == "rows":
        return {}
    last = [math.fsum([keys[at][key] * queries[at][-1] for at in range(d)]) / math.sqrt(d) for key in range(m)]
    total = math.fsum([math.exp(score) for score in last])
    shares = [math.exp(score) / total for score in last]
    return {
        "column off one by": abs(math.fsum(shares) - 1),
        "last number of H": math.fsum([share * values[-1][key] for key, share in enumerate(shares)]),
    }


@dataclass(frozen=True)
class CutKnobs:
    mask: str = option("causal", "What a position may see", choices=("causal", "none"))
    depth: int = option(3, "Blocks of attention and feed-forward.", minimum=1, maximum=12)
    time: int = option(8, "Tokens.", minimum=2, maximum=64)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _build_blocks(knobs: CutKnobs) -> nn.ModuleList:
    from torch import nn

    from pellucid.layers.blocks import PreNormBlock
    from pellucid.layers.feed_forward import ActivatedFeedForward
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "weights"):
        return nn.ModuleList(
            [PreNormBlock(16, 2, feed_forward=ActivatedFeedForward(16, nn.ReLU())) for _ in range(knobs.depth)]
        ).double()


def _run_blocks(blocks: nn.ModuleList, stream: Tensor, knobs: CutKnobs) -> Tensor:
    from pellucid.layers.masks import CAUSAL, EVERYTHING

    for block in blocks:
        stream = block(stream, mask=CAUSAL if knobs.mask == "causal" else EVERYTHING)
    return stream


def measure_cut(knobs: CutKnobs) -> Numbers:
    """Each token is changed in turn: how many earlier outputs move, and how many at its place or later."""
    import torch

    from pellucid.training.rng import torch_rng

    blocks, rng = _build_blocks(knobs), torch_rng(knobs.seed, 0, "tokens")
    stream = torch.randn(1, knobs.time, 16, generator=rng, dtype=torch.float64)
    earlier = later = 0
    with torch.no_grad():
        before = _run_blocks(blocks, stream, knobs)
        for at in range(knobs.time):
            changed = stream.clone()
            changed[0, at] = torch.randn(16, generator=rng, dtype=torch.float64)
            moved = (_run_blocks(blocks, changed, knobs) - before)[0].abs().amax(-1) > 1e-12
            earlier, later = earlier + int(moved[:at].sum()), later + int(moved[at:].sum())
    return {"earlier outputs that move": float(earlier), "others that move": float(later)}


def derive_cut(knobs: CutKnobs) -> Numbers:
    """The same by the derivative of every output by every token."""
    import torch

    from pellucid.training.rng import torch_rng

    blocks = _build_blocks(knobs)
    stream = torch.randn(1, knobs.time, 16, generator=torch_rng(knobs.seed, 0, "tokens"), dtype=torch.float64)
    stream.requires_grad_()
    outputs = _run_blocks(blocks, stream, knobs)[0].sum(-1)
    slopes = torch.stack([torch.autograd.grad(one, stream, retain_graph=True)[0][0] for one in outputs])
    depends = slopes.abs().amax(-1) > 1e-14  # (outputs, tokens)
    return {
        "earlier outputs that move": float(depends.triu(1).sum()),
        "others that move": float(depends.tril().sum()),
    }


FAMILY = ClaimFamily(
    name="attention-shapes",
    title="Attention: shapes and kinds",
    picture="masks",
    claims=(
        Claim(
            id="wq-is-T-by-d",
            says="the matrices of queries, keys and values have T rows and d columns",
            where="notes Def.11",
            kind="proof",
            measure=multiply_projections,
            decides="part that can be multiplied",
            margin=lambda seen: yes(seen["part that can be multiplied"] == 1),
            rule="for all T, C and d up to 6, X of (T, C) can be multiplied with a matrix of (T, d)",
            knobs=ProjectionKnobs,
            control={"rows": "C"},
            second=count_projections_that_fit,
            other_reading="(C, d), as for a linear projection: that is the control",
        ),
        Claim(
            id="attention-output-T-by-d",
            says="what a block of attention gives is (T, d)",
            where="notes §17",
            kind="proof",
            measure=measure_output_shape,
            decides="part that is (T, d)",
            margin=lambda seen: yes(seen["part that is (T, d)"] == 1),
            rule="for all T, C and d up to 4 a head gives T rows of d numbers",
            knobs=OutputShapeKnobs,
            control={"values": "one more"},
            second=multiply_output_shape,
            other_reading="with an output matrix behind the heads it is (T, C) again",
        ),
        Claim(
            id="cross-attention-definition",
            says="in cross-attention queries and keys come from one sequence and values from another",
            where="notes Def.13",
            kind="proof",
            measure=measure_cross,
            decides="part of the lengths that work",
            margin=lambda seen: yes(seen["part of the lengths that work"] == 1),
            rule="sequences of all lengths up to 6 can be put together in that way",
            knobs=CrossKnobs,
            control={"keys": "values' sequence"},
            second=count_cross,
            other_reading="where both are of one length it works, and the weights know nothing of the other sequence",
        ),
        Claim(
            id="attention-shapes",
            says="with vectors as columns S is m × n, each column of A sums to one, and H is t × n",
            where="homework 1.1a",
            kind="proof",
            measure=measure_columns,
            decides="column off one by",
            margin=lambda seen: min(yes(seen["part with these shapes"] == 1), 1e-9 - seen["column off one by"]),
            rule="for all d, m, n and t up to 4 the shapes are these, and no column is off one by 1e-9",
            knobs=ColumnShapeKnobs,
            control={"softmax": "rows"},
            second=sum_columns,
        ),
        Claim(
            id="encoder-decoder-by-mask",
            says="with the triangular mask a block sees nothing later, and without it all",
            where="notes Def.14/15; homework 1.3e",
            kind="proof",
            measure=measure_cut,
            decides="earlier outputs that move",
            margin=lambda seen: yes(seen["earlier outputs that move"] == 0),
            rule="through three blocks no output changes with a later token",
            knobs=CutKnobs,
            control={"mask": "none"},
            second=derive_cut,
            seeds=3,
            other_reading="a decoder of an encoder and decoder has attention to the encoder's outputs as well",
        ),
    ),
)
