"""Tables and images as a task: the class or the number of each example is to be predicted, or the example itself.

What a network answers becomes records: how often it is right, what it confuses, and its worst mistakes.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.data import ImagesData, PixelsData, TableData
from pellucid.data.options import DataOptions
from pellucid.data.prepare import (
    Examples,
    ExampleSides,
    ImagePreparation,
    TablePreparation,
    image_sides,
    preparation_to_json,
    table_sides,
)
from pellucid.data.splits import SIDES
from pellucid.errors import PellucidError
from pellucid.layers.losses import ExampleLoss, find_example_loss, losses_for, penalty
from pellucid.models.catalogue import NetworkCard, find_network
from pellucid.models.contracts import ExampleModel, Network, Reconstructor
from pellucid.models.examples.configs import ExampleShape
from pellucid.records import AnsweredExample, Answers, DataFacts, InitialLoss, LatentPoint, Measure, Plan
from pellucid.training.options import TrainOptions
from pellucid.training.tasks import metrics
from pellucid.training.tasks.baselines import Baseline, SideResult, example_baselines
from pellucid.training.tasks.batches import ExampleBatch, ExampleBatches, make_example_batch
from pellucid.training.tasks.simple_models import flatten_examples
from pellucid.training.tasks.task import Batches, Inputs, LossFunction, Task, evaluating, initial_loss

# Examples of train from which on a size is worth its weights.
WORTH: Mapping[str, int] = {"tiny": 0, "small": 1_000, "medium": 10_000, "large": 200_000}
PREVIEWED = 5
AT_ONCE = 512  # examples of one pass that is not learned from
MOST_SHOWN = 24  # examples in a report
MOST_POINTS = 1_000  # of a regression or of a latent picture
MOST_PIXELS = 64 * 64  # of an image in a report
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
        sides = sides.limited(options.examples)
    return ExampleTask(sides, _describe_data(data, sides, source))


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

    is_causal = False
    worth = WORTH

    @property
    def measure(self) -> Measure:
        return MEASURES[self.sides.task]

    @property
    def default_loss(self) -> str:  # type: ignore[override]  # follows from the task
        return losses_for(self.sides.task)[0]

    @property
    def n_train(self) -> int:
        return len(self.sides.train)

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
        return card.sized(size, self.inputs)

    def build_network(self, card: NetworkCard, config: Any, plan: Plan) -> Network:
        network = super().build_network(card, config, plan)
        assert isinstance(network, ExampleModel)
        network.learn_inputs(torch.from_numpy(self.sides.train.numbers))
        return network

    @staticmethod
    def estimate_parameters(config: Any) -> int:
        """The first matrix, and those between the hidden layers.

        >>> ExampleTask.estimate_parameters(find_network("logistic", "table").tiny) > 0
        True
        """
        settings = dataclasses.asdict(config)
        widest = max([settings.get(name, 0) for name in ("width", "hidden", "latent", "channels", "outputs")])
        first = (math.prod(settings["numbers"]) + sum(settings["categories"])) * widest
        return int(first + (12 if "n_heads" in settings else 2) * settings.get("depth", 1) * widest**2)

    @property
    def max_batch_size(self) -> int:
        return self.n_train

    def make_batches(self, plan: Plan, *, is_fair: bool) -> Batches:
        return ExampleBatches(self.sides.train, plan.batch_size, plan.seed, plan.shift)

    def dev_batches(self, batch_size: int, plan: Plan) -> Batches:
        return ExampleBatches(self.sides.dev, batch_size, plan.seed)

    def split_batch(self, model: ExampleModel, batch: ExampleBatch) -> Inputs:
        return (batch.numbers, batch.codes), targets_of(model, batch)

    def loss(self, plan: Plan) -> ExampleLoss:
        return find_example_loss(plan.loss, self.sides.task)

    def loss_function(self, plan: Plan) -> LossFunction:
        """The mean loss of a batch, and the penalty on top of it where the plan has one."""
        losses = self.loss(plan).losses

        def mean_loss(model: ExampleModel, batch: ExampleBatch) -> Tensor:
            scores = model.member_scores(batch.numbers, batch.codes)  # (batch, members, outputs)
            targets = targets_of(model, batch).repeat_interleave(scores.shape[1], dim=0)
            mean = losses(scores.flatten(0, 1), targets).mean()
            return mean + plan.strength * penalty(plan.penalty, model.parameters()) if plan.penalty else mean

        return mean_loss

    def output_loss(self, plan: Plan) -> Callable[[Tensor, Tensor], Tensor]:
        losses = self.loss(plan).losses
        return lambda outputs, targets: losses(outputs, targets).mean()

    @cached_property
    def train_part(self) -> Examples:
        """Of train, as large as dev, spread evenly over it."""
        every = max(1, self.n_train // max(1, len(self.sides.dev)))
        return self.sides.train.rows(slice(None, None, every))

    def examples(self, side: str) -> Examples:
        return self.train_part if side == "train" else getattr(self.sides, side)

    @property
    def losses_without_a_network(self) -> tuple[float, float]:
        """The squared error on dev of saying 0, and of saying the mean of train, whatever is asked."""
        sizes, is_whole = self.sides.preparation.category_sizes, self.sides.task == "reconstruction"
        train, dev = (
            flatten_examples(side, sizes) if is_whole else side.targets[:, None]
            for side in (self.sides.train, self.sides.dev)
        )
        return float((dev**2).mean()), float(((dev - train.mean(0)) ** 2).mean())

    def evaluate(self, model: ExampleModel, side: str, most: int = 0) -> SideResult:
        """The mean loss of the usual kind for the task, whatever the plan makes small, and the metric."""
        examples = self.examples(side)
        if most and most < len(examples):
            examples = examples.rows(slice(None, None, -(-len(examples) // most)))
        scored = self.score_examples(model, examples)
        losses = find_example_loss(self.default_loss, self.sides.task).losses
        loss = losses(scored.scores, scored.targets).mean(dtype=torch.float64).item()
        scores, targets = scored.scores.double().numpy(), scored.targets.double().numpy()
        units = metrics.class_units if self.sides.task == "classification" else metrics.number_units
        return SideResult(loss, self._metric(scores, targets), units(scores, targets))

    def _metric(self, scores: Floats, targets: Floats) -> float:
        if self.sides.task == "classification":
            return metrics.accuracy(scores, targets.astype(np.int64))
        return metrics.r_squared(scores.reshape(targets.shape), targets)

    def check_initial_loss(self, loss: float, plan: Plan) -> InitialLoss:
        if self.sides.task == "classification":
            return initial_loss(loss, self.sides.dev.targets, len(self.sides.classes))
        nothing, mean = self.losses_without_a_network
        is_well = math.isfinite(loss) and loss < NEAR_NOTHING * nothing
        start = "unsure" if is_well else "sure and wrong" if math.isfinite(loss) else "not finite"
        return InitialLoss(loss, nothing, mean, is_well, start)

    def preview(self, model: ExampleModel, plan: Plan) -> tuple[str, ...]:
        """A few examples from all of dev with their answers; the same ones each time."""
        every = max(1, len(self.sides.dev) // PREVIEWED)
        some = self.sides.dev.rows(slice(0, every * PREVIEWED, every))
        return preview_texts(self.sides, self.score_examples(model, some), self.loss(plan))

    def answers(self, model: ExampleModel, plan: Plan) -> Answers:
        scored = {side: self.score_examples(model, self.examples(side)) for side in ("dev", "test")}
        return answers_of(self.sides, scored["dev"], scored["test"], self.loss(plan))

    def score_examples(self, model: ExampleModel, examples: Examples) -> Scored:
        """What the network says of these examples, and what it should say; of a reconstructor also what is left."""
        scores, targets, latent = [], [], []
        for answer, batch in _passes(model, examples):
            scores.append(answer)
            targets.append(targets_of(model, batch))
            if isinstance(model, Reconstructor):
                latent.append(model.latent(batch.numbers, batch.codes))
        return Scored(
            examples,
            torch.cat(scores) if scores else torch.zeros(0, self.inputs.outputs),
            torch.cat(targets) if targets else torch.zeros(0),
            torch.cat(latent) if latent else torch.zeros(len(examples), 0),
        )

    def fit_baselines(self, options: TrainOptions) -> Iterator[Baseline]:
        """Of a reconstruction with principal components: as many as the network's narrow place has numbers."""
        latent = 2
        if self.sides.task == "reconstruction":
            usual = self.make_config(self.find_card(options.model), options.size or self.suggest_size()).latent
            latent = int(options.network.get("latent", usual))
        yield from example_baselines(self.sides, self.train_part, latent)

    def files(self, plan: Plan) -> Mapping[str, str | bytes]:
        return {"preparation.json": json.dumps(preparation_to_json(self.sides.preparation), ensure_ascii=True)}


