"""Separable classes: without weight decay the loss of logistic regression has no minimum, and its weights grow on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, line_key
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of, rough
from pellucid.lessons.lesson import Lesson, seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy

    Floats = numpy.ndarray[Any, Any]

WIDTH, HEIGHT, TOP, BETWEEN = 380.0, 360.0, 44.0, 26.0
MARKS = 80  # steps that are looked at, evenly on a logarithmic scale
ASIDE = 0.5  # how far beside the widest margin's direction the two nearest points stand


@dataclass(frozen=True)
class SeparableKnobs:
    margin: float = option(0.5, "Distance of the nearest points from the dividing line.", minimum=0.05, maximum=10)
    weight_decay: float = option(
        0.01, "Weight decay of the second training.", minimum=0, is_minimum_open=True, maximum=10
    )
    steps: int = option(100_000, "Steps of gradient descent.", minimum=10, maximum=1_000_000)
    points: int = option(12, "Points of both classes.", minimum=2, maximum=1_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


class SeparableRun(NamedTuple):
    """Gradient descent on the same points, with one weight decay."""

    weight_decay: float
    norms: tuple[float, ...]  # of the weights, at each of the steps that are looked at
    losses: tuple[float, ...]  # mean cross-entropy, nats
    degrees: tuple[float, ...]  # between the weights and the direction of the widest margin
    weights: tuple[float, float]  # at the end


class SeparableStudy(NamedTuple):
    """Two trainings of logistic regression on separable classes, one of them with weight decay."""

    points: tuple[tuple[float, float, int], ...]  # x, y and the class, 1 or -1
    direction: tuple[float, float]  # of the widest margin, of length 1
    margin: float  # the widest
    learning_rate: float
    steps: tuple[int, ...]  # that are looked at
    free: SeparableRun  # without weight decay
    held: SeparableRun
    norm_slope: float  # of the free weights by ln t, over the last tenfold of the steps
    loss_power: float  # of t that the free loss goes with, over the same steps
    resting_norm: float  # of the weights where loss and decay are least together, by Newton's method


def measure(knobs: SeparableKnobs) -> SeparableStudy:
    """Both trainings from 0, on all points in every step, and the minimum that the second has.

    >>> study = measure(SeparableKnobs(steps=2000))
    >>> study.free.losses[-1] < study.held.losses[-1], study.free.norms[-1] > study.held.norms[-1]
    (True, True)
    """
    import numpy as np

    from pellucid.training.tasks.separability import nearest_hull_point

    labels, signed = _draw_points(knobs)
    nearest = nearest_hull_point(signed) @ signed
    margin = float(np.linalg.norm(nearest))
    direction = nearest / margin
    marks = np.unique(np.geomspace(1, knobs.steps, MARKS).astype(int))
    curvature = float(np.linalg.eigvalsh(signed.T @ signed / len(signed))[-1]) / 4
    learning_rate = 1.0 / (curvature + knobs.weight_decay)
    seen = _descend(signed, np.array([[0.0], [knobs.weight_decay]]), learning_rate, marks)  # (mark, run, 2)
    runs = [
        _describe(weights, signed, direction, decay)
        for weights, decay in zip(seen.transpose(1, 0, 2), (0.0, knobs.weight_decay), strict=True)
    ]
    late = marks >= marks[-1] / 10
    time = np.log(marks[late])
    free = runs[0]
    return SeparableStudy(
        points=tuple(
            (x, y, int(label)) for (x, y), label in zip((signed * labels[:, None]).tolist(), labels, strict=True)
        ),
        direction=(float(direction[0]), float(direction[1])),
        margin=margin,
        learning_rate=learning_rate,
        steps=tuple(marks.tolist()),
        free=free,
        held=runs[1],
        norm_slope=float(np.polyfit(time, np.array(free.norms)[late], 1)[0]),
        loss_power=float(np.polyfit(time, np.log(np.array(free.losses)[late]), 1)[0]),
        resting_norm=float(np.linalg.norm(_minimum(signed, knobs.weight_decay))),
    )


def _draw_points(knobs: SeparableKnobs) -> tuple[Floats, Floats]:
    """Labels 1 and -1 by turns, and the points times their labels: (points,), (points, 2).

    Two of them stand at the margin, to the left and to the right of its direction, and all others beyond twice of it:
    no line through 0 keeps farther from all of them than the one that was meant.
    """
    import numpy as np

    rng = np.random.default_rng(knobs.seed)
    angle = rng.uniform(0.0, 2 * np.pi)
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    ahead = np.append([knobs.margin] * 2, 2 * knobs.margin + rng.exponential(0.7, knobs.points - 2))
    aside = np.append([ASIDE, -ASIDE], rng.normal(size=knobs.points - 2))
    return np.where(np.arange(knobs.points) % 2 == 0, 1, -1), ahead[:, None] * along + aside[:, None] * across


def _descend(signed: Floats, decays: Floats, learning_rate: float, marks: Floats) -> Floats:
    """The weights after each of the marked steps, for all decays at once: (mark, run, 2)."""
    import numpy as np

    weights, seen, wanted = np.zeros((len(decays), 2)), [], set(marks.tolist())
    with np.errstate(over="ignore"):  # of a point that is far on its side nothing is left to learn
        for step in range(1, int(marks[-1]) + 1):
            slope = -(1 / (1 + np.exp(weights @ signed.T))) @ signed / len(signed) + decays * weights
            weights = weights - learning_rate * slope
            if step in wanted:
                seen.append(weights)
    return np.stack(seen)


def _describe(weights: Floats, signed: Floats, direction: Floats, decay: float) -> SeparableRun:
    """weights: (mark, 2)."""
    import numpy as np

    norms = np.linalg.norm(weights, axis=1)
    beside = weights @ np.array([-direction[1], direction[0]])
    degrees = np.degrees(np.abs(np.arctan2(beside, weights @ direction)))
    losses = np.logaddexp(0.0, -weights @ signed.T).mean(1)
    first, second = weights[-1].tolist()
    return SeparableRun(decay, tuple(norms.tolist()), tuple(losses.tolist()), tuple(degrees.tolist()), (first, second))


def _minimum(signed: Floats, decay: float) -> Floats:
    """The weights with the least mean loss plus half the decay times their square, by damped Newton steps."""
    import numpy as np

    def total(w: Floats) -> float:
        return float(np.logaddexp(0.0, -signed @ w).mean() + decay / 2 * w @ w)

    weights = np.zeros(2)
    for _ in range(100):
        wrong = 0.5 * (1 - np.tanh(0.5 * signed @ weights))
        slope = -wrong @ signed / len(signed) + decay * weights
        bend = (signed.T * (wrong * (1 - wrong))) @ signed / len(signed) + decay * np.eye(2)
        step = np.linalg.solve(bend, slope)
        size = 1.0
        while size > 1e-9 and total(weights - size * step) > total(weights):
            size /= 2
        weights = weights - size * step
    return weights


def draw(record: SeparableStudy) -> Picture:
    """The points with both lines, the norm over the steps, and the loss over the steps."""
    panels = (_points_panel(record), _norm_panel(record), _loss_panel(record))
    marks = line_key(
        [
            (0.0, BLUE, "", 3.0, "without weight decay"),
            (220.0, ORANGE, "9 5", 3.0, f"weight decay {record.held.weight_decay:g}"),
            (430.0, QUIET, "3 5", 2.5, "theory: widest margin, ln t / margin, 1 / t; the minimum"),
        ],
        LEFT,
    )
    for column, panel in enumerate(panels):
        marks += panel.draw(column * (LEFT + WIDTH + BETWEEN), TOP)
    width = 3 * (LEFT + WIDTH + BETWEEN)
    title = "Separable classes: the loss has no minimum, and weight decay decides the answer"
    return picture(title, _captions(record), marks, width, TOP + HEIGHT + BOTTOM)


def _points_panel(record: SeparableStudy) -> Panel:
    reach = 1.1 * max([max(abs(x), abs(y)) for x, y, _ in record.points])
    tall = reach * HEIGHT / WIDTH
    panel = Panel(Axis(-reach, reach, "x1"), Axis(-tall, tall, "x2"), WIDTH, HEIGHT)
    far = 3 * reach
    for (along, across), colour, dash, says in (
        (record.direction, QUIET, "3 5", "widest margin"),
        (record.free.weights, BLUE, "", "without weight decay"),
        (record.held.weights, ORANGE, "9 5", "with weight decay"),
    ):
        length = math.hypot(along, across)
        x, y = -across / length * far, along / length * far
        panel.line([(-x, -y), (x, y)], colour, dash=dash, width=2.5, says=says)
    for x, y, label in record.points:
        panel.dot(x, y, INK, size=6.0, is_hollow=label < 0, says=f"({x:.2f}, {y:.2f}), class {label}")
    return panel


def _norm_panel(record: SeparableStudy) -> Panel:
    steps, free = record.steps, record.free.norms
    x = Axis(1.0, float(max(10, steps[-1])), "step t", is_log=True)
    panel = Panel(x, axis_spanning([0.0, *free, *record.held.norms], "norm of the weights"), WIDTH, HEIGHT)
    # The line of theory through the last point: only its slope is foretold.
    expected = [(t, free[-1] + math.log(t / steps[-1]) / record.margin) for t in (1, steps[-1])]
    panel.line(expected, QUIET, dash="3 5", width=2.5, says="ln t / margin")
    panel.across(record.resting_norm, QUIET, "3 5")
    _both(panel, record, record.free.norms, record.held.norms)
    return panel


def _loss_panel(record: SeparableStudy) -> Panel:
    steps, free = record.steps, record.free.losses
    x = Axis(1.0, float(max(10, steps[-1])), "step t", is_log=True)
    panel = Panel(x, axis_spanning([*free, *record.held.losses], "loss, nats", is_log=True), WIDTH, HEIGHT)
    panel.line([(t, free[-1] * steps[-1] / t) for t in (1, steps[-1])], QUIET, dash="3 5", width=2.5, says="1 / t")
    _both(panel, record, free, record.held.losses)
    return panel


def _both(panel: Panel, record: SeparableStudy, free: tuple[float, ...], held: tuple[float, ...]) -> None:
    panel.line(list(zip(record.steps, free, strict=True)), BLUE, says="without weight decay")
    panel.line(list(zip(record.steps, held, strict=True)), ORANGE, dash="9 5", says="with weight decay")


def _captions(record: SeparableStudy) -> list[str]:
    free, held = record.free, record.held
    power = f"{record.loss_power:.3f}".replace("-", "−")
    return [
        f"{count_of(len(record.points), 'point')} of two classes, which a line through 0 divides with a margin of "
        f"{rough(record.margin)}; logistic regression by gradient descent on all of them, from 0.",
        f"Without weight decay the loss is {rough(free.losses[-1])} after {record.steps[-1]:,} steps, and has no "
        f"minimum. Over the last tenfold of the steps the norm grows by {record.norm_slope:.4f} for each unit of ln t, "
        f"where theory says 1 / margin = {1 / record.margin:.4f}, and the loss goes with t to the power {power}, where "
        f"it says −1. The direction is then {rough(free.degrees[-1])}° from that of the widest margin.",
        f"With a weight decay of {held.weight_decay:g} there is a minimum: the norm comes to {held.norms[-1]:.4f}, by "
        f"Newton's method {record.resting_norm:.4f}, {rough(held.degrees[-1])}° from the widest margin, with a loss of "
        f"{rough(held.losses[-1])}. Which answer it is, the weight decay decides, or else the number of steps.",
    ]


LESSON = Lesson(
    name="separable",
    summary="Logistic regression on separable classes: its weights grow like log t, unless weight decay holds them.",
    measure=measure,
    draw=draw,
    knobs=SeparableKnobs,
)
