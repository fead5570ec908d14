"""Many lines in one frame, such as one for each parameter: each with its name at its end, while there is room."""

import math
from collections.abc import Mapping, Sequence

from pellucid.figures.charts.panel import APART, Panel
from pellucid.figures.charts.series import Point
from pellucid.figures.charts.svg import QUIET, pen
from pellucid.figures.words.model_facts import cut

LONGEST_NAME = 30


def draw_lines(panel: Panel, lines: Mapping[str, Sequence[Point]], rules: Sequence[tuple[float, str]] = ()) -> int:
    """Draw the lines with their names; beyond what fits, the highest and lowest at the end keep theirs.

    rules: numbers with a dashed rule across the frame, and what they are.

    Gives how many were named.
    """
    most = int(panel.height / APART) + 1 - len(rules)
    ends = {name: _last(points) for name, points in lines.items()}
    ranked = sorted([name for name, end in ends.items() if math.isfinite(end)], key=lambda name: -ends[name])
    half = most // 2
    named = ranked if len(ranked) <= most else [*ranked[:half], *ranked[-half:]]
    for number, _ in rules:
        panel.across(number)
    labels = [(number, says, QUIET) for number, says in rules]
    pens = {name: pen(i) for i, name in enumerate([name for name in lines if name in set(named)])}
    for name, points in lines.items():
        if name not in pens:
            panel.line(points, QUIET, width=1.2, fade=0.5, says=name)
    for name, (colour, dash) in pens.items():
        panel.line(lines[name], colour, width=2.5, dash=dash, says=name)
        labels.append((ends[name], cut(name.removesuffix(".weight"), LONGEST_NAME), colour))
    panel.ends(labels)
    return len(named)


def _last(points: Sequence[Point]) -> float:
    return next((value for _, value in reversed(points) if math.isfinite(value)), math.nan)
