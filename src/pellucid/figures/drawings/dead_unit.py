"""Figure 11: a unit that is flat on every example of a batch, so that nothing teaches it."""

from pellucid.figures.charts.svg import QUIET, lettered
from pellucid.figures.charts.unit_grid import gradient_colours, gradient_key, grid, value_colours, value_key
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.numbers import counted, rough
from pellucid.figures.words.text import listed, share
from pellucid.records import DeadUnitStudy, UnitMap

WIDEST, GAP = 560.0, 56.0


def draw_dead_unit(seen: DeadUnitStudy) -> Picture:
    """The units of the layer beside the gradients that reach them; the dead columns are marked."""
    values = grid(seen.units.values, value_colours(), seen.dead, WIDEST)
    gradients = grid(seen.units.gradients, gradient_colours(), seen.dead, WIDEST)
    left = max(values.width, 420.0) + GAP
    bottom = 34 + values.height + 24
    marks = [
        *value_key("flat: the slope is nearly 0"),
        '<g transform="translate(0 34)">',
        *values.marks,
        "</g>",
        f'<g transform="translate({left:.1f} 0)">',
        *gradient_key(),
        '<g transform="translate(0 34)">',
        *gradients.marks,
        "</g></g>",
        lettered(0, bottom, f"{len(seen.units.values[0])} units →, {len(seen.units.values)} examples ↓", QUIET),
    ]
    title = "A dead unit: flat on every example, and no gradient reaches it"
    return picture(title, _captions(seen), marks, left + max(gradients.width, 400.0), bottom + 12)


def _captions(seen: DeadUnitStudy) -> list[str]:
    n = len(seen.units.values[0])
    shown = [str(unit) for unit in seen.dead[:6]] + (["more"] if len(seen.dead) > 6 else [])
    which = f" (▼ {listed(shown)}, counted from 0)" if shown else ""
    flat = sum([row.count("9") for row in seen.units.values])
    whole = sum([len(row) for row in seen.units.values])
    return [
        f"{seen.source}; {counted(n, 'unit')} of a {seen.units.kind} layer on {len(seen.units.values)} examples.",
        f"Dead: {len(seen.dead)} of {n}{which}. In all {share(flat, whole)} of the values are flat.",
        f"The largest gradient that reached the weights of a dead unit is {rough(seen.gradient_of_dead)}; "
        f"of the others the median is {rough(seen.gradient_of_others)}.",
    ]


FIGURE = FigureCard(
    name="dead-unit",
    says="A layer with a unit that is flat on every example, and the gradients that reach the units.",
    needs=DeadUnitStudy,
    draw=draw_dead_unit,
    options=("--seed",),
    tiny=DeadUnitStudy(
        source="three names",
        units=UnitMap("layers.0", "Tanh", ("0900", "0909"), ("5078", "1094")),
        dead=(1,),
        gradient_of_dead=0.0,
        gradient_of_others=0.02,
    ),
)
