"""A search for settings: what each trial reached on dev with each number of steps."""

import math

from pellucid.errors import PellucidError
from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import COLOURS, QUIET
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of
from pellucid.figures.words.sweep import settings_words, sweep_sentences
from pellucid.records import SweepReport

WIDTH, HEIGHT, RIGHT = 760.0, 480.0, 340.0
MOST_NAMED = 12
FAR = 3.0  # times the span of what got past the first round: what is worse leaves the picture


def draw_sweep(seen: SweepReport) -> Picture:
    """A line for each trial through its rounds; the best is the strong one."""
    trials = [trial for trial in seen.trials if trial.rounds]
    if not trials:
        raise PellucidError("no trial was made, so there is nothing to draw", fix="Search over two values or more")
    losses = sorted([one.dev for trial in trials for one in trial.rounds if math.isfinite(one.dev)])
    low = losses[0] if losses else 0.0
    middle = losses[len(losses) // 2] if losses else 1.0
    seen_losses = [loss for loss in losses if loss <= low + FAR * max(middle - low, 1e-6)]
    x = axis_spanning(seen.steps, "steps of a training", is_log=len(seen.steps) > 1)
    panel = Panel(x, axis_spanning(seen_losses, f"dev, {seen.loss_unit}"), WIDTH, HEIGHT)
    ends = []
    for place, trial in reversed(list(enumerate(trials))):
        is_best = place == 0
        colour = COLOURS[0] if is_best else QUIET
        points = [(float(one.steps), one.dev) for one in trial.rounds if math.isfinite(one.dev)]
        says = f"trial {trial.number}: {settings_words(trial.settings)}"
        panel.line(points, colour, width=4.0 if is_best else 2.0, fade=1.0 if is_best else 0.6, says=says)
        for steps, dev in points:
            panel.dot(
                steps, dev, colour, size=6.0 if is_best else 4.0, says=f"{says}: {dev:.4f} after {steps:,.0f} steps"
            )
        if points and place < MOST_NAMED and points[-1][1] in seen_losses:
            ends.append((points[-1][1], settings_words(trial.settings), colour))
    panel.ends(ends)
    captions = [
        f"{seen.model} on {seen.source}. {count_of(len(trials), 'trial')}; after each round the better half goes on.",
        *sweep_sentences(seen),
    ]
    if n_above := sum(not any(one.dev in seen_losses for one in trial.rounds) for trial in trials):
        captions.append(f"{count_of(n_above, 'trial')} did so much worse that the picture does not reach there.")
    title = "A search for settings by successive halving"
    return picture(title, captions, panel.draw(0, 0), LEFT + WIDTH + RIGHT, HEIGHT + BOTTOM)


FIGURE = FigureCard(
    name="sweep",
    summary="What each choice of settings reached in a search by successive halving.",
    needs=SweepReport,
    draw=draw_sweep,
)
