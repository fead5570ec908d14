"""Learning rate decay: a loss that cannot settle until the learning rate is divided."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median, pstdev
from typing import TYPE_CHECKING, NamedTuple

from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning, gap_words_of
from pellucid.figures.charts.svg import BLUE, INK, ORANGE
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import rough
from pellucid.lessons.lesson import Curve, Lesson, seed_knob, split_names
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from pellucid.data.prepare.tokens import Corpus

WIDTH, UPPER, LOWER, BETWEEN, RIGHT = 900.0, 380.0, 110.0, 28.0, 170.0


class DecayStudy(NamedTuple):
    """A run whose rate is too high for its end, and the same run with the rate divided late."""

    source: str
    kept: Curve  # the loss while the rate stays as it is
    decayed: Curve
    rates: Curve  # of the decayed one
    decay_step: int
    unrest_before: float  # deviation of the loss over the last steps before the decay, of the decayed run
    unrest_after: float
    dev_kept: float
    dev_decayed: float


@dataclass(frozen=True)
class DecayKnobs:
    seed: int = seed_knob()
    learning_rate: float = option(200.0, "Learning rate, too high for the end.", minimum=0, maximum=1e6)
    steps: int = option(400, "Steps of gradient descent.", minimum=10, maximum=10_000)
    at: float = option(0.9, "Where the rate is divided, as a part of all steps.", minimum=0.1, maximum=0.99)
    divisor: float = option(10.0, "What the rate is divided by.", minimum=1, maximum=1e6)

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: DecayKnobs) -> DecayStudy:
    """A rate that is too high for the end of a run, kept to the end, and divided late.

    A table of scores for each pair of letters learns from all names at once, so all unrest is the rate's doing.
    """
    sides = split_names()
    seed, learning_rate, n_steps = knobs.seed, knobs.learning_rate, knobs.steps
    decay_step = min(int(n_steps * knobs.at + 1e-9), n_steps - 1)

    def rate_at(step: int) -> float:
        return learning_rate if step <= decay_step else learning_rate / knobs.divisor

    train, dev = (pair_shares(side, len(sides.vocabulary)) for side in (sides.train, sides.dev))
    kept, dev_kept = _train_table(train, dev, lambda step: learning_rate, n_steps, seed)
    decayed, dev_decayed = _train_table(train, dev, rate_at, n_steps, seed)
    steps = tuple(range(1, n_steps + 1))
    # Half of what follows the decay is coming down; the other half shows how still it becomes.
    still = max(1, min(decay_step, (n_steps - decay_step) // 2))
    return DecayStudy(
        source=f"names, a table of bigram scores, all names in every step, rate {learning_rate:g}, seed {seed}",
        kept=Curve("kept", steps, tuple(kept)),
        decayed=Curve(f"divided by {knobs.divisor:g}", steps, tuple(decayed)),
        rates=Curve("rate", steps, tuple(rate_at(step) for step in steps)),
        decay_step=decay_step,
        unrest_before=pstdev(decayed[decay_step - still : decay_step]),
        unrest_after=pstdev(decayed[-still:]),
        dev_kept=dev_kept,
        dev_decayed=dev_decayed,
    )


def pair_shares(side: Corpus, vocab_size: int) -> Tensor:
    """How much of all pairs of neighbouring tokens each pair is: (vocab, vocab), the first token down."""
    import torch

    tokens = torch.from_numpy(side.tokens.astype("int64"))
    counts = torch.bincount(tokens[:-1] * vocab_size + tokens[1:], minlength=vocab_size**2)
    return (counts.double() / counts.sum()).view(vocab_size, vocab_size)


def _train_table(
    train: Tensor, dev: Tensor, rate_at: Callable[[int], float], n_steps: int, seed: int
) -> tuple[list[float], float]:
    """Gradient descent on a table of scores, from N(0, 1): the loss before each step, and on dev at the end."""
    import torch

    from pellucid.training.rng import torch_rng

    scores = torch.randn(train.shape, generator=torch_rng(seed, 0, "table"), dtype=train.dtype)
    losses = []
    for step in range(1, n_steps + 1):
        losses.append(_pair_loss(scores, train))
        # The slope of cross-entropy by a score: what it says less what is so, for each row by how often it occurs.
        scores -= rate_at(step) * (scores.softmax(-1) * train.sum(-1, keepdim=True) - train)
    return losses, _pair_loss(scores, dev)


def _pair_loss(scores: Tensor, shares: Tensor) -> float:
    return -(shares * scores.log_softmax(-1)).sum().item()


def draw(record: DecayStudy) -> Picture:
    """Both runs in one frame, with the rate of the second below."""
    x = axis_spanning([0, *record.kept.steps, *record.decayed.steps], "step", margin=0.0)
    losses = Panel(x, axis_spanning([*record.kept.values, *record.decayed.values], "loss, nats"), WIDTH, UPPER)
    rates = Panel(x, axis_spanning(record.rates.values, "rate", is_log=True, margin=0.25), WIDTH, LOWER)
    for panel in (losses, rates):
        panel.upright(record.decay_step, INK)
    losses.words(losses.at(record.decay_step, 1.0)[0] - 10, 18, f"divided at step {record.decay_step:,}", align="end")
    labels = []
    for name, curve, colour in (("rate kept", record.kept, ORANGE), ("rate divided", record.decayed, BLUE)):
        points = list(zip(curve.steps, curve.values, strict=True))
        # The unrest itself is what is shown, so nothing is smoothed.
        losses.line(points, colour, width=1.8, says=name)
        finite = [value for value in curve.values[-10:] if math.isfinite(value)]
        labels.append((median(finite) if finite else losses.y.high, name, colour))
    losses.ends(labels)
    rates.line(list(zip(record.rates.steps, record.rates.values, strict=True)), BLUE, says="rate")
    marks = [*losses.draw(0, 12, has_numbers_below=False), *rates.draw(0, 12 + UPPER + BETWEEN)]
    title = "An unstable run settles when its learning rate is divided"
    return picture(title, _captions(record), marks, LEFT + WIDTH + RIGHT, 12 + UPPER + BETWEEN + LOWER + BOTTOM)


def _captions(record: DecayStudy) -> list[str]:
    lines = [
        f"{record.source}. The rate falls from {rough(max(record.rates.values))} to {rough(min(record.rates.values))} "
        f"at step {record.decay_step:,}.",
        f"Unrest, the deviation of the loss over the last steps: {rough(record.unrest_before)} before, "
        f"{rough(record.unrest_after)} after.",
        f"On dev at the end: {record.dev_decayed:.4f} nats with the rate divided, {record.dev_kept:.4f} with it kept.",
    ]
    for name, curve in (("kept", record.kept), ("divided", record.decayed)):
        gaps = gap_words_of(list(zip(curve.steps, curve.values, strict=True)), f"loss with the rate {name}")
        lines += [gaps] if gaps else []
    return lines


LESSON = Lesson(
    name="decay",
    summary="A run whose rate is too high for its end, beside the same run with the rate divided late.",
    measure=measure,
    draw=draw,
    knobs=DecayKnobs,
    figure_of_run="loss-curves",
)
