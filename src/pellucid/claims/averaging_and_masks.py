"""Averaging and masks: the bag of words as a product with a triangular matrix, and that matrix as a softmax.

The road from an average to attention is in lessons/road_to_attention.py. L̄ is the lower-triangular matrix whose rows
are equal shares of one; "wei" is 0 where a position may look and −∞ where not.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, yes
from pellucid.claims.sizes_and_latency import least_seconds
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

SAME = 1e-6  # in single precision


# The average of the past


@dataclass(frozen=True)
class BagKnobs:
    time: int = option(6, "Tokens.", minimum=2, maximum=256)
    width: int = option(4, "Channels: numbers of each token.", minimum=2, maximum=256)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class BagAxisKnobs(BagKnobs):
    axis: str = option("channels", "What the average runs along", choices=("channels", "time"))


@dataclass(frozen=True)
class BagOrderKnobs(BagKnobs):
    time: int = option(6, "Tokens; all their orders are tried.", minimum=2, maximum=8)
    looked_at: str = option(
        "last row", "The average of all tokens, or those of all beginnings", choices=("last row", "all rows")
    )


@dataclass(frozen=True)
class BagMatrixKnobs(BagKnobs):
    shares: str = option(
        "equal", "Rows of the matrix: shares of one, or ones as they are", choices=("equal", "not divided")
    )


def draw_whole_tokens(time: int, width: int, seed: int) -> Tensor:
    """Tokens of whole numbers from -9 to 9, so that they can be summed exactly: (time, width)."""
    import torch

    rng = torch.Generator().manual_seed(seed)
    return torch.randint(-9, 10, (time, width), generator=rng).double()


def measure_bag_axis(knobs: BagAxisKnobs) -> Numbers:
    """How far the running average along an axis is from the bag of words."""
    from pellucid.lessons.road_to_attention import average_by_loop

    tokens = draw_whole_tokens(knobs.time, knobs.width, knobs.seed)
    bag = sum_bag(tokens.tolist())
    along = average_by_loop(tokens) if knobs.axis == "time" else average_by_loop(tokens.T).T
    pairs = zip(itertools.chain(*bag), along.flatten().tolist(), strict=True)
    return {"farthest": max([abs(float(one) - other) for one, other in pairs])}


def sum_bag(tokens: list[list[float]]) -> list[list[Fraction]]:
    """The bag of words as it is defined: row t is the mean of rows 1 to t, in fractions.

    >>> sum_bag([[1.0, 0.0], [2.0, 6.0]])
    [[Fraction(1, 1), Fraction(0, 1)], [Fraction(3, 2), Fraction(3, 1)]]
    """
    return [
        [sum([Fraction(row[channel]) for row in tokens[:t]], Fraction(0)) / t for channel in range(len(tokens[0]))]
        for t in range(1, len(tokens) + 1)
    ]


def measure_bag_axis_by_sums(knobs: BagAxisKnobs) -> Numbers:
    """The same with NumPy's running sum."""
    import numpy as np

    tokens, axis = draw_whole_tokens(knobs.time, knobs.width, knobs.seed).numpy(), int(knobs.axis == "channels")
    steps = np.arange(1, tokens.shape[axis] + 1).reshape((-1, 1) if axis == 0 else (1, -1))
    bag = tokens.cumsum(0) / np.arange(1, knobs.time + 1)[:, None]
    return {"farthest": float(np.abs(tokens.cumsum(axis) / steps - bag).max())}


def measure_bag_order(knobs: BagOrderKnobs) -> Numbers:
    """How far the bag of words moves when the tokens change places, over all their orders."""
    from pellucid.lessons.road_to_attention import average_by_matrix

    tokens = draw_whole_tokens(knobs.time, knobs.width, knobs.seed)
    rows = slice(-1, None) if knobs.looked_at == "last row" else slice(None)
    bags = [average_by_matrix(tokens[list(order)])[rows] for order in itertools.permutations(range(knobs.time))]
    return {"farthest": max([float((bag - bags[0]).abs().max()) for bag in bags]), "orders": float(len(bags))}


