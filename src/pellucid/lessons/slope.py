"""Slope: rise over run on a curve, with a step h that shrinks to the derivative; and how good it can become."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import ExpressionError, PellucidError, quoted
from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, line_key
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import join_words, rough
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from pellucid.autograd.expression import Program

WIDTH, HEIGHT, TOP, BETWEEN = 520.0, 400.0, 40.0, 120.0
N_POINTS = 241
GREEN = "#00795c"


@dataclass(frozen=True)
class SlopeKnobs:
    expression: str = option("3*x^2 - 4*x + 5", "Function of one variable, written as for derive.", value_name="TEXT")
    at: float = option(3.0, "Where the slope is asked for.", minimum=-1e9, maximum=1e9)
    h: float = option(
        1.0, "The step: how far to the right the second point stands.", minimum=1e-12, maximum=1e6, example="0.5"
    )
    span: float = option(
        3.0, "How much of the curve is shown on either side.", minimum=0, is_minimum_open=True, maximum=1e9, example="3"
    )

    def __post_init__(self) -> None:
        check_options(self)


class SlopeStudy(NamedTuple):
    """A curve with its secant of step h and its tangent at one place, and what the slope becomes as h shrinks."""

    expression: str
    variable: str
    at: float
    h: float
    value: float  # at that place
    value_ahead: float  # at the place + h
    exact: float  # the derivative
    forward: float  # rise over run by h
    central: float  # over 2h, from both sides
    points: tuple[tuple[float, float], ...]  # of the curve
    flat: tuple[float, ...]  # where the derivative is 0, in what is shown
    errors: tuple[tuple[float, float, float], ...]  # h, and the errors of the forward and the central difference


def measure(knobs: SlopeKnobs) -> SlopeStudy:
    """The derivative by the scalar engine, and rise over run by running the expression again.

    >>> study = measure(SlopeKnobs())
    >>> study.exact, study.forward, study.central, [round(x, 6) for x in study.flat]
    (14.0, 17.0, 14.0, [0.666667])
    """
    from pellucid.autograd.derivation import differences, differentiate, sweep
    from pellucid.autograd.grammar import parse

    program = parse(knobs.expression)
    variable = _only_variable(program, knobs.expression)
    place = program.outputs()[-1].place

    def f(x: float) -> float:
        return program.evaluate({variable: x})[place]

    def slope(x: float) -> float:
        nodes = program.trace({variable: x})
        nodes[place].backward()
        return nodes[program.inputs[variable]].grad

    derived = differentiate(knobs.expression, {variable: knobs.at})
    exact = derived.gradients[variable]
    forward, _, central = differences(f, knobs.at, h=knobs.h, exact=exact)
    xs = [knobs.at + knobs.span * (2 * i / (N_POINTS - 1) - 1) for i in range(N_POINTS)]
    return SlopeStudy(
        expression=knobs.expression,
        variable=variable,
        at=knobs.at,
        h=knobs.h,
        value=derived.value,
        value_ahead=f(knobs.at + knobs.h),
        exact=exact,
        forward=forward.slope,
        central=central.slope,
        points=tuple([(x, f(x)) for x in xs]),
        flat=_flat_places(slope, xs),
        errors=tuple([(row[2].h, abs(row[0].error), abs(row[2].error)) for row in sweep(f, knobs.at, exact=exact)]),
    )


def _only_variable(program: Program, text: str) -> str:
    if len(program.outputs()) > 1:
        raise PellucidError(f"{quoted(text, 40)} gives several numbers", fix="Draw the slope of one of them")
    if len(program.inputs) == 1:
        return next(iter(program.inputs))
    if not program.inputs:
        raise PellucidError(f"{quoted(text, 40)} has no variable", fix='Write a function of one, as "x^2"')
    second = list(program.inputs)[1]
    raise ExpressionError(
        f"{quoted(second)} is a second variable",
        text=text,
        column=program.operations[program.inputs[second]].start + 1,
        fix="Write numbers in place of all but one",
    )


def _flat_places(slope: Callable[[float], float], xs: Sequence[float]) -> tuple[float, ...]:
    """Where the derivative changes its sign between two neighbours, by halving; jumps of the curve are none."""
    found: list[float] = []
    for (left, at_left), (right, at_right) in itertools.pairwise([(x, slope(x)) for x in xs[::8]]):
        if at_left == 0.0:
            found.append(left)
        if not (math.isfinite(at_left) and math.isfinite(at_right)) or at_left * at_right >= 0.0:
            continue
        a, b = left, right
        for _ in range(80):
            middle = (a + b) / 2
            a, b = (middle, b) if slope(middle) * at_left > 0.0 else (a, middle)
        # At a pole the sign changes too, and the derivative is far from 0 on both sides.
        if abs(slope(b)) < 1e-6 * (1 + max(abs(at_left), abs(at_right))):
            found.append(b)
    return tuple(found)


def draw(record: SlopeStudy) -> Picture:
    """The curve with secant and tangent; beside it the error of rise over run against the step."""
    shown = [y for _, y in record.points if math.isfinite(y)]
    panel = Panel(
        axis_spanning([x for x, _ in record.points], record.variable, margin=0.0),
        axis_spanning([*shown, record.value], "value"),
        WIDTH,
        HEIGHT,
    )
    panel.line(record.points, INK, width=3.5, says=record.expression)
    ends = (record.points[0][0], record.points[-1][0])
    for slope, colour, dash in ((record.exact, BLUE, ""), (record.forward, ORANGE, "9 5")):
        line = [(x, record.value + slope * (x - record.at)) for x in ends]
        panel.line(line, colour, width=2.5, dash=dash, says=f"slope {slope:.6g}")
    ahead = record.at + record.h
    panel.line([(record.at, record.value), (ahead, record.value), (ahead, record.value_ahead)], QUIET, width=1.5)
    for x in record.flat:
        panel.dot(x, _value_near(record, x), GREEN, is_hollow=True, says=f"flat at {x:.6g}")
    panel.dot(record.at, record.value, BLUE, says=f"{record.variable} = {record.at:g}: {record.value:.6g}")
    panel.dot(ahead, record.value_ahead, ORANGE, says=f"{record.variable} + h = {ahead:g}: {record.value_ahead:.6g}")
    key = [(0.0, BLUE, "", 2.5, "tangent"), (150.0, ORANGE, "9 5", 2.5, "secant"), (290.0, QUIET, "", 1.5, "run, rise")]
    marks = [*line_key(key, LEFT), *panel.draw(0, TOP), *_error_panel(record)]
    title = f"Rise over run: the slope of {record.expression} at {record.variable} = {record.at:g}"
    width = 2 * (LEFT + WIDTH) + BETWEEN + 40
    return picture(title, _captions(record), marks, width, TOP + HEIGHT + BOTTOM)


def _value_near(record: SlopeStudy, x: float) -> float:
    finite = [point for point in record.points if math.isfinite(point[1])]
    return min(finite, key=lambda point: abs(point[0] - x))[1]


def _error_panel(record: SlopeStudy) -> list[str]:
    errors = [error for _, *both in record.errors for error in both if error > 0 and math.isfinite(error)]
    panel = Panel(
        axis_spanning([h for h, _, _ in record.errors], "step h", is_log=True, margin=0.0),
        axis_spanning(errors or [1e-16, 1.0], "error of the slope", is_log=True),
        WIDTH,
        HEIGHT,
    )
    for column, colour, dash in ((1, ORANGE, "9 5"), (2, BLUE, "")):
        panel.line([(row[0], row[column] or math.nan) for row in record.errors], colour, dash=dash, width=2.5)
        for row in record.errors:
            if row[column] > 0:
                panel.dot(row[0], row[column], colour, size=4, says=f"h = {row[0]:g}: off by {row[column]:.2g}")
    left = LEFT + WIDTH + BETWEEN
    key = [(0.0, ORANGE, "9 5", 2.5, "to the right"), (190.0, BLUE, "", 2.5, "from both sides")]
    return [*line_key(key, left + LEFT), *panel.draw(left, TOP)]


def _captions(record: SlopeStudy) -> list[str]:
    lines = [
        f"Derivative at {record.variable} = {record.at:g}: {record.exact:.6g}. Rise over run with h = {record.h:g}: "
        f"({record.value_ahead:.6g} − {record.value:.6g}) / {record.h:g} = {record.forward:.6g}, "
        f"off by {rough(abs(record.forward - record.exact))}; from both sides {record.central:.6g}, "
        f"off by {rough(abs(record.central - record.exact))}."
    ]
    if record.flat:
        places = join_words([f"{round(x, 4) + 0.0:.4f}" for x in record.flat[:4]])
        lines.append(f"In what is shown the derivative is 0 at {record.variable} = {places} (green).")
    for words, column in (("to the right", 1), ("from both sides", 2)):
        h, error = min([(row[0], row[column]) for row in record.errors], key=lambda pair: pair[1])
        lines.append(
            f"The best step {words} is h = {h:g}, off by {rough(error)}: a larger one bends, a smaller one rounds."
            if error > 0
            else f"The best step {words} is h = {h:g}, off by nothing."
        )
    return lines


LESSON = Lesson(
    name="slope",
    summary="A curve with the secant of a step h and its tangent, and the error of rise over run against the step.",
    measure=measure,
    draw=draw,
    knobs=SlopeKnobs,
    argument="expression",
)
