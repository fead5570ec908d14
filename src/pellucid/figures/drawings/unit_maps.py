"""Every unit of a run's layers on a batch: which are saturated, which are dead, and the gradients that reach them."""

from pellucid.errors import PellucidError
from pellucid.figures.charts.layer_maps import (
    flat_columns,
    gradient_colours,
    gradient_key,
    layer_name,
    unit_grid,
    value_colours,
    value_key,
)
from pellucid.figures.charts.panel import even_places
from pellucid.figures.charts.svg import INK, QUIET, move_marks, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, cut_end, percent, when_words
from pellucid.records import Health, TrainingReport, UnitMap, Watched

WIDEST, TALLEST, GAP, MOST_LAYERS = 540.0, 160.0, 48.0, 4


def draw_unit_maps(seen: TrainingReport | Watched) -> Picture:
    """The last look: a row of two maps for each layer, the units on the left and their gradients on the right."""
    look = _look(seen)
    shown = [look.maps[place] for place in even_places(len(look.maps), MOST_LAYERS)]
    marks = [*value_key("saturated or flat"), *move_marks(gradient_key(), WIDEST + GAP, 0)]
    top = 40.0
    for units in shown:
        dead = flat_columns(units.values)
        values = unit_grid(units.values, value_colours(), dead, WIDEST, TALLEST)
        gradients = unit_grid(units.gradients, gradient_colours(), dead, WIDEST, TALLEST)
        says = f"{count_of(len(units.values[0]), 'unit')} →, {count_of(len(units.values), 'example')} ↓"
        row = [svg_text(0, 16, _map_heading(units), INK, is_bold=True), svg_text(WIDEST + GAP, 16, says, QUIET)]
        row += [*move_marks(values.marks, 0, 22), *move_marks(gradients.marks, WIDEST + GAP, 22)]
        marks += move_marks(row, 0, top)
        top += 22 + values.height + 24
    title = "Which units are saturated or dead, and what reaches them"
    return picture(title, _captions(look, len(shown)), marks, 2 * WIDEST + GAP, top)


def _look(seen: TrainingReport | Watched) -> Health:
    looks = [health for health in seen.health if health.maps]
    if not looks:
        raise PellucidError(
            "no layer of this run can saturate or die", fix="Draw layer-histograms, which every network has"
        )
    return looks[-1]


def _map_heading(units: UnitMap) -> str:
    dead = flat_columns(units.values)
    flat = sum([row.count("9") for row in units.values])
    whole = sum([len(row) for row in units.values])
    found = f"{percent(flat, whole)} flat" + (f", {count_of(len(dead), 'unit')} dead (▼)" if dead else "")
    return f"{cut_end(layer_name(units.path, units.kind), 44)}: {found}"


def _captions(look: Health, n_shown: int) -> list[str]:
    dead = sum([len(flat_columns(units.values)) for units in look.maps])
    whole = sum([len(units.values[0]) for units in look.maps])
    layers = count_of(len(look.maps), "layer")
    said = [
        f"{when_words(look.step).capitalize()}, on one batch: {dead} of {whole:,} units of {layers} are saturated or "
        "flat on every example.",
        "A tanh or sigmoid is saturated where its slope is nearly 0, a relu is flat where it is 0: no gradient passes.",
    ]
    if n_shown < len(look.maps):
        said.append(f"Drawn: {n_shown} layers, evenly from the first to the last.")
    return said


FIGURE = FigureCard(
    name="unit-maps",
    summary="Every unit of a run's layers on one batch: saturated ones, dead ones, and the gradients that reach them.",
    needs=TrainingReport,
    draw=draw_unit_maps,
    options=("seed",),
)