def measure_bag_matrix(knobs: BagMatrixKnobs) -> Numbers:
    """The bag of words by adding up, and as a product with L̄ or with L."""
    import torch

    from pellucid.lessons.road_to_attention import average_by_loop, average_by_matrix

    tokens = draw_whole_tokens(knobs.time, knobs.width, knobs.seed)
    undivided = torch.ones(knobs.time, knobs.time, dtype=tokens.dtype).tril() @ tokens
    product = average_by_matrix(tokens) if knobs.shares == "equal" else undivided
    return {"farthest": float((product - average_by_loop(tokens)).abs().max())}


def multiply_bag_matrix(knobs: BagMatrixKnobs) -> Numbers:
    """The same product in fractions."""
    tokens = draw_whole_tokens(knobs.time, knobs.width, knobs.seed).tolist()
    shares = [
        [Fraction(int(j <= i), i + 1 if knobs.shares == "equal" else 1) for j in range(knobs.time)]
        for i in range(knobs.time)
    ]
    product = [
        [
            sum([a * Fraction(row[channel]) for a, row in zip(line, tokens, strict=True)])
            for channel in range(knobs.width)
        ]
        for line in shares
    ]
    pairs = zip(itertools.chain(*product), itertools.chain(*sum_bag(tokens)), strict=True)
    return {"farthest": float(max([abs(a - b) for a, b in pairs]))}