def targets_of(model: ExampleModel, batch: ExampleBatch) -> Tensor:
    """What the scores should be: the targets, or the example itself."""
    return (
        model.reconstruction_target(batch.numbers, batch.codes) if isinstance(model, Reconstructor) else batch.targets
    )


def _passes(model: ExampleModel, examples: Examples) -> Iterator[tuple[Tensor, ExampleBatch]]:
    """The scores of all examples, in passes that memory holds."""
    with evaluating(model):
        for first in range(0, len(examples), AT_ONCE):
            batch = make_example_batch(examples.rows(slice(first, first + AT_ONCE)))
            yield model(batch.numbers, batch.codes), batch


class Scored(NamedTuple):
    """Examples with what was said and what should have been; of a reconstructor, what was left in between."""

    examples: Examples
    scores: Tensor  # (examples, outputs)
    targets: Tensor  # (examples,), or (examples, features)
    latent: Tensor  # (examples, latent); no columns where there is no narrow place


def preview_texts(sides: ExampleSides, scored: Scored, loss: ExampleLoss) -> tuple[str, ...]:
    """Each example as truth → answer, with the answer's probability where there is one."""
    if sides.task == "reconstruction":
        errors = (scored.scores - scored.targets).square().mean(1)
        return tuple(f"error {error:.3f}" for error in errors.tolist())
    return tuple(
        f"{one.truth} → {one.answer}" + (f" ({one.probability:.2f})" if one.probability is not None else "")
        for one in _describe_answers(sides, scored, loss, np.arange(len(scored.examples)), "dev")
    )


