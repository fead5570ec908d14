"""The loss against the learning rate, its slope below, and where the rules would stop climbing."""

import math
from collections.abc import Sequence

from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, Point, axis_spanning
from pellucid.figures.charts.svg import INK, QUIET, line_style, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.learning_rate import search_sentences
from pellucid.figures.words.notation import rough
from pellucid.records import LearningRateSearch, LearningRateTrial

WIDTH, UPPER, LOWER, BETWEEN, RIGHT = 900.0, 340.0, 190.0, 30.0, 120.0
KEY = 34.0


def draw_learning_rate(seen: LearningRateSearch) -> Picture:
    """Every seed's sweep in its own colour; triangles: steepest, diamonds: valley, circles: flattest.

    Below stands the slope by the factor of the rate, or where the flattest is asked for, by the rate itself.
    """
    rates = [trial.learning_rate for sweep in seen.sweeps for trial in sweep]
    x = axis_spanning(rates, "learning rate", is_log=seen.spacing == "exponential", margin=0.02)
    slope = "rate_slope" if seen.rule == "flattest" else "slope"
    losses = Panel(x, _loss_axis(seen), WIDTH, UPPER)
    slopes = Panel(x, _slope_axis(seen, slope), WIDTH, LOWER)
    slopes.across(0.0)
    if seen.suggestion is not None:
        for panel in (losses, slopes):
            panel.upright(seen.suggestion, INK, "")
        losses.words(losses.at(seen.suggestion, 1.0)[0] + 8, 18, f"suggested: {rough(seen.suggestion)}", is_bold=True)
    for i, (seed, sweep) in enumerate(zip(seen.seeds, seen.sweeps, strict=True)):
        colour = line_style(i)[0]
        losses.line([(trial.learning_rate, trial.loss) for trial in sweep], colour, width=1.2, fade=0.35)
        losses.line(_curve(sweep, "smoothed"), colour, says=f"seed {seed}")
        slopes.line(_curve(sweep, slope), colour, says=f"seed {seed}")
        rules = [("steepest", "triangle", seen.by_percentile), ("valley", "diamond", seen.by_valley)]
        if seen.rule == "flattest":
            rules.append(("flattest", "circle", seen.by_flatness))
        for rule, shape, found in rules:
            at = found[i] if i < len(found) else None
            if at is not None:
                says = f"seed {seed}, {rule}: {rough(at)}"
                losses.mark(at, _height(sweep, at, "smoothed"), shape, colour, says)
                slopes.mark(at, _height(sweep, at, slope), shape, colour, says)
    marks = [*_key(len(seen.seeds), seen.rule == "flattest"), *losses.draw(0, KEY, has_numbers_below=False)]
    marks += slopes.draw(0, KEY + UPPER + BETWEEN)
    title = "The learning rate: too small learns nothing, too large unlearns"
    return picture(title, _captions(seen), marks, LEFT + WIDTH + RIGHT, KEY + UPPER + BETWEEN + LOWER + BOTTOM)


def _curve(sweep: Sequence[LearningRateTrial], field: str) -> list[Point]:
    return [(trial.learning_rate, getattr(trial, field)) for trial in sweep]


def _height(sweep: Sequence[LearningRateTrial], rate: float, field: str) -> float:
    """The curve's number at the trial nearest to the rate."""
    nearest = min(
        sweep, key=lambda trial: abs(math.log(trial.learning_rate / rate)) if rate > 0 else trial.learning_rate
    )
    number: float = getattr(nearest, field)
    return number


def _loss_axis(seen: LearningRateSearch) -> Axis:
    """From the lowest loss to a little above the first ones: where a sweep flies apart it leaves the picture."""
    smoothed = [trial.smoothed for sweep in seen.sweeps for trial in sweep if math.isfinite(trial.smoothed)]
    first = [sweep[0].smoothed for sweep in seen.sweeps if sweep and math.isfinite(sweep[0].smoothed)]
    if not smoothed or not first:
        return Axis(0.0, 1.0, "loss, nats")
    low, start = min(smoothed), max(first)
    room = max(start - low, 0.05 * abs(start), 1e-6)
    return Axis(low - 0.12 * room, min(max(smoothed) + 0.05 * room, start + 0.7 * room), "loss, nats")


def _slope_axis(seen: LearningRateSearch, field: str) -> Axis:
    """As far up as the curve goes down, since beyond the valley the slope has no bound."""
    slopes: list[float] = [getattr(trial, field) for sweep in seen.sweeps for trial in sweep]
    finite = [slope for slope in slopes if math.isfinite(slope)]
    deepest = -min(finite, default=-1.0)
    reach = deepest if deepest > 0 else max(finite, default=1.0) or 1.0
    return Axis(-1.15 * reach, 1.15 * reach, "slope by log10" if field == "slope" else "dloss/dλ")


def _key(n_seeds: int, has_flattest: bool) -> list[str]:
    seeds = f"thick: smoothed, thin: measured; one colour for each of {n_seeds} seeds"
    return [
        f'<path transform="translate({LEFT + 10} 12)" d="M-9 8H9L0 -9Z" fill="{QUIET}"/>',
        svg_text(LEFT + 28, 18, "steepest", QUIET),
        f'<path transform="translate({LEFT + 128} 12)" d="M0 -11L9 0L0 11L-9 0Z" fill="{QUIET}"/>',
        svg_text(LEFT + 146, 18, "valley", QUIET),
        *([f'<circle cx="{LEFT + 218}" cy="12" r="8" fill="{QUIET}"/>'] * has_flattest),
        *([svg_text(LEFT + 236, 18, "flattest", QUIET)] * has_flattest),
        svg_text(LEFT + 320, 18, seeds if n_seeds > 1 else "thick: smoothed, thin: measured", QUIET),
    ]


def _captions(seen: LearningRateSearch) -> list[str]:
    n = max([len(sweep) for sweep in seen.sweeps], default=0)
    seeds = f"seed{'s' * (len(seen.seeds) > 1)} {', '.join(map(str, seen.seeds))}"
    return [f"{seen.source}. {seen.network}, a step at each of up to {n} rates; {seeds}.", *search_sentences(seen)]


FIGURE = FigureCard(
    name="learning-rate",
    summary="The loss against the learning rate with its slope below, and the choices of two rules, for several seeds.",
    needs=LearningRateSearch,
    draw=draw_learning_rate,
    options=("seed",),
)
