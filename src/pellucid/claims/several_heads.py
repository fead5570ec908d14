"""Several heads beside one: their shapes, what they read, and how many relations their patterns can hold.

Small networks learn to name several of six tokens at once, as in sizes_of_heads.py.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.claims.sizes_of_heads import train_to_recall
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

WIDTH = 64


# Shapes


@dataclass(frozen=True)
class ColumnShapesKnobs:
    d: int = option(32, "Width of queries and keys.", minimum=1, maximum=1024)
    t: int = option(24, "Width of values.", minimum=1, maximum=1024)
    n: int = option(5, "Queries.", minimum=1, maximum=1024)
    m: int = option(7, "Keys and values.", minimum=1, maximum=1024)
    heads: int = option(4, "Attention heads.", minimum=1, maximum=64)
    d_v: int = option(0, "Width of a head's values; 0 for t over heads.", minimum=0, maximum=1024)
    output: str = option("yes", "Whether the output matrix is there", choices=("yes", "no"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_column_shapes(knobs: ColumnShapesKnobs) -> Numbers:
    """Every head by its formulas with vectors as columns, the heads above one another, and the output matrix."""
    import torch

    from pellucid.layers.attention import attend_columns
    from pellucid.training.rng import torch_rng

    rng = torch_rng(1, 0, "columns")
    d_k, d_v = knobs.d // knobs.heads, knobs.d_v or knobs.t // knobs.heads

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng, dtype=torch.float64)

    queries, keys, values = draw(knobs.d, knobs.n), draw(knobs.d, knobs.m), draw(knobs.t, knobs.m)
    per_head = [(draw(d_k, knobs.d), draw(d_k, knobs.d), draw(d_v, knobs.t)) for _ in range(knobs.heads)]
    found, are_right = [], True
    for to_query, to_key, to_value in per_head:
        q, k, v = to_query @ queries, to_key @ keys, to_value @ values
        s, a, h = attend_columns(q, k, v)
        shapes = [tuple(one.shape) for one in (q, k, v, s, a, h)]
        n, m = knobs.n, knobs.m
        are_right &= shapes == [(d_k, n), (d_k, m), (d_v, m), (m, n), (m, n), (d_v, n)]
        found.append(h)
    joined = torch.cat(found)
    out = draw(knobs.t, knobs.heads * d_v) @ joined if knobs.output == "yes" else joined
    return {
        "heads as stated": float(are_right),
        "rows of the heads together": float(joined.shape[0]),
        "rows of H": float(out.shape[0]),
        "columns of H": float(out.shape[1]),
        "t": float(knobs.t),
        "n": float(knobs.n),
    }


def count_layer_shapes(knobs: ColumnShapesKnobs) -> Numbers:
    """The rows and columns of H by our attention with a width of its own for everything, transposed."""
    import torch

    from pellucid.layers.attention import AsymmetricAttention
    from pellucid.layers.masks import EVERYTHING

    with torch.device("meta"):
        attention = AsymmetricAttention(
            query_width=knobs.d,
            key_width=knobs.d,
            value_width=knobs.t,
            n_heads=knobs.heads,
            d_k=knobs.d // knobs.heads,
            d_v=knobs.d_v or knobs.t // knobs.heads,
            out_width=knobs.t if knobs.output == "yes" else None,
        )
        stream, keys_from, values_from = (
            torch.empty(1, rows, width) for rows, width in ((knobs.n, knobs.d), (knobs.m, knobs.d), (knobs.m, knobs.t))
        )
        out = attention(stream, keys_from, values_from, mask=EVERYTHING)
    return {"rows of H": float(out.shape[2]), "columns of H": float(out.shape[1])}


@dataclass(frozen=True)
class JoinedWidthKnobs:
    width: int = option(64, "Embedding (model) dimension C.", minimum=1, maximum=16_384)
    heads: int = option(4, "Attention heads.", minimum=1, maximum=256)

    def __post_init__(self) -> None:
        check_options(self)


def measure_joined_width(knobs: JoinedWidthKnobs) -> Numbers:
    """Heads of C / h numbers, rounded down to a whole one, side by side."""
    import torch

    from pellucid.layers.attention import join_heads

    size = knobs.width // knobs.heads
    joined = join_heads(torch.empty(1, knobs.heads, 3, size, device="meta"))
    return {"width of all heads": float(joined.shape[-1]), "width": float(knobs.width), "of each head": float(size)}


def run_joined_heads(knobs: JoinedWidthKnobs) -> Numbers:
    """From our attention without an output matrix, where the heads share the width."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.masks import EVERYTHING

    if knobs.width % knobs.heads:
        return {}
    with torch.device("meta"):
        x = torch.empty(1, 3, knobs.width)
        out = MultiHeadAttention(knobs.width, knobs.heads, has_output=False)(x, x, mask=EVERYTHING)
    return {"width of all heads": float(out.shape[-1])}


