"""A dead unit: flat on every example of a batch, so that no gradient reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from pellucid.figures.charts.layer_maps import gradient_colours, gradient_key, unit_grid, value_colours, value_key
from pellucid.figures.charts.svg import QUIET, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import count_of, join_words, percent, rough
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
    train_by_sgd,
)
from pellucid.options import check_options, option
from pellucid.records import UnitMap

WIDEST, GAP = 560.0, 56.0


@dataclass(frozen=True)
class DeadUnitKnobs:
    seed: int = seed_knob()
    activation: str = option("relu", "Activation of the layer", choices=FLAT_ACTIVATIONS)
    scale: float = option(0.0, "Deviation of the first weights; by default they start right.", minimum=0, maximum=100)
    steps: int = option(20, "Steps of SGD before the look.", minimum=0, maximum=10_000)
    learning_rate: float = option(2.0, "Learning rate of SGD.", minimum=0, maximum=1000)
    batch: int = option(4, "Names in the batch that is looked at: few, so that units are dead on it.", maximum=1024)
    hidden: int = option(200, "Units of the layer.", minimum=2, maximum=1000)

    def __post_init__(self) -> None:
        check_options(self)


class DeadUnitStudy(NamedTuple):
    """A layer with a unit that is flat on every example of a batch, so that nothing teaches it."""

    source: str
    units: UnitMap
    dead: tuple[int, ...]  # columns
    gradient_of_dead: float  # the largest gradient that reached its weights
    gradient_of_others: float  # the median over the other units


def measure(knobs: DeadUnitKnobs) -> DeadUnitStudy:
    """A layer after a few steps at a rate that knocked units out, on a batch of a few names.

    The gradients are those of the weights into each unit, the largest of each by its size.
    """
    sides = split_names()
    seed, n_steps = knobs.seed, knobs.steps
    model = new_mlp(sides, seed, knobs.activation, hidden=knobs.hidden)
    if knobs.scale:
        start_too_large(model, seed, knobs.scale)
    train_by_sgd(model, name_batches(sides, seed), knobs.learning_rate, n_steps)
    health = probe_health(model, name_batches(sides, seed, knobs.batch).batch(n_steps + 1))
    layer, units = first_activation(health)
    columns = list(zip(*units.values, strict=True))
    dead = tuple(i for i, column in enumerate(columns) if set(column) == {"9"})
    gradient = model.get_parameter("layers.0.linear.weight").grad  # (units, inputs)
    assert gradient is not None
    into_each = gradient.abs().amax(1).tolist()
    return DeadUnitStudy(
        source=f"names, an MLP of {layer.width} {layer.kind} units"
        + (f" whose weights start with a deviation of {knobs.scale:g}" if knobs.scale else "")
        + (f", after {n_steps} steps of SGD at {knobs.learning_rate:g}" if n_steps else ", untrained")
        + f", seed {seed}",
        units=units,
        dead=dead,
        gradient_of_dead=max((into_each[i] for i in dead), default=0.0),
        gradient_of_others=median([into_each[i] for i in range(len(columns)) if i not in dead] or [0.0]),
    )


def draw(record: DeadUnitStudy) -> Picture:
    """The units of the layer beside the gradients that reach them; the dead columns are marked."""
    values = unit_grid(record.units.values, value_colours(), record.dead, WIDEST)
    gradients = unit_grid(record.units.gradients, gradient_colours(), record.dead, WIDEST)
    left = max(values.width, 420.0) + GAP
    bottom = 34 + values.height + 24
    marks = [
        *value_key("flat: the slope is nearly 0"),
        *move_marks(values.marks, 0, 34),
        *move_marks(gradient_key(), left, 0),
        *move_marks(gradients.marks, left, 34),
        svg_text(0, bottom, f"{len(record.units.values[0])} units →, {len(record.units.values)} examples ↓", QUIET),
    ]
    return picture(_title(record), _captions(record), marks, left + max(gradients.width, 400.0), bottom + 12)


def _title(record: DeadUnitStudy) -> str:
    if not record.dead:
        return "No unit is flat on every example"
    if record.gradient_of_dead == 0.0:
        return "A dead unit: flat on every example, and no gradient reaches it"
    # Where tanh or sigmoid is flat its slope is small, and not 0.
    is_less = record.gradient_of_dead < record.gradient_of_others
    return f"A dead unit: flat on every example{', and less gradient reaches it' if is_less else ''}"


def _captions(record: DeadUnitStudy) -> list[str]:
    n = len(record.units.values[0])
    shown = [str(unit) for unit in record.dead[:6]] + (["more"] if len(record.dead) > 6 else [])
    which = f" (▼ {join_words(shown)}, counted from 0)" if shown else ""
    flat = sum([row.count("9") for row in record.units.values])
    whole = sum([len(row) for row in record.units.values])
    return [
        f"{record.source}; {count_of(n, 'unit')} of a {record.units.kind} layer "
        f"on {len(record.units.values)} examples.",
        f"Dead: {len(record.dead)} of {n}{which}. In all {percent(flat, whole)} of the values are flat.",
        f"The largest gradient that reached the weights of a dead unit is {rough(record.gradient_of_dead)}; "
        f"of the others the median is {rough(record.gradient_of_others)}.",
    ]


LESSON = Lesson(
    name="dead-unit",
    summary="A layer with a unit that is flat on every example, and the gradients that reach the units.",
    measure=measure,
    draw=draw,
    knobs=DeadUnitKnobs,
    figure_of_run="unit-maps",
)