def answers_of(sides: ExampleSides, dev: Scored, test: Scored, loss: ExampleLoss) -> Answers:
    """Everything that is told of the answers on dev, and the numbers on test."""
    worst = loss.losses(dev.scores, dev.targets).argsort(descending=True, stable=True)[:MOST_SHOWN].numpy()
    common: dict[str, Any] = {
        "n": len(dev.examples),
        "metrics": metrics_of(sides, dev, loss),
        "test_metrics": metrics_of(sides, test, loss) if len(test.examples) else {},
        "examples": _describe_answers(sides, dev, loss, worst, "dev"),
        "n_unknown": sides.n_unknown,
    }
    if sides.task == "reconstruction":
        return Answers(**common, latent=latent_points(sides, dev))
    if sides.task == "regression":
        truth, said = (_in_units(sides, part.numpy()) for part in (dev.targets, dev.scores))
        points = list(zip(truth.tolist(), said.tolist(), strict=True))[:MOST_POINTS]
        return Answers(**common, points=tuple(points))
    classes, likely = dev.targets.numpy(), dev.scores.argmax(1).numpy()
    confusion, calibration = metrics.confusion(likely, classes, sides.classes), None
    if loss.probabilities:
        calibration = metrics.calibration(class_probabilities(dev.scores, loss).max(1), likely == classes)
    return Answers(**common, confusion=confusion, calibration=calibration)


def class_probabilities(scores: Tensor, loss: ExampleLoss) -> Floats:
    """(examples, classes), in double precision, so that small ones do not vanish."""
    assert loss.probabilities is not None, f"{loss.name} has no probabilities"
    found: Floats = loss.probabilities(scores.double()).numpy()
    return found


def metrics_of(sides: ExampleSides, scored: Scored, loss: ExampleLoss) -> dict[str, float]:
    """The numbers by which a network is judged on a side, by name."""
    if sides.task == "classification":
        truth = scored.targets.numpy()
        found = {"accuracy": metrics.accuracy(scored.scores.numpy(), truth)}
        if loss.probabilities:
            found["log loss"] = metrics.log_loss(class_probabilities(scored.scores, loss), truth)
        return found
    said, truth = scored.scores.double().numpy(), scored.targets.double().numpy()
    found = {"R²": metrics.r_squared(said.reshape(truth.shape), truth)}
    if sides.task == "regression":
        said, truth = _in_units(sides, said), _in_units(sides, truth)
        found["MAE"] = metrics.mean_absolute_error(said, truth)
        found["RMSE"] = metrics.root_mean_squared_error(said, truth)
    return found


