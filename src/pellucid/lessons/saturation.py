"""Saturation: which units of a tanh layer are saturated, and what that leaves of their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pellucid.figures.charts.layer_maps import (
    flat_columns,
    gradient_colours,
    gradient_key,
    unit_grid,
    value_colours,
    value_key,
)
from pellucid.figures.charts.svg import BLUE, ORANGE, QUIET, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import percent
from pellucid.lessons.lesson import (
    FLAT_ACTIVATIONS,
    Lesson,
    first_activation,
    name_batches,
    new_mlp,
    probe_health,
    seed_knob,
    split_names,
    start_too_large,
)
from pellucid.options import check_options, option
from pellucid.records import UnitMap

GAP = 56.0


@dataclass(frozen=True)
class SaturationKnobs:
    seed: int = seed_knob()
    scale: float = option(
        1.0, "Deviation of the weights that start too large.", minimum=0, is_minimum_open=True, maximum=100, example="3"
    )
    batch: int = option(16, "Names in the batch that is looked at.", minimum=1, maximum=1024)
    activation: str = option("tanh", "Activation of the layer", choices=FLAT_ACTIVATIONS)
    hidden: int = option(200, "Units of the layer.", minimum=2, maximum=1000)

    def __post_init__(self) -> None:
        check_options(self)


class SaturationStudy(NamedTuple):
    """The units of a tanh layer on one batch, for weights that start too large and weights that start right."""

    source: str
    bad: UnitMap
    good: UnitMap
    bad_saturated: float  # shares of all values
    good_saturated: float


def measure(knobs: SaturationKnobs) -> SaturationStudy:
    """The hidden layer's units on one batch before any training, for both starts."""
    sides = split_names()
    seed = knobs.seed
    batch = name_batches(sides, seed, knobs.batch).batch(1)
    bad, good = (new_mlp(sides, seed, knobs.activation, hidden=knobs.hidden) for _ in range(2))
    start_too_large(bad, seed, knobs.scale)
    (bad_layer, bad_map), (good_layer, good_map) = (
        first_activation(probe_health(model, batch)) for model in (bad, good)
    )
    return SaturationStudy(
        f"names, an MLP of {bad_layer.width} {knobs.activation} units, seed {seed}",
        bad_map,
        good_map,
        bad_layer.saturated or 0.0,
        good_layer.saturated or 0.0,
    )


def draw(record: SaturationStudy) -> Picture:
    """Bad on the left, good on the right; the units above, the gradients that reach them below."""
    marks: list[str] = []
    left = bottom = 0.0
    for heading, colour, units in (
        ("weights that start too large", ORANGE, record.bad),
        ("weights that start right", BLUE, record.good),
    ):
        side, width, height = _side(heading, colour, units)
        marks += move_marks(side, left, 0)
        left += width + GAP
        bottom = max(bottom, height)
    title = "Saturated units pass no gradient on"
    return picture(title, _captions(record), marks, left - GAP, bottom)


def _side(heading: str, colour: str, units: UnitMap) -> tuple[list[str], float, float]:
    values = unit_grid(units.values, value_colours(), flat_columns(units.values))
    gradients = unit_grid(units.gradients, gradient_colours())
    second = 58 + values.height + 24
    marks = [
        svg_text(0, 18, heading, colour, is_bold=True, size=19),
        *move_marks(value_key("saturated"), 0, 30),
        *move_marks(values.marks, 0, 58),
        *move_marks(gradient_key(), 0, second),
        *move_marks(gradients.marks, 0, second + 14),
    ]
    bottom = second + 14 + gradients.height + 24
    marks.append(svg_text(0, bottom, f"{len(units.values[0])} units →, {len(units.values)} examples ↓", QUIET))
    return marks, max(values.width, 420.0), bottom + 12


def _captions(record: SaturationStudy) -> list[str]:
    lines = [f"{record.source}; a {record.bad.kind} layer, a row for each example, a column for each unit."]
    lines.append(
        f"Saturated: {percent(record.bad_saturated)} of all values after the start that is too large, "
        f"{percent(record.good_saturated)} after the right one."
    )
    nothing = [sum([row.count("0") for row in units.gradients]) for units in (record.bad, record.good)]
    whole = [sum([len(row) for row in units.gradients]) for units in (record.bad, record.good)]
    lines.append(
        f"In the smallest tenth of the scale of gradients: {percent(nothing[0], whole[0])} on the left, "
        f"{percent(nothing[1], whole[1])} on the right."
    )
    flat = [len(flat_columns(units.values)) for units in (record.bad, record.good)]
    lines.append(f"Units saturated on every example (▼): {flat[0]} on the left, {flat[1]} on the right.")
    return lines


LESSON = Lesson(
    name="saturation",
    summary="Which units of a layer are saturated and the gradients that reach them, for a bad and a good start.",
    measure=measure,
    draw=draw,
    knobs=SaturationKnobs,
    figure_of_run="unit-maps",
)
