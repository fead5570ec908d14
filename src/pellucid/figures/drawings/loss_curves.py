"""A run's loss over its steps: every batch, the whole of train and dev, and what simple models, as counting, reach."""

import math

from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, Point, axis_spanning, block_means, gap_words_of
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, line_key
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import loss_unit_words, loss_words, rough
from pellucid.records import TrainingReport

WIDTH, UPPER, LOWER, BETWEEN, RIGHT, KEY = 860.0, 420.0, 90.0, 26.0, 250.0, 48.0
SMOOTHED = 8  # batches in a point of the thick line, at least
ABOVE = 0.5  # of the height of the run's own losses: what is farther above them would squeeze them


def draw_loss_curves(seen: TrainingReport) -> Picture:
    """The losses with those of the simple models as rules across them; the learning rate below."""
    steps: list[Point] = [(step.step, step.loss) for step in seen.steps]
    x = axis_spanning([0, *[step for step, _ in steps]], "step", margin=0.0)
    losses = Panel(x, _loss_axis(seen), WIDTH, UPPER)
    labels = []
    for name, rule in _rules(seen).items():
        if losses.y.low <= rule <= losses.y.high:
            losses.across(rule)
            labels.append((rule, f"{name} {loss_words(rule)}", QUIET))
    losses.line(steps, BLUE, width=1.0, fade=0.3)
    losses.line(block_means(steps, least=SMOOTHED)[0], BLUE, width=2.5, says="train, by batches")
    for name, field, colour in (("train", "train", BLUE), ("dev", "dev", ORANGE)):
        points = [(evaluation.step, getattr(evaluation, field)) for evaluation in seen.evaluations]
        losses.line(points, colour, width=3.5, dash="" if field == "dev" else "9 5", says=f"{name}, whole")
        for step, loss in points if len(points) <= 60 else ():
            if math.isfinite(loss):
                losses.dot(
                    step, loss, colour, size=4.5, is_hollow=field == "train", says=f"step {step:,}: {name} {loss:.4f}"
                )
        if points and math.isfinite(points[-1][1]):
            labels.append((points[-1][1], f"{name} {loss_words(points[-1][1])}", colour))
    best = [evaluation for evaluation in seen.evaluations if evaluation.step == seen.ending.best_step]
    if best and math.isfinite(best[0].judged):
        losses.upright(best[0].step, INK, "2 5")
        losses.words(losses.at(best[0].step, best[0].judged)[0], -5, "kept", align="middle")
    losses.ends(labels)
    rates = Panel(
        x, Axis(0.0, 1.15 * max([step.learning_rate for step in seen.steps], default=1.0), "rate"), WIDTH, LOWER
    )
    rates.line([(step.step, step.learning_rate) for step in seen.steps], INK, width=2.5, says="learning rate")
    marks = [*_key(seen), *losses.draw(0, KEY, has_numbers_below=False), *rates.draw(0, KEY + UPPER + BETWEEN)]
    title = f"How the {seen.network.name} learned: the loss, step by step"
    return picture(
        title, _captions(seen, losses.y), marks, LEFT + WIDTH + RIGHT, KEY + UPPER + BETWEEN + LOWER + BOTTOM
    )


def _loss_axis(seen: TrainingReport) -> Axis:
    """From the lowest loss to a little above guessing; a start that is far worse leaves the frame.

    So do simple models far above a run that begins where counting ends.
    """
    losses = [step.loss for step in seen.steps]
    losses += [loss for evaluation in seen.evaluations for loss in (evaluation.train, evaluation.dev)]
    own = [loss for loss in losses if math.isfinite(loss)]
    highest = max(own) + ABOVE * (max(own) - min(own)) if own else math.inf
    rules = [rule for rule in _rules(seen).values() if rule <= highest]
    whole = axis_spanning([*losses, *rules], f"loss, {loss_unit_words(seen.ladder.measure)}")
    ceiling = 1.15 * max(seen.start.uniform, seen.evaluations[-1].judged if seen.evaluations else 0.0)
    is_cut = math.isfinite(ceiling) and whole.low < ceiling < whole.high
    return whole._replace(high=ceiling) if is_cut else whole


