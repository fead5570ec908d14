"""The size of the gradients over a run: of all together at every step, and of each parameter at every look."""

import math
from statistics import median

from pellucid.figures.charts.panel import (
    BOTTOM,
    LEFT,
    Panel,
    Point,
    axis_spanning,
    block_means,
    draw_lines,
    gap_words_of,
)
from pellucid.figures.charts.svg import BLUE, INK
from pellucid.figures.drawings.update_ratios import weight_lines
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, percent, rough
from pellucid.records import TrainingReport, Watched

WIDTH, UPPER, LOWER, BETWEEN, RIGHT = 820.0, 220.0, 360.0, 30.0, 290.0


def draw_gradient_norms(seen: TrainingReport | Watched) -> Picture:
    """Above the norm of all gradients before clipping, below that of each parameter."""
    norms: list[Point] = [(step.step, step.gradient_norm) for step in seen.steps]
    x = axis_spanning([0, *[step for step, _ in norms]], "step", margin=0.0)
    limit = _limit(seen)
    clip = [limit] if limit else []
    above = Panel(x, axis_spanning([*clip, *[norm for _, norm in norms]], "all together", is_log=True), WIDTH, UPPER)
    above.line(norms, BLUE, width=1.0, fade=0.35)
    above.line(block_means(norms, least=8)[0], BLUE, width=2.8, says="all gradients together")
    if clip:
        above.across(clip[0], INK)
        above.ends([(clip[0], f"clipped at {rough(clip[0])}", INK)])
    lines = weight_lines(seen, lambda weight: weight.gradient_norm)
    values = [value for points in lines.values() for _, value in points]
    below = Panel(x, axis_spanning(values, "each parameter", is_log=True), WIDTH, LOWER)
    named = draw_lines(below, lines)
    marks = [*above.draw(0, 12, has_numbers_below=False), *below.draw(0, 12 + UPPER + BETWEEN)]
    title = "How large the gradients are"
    height = 12 + UPPER + BETWEEN + LOWER + BOTTOM
    return picture(title, _captions(seen, norms, len(lines), named), marks, LEFT + WIDTH + RIGHT, height)


def _limit(seen: TrainingReport | Watched) -> float:
    """The norm at which gradients were clipped; 0 where they were not, or where only a loop of someone's own knows."""
    return seen.plan.clip if isinstance(seen, TrainingReport) else 0.0


def _captions(seen: TrainingReport | Watched, norms: list[Point], n_lines: int, named: int) -> list[str]:
    finite = [norm for _, norm in norms if math.isfinite(norm)]
    said = []
    if finite:
        said.append(
            f"Over {count_of(len(norms), 'step')} the norm of all gradients has a median of {rough(median(finite))}, "
            f"between {rough(min(finite))} and {rough(max(finite))}."
        )
    limit = _limit(seen)
    if finite and limit:
        clipped = sum([norm > limit for norm in finite])
        said.append(f"It was above {rough(limit)}, and clipped, in {percent(clipped, len(finite))} of the steps.")
    gaps = gap_words_of(norms, "norm")
    said += [gaps] if gaps else []
    if named < n_lines:
        said.append(
            f"Of {n_lines} parameters the {named} highest and lowest at the end are named; the others are grey."
        )
    return said


FIGURE = FigureCard(
    name="gradient-norms",
    summary="The size of a run's gradients: of all together at every step, and of each parameter.",
    needs=TrainingReport,
    draw=draw_gradient_norms,
    options=("seed",),
)
