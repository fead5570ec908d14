"""Figure 6: a loss that cannot settle until the learning rate is divided."""

import math
from statistics import median

from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, spanning
from pellucid.figures.charts.series import not_finite
from pellucid.figures.charts.svg import BLUE, INK, ORANGE
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.numbers import rough
from pellucid.records import Curve, DecayStudy

WIDTH, UPPER, LOWER, BETWEEN, RIGHT = 900.0, 380.0, 110.0, 28.0, 170.0


def draw_decay(seen: DecayStudy) -> Picture:
    """Both runs in one frame, with the rate of the second below."""
    x = spanning([0, *seen.kept.steps, *seen.decayed.steps], "step", margin=0.0)
    losses = Panel(x, spanning([*seen.kept.values, *seen.decayed.values], "loss, nats"), WIDTH, UPPER)
    rates = Panel(x, spanning(seen.rates.values, "rate", is_log=True, margin=0.25), WIDTH, LOWER)
    for panel in (losses, rates):
        panel.upright(seen.decay_step, INK)
    losses.words(losses.at(seen.decay_step, 1.0)[0] - 10, 18, f"divided at step {seen.decay_step:,}", align="end")
    labels = []
    for name, curve, colour in (("rate kept", seen.kept, ORANGE), ("rate divided", seen.decayed, BLUE)):
        points = list(zip(curve.steps, curve.values, strict=True))
        # The unrest itself is what is shown, so nothing is smoothed.
        losses.line(points, colour, width=1.8, says=name)
        finite = [value for value in curve.values[-10:] if math.isfinite(value)]
        labels.append((median(finite) if finite else losses.y.high, name, colour))
    losses.ends(labels)
    rates.line(list(zip(seen.rates.steps, seen.rates.values, strict=True)), BLUE, says="rate")
    marks = [*losses.drawn(0, 12, has_numbers_below=False), *rates.drawn(0, 12 + UPPER + BETWEEN)]
    title = "An unstable run settles when its learning rate is divided"
    return picture(title, _captions(seen), marks, LEFT + WIDTH + RIGHT, 12 + UPPER + BETWEEN + LOWER + BOTTOM)


def _captions(seen: DecayStudy) -> list[str]:
    lines = [
        f"{seen.source}. The rate falls from {rough(max(seen.rates.values))} to {rough(min(seen.rates.values))} "
        f"at step {seen.decay_step:,}.",
        f"Unrest, the deviation of the loss over the last steps: {rough(seen.unrest_before)} before, "
        f"{rough(seen.unrest_after)} after.",
        f"On dev at the end: {seen.dev_decayed:.4f} nats with the rate divided, {seen.dev_kept:.4f} with it kept.",
    ]
    for name, curve in (("kept", seen.kept), ("divided", seen.decayed)):
        gaps = not_finite(list(zip(curve.steps, curve.values, strict=True)), f"loss with the rate {name}")
        lines += [gaps] if gaps else []
    return lines


FIGURE = FigureCard(
    name="decay",
    says="A run whose rate is too high for its end, beside the same run with the rate divided late.",
    needs=DecayStudy,
    draw=draw_decay,
    options=("--seed",),
    tiny=DecayStudy(
        source="three names",
        kept=Curve("kept", (1, 2, 3, 4), (3.3, 2.2, 2.9, 2.3)),
        decayed=Curve("decayed", (1, 2, 3, 4), (3.3, 2.2, 2.1, 2.08)),
        rates=Curve("rate", (1, 2, 3, 4), (1.0, 1.0, 0.1, 0.1)),
        decay_step=3,
        unrest_before=0.5,
        unrest_after=0.02,
        dev_kept=2.4,
        dev_decayed=2.1,
    ),
)
