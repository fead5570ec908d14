"""Losses on a probability: how high, how steep and how bent they are, over p, over the logit, and over two weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, Point
from pellucid.figures.charts.svg import (
    INK,
    LINE,
    PAPER,
    QUIET,
    line_key,
    line_style,
    move_marks,
    pixel_image,
    shade,
    svg_text,
)
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import join_words, percent, rough
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

if TYPE_CHECKING:
    import numpy

WIDTH, HEIGHT, TOP, BETWEEN = 430.0, 270.0, 40.0, 40.0
MAP, MAP_GAP = 180.0, 28.0
N_CURVE, N_WEIGHTS = 161, 41
NEGATIVE = -1e-9  # a second derivative below it is no rounding


class ProbabilityLoss(NamedTuple):
    """A loss of the right class as a function of its logit z, with p = sigmoid(z); first and second derivative."""

    name: str
    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    curvature: Callable[[Any], Any]


def _sigmoid(z: Any) -> Any:
    import numpy as np

    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(z, dtype=float)))


def _softplus(z: Any) -> Any:
    import numpy as np

    return np.logaddexp(0.0, z)


def _rest(z: Any) -> Any:
    """1 - p, with all its digits where p is near 1."""
    return _sigmoid(-z)


def _below_one(z: Any) -> Any:
    import numpy as np

    return np.where(np.asarray(z) < 1.0, 1.0, 0.0)


LOSSES = (
    ProbabilityLoss("cross-entropy", lambda z: _softplus(-z), lambda z: -_rest(z), lambda z: _sigmoid(z) * _rest(z)),
    ProbabilityLoss(
        "squared error",
        lambda z: _rest(z) ** 2,
        lambda z: -2 * _sigmoid(z) * _rest(z) ** 2,
        lambda z: -2 * _sigmoid(z) * _rest(z) ** 2 * (1 - 3 * _sigmoid(z)),
    ),
    ProbabilityLoss(
        "absolute error",
        _rest,
        lambda z: -_sigmoid(z) * _rest(z),
        lambda z: -_sigmoid(z) * _rest(z) * (1 - 2 * _sigmoid(z)),
    ),
    ProbabilityLoss("hinge", lambda z: (1 - z) * _below_one(z), lambda z: -_below_one(z), lambda z: 0.0 * z),
    ProbabilityLoss(
        "squared hinge",
        lambda z: (1 - z) ** 2 * _below_one(z),
        lambda z: -2 * (1 - z) * _below_one(z),
        lambda z: 2 * _below_one(z),
    ),
)


@dataclass(frozen=True)
class LossKnobs:
    wrong: float = option(
        0.01,
        "Probability of the right class whose losses are told.",
        minimum=0,
        is_minimum_open=True,
        maximum=0.999999,
        example="0.01",
    )
    span: float = option(8.0, "Logits from minus this to this.", minimum=1, maximum=30)
    flat: float = option(
        0.01, "A gradient below this is a plateau.", minimum=0, is_minimum_open=True, maximum=1, example="0.01"
    )
    seed: int = seed_knob()
    points: int = option(30, "Examples of the small classifier.", minimum=2, maximum=2000)
    flipped: float = option(0.1, "Share of its labels that are turned round.", minimum=0, maximum=0.5)
    weights: float = option(
        8.0, "Weights of the landscape from minus this to this.", minimum=0, is_minimum_open=True, maximum=100
    )

    def __post_init__(self) -> None:
        check_options(self)


class LossCurve(NamedTuple):
    """One loss: its curves over the logit and over the probability, and its landscape over two weights."""

    name: str
    at_wrong: float  # where the right class has the probability that was asked for
    slope_at_wrong: float  # by the logit
    over_logit: tuple[float, ...]
    slopes_by_logit: tuple[float, ...]
    least_curvature_by_logit: float
    over_p: tuple[float, ...]
    slopes_by_p: tuple[float, ...]
    least_curvature_by_p: float
    plateau: float | None  # the logit below which the gradient is flat though the answer is wrong; None: nowhere
    landscape: Matrix  # the mean loss of a classifier: the second weight down, from high to low, the first across
    bent_down: float  # share of the landscape that is curved downward in some direction
    flat: float  # share of it whose gradient is on a plateau


class LossStudy(NamedTuple):
    """Losses side by side."""

    wrong: float
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    flat: float
    weights: float
    points: int
    curves: tuple[LossCurve, ...]


def measure(knobs: LossKnobs) -> LossStudy:
    """Each loss and its derivatives on a grid of logits and of probabilities, and of the weights of a small classifier.

    >>> study = measure(LossKnobs(wrong=0.01))
    >>> [(curve.name, round(curve.at_wrong, 4)) for curve in study.curves[:3]]
    [('cross-entropy', 4.6052), ('squared error', 0.9801), ('absolute error', 0.99)]
    """
    import numpy as np

    logits = np.linspace(-knobs.span, knobs.span, N_CURVE)
    probabilities = np.linspace(0.0, 1.0, N_CURVE + 2)[1:-1]
    examples = _draw_examples(knobs)
    steps = np.linspace(-knobs.weights, knobs.weights, N_WEIGHTS)
    return LossStudy(
        wrong=knobs.wrong,
        logits=tuple(logits.tolist()),
        probabilities=tuple(probabilities.tolist()),
        flat=knobs.flat,
        weights=knobs.weights,
        points=knobs.points,
        curves=tuple([_curve(loss, knobs, logits, probabilities, examples, steps) for loss in LOSSES]),
    )


def _draw_examples(knobs: LossKnobs) -> numpy.ndarray[Any, Any]:
    """Two clouds around opposite points, each example times its label 1 or -1, so that w · x is the right logit."""
    import numpy as np

    rng = np.random.default_rng(knobs.seed)
    labels = np.where(np.arange(knobs.points) % 2 == 0, 1.0, -1.0)
    x = labels[:, None] * np.array([1.0, 0.5]) + rng.normal(size=(knobs.points, 2))
    turned = np.where(np.arange(knobs.points) < round(knobs.flipped * knobs.points), -1.0, 1.0)
    found: numpy.ndarray[Any, Any] = x * (labels * turned)[:, None]
    return found


def by_probability(loss: ProbabilityLoss, p: Any) -> tuple[Any, Any, Any]:
    """The loss, its slope and its curvature over p itself, by the chain rule with z = ln(p / (1 - p)).

    >>> [round(float(x), 6) for x in by_probability(LOSSES[0], 0.5)]
    [0.693147, -2.0, 4.0]
    """
    import numpy as np

    z = np.log(p) - np.log1p(-p)
    by_p = 1 / (p * (1 - p))
    bend = -(1 - 2 * p) * by_p**2
    return loss.value(z), loss.slope(z) * by_p, loss.curvature(z) * by_p**2 + loss.slope(z) * bend


def _curve(
    loss: ProbabilityLoss,
    knobs: LossKnobs,
    logits: numpy.ndarray[Any, Any],
    probabilities: numpy.ndarray[Any, Any],
    examples: numpy.ndarray[Any, Any],
    steps: numpy.ndarray[Any, Any],
) -> LossCurve:
    import numpy as np

    wrong = math.log(knobs.wrong) - math.log1p(-knobs.wrong)
    over_p, by_p, curvature_by_p = by_probability(loss, probabilities)
    slopes = loss.slope(logits)
    is_flat = (np.abs(slopes) < knobs.flat) & (logits < 0)
    w = np.stack(np.meshgrid(steps, steps[::-1]), axis=-1)  # (second weight, first weight, 2)
    z = w @ examples.T
    gradients = loss.slope(z) @ examples / len(examples)
    products = examples[:, :, None] * examples[:, None, :]
    hessians = np.tensordot(loss.curvature(z), products, axes=([2], [0])) / len(examples)
    return LossCurve(
        name=loss.name,
        at_wrong=float(loss.value(wrong)),
        slope_at_wrong=float(loss.slope(wrong)),
        over_logit=tuple(loss.value(logits).tolist()),
        slopes_by_logit=tuple(slopes.tolist()),
        least_curvature_by_logit=float(np.min(loss.curvature(logits))),
        over_p=tuple(over_p.tolist()),
        slopes_by_p=tuple(by_p.tolist()),
        least_curvature_by_p=float(np.min(curvature_by_p)),
        plateau=float(logits[is_flat].max()) if is_flat.any() else None,
        landscape=as_matrix(loss.value(z).mean(-1)),
        bent_down=float((np.linalg.eigvalsh(hessians)[..., 0] < NEGATIVE).mean()),
        flat=float((np.linalg.norm(gradients, axis=-1) < knobs.flat).mean()),
    )


def draw(record: LossStudy) -> Picture:
    """Losses and gradients over p and over the logit, then the landscapes over two weights."""
    x_p = Axis(0.0, 1.0, "probability p of the right class")
    x_z = Axis(record.logits[0], record.logits[-1], "logit z of the right class")
    steepest = 6.0
    panels = (
        (0, 0, _lines(record, x_p, Axis(0.0, 5.0, "loss"), record.probabilities, "over_p")),
        (1, 0, _lines(record, x_z, Axis(0.0, 5.0, "loss"), record.logits, "over_logit")),
        (0, 1, _lines(record, x_p, Axis(-steepest, 0.3, "gradient by p"), record.probabilities, "slopes_by_p")),
        (1, 1, _lines(record, x_z, Axis(-2.2, 0.15, "gradient by z"), record.logits, "slopes_by_logit")),
    )
    key = [(170.0 * i, *line_style(i), 2.5, curve.name) for i, curve in enumerate(record.curves)]
    marks = line_key(key, LEFT)
    for column, row, panel in panels:
        marks += panel.draw(column * (LEFT + WIDTH + BETWEEN), TOP + row * (HEIGHT + BOTTOM + 16))
    top = TOP + 2 * (HEIGHT + BOTTOM + 16) + 20
    marks.append(
        svg_text(0, top, "The mean loss of a classifier over its two weights: darker is higher", INK, is_bold=True)
    )
    for i, curve in enumerate(record.curves):
        marks += move_marks(_landscape(record, curve), i * (MAP + MAP_GAP), top + 14)
    width = max(2 * (LEFT + WIDTH) + BETWEEN + 20, len(record.curves) * (MAP + MAP_GAP))
    return picture("Losses on a probability", _captions(record), marks, width, top + MAP + 100)


def _lines(record: LossStudy, x: Axis, y: Axis, places: tuple[float, ...], field: str) -> Panel:
    panel = Panel(x, y, WIDTH, HEIGHT)
    for i, curve in enumerate(record.curves):
        colour, dash = line_style(i)
        points: list[Point] = list(zip(places, getattr(curve, field), strict=True))
        panel.line(points, colour, dash=dash, width=2.5, says=curve.name)
    return panel


def _landscape(record: LossStudy, curve: LossCurve) -> list[str]:
    lowest = min([min(row) for row in curve.landscape])
    highest = max([max(row) for row in curve.landscape])
    room = (highest - lowest) or 1.0
    rows = [[shade(math.sqrt((value - lowest) / room)) for value in row] for row in curve.landscape]
    n = len(curve.landscape)
    down, across = min(
        [(i, j) for i in range(n) for j in range(n)], key=lambda place: curve.landscape[place[0]][place[1]]
    )
    cell = MAP / n
    return [
        svg_text(0, 22, curve.name, INK),
        *move_marks(
            [
                pixel_image(rows, MAP, MAP, is_photo=False),
                f'<rect width="{MAP:.0f}" height="{MAP:.0f}" fill="none" stroke="{LINE}"/>',
                f'<circle cx="{(across + 0.5) * cell:.1f}" cy="{(down + 0.5) * cell:.1f}" r="5" fill="{PAPER}" '
                f'stroke="{INK}" stroke-width="2"/>',
            ],
            0,
            32,
        ),
        svg_text(0, MAP + 54, f"from {lowest:.3g} to {highest:.3g}", QUIET, size=14),
        svg_text(0, MAP + 74, f"bent down: {percent(curve.bent_down)}", QUIET, size=14),
    ]


def _captions(record: LossStudy) -> list[str]:
    told = join_words([f"{curve.name} {curve.at_wrong:.4g}" for curve in record.curves])
    entropy, squared = record.curves[:2]
    steep = join_words([f"{curve.name} {rough(abs(curve.slope_at_wrong))}" for curve in record.curves])
    is_convex = {curve.name: curve.least_curvature_by_logit >= NEGATIVE for curve in record.curves}
    convex, bent = ([name for name, is_so in is_convex.items() if is_so == wanted] for wanted in (True, False))
    lines = [
        f"Where the right class has p = {record.wrong:g}: {told}. Cross-entropy is "
        f"{entropy.at_wrong / squared.at_wrong:.2g} times the squared error there.",
        f"How steep each is there, by the logit: {steep}.",
        f"No second derivative below 0 on these logits: {join_words(convex or ['none'])}; below 0 somewhere: "
        f"{join_words(bent or ['none'])}.",
    ]
    plateaus = [
        f"{curve.name} from z = {curve.plateau:.2g} down" for curve in record.curves if curve.plateau is not None
    ]
    if plateaus:
        lines.append(
            f"Plateaus, where the answer is wrong and the gradient below {record.flat:g}: {join_words(plateaus)}."
        )
    flat = join_words([f"{curve.name} {percent(curve.flat)}" for curve in record.curves])
    lines.append(
        f"Landscapes: {record.points} examples, weights from −{record.weights:g} to {record.weights:g}; ○ is the "
        f"lowest place. Share on a plateau: {flat}."
    )
    return lines


LESSON = Lesson(
    name="losses",
    summary="Losses of a probability over p, the logit and two weights, with their gradients, convexity and plateaus.",
    measure=measure,
    draw=draw,
    knobs=LossKnobs,
)
