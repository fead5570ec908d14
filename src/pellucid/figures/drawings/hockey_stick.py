"""Figures 7 and 8: the hockey stick of a bad start beside a good one."""

from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel, spanning
from pellucid.figures.charts.series import block_means, not_finite
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, lettered
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.records import Curve, StartStudy

WIDTH, HEIGHT, TOP, BETWEEN, RIGHT = 460.0, 380.0, 56.0, 30.0, 20.0


def draw_hockey_stick(seen: StartStudy) -> Picture:
    """Two frames with one scale: what the bad start wastes is the blade of the stick."""
    values = [seen.uniform, *seen.bad.values, *seen.good.values]
    y = spanning(values, "loss, nats")
    marks = []
    left = 0.0
    for heading, says, curve, colour in (
        ("a bad start", seen.bad_says, seen.bad, ORANGE),
        ("a good start", seen.good_says, seen.good, BLUE),
    ):
        marks.append(lettered(left + LEFT, 18, heading, colour, is_bold=True, size=19))
        marks.append(lettered(left + LEFT, 41, says, QUIET, size=15))
        marks += _panel(curve, y, seen.uniform, colour).drawn(left, TOP)
        left += LEFT + WIDTH + BETWEEN
    title = "The hockey stick: a bad start spends its first steps on unlearning its own opinions"
    return picture(title, _captions(seen), marks, left - BETWEEN + RIGHT, TOP + HEIGHT + BOTTOM)


def _panel(curve: Curve, y: Axis, uniform: float, colour: str) -> Panel:
    points = list(zip(curve.steps, curve.values, strict=True))
    panel = Panel(spanning([0, *curve.steps], "step", margin=0.0), y, WIDTH, HEIGHT)
    panel.across(uniform)
    # On that side of the rule where the curve does not end.
    below = bool(curve.values) and curve.values[-1] > uniform - 0.05 * (y.high - y.low)
    rule = panel.at(0, uniform)[1]
    is_room = rule + 20 < HEIGHT
    panel.words(
        WIDTH - 4, rule + 20 if below and is_room else rule - 8, f"no opinion: {uniform:.2f}", QUIET, align="end"
    )
    panel.line(points, colour, width=1.6, fade=0.55)
    panel.line(block_means(points, 60)[0], colour, width=3.5)
    if points:
        panel.dot(*points[0], colour, says=f"step {points[0][0]}: {points[0][1]:.4f}")
        x, top = panel.at(*points[0])
        # Clear of the rule, where the start is near it.
        is_near = abs(top - panel.at(0, uniform)[1]) < 20
        panel.words(x + 14, max(16.0, top - 10 if is_near else top + 5), f"{points[0][1]:.2f}", INK, is_bold=True)
    return panel


def _captions(seen: StartStudy) -> list[str]:
    lines = [
        f"{seen.source}.",
        f"A network without opinions starts at ln |V| = {seen.uniform:.4f} nats.",
        f"The bad start begins at {seen.bad.values[0]:.4f} and ends at {seen.bad.values[-1]:.4f}; "
        f"the good one begins at {seen.good.values[0]:.4f} and ends at {seen.good.values[-1]:.4f}.",
    ]
    above = [step for step, value in zip(seen.bad.steps, seen.bad.values, strict=True) if value > seen.uniform]
    if above:
        lines.append(f"The bad start is worse than having no opinion as late as step {above[-1]:,}.")
    for name, curve in (("bad", seen.bad), ("good", seen.good)):
        gaps = not_finite(list(zip(curve.steps, curve.values, strict=True)), f"loss of the {name} start")
        lines += [gaps] if gaps else []
    return lines


FIGURE = FigureCard(
    name="hockey-stick",
    says="The loss over the first steps after a bad start, beside the same network started well.",
    needs=StartStudy,
    draw=draw_hockey_stick,
    options=("--seed",),
    tiny=StartStudy(
        source="three names",
        uniform=3.2958,
        bad=Curve("bad", (1, 2, 3), (27.0, 4.0, 2.6)),
        good=Curve("good", (1, 2, 3), (3.3, 2.8, 2.5)),
        bad_says="weights drawn from N(0, 1)",
        good_says="the last layer scaled down",
    ),
)
