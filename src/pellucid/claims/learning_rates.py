"""Learning rates: too low, too high, chosen by the slope of a sweep, and divided late in a run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.letter_pairs import DATA, count_list
from pellucid.errors import PellucidError
from pellucid.lessons.decay import DecayKnobs
from pellucid.lessons.lesson import name_batches, new_mlp, seed_knob, train_by_sgd
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from pellucid.data.prepare.tokens import SequenceSides
    from pellucid.models.sequences.windows import WindowMLP
    from pellucid.training.tasks.task import Batches

HIDDEN = 64  # units of the small networks that are trained here
FEW = 3_500  # tokens, about 500 names: few enough for a gap between train and dev
FEWEST = 2_000  # tokens of the train side that a network is trained on here
BLOWN_UP = 1e6  # a loss above it, or one that is no number, counts as this


@cache
def split_list_or_text(data: str) -> SequenceSides:
    """The sides of a list or a text in tokens."""
    from pellucid.data import ListData, TextData, open_data, require_kind
    from pellucid.data.prepare.tokens import split_sequences

    opened = open_data(data)
    require_kind(opened, "list", "text")
    assert isinstance(opened, ListData | TextData)
    sides = split_sequences(opened)
    if sides.train.n_predicted < FEWEST or len(sides.dev) < 2:
        raise PellucidError(
            f"{opened.name} has {sides.train.n_predicted:,} tokens to learn from", fix=f"Give it {FEWEST:,} or more"
        )
    return sides


def dev_loss(model: WindowMLP, sides: SequenceSides) -> float:
    """The mean loss over 1,000 items of dev."""
    import torch

    from pellucid.training.loop import mean_token_loss
    from pellucid.training.tasks.batches import make_batches

    batch = make_batches(sides.dev, 1_000, 16, 0, by_length=False).batch(1)
    with torch.no_grad():
        return mean_token_loss(model(batch.tokens), batch.targets).item()


@dataclass(frozen=True)
class SameLossKnobs:
    data: str = option("names", DATA)
    changed: str = option(
        "learning rate", "What the second run has otherwise", choices=("learning rate", "weight decay")
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_same_loss(knobs: SameLossKnobs) -> Numbers:
    """Two runs on few pairs: one at a rate of 50, one at 5 until its train loss is the same, or with weight decay."""
    import torch

    sides = split_list_or_text(knobs.data)
    size = len(sides.vocabulary)
    train, dev = (_pair_shares(tokens.tolist(), size) for tokens in (sides.train.tokens[:FEW], sides.dev.tokens))
    start = torch.randn(size, size, generator=torch.Generator().manual_seed(knobs.seed), dtype=torch.float64)

    def loss(scores: Tensor, shares: Tensor) -> float:
        return -(shares * scores.log_softmax(-1)).sum().item()

    def step(scores: Tensor, rate: float, decay: float = 0.0) -> Tensor:
        gradient = scores.softmax(-1) * train.sum(-1, keepdim=True) - train
        return scores - rate * (gradient + decay * scores)

    first = second = start
    for _ in range(400):
        first = step(first, 50.0)
    for _ in range(8_000 if knobs.changed == "learning rate" else 400):
        if knobs.changed == "learning rate" and loss(second, train) <= loss(first, train):
            break
        second = step(second, 5.0) if knobs.changed == "learning rate" else step(second, 50.0, 0.001)
    gaps = [loss(scores, dev) - loss(scores, train) for scores in (first, second)]
    return {
        "gaps differ by": abs(gaps[0] - gaps[1]),
        "gap of the first": gaps[0],
        "gap of the second": gaps[1],
        "train loss of the first": loss(first, train),
        "train loss of the second": loss(second, train),
    }


def _pair_shares(tokens: Sequence[int], size: int) -> Tensor:
    import torch

    stream = torch.tensor(tokens)
    counts = torch.bincount(stream[:-1] * size + stream[1:], minlength=size**2).double()
    return (counts / counts.sum()).view(size, size)


@dataclass(frozen=True)
class ConvexKnobs:
    learning_rate: float = option(200.0, "Learning rate of the table of pairs.", minimum=0, maximum=1e6)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_convex(knobs: ConvexKnobs) -> Numbers:
    """How often the loss of a table of scores rises from one step to the next; it is convex in the scores."""
    import torch

    from pellucid.lessons.decay import measure

    losses = measure(DecayKnobs(knobs.seed, learning_rate=knobs.learning_rate, divisor=1.0)).kept.values
    rises = sum([after > before + 1e-9 for before, after in itertools.pairwise(losses)])
    counts = torch.from_numpy(count_list("names").counts).double()
    shares = counts / counts.sum()

    def loss(scores: Tensor) -> float:
        return -(shares * scores.log_softmax(-1)).sum().item()

    rng = torch.Generator().manual_seed(knobs.seed)
    above = []
    for _ in range(100):  # on a convex function the middle of two points is never above the mean of both
        one, two = (torch.randn(counts.shape, generator=rng, dtype=torch.float64) * 3 for _ in range(2))
        above.append(loss((one + two) / 2) - (loss(one) + loss(two)) / 2)
    return {
        "steps that rise": rises / (len(losses) - 1),
        "middle above the mean by": max(above),
        "last loss": losses[-1],
    }


@dataclass(frozen=True)
class SpreadKnobs:
    data: str = option("names", DATA)
    spread: float = option(100.0, "How many times lower and higher than 1 the other rates are.", minimum=1, maximum=1e4)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def train_at(data: str, learning_rate: float, steps: int, seed: int) -> tuple[float, float]:
    """A small MLP by plain SGD: its first loss, and the mean of its last twenty."""
    sides = split_list_or_text(data)
    model = new_mlp(sides, seed, hidden=HIDDEN)
    losses = train_by_sgd(model, name_batches(sides, seed), learning_rate, steps)
    capped = [loss if loss < BLOWN_UP else BLOWN_UP for loss in losses]  # what is no number compares as false
    return capped[0], sum(capped[-20:]) / 20


def measure_spread(knobs: SpreadKnobs) -> Numbers:
    """Sixty steps at a rate of 1, at one far below and at one far above."""
    (start, middle), (_, low), (_, high) = (
        train_at(knobs.data, rate, 60, knobs.seed) for rate in (1.0, 1 / knobs.spread, knobs.spread)
    )
    return {
        "low rate's fall over the middle's": (start - low) / (start - middle),
        "loss at the start": start,
        "loss at the middle rate": middle,
        "loss at the low rate": low,
        "loss at the high rate": high,
    }


@dataclass(frozen=True)
class SweepKnobs:
    data: str = option("names", DATA)
    highest: float = option(1.0, "The highest rate; the lowest is 0.001.", minimum=0.01, maximum=100)
    percentile: float = option(10.0, "The part of all slopes that counts as small, in percent.", minimum=1, maximum=100)
    by: str = option("rate", "Slope of the loss by the rate, or by its logarithm", choices=("rate", "log rate"))
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def _sweep(data: str, highest: float, seed: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A hundred steps while the rate climbs from 0.001 by a fixed factor: the rates, and the smoothed losses."""
    import numpy as np

    from pellucid.training.learning_rate import rates_between, smooth_losses

    sides = split_list_or_text(data)
    model, batches = new_mlp(sides, seed, hidden=HIDDEN), name_batches(sides, seed)
    rates = rates_between(0.001, highest, 100)
    losses = [train_by_sgd(model, _LaterBatches(batches, i), rate, 1)[0] for i, rate in enumerate(rates)]
    return tuple(rates), tuple(smooth_losses(np.array(losses)).tolist())


