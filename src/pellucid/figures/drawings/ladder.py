"""The ladder from counting to networks: each rung's loss on dev, and how far it is from the best that only counts."""

import math

from pellucid.figures.axes import Axis, spanning
from pellucid.figures.card import FigureCard, Picture
from pellucid.figures.house_theme import BLUE, INK, LINE, ORANGE, QUIET
from pellucid.figures.model_facts import cut
from pellucid.figures.numbers import counted, lasting
from pellucid.figures.panel import lettered
from pellucid.figures.sheet import picture
from pellucid.records import Ladder, Rung

LABELS, WIDTH, NOTES, ROW, TOP = 230.0, 600.0, 330.0, 40.0, 40.0


def draw_ladder(seen: Ladder) -> Picture:
    """A row for each rung, the best first: a dot for dev, a small bar for train, and the numbers beside them."""
    rungs = sorted([rung for rung in seen.rungs if math.isfinite(rung.dev)], key=lambda rung: rung.dev)
    axis = spanning([loss for rung in rungs for loss in (rung.dev, rung.train)], "loss, nats a token")
    bottom = TOP + ROW * len(rungs)
    marks = [*_key(), *_ticks(axis, bottom)]
    if seen.best_count:
        x = LABELS + WIDTH * axis.part(seen.best_count.dev)
        marks.append(
            f'<path d="M{x:.1f} {TOP}V{bottom:.1f}" stroke="{ORANGE}" stroke-width="2" stroke-dasharray="7 5"/>'
        )
    for i, rung in enumerate(rungs):
        marks += [f'<g transform="translate(0 {TOP + ROW * (i + 0.5):.1f})">', *_row(seen, rung, axis), "</g>"]
    title = "The ladder: what each model reaches on the same split"
    return picture(title, _captions(seen, rungs), marks, LABELS + WIDTH + NOTES, bottom + 58)


def _row(seen: Ladder, rung: Rung, axis: Axis) -> list[str]:
    dev, train = [LABELS + WIDTH * axis.part(loss) for loss in (rung.dev, rung.train)]
    colour = ORANGE if rung.is_counted else BLUE
    size = f"{counted(rung.parameters, 'parameter')}, {lasting(rung.seconds)}"
    marks = [
        lettered(LABELS - 16, 6, cut(rung.name, 26), INK, align="end", is_bold=not rung.is_counted),
        f'<path d="M{dev:.1f} 0H{train:.1f}" stroke="{colour}" stroke-width="2" opacity="0.45"/>',
        f'<path d="M{train:.1f} -8v16" stroke="{colour}" stroke-width="3" opacity="0.7"/>',
        f'<circle cx="{dev:.1f}" r="8" fill="{"#fcfcfa" if rung.is_counted else colour}" stroke="{colour}" '
        f'stroke-width="3"><title>{counted(rung.parameters, "parameter")}</title></circle>',
        lettered(LABELS + WIDTH + 20, 0, f"{rung.dev:.4f}", INK, is_bold=not rung.is_counted),
        lettered(LABELS + WIDTH + 90, 0, _gap(seen, rung), BLUE),
        lettered(LABELS + WIDTH + 20, 16, size, QUIET, size=13),
    ]
    return marks if math.isfinite(rung.train) else [marks[0], *marks[3:]]


def _gap(seen: Ladder, rung: Rung) -> str:
    gap = seen.gap(rung)
    if rung.is_counted or not math.isfinite(gap):
        return ""
    return f"{abs(gap):.4f} {'below' if gap > 0 else 'above'} counting"


def _ticks(axis: Axis, bottom: float) -> list[str]:
    marks = []
    for tick in axis.ticks():
        x = LABELS + WIDTH * axis.part(tick)
        marks.append(f'<path d="M{x:.1f} {TOP}V{bottom:.1f}" stroke="#e6e9ec"/>')
        marks.append(lettered(x, bottom + 22, axis.written(tick), INK, align="middle"))
    marks.append(f'<path d="M{LABELS} {bottom:.1f}h{WIDTH}" stroke="{LINE}"/>')
    marks.append(lettered(LABELS + WIDTH / 2, bottom + 47, axis.title, QUIET, align="middle"))
    return marks


def _key() -> list[str]:
    return [
        f'<circle cx="{LABELS + 8}" cy="12" r="8" fill="{BLUE}"/>',
        lettered(LABELS + 24, 17, "network, dev", QUIET),
        f'<circle cx="{LABELS + 152}" cy="12" r="7" fill="#fcfcfa" stroke="{ORANGE}" stroke-width="3"/>',
        lettered(LABELS + 168, 17, "counted, dev", QUIET),
        f'<path d="M{LABELS + 300} 4v16" stroke="{QUIET}" stroke-width="3"/>',
        lettered(LABELS + 310, 17, "train", QUIET),
    ]


def _captions(seen: Ladder, rungs: list[Rung]) -> list[str]:
    said = [f"{seen.source}. {counted(len(rungs), 'model')} on one split; nats a token over the whole of dev."]
    best, networks = seen.best_count, [rung for rung in rungs if not rung.is_counted]
    if best and networks:
        first = networks[0]
        gap = seen.gap(first)
        said.append(
            f"{first.name} is {abs(gap):.4f} nats {'below' if gap > 0 else 'above'} {best.name}, "
            f"the best that only counts ({first.dev:.4f} and {best.dev:.4f})."
        )
    left_out = [rung.name for rung in seen.rungs if not math.isfinite(rung.dev)]
    if left_out:
        said.append(f"Not drawn, because the loss is not a finite number: {', '.join(left_out)}.")
    return [*said, *seen.notes]


FIGURE = FigureCard(
    name="ladder",
    says="Every model of a run's ladder by its loss on dev, with the gap to the best one that only counts.",
    needs=Ladder,
    draw=draw_ladder,
    options=("--seed",),
    tiny=Ladder(
        "three names",
        (
            Rung("transformer", False, 200_000, 1.85, 1.90, None, 2.74, 60.0, 90_000.0),
            Rung("kneser-ney 5", True, 90_000, 1.60, 1.98, None, 2.85, 0.4, None),
            Rung("uniform", True, 0, 3.2958, 3.2958, None, 4.75, 0.0, None),
        ),
    ),
)