def _in_units(sides: ExampleSides, values: Floats) -> Floats:
    """Numbers of a regression as the table has them: (examples,)."""
    assert isinstance(sides.preparation, TablePreparation)
    found: Floats = sides.preparation.in_units(values.reshape(-1))
    return found


def _describe_answers(
    sides: ExampleSides, scored: Scored, loss: ExampleLoss, rows: npt.NDArray[Any], side: str
) -> tuple[AnsweredExample, ...]:
    noun = "image" if isinstance(sides.preparation, ImagePreparation) else "row"
    names = [f"{noun} {int(sides.places[side][row]) + 1:,}" for row in rows]
    if sides.task == "reconstruction":
        return _describe_reconstructions(sides, scored, rows, names)
    if sides.task == "regression":
        truth, said = (_in_units(sides, part.numpy()) for part in (scored.targets, scored.scores))
        return tuple(
            AnsweredExample(
                name, f"{truth[row]:,.6g}", f"{said[row]:,.6g}", None, bool(abs(truth[row] - said[row]) < 1e-9)
            )
            for name, row in zip(names, rows, strict=True)
        )
    likely = scored.scores.argmax(1).tolist()
    chances = class_probabilities(scored.scores, loss) if loss.probabilities else None
    return tuple(
        AnsweredExample(
            what=name,
            truth=sides.classes[int(scored.targets[row])],
            answer=sides.classes[likely[row]],
            probability=float(chances[row, likely[row]]) if chances is not None else None,
            is_right=likely[row] == int(scored.targets[row]),
            pixels=gray(sides.preparation, scored.examples.numbers[row]),
        )
        for name, row in zip(names, rows.tolist(), strict=True)
    )


def _describe_reconstructions(
    sides: ExampleSides, scored: Scored, rows: npt.NDArray[Any], names: Sequence[str]
) -> tuple[AnsweredExample, ...]:
    errors = (scored.scores - scored.targets).square().mean(1).tolist()
    shape = scored.examples.numbers.shape[1:]
    found = []
    for name, row in zip(names, rows.tolist(), strict=True):
        label = sides.classes[int(scored.examples.targets[row])] if sides.classes else ""
        numbers = scored.examples.numbers[row]
        back = scored.scores[row].numpy().reshape(shape) if len(shape) == 3 else numbers[:0]
        before, after = gray(sides.preparation, numbers), gray(sides.preparation, back)
        found.append(AnsweredExample(name, label, f"error {errors[row]:.3f}", None, False, before, after))
    return tuple(found)


def gray(preparation: object, numbers: Floats) -> tuple[tuple[int, ...], ...]:
    """A standardised image as gray pixels, 0 to 255; nothing where it is none, or too large to be shown."""
    if not isinstance(preparation, ImagePreparation) or numbers.ndim != 3 or numbers[0].size > MOST_PIXELS:
        return ()
    mean, deviation = (np.array(part).reshape(-1, 1, 1) for part in (preparation.mean, preparation.deviation))
    levels = np.clip(np.rint(numbers * deviation + mean), 0, 255).mean(0)  # of the channels: (height, width)
    return tuple(tuple(int(level) for level in row) for row in levels)


def latent_points(sides: ExampleSides, scored: Scored) -> tuple[LatentPoint, ...]:
    """Where examples went in the narrow place: its first two principal axes, or itself where it has but two."""
    points = scored.latent[:MOST_POINTS].double()
    if not len(points) or not points.shape[1]:
        return ()
    middle = points - points.mean(0)
    if points.shape[1] > 2:
        _, _, axes = torch.linalg.svd(middle, full_matrices=False)
        # The sign of an axis is left to chance by the algorithm: the largest part of each is made positive.
        axes = axes[:2] * axes[:2].gather(1, axes[:2].abs().argmax(1, keepdim=True)).sign()
        flat = middle @ axes.T
    else:
        flat = torch.nn.functional.pad(points, (0, 2 - points.shape[1]))
    targets = scored.examples.targets[:MOST_POINTS]
    labels = [sides.classes[int(target)] if sides.classes else "" for target in targets]
    return tuple(LatentPoint(x, y, label) for (x, y), label in zip(flat.tolist(), labels, strict=True))
