"""How large each update is beside the parameter it changes: too small and it hardly learns, too large and it jumps."""

import math
from collections.abc import Callable
from statistics import median

from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, Point, axis_spanning, draw_lines
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, rough
from pellucid.records import TrainingReport, Watched, WeightStats

WIDTH, HEIGHT, RIGHT = 820.0, 420.0, 290.0
USUAL = 1e-3


def draw_update_ratios(seen: TrainingReport | Watched) -> Picture:
    """A line for each matrix, on a scale of powers of ten, with the usual size as a rule across."""
    lines = ratios(seen)
    values = [value for points in lines.values() for _, value in points]
    x = axis_spanning([0, *[health.step for health in seen.health]], "step", margin=0.0)
    y = axis_spanning([USUAL, *values], "update / data, deviations", is_log=True)
    panel = Panel(x, y, WIDTH, HEIGHT)
    named = draw_lines(panel, lines, [(USUAL, "usual: 0.001")])
    title = "How large the updates are beside what they change"
    width, height = LEFT + WIDTH + RIGHT, 12 + HEIGHT + BOTTOM
    return picture(title, _captions(seen, lines, named), panel.draw(0, 12), width, height)


def ratios(seen: TrainingReport | Watched) -> dict[str, list[Point]]:
    """The ratio of each parameter with two dimensions or more, at every look after an update.

    Where nothing was updated yet there is no ratio, and 0 has no place on a scale of powers: both are gaps.
    """
    return weight_lines(seen, lambda weight: weight.update_ratio if len(weight.shape) >= 2 else 0.0)


def weight_lines(seen: TrainingReport | Watched, number: Callable[[WeightStats], float]) -> dict[str, list[Point]]:
    """A number of each parameter at every look; a gap where it is 0, and no line where it always is."""
    lines: dict[str, list[Point]] = {}
    for health in seen.health:
        for weight in health.weights:
            value = number(weight)
            lines.setdefault(weight.path, []).append((health.step, value if value > 0 else math.nan))
    return {path: points for path, points in lines.items() if any(math.isfinite(value) for _, value in points)}


def _captions(seen: TrainingReport | Watched, lines: dict[str, list[Point]], named: int) -> list[str]:
    last = {path: points[-1][1] for path, points in lines.items() if math.isfinite(points[-1][1])}
    said = [f"{count_of(len(lines), 'matrix').replace('matrixs', 'matrices')} at {count_of(len(seen.health), 'look')}."]
    if last:
        low, high = min(last, key=lambda path: last[path]), max(last, key=lambda path: last[path])
        said.append(
            f"At the last look the median is {rough(median(last.values()))}; "
            f"the smallest is {rough(last[low])} ({low}), the largest {rough(last[high])} ({high})."
        )
    if named < len(lines):
        said.append(f"Named are the {named} highest and lowest at the end; the others are grey.")
    return said


FIGURE = FigureCard(
    name="update-ratios",
    summary="How large the updates of each parameter matrix are beside its numbers, over the steps of a run.",
    needs=TrainingReport,
    draw=draw_update_ratios,
    options=("seed",),
)
