"""Training deep networks: plain and residual ones, how deep, toward the identity, and on few examples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search
from pellucid.claims.residual_connections import FORMS, build_deep_pair, draw_rows
from pellucid.claims.sizes_and_latency import one_thread
from pellucid.data.splits import STRATEGIES, SplitRequest
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pellucid.models.examples.rows import Deep

EXAMPLES = "Data that it is asked of: images or a table with classes, such as digits."
BATCH = 32
FEWEST = 50  # rows of train


class ClassRows(NamedTuple):
    """Rows of numbers and codes with their classes."""

    numbers: Tensor  # (rows, ...)
    codes: Tensor  # (rows, columns)
    classes: Tensor  # (rows,)


class ClassSides(NamedTuple):
    """Two sides of images or of a table, and how many classes there are."""

    train: ClassRows
    dev: ClassRows
    shape: tuple[tuple[int, ...], tuple[int, ...], int]  # of the numbers, the categories and the classes


@cache
def split_classes(data: str, n_train: int = 0, seed: int = 0, split: SplitRequest | None = None) -> ClassSides:
    """Train and dev of data that has classes; n_train: that many of train, drawn by the seed; split: of a table."""
    import torch

    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ImagesData, PixelsData, TableData
    from pellucid.data.prepare.image_examples import image_sides
    from pellucid.data.prepare.table_examples import table_sides
    from pellucid.errors import PellucidError

    opened = open_data(data)
    require_kind(opened, "images", "table")
    assert isinstance(opened, ImagesData | PixelsData | TableData)
    split = split or SplitRequest()
    sides = table_sides(opened, split.target, split=split) if isinstance(opened, TableData) else image_sides(opened)
    if sides.task != "classification":
        raise PellucidError(f"{opened.name} has no classes to tell", fix="Give it data with classes")
    if len(sides.train) < FEWEST or not len(sides.dev):
        raise PellucidError(
            f"{opened.name} leaves {len(sides.train):,} rows to train on", fix=f"Give it {2 * FEWEST} or more"
        )
    if n_train:
        sides = sides.limited(min(n_train, len(sides.train)), seed)
    train, dev = (
        ClassRows(*[torch.from_numpy(part) for part in (side.numbers, side.codes, side.targets)])
        for side in (sides.train, sides.dev)
    )
    return ClassSides(
        train, dev, (sides.preparation.numbers_shape, sides.preparation.category_sizes, len(sides.classes))
    )


def draw_weights_as_torch(model: nn.Module, seed: int) -> None:
    """Every linear layer begins as torch draws it."""
    from torch import nn

    from pellucid.training.rng import seed_torch

    with seed_torch(seed, 0, "as torch"):
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()


class DeepRun(NamedTuple):
    """How a deep network ended."""

    train_loss: float
    dev_loss: float


@cache
def train_deep(
    form: str,
    data: str,
    n_train: int,
    depth: int,
    start: str,
    seed: int,
    learning_rate: float,
    steps: int,
    until: float = 0.0,
    drawn: int = 0,
    split: SplitRequest | None = None,
) -> DeepRun:
    """Adam on small batches, for so many steps or until the loss on all of train is so low; drawn: other weights."""
    import torch
    from torch.nn.functional import cross_entropy

    from pellucid.models.examples.configs import DeepConfig
    from pellucid.models.examples.rows import Plain, Residual
    from pellucid.training.rng import seed_torch, torch_rng

    sides = split_classes(data, n_train, seed, split)
    config = DeepConfig(*sides.shape, width=32, depth=depth)
    with seed_torch(seed, drawn, "weights"):
        model: Deep = Plain(config) if form == "plain" else Residual(config)
    if start == "torch":
        draw_weights_as_torch(model.blocks, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    rng = torch_rng(seed, 0, "batches")

    def loss_on(side: ClassRows) -> float:
        with torch.no_grad():
            return cross_entropy(model.eval()(side.numbers, side.codes), side.classes).item()

    with one_thread():
        for _ in range(steps):
            which = torch.randint(len(sides.train.classes), (BATCH,), generator=rng)
            optimizer.zero_grad()
            scores = model.train()(sides.train.numbers[which], sides.train.codes[which])
            cross_entropy(scores, sides.train.classes[which]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if until and loss_on(sides.train) <= until:
                break
        return DeepRun(loss_on(sides.train), loss_on(sides.dev))


@dataclass(frozen=True)
class ClassDataKnobs:
    """Which data, and how the rows of a table are divided: by the same words as a training's."""

    data: str = option("digits", EXAMPLES)
    target: str = option("", "Column of a table that holds the classes, where it does not say itself.")
    strategy: str = option(
        "", "How the rows of a table are divided; by default as suits them", choices=tuple(STRATEGIES)
    )
    group: str = option("", "Column of a table whose values are not to be divided.")
    order: str = option("", "Column of a table that tells the order of the rows.")

    def __post_init__(self) -> None:
        check_options(self)
        _ = self.split

    @property
    def split(self) -> SplitRequest:
        return SplitRequest(self.strategy, group=self.group, order=self.order, target=self.target)


@dataclass(frozen=True)
class DeepTrainingKnobs(ClassDataKnobs):
    depth: int = option(32, "Blocks of two layers.", minimum=1, maximum=200)
    start: str = option("kept", "Weights drawn so that sizes are kept, or as torch does", choices=("kept", "torch"))
    steps: int = option(100, "Steps of Adam.", minimum=10, maximum=10_000)
    seed: int = seed_knob()


RATES = (0.0003, 0.003)