def _key(seen: TrainingReport) -> list[str]:
    simple = seen.ladder.measure.simple if seen.ladder.measure.metric else "counting alone"
    side = seen.ladder.measure.side
    parts = [
        (0.0, BLUE, "", 2.5, "train, each batch and means of batches"),
        (400.0, BLUE, "9 5", 3.5, "train, evaluated"),
        *([(570.0, ORANGE, "", 3.5, "dev, evaluated")] if side == "dev" else []),
        *([(745.0 if side == "dev" else 570.0, QUIET, "7 5", 2.0, f"{simple}, on {side}")] if _rules(seen) else []),
    ]
    return line_key(parts, LEFT)


def _rules(seen: TrainingReport) -> dict[str, float]:
    """The loss of each simple model that has one, on the side that is judged."""
    losses = {rung.name: seen.ladder.loss(rung) for rung in seen.ladder.rungs if rung.is_counted}
    return {name: loss for name, loss in losses.items() if math.isfinite(loss)}


def _captions(seen: TrainingReport, axis: Axis) -> list[str]:
    lines = []
    best = min(
        [evaluation for evaluation in seen.evaluations if math.isfinite(evaluation.judged)],
        key=lambda evaluation: evaluation.judged,
        default=None,
    )
    if best:
        count, side = seen.ladder.best_count, seen.ladder.measure.side
        rule = seen.ladder.loss(count) if count else math.nan
        unit = " nats" if seen.ladder.measure.loss == "nats" else ""
        # Simple models were measured on more than a part of the side, and are told beside what was measured there too.
        part = f"about {seen.plan.evaluated:,} predictions of " if seen.plan.evaluated else ""
        reached = seen.ladder.loss(seen.rung) if part else best.judged
        beside = (
            f", {rough(abs(rule - reached))} {'below' if reached < rule else 'above'} {count.name}"
            if count and math.isfinite(rule)
            else ""
        )
        more = f"; on more of it {reached:.4f}" if part else ""
        then = f"; train is then at {best.train:.4f}" if side == "dev" else "; nothing was held out"
        lowest = f"On {part}{side} the lowest loss is {best.judged:.4f}{unit}"
        lines.append(f"{lowest}, after step {best.step:,} of {seen.plan.steps:,}{more}{beside}{then}.")
    per_point = block_means([(step.step, step.loss) for step in seen.steps], least=SMOOTHED)[1]
    lines.append(
        _start(seen) + (f" Each point of the thick line is the mean of {per_point} batches." if per_point > 1 else "")
    )
    gaps = gap_words_of([(step.step, step.loss) for step in seen.steps], "loss")
    above = sorted((rule, name) for name, rule in _rules(seen).items() if rule > axis.high)
    outside = ", ".join(f"{name} {loss_words(rule)}" for rule, name in above)
    return [*lines, *([f"Above the frame: {outside}."] if above else []), *([gaps] if gaps else [])]


def _start(seen: TrainingReport) -> str:
    """The loss before the first step beside that of guessing, or of always saying the mean."""
    measured, expected, n = seen.start.measured, seen.start.uniform, seen.data.vocab_size
    if n and math.isclose(expected, math.log(n), abs_tol=1e-9):
        return f"Before the first step {measured:.4f} nats; guessing costs ln {n:,} = {expected:.4f}."
    return f"Before the first step {measured:.4f}; without having learned it should be about {expected:.4f}."


FIGURE = FigureCard(
    name="loss-curves",
    summary="A run's loss step by step, on train and dev, with what simple models reach as rules across it.",
    needs=TrainingReport,
    draw=draw_loss_curves,
    options=("seed",),
)
