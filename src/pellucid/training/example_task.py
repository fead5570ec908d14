"""Tables and images as a task: the class or the number of each example is to be foretold, or the example itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.data.examples import Examples, ExampleSides
from pellucid.errors import PellucidError
from pellucid.layers.losses import Loss, loss_called, losses_for, penalty
from pellucid.models.examples.contract import ExampleCard, ExampleModel, Inputs, Reconstructor, example_network_called
from pellucid.records import Answers, DataFacts, InitialLoss, Measure, Plan, Rung
from pellucid.training.answering import Scored, answers_of, texts_of
from pellucid.training.earning import sentence
from pellucid.training.example_batches import ExampleBatch, ExampleBatches
from pellucid.training.example_passes import passed, wanted
from pellucid.training.initial import initial_loss
from pellucid.training.measures import accuracy, r_squared
from pellucid.training.simple import one_rows, simple_models
from pellucid.training.simple_rungs import SimpleRung
from pellucid.training.sizes import WORTH_OF_EXAMPLES, rough_example_parameters, size_for
from pellucid.training.task import Ask, Baseline, Batches, Measured, Task
from pellucid.training.wishes import TrainingWishes, require_network

SHOWN = 5
NEAR_NOTHING = 1.5  # times its loss; a judgement, and the numbers are always shown
MEASURES: Mapping[str, Measure] = {
    "classification": Measure("nats an example", "accuracy", "simple models", "example"),
    "regression": Measure("squared error", "R²", "simple models", "example"),
    "reconstruction": Measure("squared error", "R²", "simple models", "example"),
}
Floats = npt.NDArray[Any]


@dataclass(frozen=True)
class ExampleTask(Task):
    """One answer for each row or image."""

    sides: ExampleSides
    facts: DataFacts

    @property
    def measure(self) -> Measure:
        return MEASURES[self.sides.task]

    @property
    def usual_loss(self) -> str:  # type: ignore[override]  # follows from the task
        return losses_for(self.sides.task)[0]

    @property
    def n_train(self) -> int:
        return len(self.sides.train)

    @property
    def inputs(self) -> Inputs:
        preparation = self.sides.preparation
        outputs = len(self.sides.classes) if self.sides.task == "classification" else 1
        return Inputs(preparation.numbers_shape, preparation.category_sizes, outputs)

    def card(self, name: str) -> ExampleCard:
        require_network(name, self.facts.kind)
        if name == "autoencoder" and self.sides.task != "reconstruction":
            raise PellucidError("an autoencoder predicts no target", fix="Add --task reconstruction")
        if name != "autoencoder" and self.sides.task == "reconstruction":
            raise PellucidError(f"{name} gives no example back", fix="Choose --model autoencoder")
        return example_network_called(name)

    def sized(self, card: ExampleCard, size: str) -> Any:
        return card.sized(size, self.inputs)

    def size(self) -> str:
        return size_for(self.n_train, WORTH_OF_EXAMPLES)

    def rough_parameters(self, config: Any) -> int:
        return rough_example_parameters(config)

    @property
    def most_rows(self) -> int:
        return self.n_train

    def batches(self, plan: Plan, *, is_fair: bool) -> Batches:
        return ExampleBatches(self.sides.train, plan.batch, plan.seed, plan.shift)

    def loss(self, plan: Plan) -> Loss:
        return loss_called(plan.loss, self.sides.task)

    def ask(self, plan: Plan) -> Ask:
        """The mean loss of a batch, and the penalty on top of it where the plan has one."""
        losses = self.loss(plan).losses

        def ask(model: ExampleModel, batch: ExampleBatch) -> Tensor:
            mean = losses(model(batch.numbers, batch.codes), wanted(model, batch)).mean()
            return mean + plan.strength * penalty(plan.penalty, model.parameters()) if plan.penalty else mean

        return ask

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
            one_rows(side, sizes) if is_whole else side.targets[:, None] for side in (self.sides.train, self.sides.dev)
        )
        return float((dev**2).mean()), float(((dev - train.mean(0)) ** 2).mean())

    def measured(self, model: ExampleModel, side: str) -> Measured:
        """The mean loss of the usual kind for the task, whatever the plan makes small, and the metric."""
        scored = self.scored(model, self.examples(side))
        losses = loss_called(self.usual_loss, self.sides.task).losses
        loss = losses(scored.scores, scored.targets).mean(dtype=torch.float64).item()
        return Measured(loss, self._metric(scored.scores.double().numpy(), scored.targets.double().numpy()))

    def _metric(self, scores: Floats, targets: Floats) -> float:
        if self.sides.task == "classification":
            return accuracy(scores, targets.astype(np.int64))
        return r_squared(scores.reshape(targets.shape), targets)

    def start(self, loss: float) -> InitialLoss:
        if self.sides.task == "classification":
            return initial_loss(loss, self.sides.dev.targets, len(self.sides.classes))
        nothing, mean = self.losses_without_a_network
        is_well = math.isfinite(loss) and loss < NEAR_NOTHING * nothing
        advice = "it starts near 0." if is_well else "it starts far from 0. Shrink the last layer's first weights."
        says = f"{loss:.4f}, where 0 for everything costs {nothing:.4f} and the mean of train {mean:.4f}: {advice}"
        return InitialLoss(loss, nothing, mean, is_well, says)

    def texts(self, model: ExampleModel, plan: Plan) -> tuple[str, ...]:
        """A few examples from all of dev with their answers; the same ones each time."""
        every = max(1, len(self.sides.dev) // SHOWN)
        some = self.sides.dev.rows(slice(0, every * SHOWN, every))
        return texts_of(self.sides, self.scored(model, some), self.loss(plan))

    def answers(self, model: ExampleModel, plan: Plan) -> Answers:
        scored = {side: self.scored(model, self.examples(side)) for side in ("dev", "test")}
        return answers_of(self.sides, scored["dev"], scored["test"], self.loss(plan))

    def scored(self, model: ExampleModel, examples: Examples) -> Scored:
        """What the network says of these examples, and what it should say; of a reconstructor also what is left."""
        scores, targets, latent = [], [], []
        for answer, batch in passed(model, examples):
            scores.append(answer)
            targets.append(wanted(model, batch))
            if isinstance(model, Reconstructor):
                latent.append(model.latent(batch.numbers, batch.codes))
        return Scored(
            examples,
            torch.cat(scores) if scores else torch.zeros(0, self.inputs.outputs),
            torch.cat(targets) if targets else torch.zeros(0),
            torch.cat(latent) if latent else torch.zeros(len(examples), 0),
        )

    def baselines(self, wishes: TrainingWishes) -> Iterator[Baseline]:
        """Of a reconstruction with principal components: as many as the network's narrow place has numbers."""
        latent = 2
        if self.sides.task == "reconstruction":
            usual = self.sized(self.card(wishes.model), wishes.size or self.size()).latent
            latent = int(wishes.network.get("latent", usual))
        for model in simple_models(self.sides, latent):
            yield SimpleRung(self, model)

    def sentence(self, rung: Rung, best: Rung) -> str:
        return sentence(rung, best, self.measure)

    def kept(self) -> Mapping[str, str]:
        return {"preparation.json": json.dumps(self.sides.preparation.to_json(), ensure_ascii=True)}