def measure_deep_training(knobs: DeepTrainingKnobs) -> Numbers:
    """The loss on train, as a part of ln K, of the better of two learning rates, plain and residual."""
    n_classes = split_classes(knobs.data, split=knobs.split).shape[2]
    found = {}
    for form in FORMS:
        same = (form, knobs.data, 0, knobs.depth, knobs.start, knobs.seed)
        runs = [train_deep(*same, rate, knobs.steps, split=knobs.split) for rate in RATES]
        found[f"{form}, of ln K"] = min([run.train_loss for run in runs]) / math.log(n_classes)
    return found


def only_residual_converges(seen: Numbers) -> float:
    return min(0.25 - seen["residual, of ln K"], seen["plain, of ln K"] - 0.5)


@dataclass(frozen=True)
class IdentityTargetKnobs:
    target: str = option("itself", "The input itself, or the input turned by chance", choices=("itself", "turned"))
    depth: int = option(1, "Blocks of two layers.", minimum=1, maximum=100)
    steps: int = option(200, "Steps of Adam on 64 new rows each.", minimum=10, maximum=10_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@cache
def measure_identity_learning(knobs: IdentityTargetKnobs) -> Numbers:
    """Blocks of width 16 that are to give back their input, from the same drawn weights: their mean squared errors."""
    import torch

    width = 16
    turn = torch.linalg.qr(draw_rows(knobs.seed, "turn", width, width)).Q
    found = {}
    with one_thread():
        for form, model in build_deep_pair(width, knobs.depth, 1.0, knobs.seed).items():
            optimizer = torch.optim.Adam(model.blocks.parameters(), lr=0.003)
            for step in range(knobs.steps + 1):
                x = draw_rows(knobs.seed, f"step {step}", width, 64 if step < knobs.steps else 1000)
                out = x
                for block in model.blocks:
                    out = model.combine(out, block(out))
                loss = (out - (x if knobs.target == "itself" else x @ turn)).square().mean()
                if step < knobs.steps:
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
                    optimizer.step()
            found[f"error, {form}"] = loss.item()
    return found


@dataclass(frozen=True)
class SafeguardKnobs(ClassDataKnobs):
    other: str = option(
        "residual", "What is compared with the plain network", choices=("residual", "plain, drawn anew")
    )
    start: str = option("kept", "Weights drawn so that sizes are kept, or as torch does", choices=("kept", "torch"))
    examples: int = option(150, "Examples of train.", minimum=20, maximum=100_000)
    depth: int = option(4, "Blocks of two layers.", minimum=1, maximum=100)
    seed: int = seed_knob()


UNTIL = 0.05  # nats on train: as good as learned by heart


def measure_safeguard(knobs: SafeguardKnobs) -> Numbers:
    """Two networks that are trained until the loss on few examples is the same: what each has on dev above it."""
    same = (knobs.data, knobs.examples, knobs.depth, knobs.start, knobs.seed, 0.002, 3000, UNTIL)
    form, drawn = ("residual", 0) if knobs.other == "residual" else ("plain", 1)
    plain = train_deep("plain", *same, split=knobs.split)
    other = train_deep(form, *same, drawn=drawn, split=knobs.split)
    return {
        "gap, plain": plain.dev_loss - plain.train_loss,
        f"gap, {knobs.other}": other.dev_loss - other.train_loss,
        "gap over plain": (other.dev_loss - other.train_loss) / (plain.dev_loss - plain.train_loss),
        "train loss, plain": plain.train_loss,
        "train loss, other": other.train_loss,
    }


FAMILY = ClaimFamily(
    name="deep-training",
    title="Training deep networks",
    claims=(
        Claim(
            id="residual-identity-easy",
            says="the identity is hard to learn for plain layers and easy for residual ones",
            where="log Q11 C.3",
            kind="training",
            measure=measure_identity_learning,
            decides="error, residual",
            margin=lambda seen: math.log10(seen["error, plain"] / seen["error, residual"]) - 1,
            rule="from the same weights the plain one's error is more than ten times the residual one's, at any depth",
            knobs=IdentityTargetKnobs,
            control={"target": "turned"},
            search=Search("depth", 1, 8, n_values=4, is_log=True),
            seeds=5,
            other_reading="from blocks that begin at zero, as ours do, the residual one is the identity at once",
        ),
        Claim(
            id="residual-converges-deeper",
            says="deep networks with residual connections converge where plain ones do not",
            where="log Q11 C.3",
            kind="training",
            measure=measure_deep_training,
            decides="plain, of ln K",
            margin=only_residual_converges,
            rule="on train the residual one ends below ln K / 4 and the plain one above ln K / 2, after 100 steps",
            knobs=DeepTrainingKnobs,
            control={"depth": 2},
            search=Search("depth", 2, 32, n_values=3, is_log=True),
            seeds=5,
            other_reading="that plain ones never do: whether they are only slower, 100 steps do not tell",
        ),
        Claim(
            id="skip-safeguards-overfitting",
            says="skip connections safeguard against overfitting, as a kind of regularisation",
            where="exam P2.3",
            kind="training",
            measure=measure_safeguard,
            decides="gap over plain",
            margin=lambda seen: 0.9 - seen["gap over plain"],
            rule="at the same loss on train, of 0.05 nats, the gap to dev is smaller by a tenth or more",
            knobs=SafeguardKnobs,
            control={"other": "plain, drawn anew"},
            seeds=8,
            other_reading="from weights as torch draws them the gap is even smaller, a fifth of the plain one's",
        ),
    ),
)
