"""The latent space of an autoencoder: its examples on the first two principal axes, coloured by class."""

import math
from statistics import median

from pellucid.errors import PellucidError
from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, COLOURS, INK, PAPER, QUIET, escape_text, move_marks, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.answers import judged_words
from pellucid.figures.words.notation import count_of, cut_end, percent
from pellucid.records import LatentPoint, TrainingReport

WIDTH, HEIGHT, KEY_WIDTH, ROW = 760.0, 600.0, 230.0, 26.0
MOST_POINTS, MOST_CLASSES, LONGEST = 2000, 2 * len(COLOURS), 22


def draw_latent(seen: TrainingReport) -> Picture:
    """A dot for each example; past the eighth class they are hollow. The name of a class stands at its middle."""
    points = [point for point in (seen.answers.latent if seen.answers else ()) if math.isfinite(point.x + point.y)]
    if not points:
        raise PellucidError(
            f"the network of the run {seen.name} has no narrow place", fix="Draw it of a run of an autoencoder"
        )
    names = classes_of(points)
    every = math.ceil(len(points) / MOST_POINTS)
    axes = [
        axis_spanning([getattr(point, name) for point in points], f"principal axis {number}")
        for number, name in enumerate("xy", start=1)
    ]
    size = 5.0 if len(points) < 300 else 3.0
    panel = Panel(axes[0], axes[1], WIDTH, HEIGHT)
    for point in points[::every]:
        place = names.index(point.label) if point.label in names else -1
        is_hollow = place >= len(COLOURS)
        panel.dot(point.x, point.y, _colour(place), size=size, is_hollow=is_hollow, says=cut_end(point.label, LONGEST))
    marks = [*panel.draw(), *_middles(panel, points, names), *_key(names)]
    title = f"Where the {seen.network.name} puts them"
    height = max(HEIGHT + BOTTOM, ROW * (len(names) + 2))
    return picture(title, _captions(seen, points, names, every), marks, LEFT + WIDTH + KEY_WIDTH, height)


def classes_of(points: list[LatentPoint]) -> list[str]:
    """The labels in order, numbers by their size; none, where there are too many for colours."""
    names = sorted({point.label for point in points if point.label}, key=lambda name: (len(name), name))
    if not all(name.isdecimal() for name in names):
        names.sort()
    return names if len(names) <= MOST_CLASSES else []


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)] if place >= 0 else BLUE


def _middles(panel: Panel, points: list[LatentPoint], names: list[str]) -> list[str]:
    """The name of each class at the median of its points, on a halo, so that it is read over them."""
    marks = []
    for place, name in enumerate(names):
        own = [point for point in points if point.label == name]
        x, y = panel.at(median([point.x for point in own]), median([point.y for point in own]))
        marks.append(
            f'<text x="{x:.1f}" y="{y + 8:.1f}" font-size="22" font-weight="600" text-anchor="middle" '
            f'fill="{_colour(place)}" stroke="{PAPER}" stroke-width="6" paint-order="stroke">'
            f"{escape_text(cut_end(name, LONGEST))}</text>"
        )
    return move_marks(marks, LEFT, 0)


def _key(names: list[str]) -> list[str]:
    left = LEFT + WIDTH + 24
    marks = [svg_text(left - 8, 16, "class", QUIET)] if names else []
    for place, name in enumerate(names):
        y = 16 + ROW * (place + 1)
        colour = _colour(place)
        fill = colour if place < len(COLOURS) else PAPER
        marks.append(f'<circle cx="{left}" cy="{y - 5:.1f}" r="6" fill="{fill}" stroke="{colour}" stroke-width="2.5"/>')
        marks.append(svg_text(left + 16, y, cut_end(name, LONGEST), INK))
    return marks


def _captions(seen: TrainingReport, points: list[LatentPoint], names: list[str], every: int) -> list[str]:
    assert seen.answers is not None
    size = seen.network.config.get("latent")
    narrow = f"a narrow place of {count_of(size, 'number')}" if isinstance(size, int) else "the narrow place"
    said = [f"{judged_words(seen, len(points))} in {narrow}."]
    if names:
        said.append("It never saw a class: what stands together, the network found alike by itself.")
    if "R²" in seen.answers.metrics:
        kept = max(0.0, seen.answers.metrics["R²"])
        said.append(f"From it the network gives back {percent(kept)} of what tells the examples apart (R²).")
    if not names and any(point.label for point in points):
        said.append(f"There are more than {MOST_CLASSES} labels, so they have no colours; the pointer tells them.")
    return [*said, f"Drawn: every {every}th."] if every > 1 else said


FIGURE = FigureCard(
    name="latent",
    summary="The latent space of an autoencoder: its examples on the first two principal axes, coloured by class.",
    needs=TrainingReport,
    draw=draw_latent,
)
