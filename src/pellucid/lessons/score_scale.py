"""Why scores are divided by √d: what the width of queries and keys does to their products, and so to the weights.

For numbers of mean 0 and variance σ², independent of one another, the product of two vectors of d of them has mean 0
and variance d · σ⁴: each of its d terms has variance σ² · σ², and variances of independent terms add up. Divided by √d
it is σ⁴ for every d. A softargmax over scores of variance d is nearly hard when d is large, and passes next to no
gradient to them: the derivative of its weights by its scores has the trace 1 - Σ a².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import percent, rough
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option

PAIRS = 4096  # of a query and a key, whose product's variance is measured
EXPECTED = "d · σ² · σ²"
WIDTH, HEIGHT, GAP, RIGHT = 400.0, 330.0, 80.0, 150.0


class ScaledScores(NamedTuple):
    """What scores are like with one scale, and what softargmax makes of them."""

    variance: float  # of the score of a query and a key
    largest: float  # the largest weight of a query, in the mean over the queries
    entropy: float  # of a query's weights in bits, in the mean
    slope: float  # 1 - Σ a², the trace of the weights' derivative by the scores, in the mean


class WidthScores(NamedTuple):
    """Queries and keys of one width: their products as they are, and divided by √d."""

    width: int
    expected: float  # the variance that the products should have, d · σ⁴
    uncertainty: float  # the deviation that a measured variance has by chance, as a part of it
    raw: ScaledScores
    scaled: ScaledScores


class ScoreScaleStudy(NamedTuple):
    """Scores with and without 1/√d for queries and keys of growing width."""

    source: str
    deviation: float  # σ of the numbers in queries and keys
    n_keys: int
    widths: tuple[WidthScores, ...]


@dataclass(frozen=True)
class ScoreScaleKnobs:
    seed: int = seed_knob()
    widths: tuple[float, ...] = option(
        (1, 4, 16, 64, 256, 1024),
        "Widths d of queries and keys.",
        minimum=1,
        maximum=4096,
        example="4,64,1024",
    )
    keys: int = option(32, "Keys that each query chooses among.", minimum=2, maximum=1024)
    deviation: float = option(
        1.0,
        "Standard deviation σ of the numbers in queries and keys.",
        minimum=0,
        is_minimum_open=True,
        maximum=100,
        example="1",
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: ScoreScaleKnobs) -> ScoreScaleStudy:
    """Queries and keys of independent normal numbers: the variance over pairs, the weights over queries.

    >>> for each in measure(ScoreScaleKnobs(widths=(16, 1024))).widths:
    ...     print(each.width, round(each.raw.variance, 1), round(each.scaled.variance, 3), round(each.raw.largest, 3))
    16 16.7 1.043 0.627
    1024 994.1 0.971 0.954
    """
    return ScoreScaleStudy(
        source=f"queries and keys of independent normal numbers, seed {knobs.seed}",
        deviation=knobs.deviation,
        n_keys=knobs.keys,
        widths=tuple(_measure_width(knobs, int(width)) for width in knobs.widths),
    )


def _measure_width(knobs: ScoreScaleKnobs, width: int) -> WidthScores:
    import torch

    from pellucid.layers.attention import attention_weights, inverse_root
    from pellucid.layers.masks import EVERYTHING
    from pellucid.training.rng import torch_rng

    rng = torch_rng(knobs.seed, width, "score scale")
    queries = knobs.deviation * torch.randn(PAIRS, width, generator=rng)
    products = (queries * (knobs.deviation * torch.randn(PAIRS, width, generator=rng))).sum(-1).double()
    keys = knobs.deviation * torch.randn(knobs.keys, width, generator=rng)
    found = []
    for scale in (1.0, inverse_root(width)):
        weights = attention_weights(queries[:512], keys, scale=scale, mask=EVERYTHING).double()
        found.append(
            ScaledScores(
                variance=float((scale * products).var()),
                largest=float(weights.amax(-1).mean()),
                entropy=float(-torch.special.xlogy(weights, weights).sum(-1).mean() / math.log(2)),
                slope=float(1 - weights.square().sum(-1).mean()),
            )
        )
    # The fourth moment of a sum of d products of normal numbers is 3 + 6 / d times its squared variance.
    return WidthScores(width, width * knobs.deviation**4, math.sqrt((2 + 6 / width) / PAIRS), *found)


def draw(record: ScoreScaleStudy) -> Picture:
    """The variance of the scores over the width, and the largest weight; without and with 1/√d."""
    widths = [float(each.width) for each in record.widths]
    lines = {
        "q · k": (ORANGE, [each.raw for each in record.widths]),
        "q · k / √d": (BLUE, [each.scaled for each in record.widths]),
    }
    variances = [each.variance for _, scores in lines.values() for each in scores]
    below = axis_spanning(widths, "width d of queries and keys", is_log=True)
    left = Panel(below, axis_spanning(variances, "variance of the scores", is_log=True), WIDTH, HEIGHT)
    right = Panel(below, Axis(0.0, 1.03, "largest weight of a query"), WIDTH, HEIGHT)
    right.across(1 / record.n_keys)
    ends: list[tuple[float, str, str]] = [(1 / record.n_keys, f"even: 1/{record.n_keys}", INK)]
    for name, (colour, scores) in lines.items():
        for panel, values in ((left, [s.variance for s in scores]), (right, [s.largest for s in scores])):
            panel.line(list(zip(widths, values, strict=True)), colour, says=name)
            for x, y in zip(widths, values, strict=True):
                panel.dot(x, y, colour, size=5, says=f"{name}, d = {x:g}: {rough(y)}")
        ends.append((scores[-1].largest, name, colour))
    left.line([(each.width, each.expected) for each in record.widths], INK, width=1.5, dash="7 5", says=EXPECTED)
    right.ends(ends)
    headings = [
        svg_text(LEFT, 16, f"Scores; dashed: {EXPECTED}", is_bold=True, size=19),
        svg_text(LEFT + WIDTH + GAP + LEFT, 16, "Weights", is_bold=True, size=19),
    ]
    marks = [*headings, *left.draw(0, 36), *right.draw(LEFT + WIDTH + GAP, 36)]
    title = "Without 1/√d, wide queries and keys make attention hard"
    width = 2 * (LEFT + WIDTH) + GAP + RIGHT
    return picture(title, _captions(record), marks, width, 36 + HEIGHT + BOTTOM)


def _captions(record: ScoreScaleStudy) -> list[str]:
    last = record.widths[-1]
    off = [abs(each.raw.variance / each.expected - 1) / each.uncertainty for each in record.widths]
    return [
        f"{record.source[:1].upper()}{record.source[1:]}; σ = {record.deviation:g}, {PAIRS:,} pairs for each width.",
        f"d = {last.width}: the products have variance {last.raw.variance:.4g} where {EXPECTED} = "
        f"{last.expected:.4g}; divided by √d it is {last.scaled.variance:.4g}. Over all widths the measured "
        f"variance is at most {max(off):.1f} of its chance deviations off.",
        f"Of {record.n_keys} keys the largest weight is {percent(last.raw.largest)} without and "
        f"{percent(last.scaled.largest)} with 1/√d; the entropy {last.raw.entropy:.2f} and {last.scaled.entropy:.2f} "
        f"of {math.log2(record.n_keys):.2f} bits.",
        f"What the weights pass back to the scores, 1 − Σ a², is {rough(last.raw.slope)} without and "
        f"{rough(last.scaled.slope)} with it.",
    ]


LESSON = Lesson(
    name="score-scale",
    summary="Variance of attention scores before and after 1/√d, and how hard the weights are, over the width d.",
    measure=measure,
    draw=draw,
    knobs=ScoreScaleKnobs,
)
