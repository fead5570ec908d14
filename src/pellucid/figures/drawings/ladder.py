"""The ladder from simple models to networks: what each rung reaches on dev, and how far it is from the best of them."""

import math

from pellucid.figures.charts.panel import Axis, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, LINE, ORANGE, QUIET, move_marks, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.ladder import gap_size, gap_words, rank_rungs
from pellucid.figures.words.notation import count_of, cut_end, duration, is_share, loss_unit_words, metric_words
from pellucid.figures.words.notes import note_sentences
from pellucid.records import Ladder, Rung

LABELS, WIDTH, NOTES, ROW, TOP = 230.0, 600.0, 330.0, 40.0, 40.0


def draw_ladder(seen: Ladder) -> Picture:
    """A row for each rung, the best first: a dot for dev, a small bar for train or test, and their numbers."""
    rungs = [rung for rung in rank_rungs(seen) if math.isfinite(places(seen, rung)[0])]
    axis = axis_spanning([number for rung in rungs for number in places(seen, rung)], _axis_title(seen))
    bottom = TOP + ROW * len(rungs)
    marks = [*_key(seen), *_ticks(axis, bottom)]
    best = places(seen, seen.best_count)[0] if seen.best_count else math.nan
    if math.isfinite(best):
        x = LABELS + WIDTH * axis.part(best)
        marks.append(
            f'<path d="M{x:.1f} {TOP}V{bottom:.1f}" stroke="{ORANGE}" stroke-width="2" stroke-dasharray="7 5"/>'
        )
    for i, rung in enumerate(rungs):
        marks += move_marks(_row(seen, rung, axis), 0, TOP + ROW * (i + 0.5))
    on = "on the same split" if seen.measure.side == "dev" else "on what it learned from"
    title = f"The ladder: what each model reaches {on}"
    return picture(title, _captions(seen, rungs), marks, LABELS + WIDTH + NOTES, bottom + 58)


def places(seen: Ladder, rung: Rung) -> tuple[float, float]:
    """Where a rung stands on dev, and the second number beside it: the loss on train, or the metric on test."""
    if not seen.measure.metric:
        return seen.loss(rung), rung.train
    scale = 100.0 if is_share(seen.measure.metric) else 1.0
    dev, test = [math.nan if metric is None else scale * metric for metric in (rung.metric, rung.test_metric)]
    return dev, test


def _axis_title(seen: Ladder) -> str:
    metric = seen.measure.metric
    if not metric:
        return f"loss, {loss_unit_words(seen.measure)}"
    return f"{metric}, %" if is_share(metric) else metric


def _row(seen: Ladder, rung: Rung, axis: Axis) -> list[str]:
    second = places(seen, rung)[1]
    dev, beside = [LABELS + WIDTH * axis.part(number) for number in places(seen, rung)]
    colour = ORANGE if rung.is_counted else BLUE
    size = f"{count_of(rung.parameters, 'parameter')}, {duration(rung.seconds)}"
    marks = [
        svg_text(LABELS - 16, 6, cut_end(rung.name, 26), INK, align="end", is_bold=not rung.is_counted),
        f'<path d="M{dev:.1f} 0H{beside:.1f}" stroke="{colour}" stroke-width="2" opacity="0.45"/>',
        f'<path d="M{beside:.1f} -8v16" stroke="{colour}" stroke-width="3" opacity="0.7"/>',
        f'<circle cx="{dev:.1f}" r="8" fill="{"#fcfcfa" if rung.is_counted else colour}" stroke="{colour}" '
        f'stroke-width="3"><title>{count_of(rung.parameters, "parameter")}</title></circle>',
        svg_text(LABELS + WIDTH + 20, 0, _reached_words(seen, rung), INK, is_bold=not rung.is_counted),
        svg_text(LABELS + WIDTH + (110 if seen.measure.metric else 90), 0, _gap(seen, rung), BLUE),
        svg_text(LABELS + WIDTH + 20, 16, size, QUIET, size=13),
    ]
    return marks if math.isfinite(second) else [marks[0], *marks[3:]]


