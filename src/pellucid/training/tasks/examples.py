"""Tables and images as a task: the class or the number of each example is to be predicted, or the example itself.

What a network answers is told by `example_answers.py`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.data import ImagesData, PixelsData, TableData
from pellucid.data.options import DataOptions
from pellucid.data.prepare import (
    Examples,
    ExampleSides,
    TablePreparation,
    image_sides,
    preparation_to_json,
    table_sides,
)
from pellucid.data.prepare.examples import example_hashes
from pellucid.data.prepare.folds import NOT_FOLDED, fold_sides
from pellucid.data.splits import SIDES, dev_of_train
from pellucid.errors import PellucidError
from pellucid.layers.losses import ExampleLoss, find_example_loss, losses_for, penalty
from pellucid.models.catalogue import NetworkCard, find_network
from pellucid.models.contracts import ExampleModel, Network, Reconstructor
from pellucid.models.examples.configs import CNNConfig, ExampleShape, ResidualCNNConfig, ViTConfig
from pellucid.models.examples.rows import Logistic
from pellucid.records import Answers, DataFacts, Importance, InitialLoss, Measure, Plan, Separability
from pellucid.training.distributed import ALONE, World
from pellucid.training.options import TrainOptions
from pellucid.training.run_data import TRAINED_ON
from pellucid.training.sharding import works_in_step
from pellucid.training.tasks import metrics
from pellucid.training.tasks.baselines import Baseline, SideResult, example_baselines
from pellucid.training.tasks.batches import ExampleBatch, ExampleBatches, make_example_batch
from pellucid.training.tasks.example_answers import Scored, answers_of, preview_texts
from pellucid.training.tasks.importances import importances_of, permutation_effects
from pellucid.training.tasks.separability import measure_separability
from pellucid.training.tasks.simple_models import flatten_examples
from pellucid.training.tasks.task import (
    FEWEST_PREDICTIONS,
    FEWEST_STEPS,
    Batches,
    Inputs,
    LossFunction,
    SharedBatches,
    Task,
    batch_to,
    device_of,
    evaluating,
    initial_loss,
)

# Examples of train from which on a size is worth its weights.
WORTH: Mapping[str, int] = {"tiny": 0, "small": 1_000, "medium": 10_000, "large": 200_000}
PREVIEWED = 5
ROW_STEPS, ROW_BATCH = 1_500, 64  # of tables: below so many steps batches are made smaller, down to so many rows
FOLDS, FOLDED_BELOW, FEWEST_FOLDED = 5, 2_000, 20  # parts of a cross-validation, and the rows that are worth them
MOST_FOLDED_COLUMNS = 1_000  # more take longer to read again than to learn from
AT_ONCE = 512  # examples of one pass that is not learned from
NEAR_NOTHING = 1.5  # times its loss; a judgement, and the numbers are always shown
MEASURES: Mapping[str, Measure] = {
    "classification": Measure("nats", "accuracy", "simple models", "example"),
    "regression": Measure("squared error", "R²", "simple models", "example"),
    "reconstruction": Measure("squared error", "R²", "simple models", "example"),
}
Floats = npt.NDArray[Any]


def open_examples(data: TableData | ImagesData | PixelsData, source: str, options: DataOptions) -> ExampleTask:
    """Split the examples, learn from train how to read them, and say what was found."""
    if isinstance(data, TableData):
        sides = table_sides(
            data,
            options.target,
            task=options.task,
            refuse_missing=options.refuse_missing_target,
            split=options.split,
            leave_out=tuple(name for name in options.leave_out.split(",") if name),
        )
    else:
        size = (options.image_size, options.image_size) if options.image_size else None
        if options.task == "regression":
            raise PellucidError(
                f"{data.name} holds images, which have classes", fix="Leave {task} out", options={"task": None}
            )
        sides = image_sides(data, size=size, mode=options.colour, task=options.task or "classification")
    if options.examples:
        sides = sides.limited(options.examples, options.examples_seed)
    return ExampleTask(sides, _describe_data(data, sides, source), data, options)


def _describe_data(data: TableData | ImagesData | PixelsData, sides: ExampleSides, source: str) -> DataFacts:
    sizes = {name: len(getattr(sides, name)) for name in SIDES}
    is_classes = sides.task == "classification"
    counts = np.bincount(sides.train.targets, minlength=len(sides.classes)) if is_classes else np.zeros(0, np.int64)
    return DataFacts(
        source=source,
        description=data.description,
        is_file=data.is_file,
        kind=data.kind,
        tokens="",
        fingerprint=data.fingerprint,
        vocab_size=len(sides.classes) if is_classes else 0,
        symbols=sides.classes[:256] if is_classes else (),
        items=sizes,
        n_tokens=sizes,
        notes=(*data.notes, *sides.notes),
        class_counts=tuple(counts[:256].tolist()),
        task=sides.task,
        target=sides.target,
        about=(_describe_inputs(sides),),
        split=sides.split,
        leaks=sides.leaks,
        dev_of_train=dev_of_train(data) if sizes["dev"] else 0.0,
    )


def _describe_inputs(sides: ExampleSides) -> str:
    """What a network reads of one example.

    A table's numbers include a place for each that may be missing.
    """
    shape = sides.preparation.numbers_shape
    if len(shape) == 3:
        colours = "gray" if shape[0] == 1 else "colour"
        return f"an image of {shape[2]}×{shape[1]} pixels, {colours}, {math.prod(shape):,} numbers"
    n_columns = len(sides.preparation.category_sizes)
    columns = f"{n_columns} categor{'y' if n_columns == 1 else 'ies'}"
    return f"{shape[0]:,} number{'s' * (shape[0] != 1)}" + f" and {columns}" * bool(n_columns)


@dataclass(frozen=True)
class ExampleTask(Task):
    """One answer for each row or image."""

    sides: ExampleSides
    facts: DataFacts
    data: TableData | ImagesData | PixelsData  # as they were read
    options: DataOptions

    is_causal = False
    worth = WORTH

    @property
    def measure(self) -> Measure:
        return MEASURES[self.sides.task]._replace(side="dev" if len(self.sides.dev) else "train")

    @property
    def judged(self) -> Examples:
        """What the network is judged on: dev, or train where nothing was held out."""
        return self.examples(self.measure.side)

    @property
    def default_loss(self) -> str:  # type: ignore[override]  # follows from the task
        return losses_for(self.sides.task)[0]

    @property
    def n_train(self) -> int:
        return len(self.sides.train)

    # A step of few rows costs as much less as it has fewer. In 10 seconds of a processor, batches of 64 rows gave test
    # an R² of 0.981, 0.242 and 0.287 where those of 256 gave 0.978, 0.240 and 0.275 (diamonds, movies, pharmacies).
    @property
    def wanted_steps(self) -> int:  # type: ignore[override]  # follows from the kind
        return ROW_STEPS if self.facts.kind == "table" else FEWEST_STEPS

    @property
    def smallest_batch(self) -> int:  # type: ignore[override]  # follows from the kind
        return ROW_BATCH if self.facts.kind == "table" else FEWEST_PREDICTIONS

    @property
    def inputs(self) -> ExampleShape:
        preparation = self.sides.preparation
        outputs = len(self.sides.classes) if self.sides.task == "classification" else 1
        return ExampleShape(preparation.numbers_shape, preparation.category_sizes, outputs)

    def find_card(self, name: str) -> NetworkCard:
        card = find_network(name, self.facts.kind)
        if name == "autoencoder" and self.sides.task != "reconstruction":
            raise PellucidError(
                "an autoencoder predicts no target", fix="Add {task}", options={"task": "reconstruction"}
            )
        if name != "autoencoder" and self.sides.task == "reconstruction":
            raise PellucidError(f"{name} gives no example back", fix="Choose {model}", options={"model": "autoencoder"})
        return card

    def make_config(self, card: NetworkCard, size: str) -> Any:
        return card.of_size(size, self.inputs)

    def build_network(self, card: NetworkCard, config: Any, plan: Plan) -> Network:
        network = super().build_network(card, config, plan)
        assert isinstance(network, ExampleModel)
        network.learn_inputs(torch.from_numpy(self.sides.train.numbers))
        return network

    @staticmethod
    def estimate_parameters(config: Any) -> int:
        """The first matrix, and those between the hidden layers; of networks for images their windows or blocks.

        >>> ExampleTask.estimate_parameters(find_network("logistic", "table").tiny) > 0
        True
        >>> ExampleTask.estimate_parameters(ResidualCNNConfig(numbers=(1, 32, 32), categories=(), outputs=10))
        98304
        """
        if isinstance(config, ResidualCNNConfig):
            channels = config.width << (config.stages - 1)
            return 24 * config.depth * channels**2  # two windows of 9 in each block, and a third more for all before
        if isinstance(config, CNNConfig):
            layers = zip((config.numbers[0], *config.filters), config.filters, config.kernels, strict=False)
            windows = sum(before * after * kernel**2 for before, after, kernel in layers)
            return windows + math.prod(config.stages()[-1].shape) * config.outputs
        if isinstance(config, ViTConfig):
            return config.width * (12 * config.depth * config.width + config.numbers[0] * config.patch**2)
        settings = dataclasses.asdict(config)
        widest = max([settings.get(name, 0) for name in ("width", "hidden", "latent", "channels", "outputs")])
        first = (math.prod(settings["numbers"]) + sum(settings["categories"])) * widest
        return int(first + 2 * settings.get("depth", 1) * widest**2)

    @property
    def max_batch_size(self) -> int:
        return self.n_train

    def make_batches(self, plan: Plan, *, is_fair: bool) -> SharedBatches:
        return ExampleBatches(self.sides.train, plan.batch_size, plan.seed, plan.shift)

    def dev_batches(self, batch_size: int, plan: Plan) -> Batches:
        return ExampleBatches(self.judged, batch_size, plan.seed)

    def split_batch(self, model: ExampleModel, batch: ExampleBatch) -> Inputs:
        return (batch.numbers, batch.codes), targets_of(model, batch)

    def loss(self, plan: Plan) -> ExampleLoss:
        return find_example_loss(plan.loss, self.sides.task)

    def loss_function(self, plan: Plan) -> LossFunction:
        """The mean loss of a batch, and the penalty on top of it where the plan has one."""
        losses, weigh = self.loss(plan).losses, self.mean_of(plan)

        def mean_loss(model: ExampleModel, batch: ExampleBatch) -> Tensor:
            scores = model.member_scores(batch.numbers, batch.codes)  # (batch, members, outputs)
            targets = targets_of(model, batch).repeat_interleave(scores.shape[1], dim=0)
            mean = weigh(losses(scores.flatten(0, 1), targets), targets)
            return mean + plan.strength * penalty(plan.penalty, model.parameters()) if plan.penalty else mean

        return mean_loss

    def mean_of(self, plan: Plan) -> Callable[[Tensor, Tensor], Tensor]:
        """The mean of losses, (examples,): of all, or where classes are balanced as if each were equally frequent.

        A class counts by one over how often train has it, as of scikit-learn's balanced class weights.
        """
        if plan.class_weights == "none":
            return lambda losses, targets: losses.mean()
        weights = self._class_weights

        def mean(losses: Tensor, targets: Tensor) -> Tensor:
            of_each = weights.to(targets.device)[targets]
            return (of_each * losses).sum() / of_each.sum()

        return mean

    def output_loss(self, plan: Plan) -> Callable[[Tensor, Tensor], Tensor]:
        losses, weigh = self.loss(plan).losses, self.mean_of(plan)
        return lambda outputs, targets: weigh(losses(outputs, targets), targets)

    @cached_property
    def train_part(self) -> Examples:
        """Of train, as large as dev, spread evenly over it; all of it where nothing was held out."""
        every = max(1, self.n_train // (len(self.sides.dev) or self.n_train))
        return self.sides.train.rows(slice(None, None, every))

    def examples(self, side: str) -> Examples:
        return self.train_part if side == "train" else getattr(self.sides, side)

    def _some(self, side: str, most: int) -> Examples:
        """Of a side at most so many, spread evenly over it; 0: all."""
        examples = self.examples(side)
        return examples.rows(slice(None, None, -(-len(examples) // most))) if 0 < most < len(examples) else examples

    @property
    def losses_without_a_network(self) -> tuple[float, float]:
        """The squared error on dev of saying 0, and of saying the mean of train, whatever is asked."""
        sizes, is_whole = self.sides.preparation.category_sizes, self.sides.task == "reconstruction"
        train, judged = (
            flatten_examples(side, sizes) if is_whole else side.targets[:, None]
            for side in (self.sides.train, self.judged)
        )
        return float((judged**2).mean()), float(((judged - train.mean(0)) ** 2).mean())

    def batch_weight(self, plan: Plan) -> Callable[[ExampleBatch], float]:
        if plan.class_weights == "none":
            return super().batch_weight(plan)
        weights = self._class_weights
        return lambda batch: float(weights[batch.targets.cpu()].sum())

    @cached_property
    def _class_weights(self) -> Tensor:
        """Of each class, one over how often train has it."""
        counts = np.bincount(self.sides.train.targets, minlength=len(self.sides.classes))
        return torch.from_numpy(self.n_train / (np.maximum(counts, 1) * len(counts))).float()

    def evaluate(self, model: ExampleModel, side: str, most: int = 0, world: World = ALONE) -> SideResult:
        """The mean loss of the usual kind for the task, whatever the plan makes small, and the metric."""
        scored = self.score_examples(model, self._some(side, most), world)
        losses = find_example_loss(self.default_loss, self.sides.task).losses
        loss = losses(scored.scores, scored.targets).mean(dtype=torch.float64).item()
        scores, targets = scored.scores.double().numpy(), scored.targets.double().numpy()
        units = metrics.class_units if self.sides.task == "classification" else metrics.number_units
        return SideResult(loss, self._metric(scores, targets), units(scores, targets))

    def evaluate_for(self, model: ExampleModel, side: str, plan: Plan, world: World = ALONE) -> SideResult:
        result = super().evaluate_for(model, side, plan, world)
        if plan.class_weights == "none":
            return result
        scored = self.score_examples(model, self._some(side, plan.evaluated), world)
        losses = find_example_loss(self.default_loss, self.sides.task).losses(scored.scores, scored.targets)
        return result._replace(loss=self.mean_of(plan)(losses.double(), scored.targets).item())

    def _metric(self, scores: Floats, targets: Floats) -> float:
        if self.sides.task == "classification":
            return metrics.accuracy(scores, targets.astype(np.int64))
        return metrics.r_squared(scores.reshape(targets.shape), targets)

    def check_initial_loss(self, loss: float, plan: Plan) -> InitialLoss:
        if self.sides.task == "classification":
            return initial_loss(loss, self.judged.targets, len(self.sides.classes))
        nothing, mean = self.losses_without_a_network
        is_well = math.isfinite(loss) and loss < NEAR_NOTHING * nothing
        start = "unsure" if is_well else "sure and wrong" if math.isfinite(loss) else "not finite"
        return InitialLoss(loss, nothing, mean, is_well, start)

    def preview(self, model: ExampleModel, plan: Plan) -> tuple[str, ...]:
        """A few examples from all of dev with their answers; the same ones each time."""
        every = max(1, len(self.judged) // PREVIEWED)
        some = self.judged.rows(slice(0, every * PREVIEWED, every))
        return preview_texts(self.sides, self.measure.side, self.score_examples(model, some), self.loss(plan))

    def answers(self, model: ExampleModel, plan: Plan) -> Answers:
        side = self.measure.side
        scored = {side: self.score_examples(model, self.examples(side)) for side in (side, "test")}
        return answers_of(self.sides, side, scored[side], scored["test"], self.loss(plan))

    def score_examples(self, model: ExampleModel, examples: Examples, world: World = ALONE) -> Scored:
        """What the network says of these examples, and what it should say; of a reconstructor also what is left.

        world: processes that score a part of them each.
        """
        if world.is_shared:
            return self._score_together(model, examples, world)
        scores, targets, latent = [], [], []
        for answer, batch in _passes(model, examples):
            scores.append(answer.cpu())
            targets.append(targets_of(model, batch).cpu())
            if isinstance(model, Reconstructor):
                latent.append(model.latent(batch.numbers, batch.codes).cpu())
        return Scored(
            examples,
            torch.cat(scores) if scores else torch.zeros(0, self.inputs.outputs),
            torch.cat(targets) if targets else torch.zeros(0),
            torch.cat(latent) if latent else torch.zeros(len(examples), 0),
        )

    def _score_together(self, model: ExampleModel, examples: Examples, world: World) -> Scored:
        """Each process scores every so-many-th pass, and all are told everything."""
        passes = [slice(first, first + AT_ONCE) for first in range(0, len(examples), AT_ONCE)]
        dealt = world.deal(passes, in_step=works_in_step(model))
        mine = {one.start: self.score_examples(model, examples.rows(one)) for one, _ in dealt}
        parts = {start: part for held in world.gather(mine) for start, part in held.items()}
        found = [parts[one.start] for one in passes]
        if not found:
            return self.score_examples(model, examples)
        return Scored(
            examples,
            torch.cat([part.scores for part in found]),
            torch.cat([part.targets for part in found]),
            torch.cat([part.latent for part in found]),
        )

    def fit_baselines(self, options: TrainOptions) -> Iterator[Baseline]:
        """Of a reconstruction with principal components: as many as the network's narrow place has numbers."""
        latent = 2
        if self.sides.task == "reconstruction":
            usual = self.make_config(self.find_card(options.model), options.size or self.suggest_size()).latent
            latent = int(options.network.get("latent", usual))
        yield from example_baselines(self.sides, self.train_part, latent)

    @property
    def can_fold(self) -> bool:
        """Whether its rows can be held out in parts: those that are divided by time, or were before, cannot."""
        split = self.sides.split
        is_divisible = split is not None and split.strategy not in NOT_FOLDED and not self.options.examples
        return is_divisible and self.sides.task != "reconstruction"

    @property
    def usual_folds(self) -> int:
        n_rows, n_columns = sum(self.facts.items.values()), math.prod(self.inputs.numbers) + len(self.inputs.categories)
        is_small = FEWEST_FOLDED <= n_rows < FOLDED_BELOW and n_columns <= MOST_FOLDED_COLUMNS
        return FOLDS if is_small and self.can_fold else 0

    def require_options(self, options: TrainOptions) -> None:
        if options.class_weights == "balanced" and self.sides.task != "classification":
            raise PellucidError(
                f"{self.sides.task} has no classes to weigh",
                fix="Leave {class_weights} out",
                options={"class_weights": None},
            )
        if options.folds and not self.can_fold:
            raise PellucidError(
                "rows that are divided by time, were divided before, are given back, or are too few to divide "
                "cannot be cross-validated",
                fix="Leave {folds} out",
                options={"folds": None},
            )

    def folds(self, n_folds: int) -> Iterator[ExampleTask]:
        """The same task once for each part of the rows: dev is that part, and train all others."""
        assert isinstance(self.data, TableData)
        for sides in fold_sides(self.data, self.sides, self.options, n_folds):
            yield dataclasses.replace(self, sides=sides)

    def separability(self, model: ExampleModel, plan: Plan, steps: int) -> Separability | None:
        if not isinstance(model, Logistic) or plan.loss != "cross-entropy":
            return None
        rows = flatten_examples(self.sides.train, self.sides.preparation.category_sizes).astype(np.float64)
        scores = self.score_examples(model, self.sides.train).scores.double().numpy()
        return measure_separability(rows, self.sides.train.targets, scores, plan, steps)

    def importances(self, model: ExampleModel, plan: Plan) -> tuple[Importance, ...]:
        if self.measure.side == "train":
            return ()  # what a few rows that were learned by heart lose tells nothing
        effects = permutation_effects(self, model, self.sides.dev, plan.seed)
        if self.sides.task == "regression":
            assert isinstance(self.sides.preparation, TablePreparation)
            variance = float(self.sides.dev.targets.var()) * self.sides.preparation.deviation**2
            effects = {name: effect / (variance or 1.0) for name, effect in effects.items()}
        return importances_of(effects, is_share=self.sides.task == "classification")

    def files(self, plan: Plan) -> Mapping[str, str | bytes]:
        train = self.sides.train
        hashes = example_hashes(train.numbers, train.codes)
        return {
            "preparation.json": json.dumps(preparation_to_json(self.sides.preparation), ensure_ascii=True),
            TRAINED_ON: np.unique(hashes).astype("<u8").tobytes(),
        }


def targets_of(model: ExampleModel, batch: ExampleBatch) -> Tensor:
    """What the scores should be: the targets, or the example itself."""
    return (
        model.reconstruction_target(batch.numbers, batch.codes) if isinstance(model, Reconstructor) else batch.targets
    )


def _passes(model: ExampleModel, examples: Examples) -> Iterator[tuple[Tensor, ExampleBatch]]:
    """The scores of all examples, in passes that memory holds."""
    device = device_of(model)
    with evaluating(model):
        for first in range(0, len(examples), AT_ONCE):
            batch = batch_to(make_example_batch(examples.rows(slice(first, first + AT_ONCE))), device)
            yield model(batch.numbers, batch.codes), batch