@dataclass(frozen=True)
class OneAverageKnobs:
    heads: int = option(8, "Attention heads.", minimum=1, maximum=32)
    keys: int = option(8, "Positions that are averaged; fewer than half of the width.", minimum=2, maximum=31)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def _draw_mixed(knobs: OneAverageKnobs) -> tuple[Tensor, Tensor]:
    """The values of all positions, (keys, 64), and what the last position gathers of them, (64,)."""
    import torch

    from pellucid.layers.attention import attend, join_heads, split_heads
    from pellucid.training.rng import torch_rng

    vectors = torch.randn(3, 1, knobs.keys, WIDTH, generator=torch_rng(knobs.seed, 0, "heads"), dtype=torch.float64)
    mixed = join_heads(attend(*[split_heads(one, knobs.heads) for one in vectors]))
    return vectors[2, 0], mixed[0, -1]


def measure_one_average(knobs: OneAverageKnobs) -> Numbers:
    """How near one combination of the values comes to what the heads give, with any numbers as its weights."""
    import torch

    values, mixed = _draw_mixed(knobs)
    best = torch.linalg.lstsq(values.T, mixed[:, None]).solution
    return {"part that is missed": float((values.T @ best - mixed[:, None]).norm() / mixed.norm())}


def project_on_values(knobs: OneAverageKnobs) -> Numbers:
    """The same as the length of what stands at right angles to all values, by an orthogonal basis of them."""
    import numpy as np

    values, mixed = (one.numpy() for one in _draw_mixed(knobs))
    basis, _ = np.linalg.qr(values.T)
    rest = mixed - basis @ (basis.T @ mixed)
    return {"part that is missed": float(np.linalg.norm(rest) / np.linalg.norm(mixed))}