class _LaterBatches:
    """Batches without the first few."""

    def __init__(self, batches: Batches, left_out: int) -> None:
        self._batches, self._left_out = batches, left_out
        self.per_epoch = batches.per_epoch

    def batch(self, step: int) -> Any:
        return self._batches.batch(step + self._left_out)


def measure_sweep(knobs: SweepKnobs) -> Numbers:
    """How the fall of the loss at each step of a sweep ranks beside the size of its slope."""
    import numpy as np

    rates, losses = (np.array(one) for one in _sweep(knobs.data, knobs.highest, knobs.seed))
    slopes = np.abs(np.gradient(losses, rates if knobs.by == "rate" else np.log(rates)))
    falls = -np.gradient(losses)
    ranks = [np.argsort(np.argsort(values)) for values in (falls, slopes)]
    top = falls >= np.percentile(falls, 90)
    return {
        "rank correlation": float(np.corrcoef(ranks[0], ranks[1])[0, 1]),
        "rate of the largest falls": float(np.exp(np.log(rates[top]).mean())),
        "slopes that are smaller there": float(np.mean([(slopes < slope).mean() for slope in slopes[top]])),
    }


def measure_percentile(knobs: SweepKnobs) -> Numbers:
    """A rate that is read from the smallest slopes of a sweep, beside the best of seven, each trained for 100 steps."""
    import numpy as np

    rates, losses = (np.array(one) for one in _sweep(knobs.data, knobs.highest, knobs.seed))
    slopes = np.abs(np.gradient(losses, rates if knobs.by == "rate" else np.log(rates)))
    chosen = float(np.exp(np.log(rates[slopes <= np.percentile(slopes, knobs.percentile)]).mean()))
    tried = {rate: train_at(knobs.data, rate, 100, knobs.seed)[1] for rate in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)}
    found = train_at(knobs.data, chosen, 100, knobs.seed)[1]
    return {
        "worse than the best by": found - min(tried.values()),
        "rate that was chosen": chosen,
        "best rate": min(tried, key=lambda rate: tried[rate]),
        "loss at the chosen": found,
        "best loss": min(tried.values()),
    }


