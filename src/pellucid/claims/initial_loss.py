"""Initial loss: what a network says before it has learned anything, from weights of zero, small, large and alike."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, closeness
from pellucid.claims.learning_rates import HIDDEN, split_list_or_text
from pellucid.claims.letter_pairs import DATA
from pellucid.lessons.lesson import name_batches, new_mlp, seed_knob, start_too_large, train_by_sgd
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from pellucid.models.sequences.windows import WindowMLP


FEW_NAMES = 5  # in a step: about 32 letters to predict


@dataclass(frozen=True)
class SymbolCountKnobs:
    symbols: int = option(27, "Symbols that are as likely as each other.", minimum=1, maximum=1_000_000)

    def __post_init__(self) -> None:
        check_options(self)


def measure_even_loss(knobs: SymbolCountKnobs) -> Numbers:
    """The loss of even chances, by a model that has them."""
    import numpy as np

    from pellucid.data.prepare.tokens import Corpus
    from pellucid.models.counting.fitting import count_loss
    from pellucid.models.counting.simple_models import Uniform, UniformConfig

    stream = Corpus(np.zeros(5, np.int64), has_boundary=False)
    return {"loss": count_loss(Uniform.fit(stream, UniformConfig(knobs.symbols)), stream).nats}


@dataclass(frozen=True)
class StartScaleKnobs:
    data: str = option("names", DATA)
    scale: float = option(1.0, "Deviation of all first weights and biases.", minimum=0, maximum=100)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class SmallStartKnobs(StartScaleKnobs):
    scale: float = option(0.01, "Deviation of all first weights and biases.", minimum=0, maximum=100)


def measure_start(knobs: StartScaleKnobs) -> Numbers:
    """The loss of an untrained MLP on 256 items, its weights drawn with one deviation."""
    import torch

    from pellucid.training.loop import mean_token_loss

    sides = split_list_or_text(knobs.data)
    model = new_mlp(sides, knobs.seed)
    start_too_large(model, knobs.seed, knobs.scale)
    batch = name_batches(sides, knobs.seed, 256).batch(1)
    with torch.no_grad():
        loss = mean_token_loss(model(batch.tokens), batch.targets).item()
    even = math.log(len(sides.vocabulary))
    return {"first loss": loss, "even chances": even, "above even by": loss - even}


@dataclass(frozen=True)
class WastedStepsKnobs:
    data: str = option("names", DATA)
    scale: float = option(1.0, "Deviation of all weights of the start that is looked at.", minimum=0, maximum=100)
    steps: int = option(1_000, "Steps of SGD at a rate of 0.1.", minimum=20, maximum=20_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def _losses(data: str, scale: float, steps: int, seed: int) -> tuple[float, ...]:
    """The losses of a small MLP, each a mean of the last 20; a scale of 0 leaves its first weights as they are."""
    from pellucid.lessons.hockey_stick import STRETCH, means_of_last

    sides = split_list_or_text(data)
    model = new_mlp(sides, seed, hidden=HIDDEN)
    if scale:
        start_too_large(model, seed, scale)
    return means_of_last(train_by_sgd(model, name_batches(sides, seed, FEW_NAMES), 0.1, steps), STRETCH)


def measure_wasted_steps(knobs: WastedStepsKnobs) -> Numbers:
    """How long a start stays above even chances, and where it stands at the end beside weights that start right."""
    even = math.log(len(split_list_or_text(knobs.data).vocabulary))
    asked, right = (_losses(knobs.data, scale, knobs.steps, knobs.seed) for scale in (knobs.scale, 0.0))
    above = next((i for i, loss in enumerate(asked) if loss <= even), len(asked))
    return {
        "steps above even chances": float(above),
        "part of all steps": above / knobs.steps,
        "first loss": asked[0],
        "last loss": asked[-1],
        "last loss, started right": right[-1],
    }


STATED_LOSSES = (1.0986, 1.1540, 0.0133, 5.0133, 1.8248, 2.2775)


@dataclass(frozen=True)
class LabelKnobs:
    label: int = option(2, "The right class of the three, counted from 0.", minimum=0, maximum=2)

    def __post_init__(self) -> None:
        check_options(self)


def measure_rows(knobs: LabelKnobs) -> Numbers:
    """The seven rows of three logits that the lesson shows, with their losses; the high logit stays in its class."""
    from pellucid.lessons.logits import LogitKnobs, logit_row, measure

    return {row.name: logit_row("", row.logits, knobs.label).loss for row in measure(LogitKnobs()).rows}


def rows_by_torch(knobs: LabelKnobs) -> Numbers:
    """The same by torch's cross-entropy, in float64."""
    import torch

    from pellucid.lessons.logits import LogitKnobs, measure

    label, losses = torch.tensor([knobs.label]), {}
    for row in measure(LogitKnobs()).rows:
        logits = torch.tensor([row.logits], dtype=torch.float64)
        losses[row.name] = torch.nn.functional.cross_entropy(logits, label).item()
    return losses


