"""Numbers that a network predicts against the true ones: a dot for each row, and the line where all should stand."""

import math

from pellucid.errors import PellucidError
from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, Point, axis_spanning
from pellucid.figures.charts.svg import BLUE, ORANGE, QUIET, line_key, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.answers import judged_words, metrics_words
from pellucid.figures.words.notation import count_of, cut_end, in_unit
from pellucid.records import TrainingReport

SIDE, KEY = 600.0, 38.0
MOST_POINTS = 2000
LONGEST = 40


def draw_regression(seen: TrainingReport) -> Picture:
    """Truth to the right, answer upwards, on one scale; the worst answer is marked."""
    points = [point for point in (seen.answers.points if seen.answers else ()) if all(map(math.isfinite, point))]
    if not points:
        raise PellucidError(
            f"the run {seen.name} predicts no numbers", fix="Draw confusion for classes, loss-curves for every run"
        )
    target = cut_end(seen.data.target, LONGEST) or "target"
    axis = axis_spanning([number for point in points for number in point], "")
    panel = Panel(axis._replace(title=f"{target}, truth"), axis._replace(title=f"{target}, answer"), SIDE, SIDE)
    panel.line([(axis.low, axis.low), (axis.high, axis.high)], QUIET, width=2.0, dash="7 5", says="answer = truth")
    every = math.ceil(len(points) / MOST_POINTS)
    worst = max(points, key=_error)
    for point in points[::every]:
        if point != worst:
            panel.dot(*point, BLUE, size=_size(len(points)), is_hollow=len(points) < 40, says=_says(point))
    panel.dot(*worst, ORANGE, size=_size(len(points)) + 2, says=_says(worst))
    title = f"What the {seen.network.name} says {target} is, and what it is"
    captions = _captions(seen, points, worst, every)
    return picture(title, captions, [*_key(), *panel.draw(0, KEY)], LEFT + SIDE + 40, KEY + SIDE + BOTTOM)


def _error(point: Point) -> float:
    return abs(point[0] - point[1])


def _size(n: int) -> float:
    return 6.0 if n < 40 else 4.0 if n < 400 else 2.5


def _says(point: Point) -> str:
    return f"truth {in_unit(point[0])}, answer {in_unit(point[1])}"


def _key() -> list[str]:
    return [
        *line_key([(0.0, QUIET, "7 5", 2.0, "answer = truth")], LEFT),
        f'<circle cx="{LEFT + 190}" cy="12" r="7" fill="{ORANGE}"/>',
        svg_text(LEFT + 204, 17, "farthest off", QUIET),
    ]


def _captions(seen: TrainingReport, points: list[Point], worst: Point, every: int) -> list[str]:
    assert seen.answers is not None
    n_above = sum([answer > truth for truth, answer in points])
    above = f"{count_of(n_above, 'answer')} {'is' if n_above == 1 else 'are'} above the truth"
    said = [
        f"{judged_words(seen, len(points))}: {metrics_words(seen.answers.metrics, seen.data.target)}.",
        f"{above}; the farthest is off by {in_unit(_error(worst))} ({_says(worst)}).",
    ]
    return [*said, f"Drawn: every {every}th."] if every > 1 else said


FIGURE = FigureCard(
    name="regression",
    summary="The numbers that a run's network predicts against the true ones, a dot for each row.",
    needs=TrainingReport,
    draw=draw_regression,
)