def _reached_words(seen: Ladder, rung: Rung) -> str:
    return metric_words(seen.measure.metric, rung.metric) if seen.measure.metric else f"{seen.loss(rung):.4f}"


def _gap(seen: Ladder, rung: Rung) -> str:
    gap = seen.gap(rung)
    if rung.is_counted or not math.isfinite(gap):
        return ""
    if seen.measure.metric:
        return gap_words(seen, rung)
    return f"{abs(gap):.4f} {'below' if gap > 0 else 'above'} counting"


def _ticks(axis: Axis, bottom: float) -> list[str]:
    marks = []
    for tick in axis.ticks():
        x = LABELS + WIDTH * axis.part(tick)
        marks.append(f'<path d="M{x:.1f} {TOP}V{bottom:.1f}" stroke="#e6e9ec"/>')
        marks.append(svg_text(x, bottom + 22, axis.tick_label(tick), INK, align="middle"))
    marks.append(f'<path d="M{LABELS} {bottom:.1f}h{WIDTH}" stroke="{LINE}"/>')
    marks.append(svg_text(LABELS + WIDTH / 2, bottom + 47, axis.title, QUIET, align="middle"))
    return marks


def _key(seen: Ladder) -> list[str]:
    side = seen.measure.side
    counted_rung, second = (f"simple, {side}", "test") if seen.measure.metric else (f"counted, {side}", "train")
    key = [
        f'<circle cx="{LABELS + 8}" cy="12" r="8" fill="{BLUE}"/>',
        svg_text(LABELS + 24, 17, f"network, {side}", QUIET),
        f'<circle cx="{LABELS + 152}" cy="12" r="7" fill="#fcfcfa" stroke="{ORANGE}" stroke-width="3"/>',
        svg_text(LABELS + 168, 17, counted_rung, QUIET),
        f'<path d="M{LABELS + 300} 4v16" stroke="{QUIET}" stroke-width="3"/>',
        svg_text(LABELS + 310, 17, second, QUIET),
    ]
    return key if side == "dev" else key[:-2]


def _captions(seen: Ladder, rungs: list[Rung]) -> list[str]:
    metric, side = seen.measure.metric, seen.measure.side
    judged, how = metric or loss_unit_words(seen.measure), "one split" if side == "dev" else "what all learned from"
    said = [f"{seen.source}. {count_of(len(rungs), 'model')} on {how}; {judged} over the whole of {side}."]
    best, networks = seen.best_count, [rung for rung in rungs if not rung.is_counted]
    if best and networks and metric:
        gap = seen.gap(networks[0])
        both = " and ".join([metric_words(metric, rung.metric) for rung in (networks[0], best)])
        apart = f"{gap_size(seen.measure, gap)} {'above' if gap > 0 else 'below'}" if gap else "level with"
        said.append(f"{networks[0].name} is {apart} {best.name}, the best of {seen.measure.simple} ({both}).")
    elif best and networks:
        first = networks[0]
        gap = seen.gap(first)
        said.append(
            f"{first.name} is {abs(gap):.4f} nats {'below' if gap > 0 else 'above'} {best.name}, "
            f"the best that only counts ({first.dev:.4f} and {best.dev:.4f})."
        )
    left_out = [rung.name for rung in seen.rungs if not math.isfinite(places(seen, rung)[0])]
    if left_out:
        said.append(f"Not drawn, because the {metric or 'loss'} is not a finite number: {', '.join(left_out)}.")
    return [*said, *note_sentences(seen.notes)]


FIGURE = FigureCard(
    name="ladder",
    summary="Every model of a run's ladder by what it reaches on dev, with the gap to the best simple one.",
    needs=Ladder,
    draw=draw_ladder,
    options=("seed",),
)