@dataclass(frozen=True)
class ReachKnobs:
    layers: int = option(1, "Layers of filters.", minimum=1, maximum=64)
    kernel: int = option(3, "Positions that a filter looks at; odd.", minimum=1, maximum=63)
    length: int = option(17, "Positions; the middle one is looked at.", minimum=3, maximum=129)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_reach(knobs: ReachKnobs) -> Numbers:
    """How many positions the middle output depends on, by derivatives: of filters in a row, and of a head."""
    import torch
    from torch.nn.functional import conv1d

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.masks import EVERYTHING
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "reach"):
        weights = torch.rand(knobs.layers, 4, 4, knobs.kernel, dtype=torch.float64) / (4 * knobs.kernel)
        attention = MultiHeadAttention(4, 1).double()
        x = torch.randn(1, 4, knobs.length, dtype=torch.float64)

    def filter_all(x: Tensor) -> Tensor:
        for one in weights:
            x = conv1d(x, one, padding=knobs.kernel // 2)
        return x

    def ask_all(x: Tensor) -> Tensor:
        found: Tensor = attention(x.mT, x.mT, mask=EVERYTHING)
        return found.mT

    def count_read(layer: Callable[[Tensor], Tensor]) -> float:
        leaf = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(layer(leaf)[0, :, knobs.length // 2].sum(), leaf)
        return float((slope[0].abs().sum(0) > 0).sum())

    return {
        "read by filters": count_read(filter_all),
        "read by a head": count_read(ask_all),
        "positions": float(knobs.length),
    }


def reach_closed_form(knobs: ReachKnobs) -> Numbers:
    """Each layer of filters reaches half a kernel further to both sides, until the ends; a head reaches all."""
    half = knobs.length // 2
    side = knobs.layers * (knobs.kernel // 2)
    return {
        "read by filters": float(min(half, side) + 1 + min(knobs.length - 1 - half, side)),
        "read by a head": float(knobs.length),
    }


@dataclass(frozen=True)
class HeadGradientKnobs:
    heads: int = option(8, "Heads beside one head.", minimum=1, maximum=32)
    layers: int = option(6, "Layers of attention.", minimum=1, maximum=24)
    residual: str = option(
        "neither", "Which of the two stacks adds its input to each layer", choices=("neither", "both", "heads only")
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_head_gradient(knobs: HeadGradientKnobs) -> Numbers:
    """What arrives of the gradient at the input of a stack of attentions, with several heads and with one."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention
    from pellucid.layers.masks import EVERYTHING
    from pellucid.training.rng import seed_torch

    def arriving(heads: int, *, has_residual: bool) -> float:
        with seed_torch(knobs.seed, 0, "stack"):
            stack = [MultiHeadAttention(32, heads, has_bias=False) for _ in range(knobs.layers)]
            x, told = torch.randn(8, 12, 32), torch.randn(8, 12, 32)
        leaf = x.requires_grad_()
        stream: Tensor = leaf
        for attention in stack:
            out = attention(stream, stream, mask=EVERYTHING)
            stream = stream + out if has_residual else out
        (slope,) = torch.autograd.grad((stream * told).sum(), leaf)
        return float(slope.norm() / told.norm())

    several = arriving(knobs.heads, has_residual=knobs.residual != "neither")
    one = arriving(1, has_residual=knobs.residual == "both")
    return {"times as much as one head": several / one, "arrives with the heads": several, "with one head": one}


# Networks that name tokens


@dataclass(frozen=True)
class PatternKnobs:
    heads: int = option(1, "Attention heads.", minimum=1, maximum=32)
    layers: int = option(1, "Layers of attention.", minimum=1, maximum=4)
    relations: int = option(2, "Tokens that are asked for.", minimum=1, maximum=5)
    steps: int = option(250, "Steps of 64 sequences.", minimum=10, maximum=5000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class SeveralPatternsKnobs(PatternKnobs):
    heads: int = option(4, "Attention heads.", minimum=1, maximum=32)


def measure_patterns(knobs: PatternKnobs) -> Numbers:
    """Where the heads look that are to name the second and the fifth token, and how often both are named.

    Of five trainings the one that names them most often: some give up one of the two, and serve a single relation.
    """
    seeds = range(5 * knobs.seed, 5 * knobs.seed + 5)
    tried = [train_to_recall(knobs.heads, knobs.relations, knobs.steps, seed, knobs.layers) for seed in seeds]
    found = max(tried, key=lambda one: one.right)
    both = found.weights[..., [1, 4]]  # (layers, sequences, heads, 2)
    shared = both.amin(-1).mean(1)  # of each sequence the lesser of the two
    means = both.mean(1).flatten(0, 1)  # (layers · heads, 2)
    own = [float(min(means[a, 0], means[b, 1])) for a, b in itertools.permutations(range(len(means)), 2)]
    return {
        "lesser weight of the two": float(shared.min()),
        "right": found.right,
        "each by a head of its own": max(own, default=float(means.min())),
    }


@dataclass(frozen=True)
class DoublingKnobs:
    doublings: int = option(0, "Heads are 2 to the power of this, beside twice as many.", minimum=0, maximum=4)
    relations: int = option(4, "Tokens that are asked for.", minimum=1, maximum=5)
    steps: int = option(400, "Steps of 64 sequences.", minimum=10, maximum=5000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_doubling(knobs: DoublingKnobs) -> Numbers:
    """How often all tokens are named, with so many heads and with twice as many in the same width of 32."""
    fewer, more = (
        train_to_recall(2**power, knobs.relations, knobs.steps, knobs.seed).right
        for power in (knobs.doublings, knobs.doublings + 1)
    )
    return {"gain": more - fewer, "right with fewer": fewer, "right with more": more}


FAMILY = ClaimFamily(
    name="several-heads",
    title="Several heads",
    picture="heads-or-width",
    claims=(
        Claim(
            id="mha-shapes",
            says="with heads of d/h and t/h rows each Q is d/h × n, each score matrix m × n, and the output H is t × n",
            where="homework 1.2a, 1.3a",
            kind="arithmetic",
            measure=measure_column_shapes,
            decides="rows of H",
            margin=lambda seen: yes(
                seen["heads as stated"] == 1 and seen["rows of H"] == seen["t"] and seen["columns of H"] == seen["n"]
            ),
            rule="every matrix on the way has the stated rows and columns, and H has t rows and n columns",
            knobs=ColumnShapesKnobs,
            control={"d_v": 5, "output": "no"},
            second=count_layer_shapes,
        ),
        Claim(
            id="multihead-concat-size",
            says="h heads of C/h numbers each, side by side, are C wide again",
            where="notes §17.1",
            kind="arithmetic",
            measure=measure_joined_width,
            decides="width of all heads",
            margin=lambda seen: 0.5 - abs(seen["width of all heads"] - seen["width"]),
            rule="all heads together are as wide as the stream",
            knobs=JoinedWidthKnobs,
            control={"heads": 5},
            second=run_joined_heads,
            other_reading="of a width that h does not divide they are not: that is the control",
        ),
        Claim(
            id="mha-not-one-weighted-average",
            says="multi-head attention does not give one weighted average of the values",
            where="exam 1.8",
            kind="draws",
            measure=measure_one_average,
            decides="part that is missed",
            margin=lambda seen: seen["part that is missed"] - 0.01,
            rule="the best combination of whole values, with any weights, misses more than 1 % of what the heads give",
            knobs=OneAverageKnobs,
            control={"heads": 1},
            second=project_on_values,
            seeds=5,
        ),
        Claim(
            id="filters-local-heads-global",
            says="a filter of a convolution reads what is near, and a head of attention every position",
            where="homework 1.2b",
            kind="draws",
            measure=measure_reach,
            decides="read by filters",
            margin=lambda seen: (
                seen["positions"] / 2 - seen["read by filters"] if seen["read by a head"] == seen["positions"] else -1.0
            ),
            rule="the middle output of a filter depends on fewer than half of the positions, that of a head on all",
            knobs=ReachKnobs,
            control={"layers": 8},
            second=reach_closed_form,
            seeds=3,
            other_reading="filters in a row read two positions more with each layer, until they read all",
        ),
        Claim(
            id="heads-improve-gradient-flow",
            says="more heads are more paths, by which gradients arrive better",
            where="homework 1.4c.5",
            kind="draws",
            measure=measure_head_gradient,
            decides="times as much as one head",
            margin=lambda seen: seen["times as much as one head"] - 1.1,
            rule="through six layers as they begin, 8 heads let 1.1 times as much of the gradient arrive as one head",
            knobs=HeadGradientKnobs,
            control={"residual": "heads only"},
            seeds=8,
        ),
        Claim(
            id="single-head-averages-patterns",
            says="a single head has to average several relations into one pattern",
            where="log Q15; answers Q5",
            kind="training",
            measure=measure_patterns,
            decides="lesser weight of the two",
            margin=lambda seen: seen["lesser weight of the two"] - 0.25,
            rule="one head that learned to name two tokens gives each a quarter of its weight or more, in all layers",
            changed="the best of five trainings is judged, since some networks give up one of the two tokens",
            knobs=PatternKnobs,
            control={"heads": 4},
            search=Search("layers", 1, 2, n_values=2),
            seeds=5,
            other_reading="a network of single heads can look at one relation in one layer and at another in the next",
        ),
        Claim(
            id="multi-head-several-relations",
            says="several heads look at different relations at the same time",
            where="answers Q5",
            kind="training",
            measure=measure_patterns,
            decides="each by a head of its own",
            margin=lambda seen: seen["each by a head of its own"] - 0.5,
            rule="of two tokens that are asked for, each has a head of its own that gives it over half of its weight",
            changed="the best of five trainings is judged, since some networks give up one of the two tokens",
            knobs=SeveralPatternsKnobs,
            control={"heads": 1},
            seeds=5,
        ),
        Claim(
            id="more-heads-store-more",
            says="the more heads, the more is captured",
            where="notes §17.1; homework 1.4c.1-3,6",
            kind="training",
            measure=measure_doubling,
            decides="gain",
            margin=lambda seen: seen["gain"] - 0.01,
            rule="twice as many heads of the same width in all name four of six tokens more often, by over a point",
            knobs=DoublingKnobs,
            control={"doublings": 3},
            search=Search("doublings", 0, 3, n_values=4),
            seeds=6,
            other_reading="as many heads as tokens are asked for are enough; of twice as many nothing more comes",
        ),
    ),
)
