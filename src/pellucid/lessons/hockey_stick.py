"""The hockey stick: the loss after a bad start of the weights beside that after a good one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, axis_spanning, block_means, gap_words_of
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.lessons.lesson import (
    Curve,
    Lesson,
    name_batches,
    new_mlp,
    seed_knob,
    split_names,
    start_too_large,
    train_by_sgd,
)
from pellucid.options import check_options, option

WIDTH, HEIGHT, TOP, BETWEEN, RIGHT = 460.0, 380.0, 56.0, 30.0, 20.0


STRETCH = 20  # steps that a shown loss is the mean of


class StartStudy(NamedTuple):
    """The loss from the first step on, for weights that start badly and weights that start well."""

    source: str
    uniform: float  # ln of the vocabulary's size, where a start without opinions stands
    bad: Curve
    good: Curve
    bad_description: str
    good_description: str


@dataclass(frozen=True)
class HockeyStickKnobs:
    seed: int = seed_knob()
    scale: float = option(
        1.0, "Deviation of the weights that start badly.", minimum=0, is_minimum_open=True, maximum=100, example="1"
    )
    learning_rate: float = option(0.1, "Learning rate of SGD.", minimum=0, maximum=1000)
    steps: int = option(1000, "Steps of SGD.", minimum=2, maximum=20_000)
    hidden: int = option(200, "Units of the hidden layer.", minimum=2, maximum=1000)

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: HockeyStickKnobs) -> StartStudy:
    """The first steps of the same network after a bad start and after a good one; each loss a mean of the last few."""
    seed, learning_rate, n_steps = knobs.seed, knobs.learning_rate, knobs.steps
    sides = split_names()
    curves = []
    for name in ("bad", "good"):
        model = new_mlp(sides, seed, hidden=knobs.hidden)
        if name == "bad":
            start_too_large(model, seed, knobs.scale)
        losses = train_by_sgd(model, name_batches(sides, seed), learning_rate, n_steps)
        curves.append(Curve(name, tuple(range(1, n_steps + 1)), means_of_last(losses, STRETCH)))
    return StartStudy(
        source=f"names, an MLP, SGD at a rate of {learning_rate:g}, seed {seed}; means over {STRETCH} steps",
        uniform=math.log(len(sides.vocabulary)),
        bad=curves[0],
        good=curves[1],
        bad_description=f"all weights and biases drawn from N(0, {knobs.scale**2:g})",
        good_description="weights drawn by the gain of tanh, the last layer's a tenth of that",
    )


def means_of_last(values: Sequence[float], n: int) -> tuple[float, ...]:
    """Each with the up to n - 1 before it: the first stays as it is.

    >>> means_of_last([4.0, 2.0, 0.0], 2)
    (4.0, 3.0, 1.0)
    """
    return tuple(fmean(values[max(0, i + 1 - n) : i + 1]) for i in range(len(values)))


def draw(record: StartStudy) -> Picture:
    """Two frames with one scale: what the bad start wastes is the blade of the stick."""
    values = [record.uniform, *record.bad.values, *record.good.values]
    y = axis_spanning(values, "loss, nats")
    marks = []
    left = 0.0
    for heading, says, curve, colour in (
        ("a bad start", record.bad_description, record.bad, ORANGE),
        ("a good start", record.good_description, record.good, BLUE),
    ):
        marks.append(svg_text(left + LEFT, 18, heading, colour, is_bold=True, size=19))
        marks.append(svg_text(left + LEFT, 41, says, QUIET, size=15))
        marks += _panel(curve, y, record.uniform, colour).draw(left, TOP)
        left += LEFT + WIDTH + BETWEEN
    title = "The hockey stick: a bad start spends its first steps on unlearning its own opinions"
    return picture(title, _captions(record), marks, left - BETWEEN + RIGHT, TOP + HEIGHT + BOTTOM)


def _panel(curve: Curve, y: Axis, uniform: float, colour: str) -> Panel:
    points = list(zip(curve.steps, curve.values, strict=True))
    panel = Panel(axis_spanning([0, *curve.steps], "step", margin=0.0), y, WIDTH, HEIGHT)
    panel.across(uniform)
    # On that side of the rule where the curve does not end.
    below = bool(curve.values) and curve.values[-1] > uniform - 0.05 * (y.high - y.low)
    rule = panel.at(0, uniform)[1]
    is_room = rule + 20 < HEIGHT
    panel.words(
        WIDTH - 4, rule + 20 if below and is_room else rule - 8, f"no opinion: {uniform:.2f}", QUIET, align="end"
    )
    panel.line(points, colour, width=1.6, fade=0.55)
    panel.line(block_means(points, 60)[0], colour, width=3.5)
    if points:
        panel.dot(*points[0], colour, says=f"step {points[0][0]}: {points[0][1]:.4f}")
        x, top = panel.at(*points[0])
        # Clear of the rule, where the start is near it.
        is_near = abs(top - panel.at(0, uniform)[1]) < 20
        panel.words(x + 14, max(16.0, top - 10 if is_near else top + 5), f"{points[0][1]:.2f}", INK, is_bold=True)
    return panel


def _captions(record: StartStudy) -> list[str]:
    lines = [
        f"{record.source}.",
        f"A network without opinions starts at ln |V| = {record.uniform:.4f} nats.",
        f"The bad start begins at {record.bad.values[0]:.4f} and ends at {record.bad.values[-1]:.4f}; "
        f"the good one begins at {record.good.values[0]:.4f} and ends at {record.good.values[-1]:.4f}.",
    ]
    above = [step for step, value in zip(record.bad.steps, record.bad.values, strict=True) if value > record.uniform]
    if above:
        lines.append(f"The bad start is worse than having no opinion as late as step {above[-1]:,}.")
    for name, curve in (("bad", record.bad), ("good", record.good)):
        gaps = gap_words_of(list(zip(curve.steps, curve.values, strict=True)), f"loss of the {name} start")
        lines += [gaps] if gaps else []
    return lines


LESSON = Lesson(
    name="hockey-stick",
    summary="The loss over the first steps after a bad start, beside the same network started well.",
    measure=measure,
    draw=draw,
    knobs=HockeyStickKnobs,
    figure_of_run="loss-curves",
)