@dataclass(frozen=True)
class BagTimeKnobs:
    time: int = option(256, "Tokens.", minimum=2, maximum=8192)
    width: int = option(64, "Channels.", minimum=1, maximum=4096)
    beside: str = option("loop", "What the product is timed beside", choices=("loop", "running sum"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def time_bag(knobs: BagTimeKnobs) -> Numbers:
    """The bag of words of all beginnings: by the matrix, by adding up one by one, and by one running sum."""
    import torch

    from pellucid.lessons.road_to_attention import average_by_loop, averaging_matrix

    tokens = torch.randn(knobs.time, knobs.width, generator=torch.Generator().manual_seed(knobs.seed))
    matrix, counts = averaging_matrix(knobs.time), torch.arange(1.0, knobs.time + 1)[:, None]
    repeats = 20 if knobs.time < 1000 else 5

    def product() -> Tensor:
        return matrix @ tokens

    def running_sum() -> Tensor:
        return tokens.cumsum(0) / counts

    runs = product, functools.partial(average_by_loop, tokens), running_sum
    by_matrix, by_loop, by_sum = (1e3 * seconds for seconds in least_seconds(*runs, repeats=repeats))
    beside = by_loop if knobs.beside == "loop" else by_sum
    return {
        "times as long": by_matrix / beside,
        "ms by the matrix": by_matrix,
        "ms by the loop": by_loop,
        "ms by a running sum": by_sum,
    }


# wei


@dataclass(frozen=True)
class WeiKnobs:
    time: int = option(8, "Tokens.", minimum=2, maximum=256)
    later: str = option("-inf", "The score of what comes later", choices=("-inf", "-1"))
    diagonal: int = option(1, "Where −∞ begins: 1 behind the diagonal, 0 on it.", minimum=0, maximum=2)
    looked_at: str = option("wei", "wei, or the softmax of it", choices=("wei", "softmax"))

    def __post_init__(self) -> None:
        check_options(self)


def make_wei(knobs: WeiKnobs) -> Tensor:
    """The lesson's, or one with another score or another diagonal: (time, time)."""
    import torch

    from pellucid.lessons.road_to_attention import wei

    if knobs.later == "-inf" and knobs.diagonal == 1:
        return wei(knobs.time)
    return torch.full((knobs.time, knobs.time), float(knobs.later)).triu(knobs.diagonal)


def measure_wei(knobs: WeiKnobs) -> Numbers:
    """How far softmax(wei) is from L̄; whether wei or its softmax is normalised; and what wei has on each side."""
    from pellucid.lessons.road_to_attention import averaging_matrix

    matrix = make_wei(knobs)
    weights = matrix.softmax(-1).nan_to_num(0.0)
    shown = matrix if knobs.looked_at == "wei" else weights
    sums = shown.sum(-1).clamp(min=-1e9)  # the sum of a row with −∞ is −∞
    lower, upper = matrix.tril(-1), matrix.triu(1)
    n_above = knobs.time * (knobs.time - 1) / 2
    return {
        "farthest from the average": float((weights - averaging_matrix(knobs.time)).abs().max()),
        "rows that sum to one": float(((sums - 1).abs() < SAME).double().mean()),
        "zeros below the diagonal": float((lower == 0).double().mean()),
        "zeros on the diagonal": float((matrix.diagonal() == 0).double().mean()),
        "−∞ above the diagonal": float((upper == -math.inf).sum()) / n_above,
        "rows that may see nothing": float((matrix == -math.inf).all(-1).sum()),
    }


def count_wei(knobs: WeiKnobs) -> Numbers:
    """The same from the definition, by sums of exponentials."""
    later = math.exp(float(knobs.later))
    sees = [[1.0 if j < i + knobs.diagonal else later for j in range(knobs.time)] for i in range(knobs.time)]
    weights = [[one / (sum(row) or 1.0) for one in row] for row in sees]
    averages = [[float(j <= i) / (i + 1) for j in range(knobs.time)] for i in range(knobs.time)]
    pairs = zip(itertools.chain(*weights), itertools.chain(*averages), strict=True)
    if knobs.looked_at == "wei":
        sums = [sum([0.0 if one == 1 else float(knobs.later) for one in row]) for row in sees]
    else:
        sums = [sum(row) for row in weights]
    return {
        "farthest from the average": max([abs(a - b) for a, b in pairs]),
        "rows that sum to one": sum([abs(total - 1) < SAME for total in sums]) / knobs.time,
        "zeros on the diagonal": float(knobs.diagonal > 0),
        "rows that may see nothing": float(sum([sum(row) == 0 for row in sees])),
    }


@dataclass(frozen=True)
class MaskedScoreKnobs:
    time: int = option(8, "Tokens.", minimum=2, maximum=256)
    width: int = option(8, "Numbers of each query and key.", minimum=1, maximum=256)
    deviation: float = option(1.0, "Standard deviation of the queries' numbers.", minimum=0, maximum=100)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_masked_scores(knobs: MaskedScoreKnobs) -> Numbers:
    """Scores of queries and keys under a causal mask beside wei: where both are −∞, and how far they are elsewhere."""
    import torch

    from pellucid.layers.attention import inverse_root
    from pellucid.layers.masks import CAUSAL
    from pellucid.lessons.road_to_attention import averaging_matrix, wei

    rng = torch.Generator().manual_seed(knobs.seed)
    queries, keys = torch.randn(2, knobs.time, knobs.width, generator=rng)
    scores = knobs.deviation * queries @ keys.T * inverse_root(knobs.width)
    masked, plain = scores + CAUSAL.additive(scores.shape, scores), wei(knobs.time)
    is_seen = plain == 0
    return {
        "farthest": float((masked - plain)[is_seen].abs().max()),
        "−∞ in the same places": float(((masked == -math.inf) == ~is_seen).double().mean()),
        "weights from the average": float((masked.softmax(-1) - averaging_matrix(knobs.time)).abs().max()),
    }


def multiply_masked_scores(knobs: MaskedScoreKnobs) -> Numbers:
    """The largest score on or below the diagonal, pair by pair."""
    import torch

    rng = torch.Generator().manual_seed(knobs.seed)
    queries, keys = torch.randn(2, knobs.time, knobs.width, generator=rng).double().tolist()
    products = [
        math.fsum([a * b for a, b in zip(queries[i], keys[j], strict=True)])
        for i in range(knobs.time)
        for j in range(i + 1)
    ]
    return {"farthest": knobs.deviation * max([abs(one) for one in products]) / math.sqrt(knobs.width)}


BAG = "notes §16 Ex.8"

FAMILY = ClaimFamily(
    name="averaging-and-masks",
    title="Averaging and masks",
    picture="road",
    claims=(
        Claim(
            id="bow-averages-across-channels",
            says="the bag of words averages across the channels",
            where=BAG,
            kind="arithmetic",
            measure=measure_bag_axis,
            decides="farthest",
            margin=lambda seen: SAME - seen["farthest"],
            rule="the running average along the channels equals the bag of words, the mean of all rows up to each",
            knobs=BagAxisKnobs,
            control={"axis": "time"},
            second=measure_bag_axis_by_sums,
            other_reading="channel by channel, and along time: that is the control",
        ),
        Claim(
            id="bow-order-blind",
            says="the bag of words knows nothing of the order of its tokens",
            where=BAG,
            kind="proof",
            measure=measure_bag_order,
            decides="farthest",
            margin=lambda seen: SAME - seen["farthest"],
            rule="over all orders of six tokens the average of all of them is the same",
            knobs=BagOrderKnobs,
            control={"looked_at": "all rows"},
            other_reading="the averages of all beginnings together do know it, for L̄ has an inverse",
        ),
        Claim(
            id="bow-equals-Lbar-X",
            says="the bags of words of all beginnings are L̄ · X",
            where="notes §16.1 Prop.6",
            kind="proof",
            measure=measure_bag_matrix,
            decides="farthest",
            margin=lambda seen: SAME - seen["farthest"],
            rule="the product with L̄ equals the averages that are added up one by one",
            knobs=BagMatrixKnobs,
            control={"shares": "not divided"},
            second=multiply_bag_matrix,
        ),
        Claim(
            id="matmul-trick-is-efficient",
            says="as a product with a matrix the bag of words is computed efficiently",
            where="notes §16.1",
            kind="cost",
            measure=time_bag,
            decides="times as long",
            margin=lambda seen: 1 - seen["times as long"],
            rule="on one thread the product, its matrix being there, takes less time than adding up token by token",
            knobs=BagTimeKnobs,
            control={"beside": "running sum"},
            search=Search("time", 2, 8192, n_values=7, is_log=True),
            seeds=3,
            other_reading="a running sum needs n·C additions where the product needs n²·C: that is the control",
        ),
        Claim(
            id="softmax-of-wei-is-Lbar",
            says="the softmax of the matrix of 0 and −∞ is L̄",
            where="notes §16.2 Prop.7",
            kind="proof",
            measure=measure_wei,
            decides="farthest from the average",
            margin=lambda seen: SAME - seen["farthest from the average"],
            rule="each weight equals 1/i in the first i places of row i, and 0 behind them",
            knobs=WeiKnobs,
            control={"later": "-1"},
            second=count_wei,
        ),
        Claim(
            id="wei-mask-keeps-diagonal",
            says="wei is upper-triangular and 0 on its diagonal",
            where="notes §16.2, Ex.9",
            kind="proof",
            measure=measure_wei,
            decides="zeros on the diagonal",
            margin=lambda seen: yes(
                seen["zeros below the diagonal"] == seen["zeros on the diagonal"] == seen["−∞ above the diagonal"] == 1
            ),
            rule="below the diagonal and on it every number is 0, above it every one is −∞",
            knobs=WeiKnobs,
            control={"diagonal": 0},
            second=count_wei,
            other_reading="an upper triangle with its diagonal, as triu has it, leaves the first token nothing to see",
        ),
        Claim(
            id="wei-is-normalised",
            says="wei holds normalised affinities",
            where="notes §16.2",
            kind="proof",
            measure=measure_wei,
            decides="rows that sum to one",
            margin=lambda seen: yes(seen["rows that sum to one"] == 1),
            rule="every row of wei sums to one",
            knobs=WeiKnobs,
            control={"looked_at": "softmax"},
            second=count_wei,
            other_reading="the softmax of wei does: that is the control",
        ),
        Claim(
            id="masked-scores-equal-prop-7-W",
            says="masked scores of queries and keys are the matrix of 0 and −∞",
            where="notes Ex.9",
            kind="arithmetic",
            measure=measure_masked_scores,
            decides="farthest",
            margin=lambda seen: SAME - seen["farthest"],
            rule="on and below the diagonal every masked score is 0",
            knobs=MaskedScoreKnobs,
            control={"deviation": 0.0},
            second=multiply_masked_scores,
            other_reading="−∞ stands in the same places; the 0 of wei have become what the data say",
        ),
    ),
)
