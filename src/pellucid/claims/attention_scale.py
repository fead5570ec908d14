"""Attention: the scale. What 1/√d does to scores, to softmax, to rounding and to gradients, before any training.

Queries and keys have normal numbers of mean 0 and variance 1 unless a knob says otherwise. What the scale does in
training is in attention_in_training.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pellucid.claims.attention_sensitivities import draw_vectors, plain_weights
from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

PAIRS = 20_000  # of a query and a key
CLOSE = 0.25  # a number within a quarter of another is close to it


@dataclass(frozen=True)
class ScoreProductKnobs:
    width: int = option(64, "Width d of queries and keys.", minimum=1, maximum=4096)
    mean: float = option(0.0, "Mean of their numbers.", minimum=-10, maximum=10)
    keys: str = option("drawn", "Keys that are drawn, or each query as its own key", choices=("drawn", "the query"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def _draw_products(knobs: ScoreProductKnobs) -> Tensor:
    """Products of pairs of a query and a key: (pairs,)."""
    import torch

    from pellucid.training.rng import torch_rng

    rng = torch_rng(knobs.seed, knobs.width, "products")
    n = min(PAIRS, 8_000_000 // knobs.width)
    queries = knobs.mean + torch.randn(n, knobs.width, generator=rng)
    keys = queries if knobs.keys == "the query" else knobs.mean + torch.randn(n, knobs.width, generator=rng)
    return (queries * keys).sum(-1).double()


def measure_score_products(knobs: ScoreProductKnobs) -> Numbers:
    """Products as they are and divided by √d: how large, how far spread, and where."""
    from pellucid.layers.attention import inverse_root

    products = _draw_products(knobs)
    scaled = products * inverse_root(knobs.width)
    return {
        "root mean square over d": float(products.square().mean().sqrt()) / knobs.width,
        "root mean square over √d": float(products.square().mean().sqrt()) / math.sqrt(knobs.width),
        "variance of scaled": float(scaled.var()),
        "mean of scaled": float(scaled.mean()),
        "scaled from 0.5 to 1.5": float(((scaled > 0.5) & (scaled < 1.5)).double().mean()),
    }


def derive_score_products(knobs: ScoreProductKnobs) -> Numbers:
    """By formula, for numbers x of mean μ and variance 1: moments of x·y, or of x², added up d times."""
    square = knobs.mean**2
    if knobs.keys == "the query":
        mean, variance = square + 1, 2 + 4 * square
    else:
        mean, variance = square, 1 + 2 * square
    d = knobs.width
    size = math.sqrt(d * variance + (d * mean) ** 2)
    return {
        "root mean square over d": size / d,
        "root mean square over √d": size / math.sqrt(d),
        "variance of scaled": variance,
        "mean of scaled": math.sqrt(d) * mean,
    }


def measure_variance(knobs: ScoreProductKnobs) -> Numbers:
    """The same, and the variance of scores in a new layer of ours, which reads normal numbers."""
    import torch

    from pellucid.layers.attention import MultiHeadAttention, inverse_root
    from pellucid.training.rng import seed_torch

    with seed_torch(knobs.seed, 0, "weights"), torch.no_grad():
        layer = MultiHeadAttention(knobs.width, 1, has_bias=False)
        stream = torch.randn(256, knobs.width)
        queries, keys = stream @ layer.project[0].T, stream @ layer.project[1].T
        scores = queries @ keys.T * inverse_root(knobs.width)
    return {**measure_score_products(knobs), "variance in a new layer": float(scores.var())}


@dataclass(frozen=True)
class RoundingKnobs:
    width: int = option(64, "Width d of queries and keys.", minimum=1, maximum=4096)
    precision: str = option(
        "bfloat16", "Precision that attention is computed in", choices=("bfloat16", "float16", "float32")
    )
    keys: int = option(32, "Keys that each query chooses among.", minimum=2, maximum=1024)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_rounding(knobs: RoundingKnobs) -> Numbers:
    """The part of a query's weight that rounding moves, without and with 1/√d: against double precision."""
    import torch

    from pellucid.layers.attention import attention_weights, inverse_root
    from pellucid.layers.masks import EVERYTHING

    precision = getattr(torch, knobs.precision)
    queries, keys, _ = (one.to(precision) for one in draw_vectors(512, knobs.keys, knobs.width, knobs.seed))
    found = {}
    for name, scale in (("unscaled", 1.0), ("scaled", inverse_root(knobs.width))):
        rough = attention_weights(queries, keys, scale=scale, mask=EVERYTHING).double()
        exact = attention_weights(queries.double(), keys.double(), scale=scale, mask=EVERYTHING)
        found[name] = float((rough - exact).abs().sum(-1).mean() / 2)
    largest = float((queries.double() @ keys.double().T).abs().max())
    return {
        "times as much": found["unscaled"] / found["scaled"],
        "moved, unscaled": found["unscaled"],
        "moved, scaled": found["scaled"],
        "largest product": largest,
    }


@dataclass(frozen=True)
class SharpKnobs:
    width: int = option(256, "Width d of queries and keys.", minimum=1, maximum=4096)
    keys: int = option(32, "Keys that each query chooses among.", minimum=2, maximum=1024)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_sharpness(knobs: SharpKnobs) -> Numbers:
    """How far a query's weights move with it, by the derivative, and how sure they are: without and with 1/√d."""
    import torch

    from pellucid.layers.attention import attention_weights, inverse_root
    from pellucid.layers.masks import EVERYTHING

    queries, keys, _ = draw_vectors(128, knobs.keys, knobs.width, knobs.seed)
    slopes, sure = [], []
    for scale in (1.0, inverse_root(knobs.width)):

        def weights_of(query: Tensor, scale: float = scale) -> Tensor:
            return attention_weights(query[None], keys, scale=scale, mask=EVERYTHING)[0]

        derivatives = torch.func.vmap(torch.func.jacrev(weights_of))(queries)  # (queries, keys, width)
        slopes.append(torch.linalg.matrix_norm(derivatives))
        sure.append(attention_weights(queries, keys, scale=scale, mask=EVERYTHING))
    return _compare_sharpness((slopes[0], slopes[1]), (sure[0], sure[1]))