@dataclass(frozen=True)
class LateDecayKnobs:
    data: str = option("names", DATA)
    learning_rate: float = option(1.0, "Learning rate of the first three quarters.", minimum=0, maximum=1000)
    divisor: float = option(10.0, "What it is divided by for the last one.", minimum=1, maximum=1e6)
    steps: int = option(400, "Steps of SGD.", minimum=4, maximum=100_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_late_decay(knobs: LateDecayKnobs) -> Numbers:
    """The same network with its rate kept, and with it divided for the last quarter: losses on dev."""
    import copy

    sides = split_list_or_text(knobs.data)
    batches = name_batches(sides, knobs.seed)
    model, before = new_mlp(sides, knobs.seed, hidden=HIDDEN), knobs.steps * 3 // 4
    train_by_sgd(model, batches, knobs.learning_rate, before)
    found = {}
    for name, rate in (("kept", knobs.learning_rate), ("divided", knobs.learning_rate / knobs.divisor)):
        twin = copy.deepcopy(model)
        train_by_sgd(twin, _LaterBatches(batches, before), rate, knobs.steps - before)
        found[f"dev loss, rate {name}"] = dev_loss(twin, sides)
    return {"better by": found["dev loss, rate kept"] - found["dev loss, rate divided"], **found}


def measure_rescue(knobs: DecayKnobs) -> Numbers:
    """The run of the lesson: how many steps raise its loss before the rate is divided, and once it has come down."""
    from pellucid.lessons.decay import measure

    study = measure(knobs)
    losses, at = study.decayed.values, study.decay_step
    before, after = losses[:at], losses[at + (len(losses) - at) // 2 :]
    rises = [
        sum([b > a + 1e-9 for a, b in itertools.pairwise(part)]) / max(1, len(part) - 1) for part in (before, after)
    ]
    return {
        "rising after": rises[1],
        "rising before": rises[0],
        "highest loss": max(losses),
        "dev loss, divided": study.dev_decayed,
        "dev loss, kept": study.dev_kept,
    }


RATE, SEARCH, DECAY = "notes §11", "notes §11.1", "notes §11.2"

FAMILY = ClaimFamily(
    name="learning-rates",
    title="Learning rates",
    picture="decay",
    claims=(
        Claim(
            id="lr-is-a-regulariser",
            says="the learning rate is a regularisation parameter",
            where=RATE,
            kind="training",
            measure=measure_same_loss,
            decides="gaps differ by",
            margin=lambda seen: seen["gaps differ by"] - 0.01,
            rule="at the same train loss a tenth of the rate has another gap from train to dev, by over 0.01 nats",
            knobs=SameLossKnobs,
            control={"changed": "weight decay"},
            seeds=5,
            other_reading="after the same number of steps a lower rate has fitted less, as if stopped early; a table "
            "of pairs has one minimum, and of networks with several nothing is said here",
        ),
        Claim(
            id="bouncing-needs-nonconvex",
            says="it is where the function is not convex that a loss bounces to and fro",
            where=RATE,
            kind="training",
            measure=measure_convex,
            decides="steps that rise",
            margin=lambda seen: 0.01 - seen["steps that rise"],
            rule="on a convex loss, at a rate of 200, fewer than 1 % of the steps raise it",
            knobs=ConvexKnobs,
            control={"learning_rate": 10.0},
            seeds=5,
        ),
        Claim(
            id="small-lr-slow-large-lr-diverges",
            says="too low a rate is slow and too high a one makes the loss diverge",
            where="notes §11.1 Fig.5",
            kind="training",
            measure=measure_spread,
            decides="low rate's fall over the middle's",
            margin=lambda seen: min(
                seen["loss at the low rate"] - seen["loss at the middle rate"],
                seen["loss at the high rate"] - seen["loss at the start"],
            ),
            rule="after 60 steps a hundredth of a good rate has a higher loss than it, its hundredfold than the start",
            knobs=SpreadKnobs,
            control={"spread": 2.0},
            seeds=5,
        ),
        Claim(
            id="largest-decrease-at-smallest-slope",
            says="in a sweep the loss falls most where its slope by the learning rate is smallest",
            where=SEARCH,
            kind="training",
            measure=measure_sweep,
            decides="rank correlation",
            margin=lambda seen: -seen["rank correlation"],
            rule="over a hundred rates from 0.001 to 1 the fall at a step goes down as the size of the slope goes up",
            knobs=SweepKnobs,
            control={"by": "log rate"},
            seeds=5,
            other_reading="by the logarithm, which the rates are spaced by, the fall is the slope",
        ),
        Claim(
            id="percentile-rule-picks-lr",
            says="rates whose slope is within its smallest tenth are good ones",
            where="notes §11.1 Remark 3",
            kind="training",
            measure=measure_percentile,
            decides="worse than the best by",
            margin=lambda seen: 0.05 - seen["worse than the best by"],
            rule="training at the middle of them is within 0.05 nats of the best of six, however far the sweep goes",
            knobs=SweepKnobs,
            control={"highest": 10.0},
            search=Search("highest", 0.1, 10.0, n_values=5, is_log=True),
            seeds=5,
            other_reading="of a sweep that ends where the loss has long stopped falling they are",
        ),
        Claim(
            id="lr-decay-helps",
            says="dividing a good learning rate by ten late in training helps",
            where=DECAY,
            kind="training",
            measure=measure_late_decay,
            decides="better by",
            margin=lambda seen: seen["better by"],
            rule="the dev loss is lower with the rate divided for the last quarter of 400 steps",
            knobs=LateDecayKnobs,
            control={"learning_rate": 0.01},
            seeds=5,
        ),
        Claim(
            id="decay-rescues-unstable-run",
            says="a loss that bounces in bounds settles when the rate is divided at 90 % of the run",
            where="notes §11.2 Fig.6",
            kind="training",
            measure=measure_rescue,
            decides="rising after",
            margin=lambda seen: min(
                0.01 - seen["rising after"], seen["rising before"] - 0.25, 10 - seen["highest loss"]
            ),
            rule="before, over a quarter of all steps raise the loss, after it fewer than 1 %, and no loss is above 10",
            knobs=DecayKnobs,
            control={"divisor": 1.0},
            seeds=5,
        ),
    ),
)