@dataclass(frozen=True)
class TinyLossKnobs:
    gap: float = option(150.7286, "How far the right logit is above the next one.", minimum=0, maximum=700)
    digits: str = option("float64", "Numbers of 53 or of 11 binary digits", choices=("float64", "float16"))

    def __post_init__(self) -> None:
        check_options(self)


def measure_tiny_loss(knobs: TinyLossKnobs) -> Numbers:
    """The loss of three logits of which one is far ahead: as it is computed, and with sixty more digits."""
    from decimal import Decimal, getcontext

    import torch

    getcontext().prec = 400
    last = -218.3792
    rest = Decimal(-knobs.gap).exp() + Decimal(last).exp()
    logits = torch.tensor([[last, -knobs.gap, 0.0]], dtype=getattr(torch, knobs.digits))
    computed = -logits.softmax(-1)[0, 2].log().item()
    return {"true loss": float((1 + rest).ln()), "computed loss": computed + 0.0}


@dataclass(frozen=True)
class DrawnLogitKnobs:
    label: str = option(
        "fixed", "The right class: always the third, or the one that is ahead", choices=("fixed", "ahead")
    )
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_drawn_logits(knobs: DrawnLogitKnobs) -> Numbers:
    """The mean loss over 4,000 draws of three logits, for ever larger deviations."""
    import torch

    rng = torch.Generator().manual_seed(knobs.seed)
    drawn = torch.randn(4_000, 3, generator=rng, dtype=torch.float64)
    labels = drawn.argmax(-1) if knobs.label == "ahead" else torch.full((4_000,), 2)
    losses = {}
    for deviation in (0.0, 1.0, 10.0, 100.0):
        losses[f"deviation {deviation:g}"] = torch.nn.functional.cross_entropy(drawn * deviation, labels).item()
    return losses


def sum_drawn_losses(knobs: DrawnLogitKnobs) -> Numbers:
    """The same draws, by log Σ exp(z − largest) + largest − z of the label, one by one in plain Python."""
    import torch

    drawn = torch.randn(4_000, 3, generator=torch.Generator().manual_seed(knobs.seed), dtype=torch.float64).tolist()
    losses = {}
    for deviation in (0.0, 1.0, 10.0, 100.0):
        rows = []
        for row in drawn:
            label = row.index(max(row)) if knobs.label == "ahead" else 2
            logits = [deviation * z for z in row]
            total = math.log(math.fsum([math.exp(z - max(logits)) for z in logits]))
            rows.append(total + max(logits) - logits[label])
        losses[f"deviation {deviation:g}"] = math.fsum(rows) / len(rows)
    return losses


def _rises(seen: Numbers) -> float:
    losses = list(seen.values())
    return min(after - before for before, after in itertools.pairwise(losses))