def _compare_sharpness(slopes: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor]) -> Numbers:
    passed = [1 - one.square().sum(-1) for one in weights]
    return {
        "median gradient over scaled": float((slopes[0] / slopes[1]).median()),
        "mean gradient over scaled": float(slopes[0].mean() / slopes[1].mean()),
        "largest weight, unscaled": float(weights[0].amax(-1).mean()),
        "largest weight, scaled": float(weights[1].amax(-1).mean()),
        "slope of softmax over scaled": float(passed[0].mean() / passed[1].mean()),
    }


def derive_sharpness(knobs: SharpKnobs) -> Numbers:
    """The same by the formula β (diag(a) - a aᵀ) K, in NumPy."""
    import numpy as np
    import torch

    queries, keys, _ = (one.numpy() for one in draw_vectors(128, knobs.keys, knobs.width, knobs.seed))
    slopes, sure = [], []
    for scale in (1.0, 1 / math.sqrt(knobs.width)):
        weights = plain_weights(scale * queries @ keys.T)
        spread = weights[:, :, None] * np.eye(knobs.keys) - weights[:, :, None] * weights[:, None]
        slopes.append(torch.from_numpy(scale * np.linalg.norm(spread @ keys, axis=(1, 2))))
        sure.append(torch.from_numpy(weights))
    return _compare_sharpness((slopes[0], slopes[1]), (sure[0], sure[1]))


SCALE = "notes §17"

FAMILY = ClaimFamily(
    name="attention-scale",
    title="Attention: the scale",
    picture="score-scale",
    claims=(
        Claim(
            id="dot-products-magnitude-d",
            says="products of a query and a key of unit normal numbers are about as large as d",
            where=SCALE,
            kind="draws",
            measure=measure_score_products,
            decides="root mean square over d",
            margin=lambda seen: CLOSE - abs(seen["root mean square over d"] - 1),
            rule="their root mean square is within a quarter of d",
            knobs=ScoreProductKnobs,
            control={"width": 1},
            search=Search("width", 1, 4096, n_values=7, is_log=True),
            second=derive_score_products,
            tolerance=0.05,
            seeds=5,
            other_reading="their variance is d, so that they are about √d large; a vector with itself gives d",
        ),
        Claim(
            id="scaled-dot-product-variance-one",
            says="the product of a query and a key over √d has variance 1",
            where="notes §17 Prop.8; homework 1.1b",
            kind="draws",
            measure=measure_variance,
            decides="variance of scaled",
            margin=lambda seen: 0.05 - abs(seen["variance of scaled"] - 1),
            rule="the variance over 20,000 pairs of independent vectors is within 5 % of 1",
            knobs=ScoreProductKnobs,
            control={"keys": "the query"},
            second=derive_score_products,
            tolerance=0.05,
            seeds=5,
            other_reading="in a new layer, whose matrices begin smaller, it is about a ninth",
        ),
        Claim(
            id="scaled-scores-around-one",
            stated="around 1",
            says="divided by √d, scores are around 1",
            where="answers Q4",
            kind="draws",
            measure=measure_score_products,
            decides="mean of scaled",
            margin=lambda seen: CLOSE - abs(seen["mean of scaled"] - 1),
            rule="their mean is within a quarter of 1",
            knobs=ScoreProductKnobs,
            control={"mean": 0.3536},
            second=derive_score_products,
            tolerance=0.05,
            seeds=5,
            other_reading="they are around 0, and it is their deviation that is 1",
        ),
        Claim(
            id="sqrt-dk-stabilises",
            says="dividing by √d makes attention numerically stable",
            where="answers Q4; exam 1.8",
            kind="draws",
            measure=measure_rounding,
            decides="times as much",
            margin=lambda seen: seen["times as much"] - 2,
            rule="in bfloat16 rounding moves at least twice as much weight without 1/√d as with it",
            knobs=RoundingKnobs,
            control={"width": 1},
            search=Search("width", 1, 4096, n_values=7, is_log=True),
            seeds=5,
            other_reading="nothing overflows either way; stable training is a claim of its own",
        ),
        Claim(
            id="sharp-softmax-dead-gradients",
            surprise="at widths in use, queries get larger gradients without the scale, and not dead ones",
            says="without 1/√d softmax is nearly hard and its gradients are dead",
            where="notes §17; homework 1.1b",
            kind="draws",
            measure=measure_sharpness,
            decides="median gradient over scaled",
            margin=lambda seen: 0.1 - seen["median gradient over scaled"],
            rule="the gradient that reaches the median query is below a tenth of what it is with 1/√d",
            changed="the control is wider than the claim, for at width 256 gradients of queries are larger without "
            "the scale",
            knobs=SharpKnobs,
            control={"width": 1024},
            search=Search("width", 1, 1024, n_values=6, is_log=True),
            second=derive_sharpness,
            seeds=5,
            other_reading="in the mean it grows: the few undecided queries lack the factor 1/√d in their gradients too",
        ),
    ),
)
