"""Attention: limits of β and of the temperature, from the plain average to the choice of one key.

β multiplies the scores and a temperature divides them, as in layers/attention.py. Queries, keys and values are those of
attention_sensitivities.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.claims.attention_sensitivities import draw_vectors
from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor

QUERIES, WIDTH = 16, 16


@dataclass(frozen=True)
class LargeBetaKnobs:
    scale: float = option(1e4, "β.", minimum=0, maximum=1e9)
    keys: int = option(8, "Keys.", minimum=2, maximum=256)
    equal: int = option(1, "Keys that are equal to the best one, itself among them.", minimum=1, maximum=8)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class SmallBetaKnobs(LargeBetaKnobs):
    scale: float = option(1e-6, "β.", minimum=0, maximum=1e9)


def _draw_with_equals(knobs: LargeBetaKnobs) -> tuple[Tensor, Tensor, Tensor]:
    """One query; as many copies of its best key as are asked for stand in place of the worst ones."""
    queries, keys, values = draw_vectors(QUERIES, knobs.keys, WIDTH, knobs.seed)
    order = (queries[0] @ keys.T).argsort()
    keys[order[: knobs.equal - 1]] = keys[order[-1]].clone()
    return (queries[:1] if knobs.equal > 1 else queries), keys, values


def measure_limit(knobs: LargeBetaKnobs) -> Numbers:
    """The largest weight of the least sure query, and how far outputs are from the best value and from the average."""
    from pellucid.layers.attention import attention_weights
    from pellucid.layers.masks import EVERYTHING

    queries, keys, values = _draw_with_equals(knobs)
    weights = attention_weights(queries, keys, scale=knobs.scale, mask=EVERYTHING)
    outputs, best = weights @ values, values[(queries @ keys.T).argmax(-1)]
    return {
        "largest weight": float(weights.amax(-1).min()),
        "keys with weight": float((weights > 1e-6).sum(-1).max()),
        "from the best value": float((outputs - best).abs().max()),
        "from the average": float((outputs - values.mean(0)).abs().max()),
        "weights from even": float((weights - 1 / knobs.keys).abs().max()),
    }


def sum_limit(knobs: LargeBetaKnobs) -> Numbers:
    """The largest weight by the formula 1 / Σ exp(-β gap), gap by gap in plain Python."""
    queries, keys, values = (one.tolist() for one in _draw_with_equals(knobs))
    columns = list(zip(*values, strict=True))
    means = [math.fsum(column) / len(column) for column in columns]
    largest, farthest, apart = [], [], []
    for query in queries:
        scores = [math.fsum([a * b for a, b in zip(query, key, strict=True)]) for key in keys]
        parts = [math.exp(-knobs.scale * (max(scores) - score)) for score in scores]
        largest.append(1 / math.fsum(parts))
        weights = [part / math.fsum(parts) for part in parts]
        farthest.append(max([abs(weight - 1 / knobs.keys) for weight in weights]))
        outputs = [math.fsum([w * v for w, v in zip(weights, column, strict=True)]) for column in columns]
        apart.append(max([abs(output - mean) for output, mean in zip(outputs, means, strict=True)]))
    return {"largest weight": min(largest), "weights from even": max(farthest), "from the average": max(apart)}


@dataclass(frozen=True)
class ScoreGapKnobs:
    times: float = option(100.0, "How many times the others' score the key's own is.", minimum=1, maximum=1e6)
    others: float = option(1.0, "The score of all others.", minimum=0, maximum=1000)
    keys: int = option(16, "Keys.", minimum=2, maximum=1024)
    width: int = option(64, "Width d; β is 1/√d.", minimum=2, maximum=4096)

    def __post_init__(self) -> None:
        check_options(self)


def measure_gap(knobs: ScoreGapKnobs) -> Numbers:
    """One query whose products with the keys are given; values are unit vectors."""
    import torch

    from pellucid.layers.attention import attend
    from pellucid.layers.masks import EVERYTHING

    query, keys = torch.zeros(1, knobs.width).double(), torch.zeros(knobs.keys, knobs.width).double()
    query[0, 0], keys[:, 0] = 1.0, knobs.others
    keys[0, 0] = knobs.times * knobs.others
    values = torch.eye(knobs.keys).double()
    output = attend(query, keys, values, mask=EVERYTHING)[0]
    return {"farthest from the value": float((output - values[0]).abs().max()), "weight": float(output[0])}


def derive_gap(knobs: ScoreGapKnobs) -> Numbers:
    """1 / (1 + (m - 1) e^(-β gap))."""
    gap = (knobs.times - 1) * knobs.others / math.sqrt(knobs.width)
    rest = (knobs.keys - 1) * math.exp(-gap)
    return {"farthest from the value": rest / (1 + rest), "weight": 1 / (1 + rest)}


@dataclass(frozen=True)
class LargeTemperatureKnobs:
    size: float = option(100.0, "The temperature, and the β that it is compared with.", minimum=1e-4, maximum=1e6)
    keys: int = option(8, "Keys.", minimum=2, maximum=256)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class SmallTemperatureKnobs(LargeTemperatureKnobs):
    size: float = option(0.01, "The temperature, and the β that it is compared with.", minimum=1e-4, maximum=1e6)


def measure_temperature(knobs: LargeTemperatureKnobs) -> Numbers:
    """The same scores over a temperature, and times a β of that size: how far apart the weights are."""
    from pellucid.layers.attention import attention_weights
    from pellucid.layers.masks import EVERYTHING

    queries, keys, _ = draw_vectors(QUERIES, knobs.keys, WIDTH, knobs.seed)
    hot = attention_weights(queries, keys, scale=1.0, temperature=knobs.size, mask=EVERYTHING)
    sharp = attention_weights(queries, keys, scale=knobs.size, mask=EVERYTHING)
    return {
        "weights apart": float((hot - sharp).abs().max()),
        "largest weight by the temperature": float(hot.amax(-1).mean()),
        "largest weight by β": float(sharp.amax(-1).mean()),
        "temperature's weights from even": float((hot - 1 / knobs.keys).abs().max()),
    }


def sum_temperature(knobs: LargeTemperatureKnobs) -> Numbers:
    """By sums of exponentials, in plain Python."""
    queries, keys, _ = (one.tolist() for one in draw_vectors(QUERIES, knobs.keys, WIDTH, knobs.seed))
    apart, largest, uneven = [], [], []
    for query in queries:
        scores = [math.fsum([a * b for a, b in zip(query, key, strict=True)]) for key in keys]
        both = []
        for factor in (1 / knobs.size, knobs.size):
            parts = [math.exp(factor * (score - max(scores))) for score in scores]
            both.append([part / math.fsum(parts) for part in parts])
        apart.append(max([abs(a - b) for a, b in zip(*both, strict=True)]))
        largest.append(max(both[0]))
        uneven.append(max([abs(weight - 1 / knobs.keys) for weight in both[0]]))
    return {
        "weights apart": max(apart),
        "largest weight by the temperature": math.fsum(largest) / QUERIES,
        "temperature's weights from even": max(uneven),
    }


SCALE, HARD, SOFT = "homework 1.1b", "homework 1.1c", "homework 1.1d"

FAMILY = ClaimFamily(
    name="attention-limits",
    title="Attention: limits",
    picture="logits",
    claims=(
        Claim(
            id="large-beta-one-hot",
            says="as β grows attention becomes a hard choice",
            where="homework 1.1b/c",
            kind="draws",
            measure=measure_limit,
            decides="largest weight",
            margin=lambda seen: seen["largest weight"] - 0.99,
            rule="at β = 10,000 each of 16 queries gives more than 0.99 to one of 8 drawn keys",
            knobs=LargeBetaKnobs,
            control={"scale": 0.25},
            second=sum_limit,
            seeds=5,
        ),
        Claim(
            id="large-beta-picks-one-key",
            says="as β grows only the one best key is chosen, whatever the keys are",
            where=SCALE,
            kind="proof",
            measure=measure_limit,
            decides="largest weight",
            margin=lambda seen: seen["largest weight"] - 0.99,
            rule="the best key has more than 0.99 at β = 10,000, also where other keys are equal to it",
            knobs=LargeBetaKnobs,
            control={"equal": 2},
            search=Search("equal", 1, 6, n_values=6),
            second=sum_limit,
            other_reading="equal keys share the weight: a token that stands twice, without positions, has two",
        ),
        Claim(
            id="small-beta-uniform",
            says="as β goes to 0 attention becomes the plain average of all values",
            where="homework 1.1b/d",
            kind="draws",
            measure=measure_limit,
            decides="from the average",
            margin=lambda seen: 1e-3 - seen["from the average"],
            rule="at β = 1e-6 every output is within 0.001 of the mean of the values",
            knobs=SmallBetaKnobs,
            control={"scale": 0.25},
            second=sum_limit,
            seeds=5,
        ),
        Claim(
            id="value-preserved-when-gap-large",
            says="a value comes out as it is when its key's score is many times that of the others",
            where=HARD,
            kind="proof",
            measure=measure_gap,
            decides="farthest from the value",
            margin=lambda seen: 0.01 - seen["farthest from the value"],
            rule="the output is within 0.01 of the value, with 16 keys of width 64 and others that score 1",
            knobs=ScoreGapKnobs,
            control={"times": 10.0},
            search=Search("times", 2.0, 1000.0, n_values=8, is_log=True),
            second=derive_gap,
            other_reading="it takes a difference, not a ratio: β times it must exceed ln(99 (m - 1)) for m keys",
        ),
        Claim(
            id="large-temperature-equals-large-beta",
            says="a very large temperature of softmax does what a large β does",
            where=HARD,
            kind="proof",
            measure=measure_temperature,
            decides="weights apart",
            margin=lambda seen: 1e-6 - seen["weights apart"],
            rule="the weights at a temperature of 100 are those at β = 100, to a millionth",
            knobs=LargeTemperatureKnobs,
            control={"size": 1.0},
            second=sum_temperature,
            other_reading="a temperature divides: a very small one does what a large β does",
        ),
        Claim(
            id="small-temperature-diffuses",
            says="a very small temperature makes the weights uniform",
            where=SOFT,
            kind="proof",
            measure=measure_temperature,
            decides="temperature's weights from even",
            margin=lambda seen: 0.01 - seen["temperature's weights from even"],
            rule="at a temperature of 0.01 every weight is within 0.01 of one over the number of keys",
            knobs=SmallTemperatureKnobs,
            control={"size": 10_000.0},
            second=sum_temperature,
            other_reading="a small β does it, which is a large temperature: that is the control",
        ),
    ),
)