@dataclass(frozen=True)
class AlikeKnobs:
    data: str = option("names", DATA)
    start: str = option(
        "zeros",
        "First weights: zeros, zeros in the last layer, all 0.1, or drawn",
        choices=("zeros", "last zeros", "alike", "drawn"),
    )
    steps: int = option(50, "Steps of SGD at a rate of 0.5.", minimum=1, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class SymmetryKnobs(AlikeKnobs):
    start: str = option(
        "alike",
        "First weights: zeros, zeros in the last layer, all 0.1, or drawn",
        choices=("zeros", "last zeros", "alike", "drawn"),
    )


def measure_alike(knobs: AlikeKnobs) -> Numbers:
    """A small MLP whose weights start equal: which matrices move, and how different its hidden units become."""
    import torch

    sides = split_list_or_text(knobs.data)
    model = new_mlp(sides, knobs.seed, hidden=HIDDEN)
    _start_alike(model, knobs.start)
    before = [parameter.detach().clone() for parameter in model.parameters() if parameter.dim() > 1]
    losses = train_by_sgd(model, name_batches(sides, knobs.seed), 0.5, knobs.steps)
    after = [parameter.detach() for parameter in model.parameters() if parameter.dim() > 1]
    first = model.get_parameter("layers.0.linear.weight").detach()  # (units, inputs)
    return {
        "matrices that moved": float(sum([not torch.equal(a, b) for a, b in zip(before, after, strict=True)])),
        "matrices": float(len(before)),
        "different hidden units": float(len(torch.unique((first * 1e6).round(), dim=0))),
        "units": float(len(first)),
        "last loss": sum(losses[-10:]) / 10,
    }


def _start_alike(model: WindowMLP, start: str) -> None:
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if start == "zeros" or (start == "last zeros" and name.startswith("head")):
                parameter.zero_()
            elif start == "alike" and not name.startswith("embedding"):
                parameter.fill_(0.1)


INITIAL, TABLE = "notes §14.1", "notes Table 1"

FAMILY = ClaimFamily(
    name="initial-loss",
    title="Initial loss",
    picture="hockey-stick",
    claims=(
        Claim(
            id="uniform-loss-3-29",
            says="27 symbols that are as likely as each other have a loss of about 3.29",
            where=INITIAL,
            kind="arithmetic",
            measure=measure_even_loss,
            margin=lambda seen: closeness(seen["loss"], 3.29, 2),
            rule="the loss is 3.29, rounded or cut to two decimals",
            knobs=SymbolCountKnobs,
            control={"symbols": 26},
            second=lambda knobs: {"loss": math.log(knobs.symbols)},
        ),
        Claim(
            id="uniform-is-worst-case",
            says="the worst that a network can begin with is even chances",
            where=INITIAL,
            kind="draws",
            measure=measure_start,
            decides="first loss",
            margin=lambda seen: 0.01 - seen["above even by"],
            rule="the first loss is at most 0.01 nats above that of even chances, for weights of any deviation",
            knobs=StartScaleKnobs,
            control={"scale": 0.01},
            search=Search("scale", 0.01, 10.0, is_log=True),
            seeds=8,
            other_reading="of what knows nothing and says so it is; what is sure of the wrong is worse",
        ),
        Claim(
            id="hockey-stick-first-1000-steps",
            says="with bad first weights the first 1,000 steps just undo them",
            where="notes §14.1 Fig.7",
            kind="training",
            measure=measure_wasted_steps,
            decides="steps above even chances",
            margin=lambda seen: seen["part of all steps"] - 0.5,
            rule="for more than half of 1,000 steps the loss is above that of even chances",
            knobs=WastedStepsKnobs,
            control={"scale": 0.05},
            seeds=5,
        ),
        Claim(
            id="bad-init-wastes-training",
            says="good first weights save work",
            where="notes §14.1 Fig.8",
            kind="training",
            measure=measure_wasted_steps,
            decides="last loss",
            margin=lambda seen: seen["last loss"] - seen["last loss, started right"],
            rule="after 1,000 steps the loss from N(0, 1) is still above the one from weights that start right",
            knobs=WastedStepsKnobs,
            control={"scale": 0.0},
            seeds=5,
        ),
        Claim(
            id="table-1-values",
            says="six rows of logits have losses of 1.0986, 1.1540, 0.0133, 5.0133, 1.8248 and 2.2775",
            where=TABLE,
            kind="arithmetic",
            measure=measure_rows,
            decides="one, of a wrong class",
            margin=lambda seen: min(
                closeness(loss, stated, 4) for loss, stated in zip(list(seen.values())[:6], STATED_LOSSES, strict=True)
            ),
            rule="each is that, rounded or cut to four decimals",
            knobs=LabelKnobs,
            control={"label": 0},
            second=rows_by_torch,
        ),
        Claim(
            id="table-1-n100-higher-loss",
            says="the row of logits drawn with a deviation of 100 has a higher loss than the one with 10",
            where=TABLE,
            kind="arithmetic",
            measure=measure_rows,
            decides="normal, deviation 100",
            margin=lambda seen: seen["normal, deviation 100"] - seen["normal, deviation 10"],
            rule="the loss of that row is the higher one",
            knobs=LabelKnobs,
            control={"label": 0},
            second=rows_by_torch,
            other_reading="on average over draws it has; in that row the right class happens to be ahead",
        ),
        Claim(
            id="zero-loss-is-rounding-error",
            says="a loss that looks like zero, between huge logits, is a severe rounding error",
            where="notes Ex.6",
            kind="arithmetic",
            measure=measure_tiny_loss,
            decides="true loss",
            margin=lambda seen: abs(seen["true loss"] - seen["computed loss"]) - 1e-6,
            rule="computed with enough digits the loss is another by more than a millionth",
            knobs=TinyLossKnobs,
            control={"gap": 8.0, "digits": "float16"},
        ),
        Claim(
            id="wider-logits-higher-loss",
            says="the wider logits are drawn, the higher is the loss",
            where=TABLE,
            kind="draws",
            measure=measure_drawn_logits,
            decides="deviation 10",
            margin=_rises,
            rule="the mean loss rises from deviations of 0 to 1, to 10 and to 100",
            knobs=DrawnLogitKnobs,
            control={"label": "ahead"},
            second=sum_drawn_losses,
            seeds=8,
        ),
        Claim(
            id="small-weights-fix-initial-loss",
            says="very small first weights bring the first loss to where it should be",
            where=INITIAL,
            kind="draws",
            measure=measure_start,
            decides="above even by",
            margin=lambda seen: 0.05 - abs(seen["above even by"]),
            rule="with a deviation of 0.01 the first loss is within 0.05 nats of even chances",
            knobs=SmallStartKnobs,
            control={"scale": 1.0},
            seeds=8,
        ),
        Claim(
            id="zero-init-stays-zero",
            says="weights that all start at zero can keep gradients of zero",
            where="notes Remark 4",
            kind="training",
            measure=measure_alike,
            decides="matrices that moved",
            margin=lambda seen: 0.5 - seen["matrices that moved"],
            rule="after 50 steps no matrix of an MLP has moved",
            knobs=AlikeKnobs,
            control={"start": "last zeros"},
            seeds=5,
            other_reading="the last biases do move, and a network of one table learns from zeros as well as from any",
        ),
        Claim(
            id="symmetry-breaking-needed",
            says="weights have to be random, or units cannot become different",
            where=INITIAL,
            kind="training",
            measure=measure_alike,
            decides="different hidden units",
            margin=lambda seen: 1.5 - seen["different hidden units"],
            rule="after 50 steps from weights of 0.1 all hidden units are still the same",
            knobs=SymmetryKnobs,
            control={"start": "drawn"},
            seeds=5,
        ),
    ),
)
