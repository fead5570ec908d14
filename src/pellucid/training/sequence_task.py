"""Lists and texts as a task: every token is to be foretold from those before it, and counting is the bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pellucid.data.sides import Side, Sides
from pellucid.models.network import Recipe
from pellucid.models.neural import NeuralCard, SequenceModel, network_called
from pellucid.records import DataFacts, InitialLoss, Measure, Plan, Rung, Sample
from pellucid.training.baselines import Counted, baselines, bits_per_character
from pellucid.training.batches import batches_of
from pellucid.training.evaluation import loss_on
from pellucid.training.initial import initial_loss
from pellucid.training.loop import next_token
from pellucid.training.sizes import rough_sequence_parameters, size_for
from pellucid.training.speaking import samples_of, texts
from pellucid.training.task import Ask, Baseline, Batches, Measured, Task
from pellucid.training.wishes import TrainingWishes

SHOWN_SAMPLES, FINAL_SAMPLES = 5, 10
TOKENS_OF_AN_ITEM = 6  # a batch of a text holds as many tokens as one of short items


@dataclass(frozen=True)
class _Counted:
    """A count model with the sides that it was counted on."""

    counted: Counted
    sides: Sides

    @property
    def rung(self) -> Rung:
        return self.counted.rung

    def with_test(self) -> Rung:
        return self.counted.with_test(self.sides)


@dataclass(frozen=True)
class SequenceTask(Task):
    """The next token of a list's items or of a text's windows."""

    sides: Sides
    facts: DataFacts
    context: int

    @property
    def measure(self) -> Measure:
        return Measure()

    @property
    def n_train(self) -> int:
        return self.sides.train.n_predicted

    @cached_property
    def train_part(self) -> Side:
        """Of train, as large as dev, on which the training loss is measured."""
        return part_of(self.sides.train, self.sides.dev.n_predicted)

    def card(self, name: str) -> NeuralCard:
        return network_called(name)

    def sized(self, card: NeuralCard, size: str) -> Any:
        return card.sized(size, len(self.sides.vocabulary), self.context)

    def size(self) -> str:
        return size_for(self.n_train)

    def rough_parameters(self, config: Any) -> int:
        return rough_sequence_parameters(config)

    @property
    def most_rows(self) -> int:
        is_list = self.sides.train.has_boundary
        return len(self.sides.train_items) if is_list else max(1, self.n_train // self.context)

    def batch_for(self, recipe: Recipe) -> int:
        """Items, or windows that hold as many tokens."""
        is_list = self.sides.train.has_boundary
        wanted = recipe.batch if is_list else recipe.batch * TOKENS_OF_AN_ITEM // self.context
        return max(1, min(wanted, self.most_rows))

    def batches(self, plan: Plan, *, is_fair: bool) -> Batches:
        return batches_of(self.sides.train, plan.batch, plan.context, plan.seed, by_length=not is_fair)

    def ask(self, plan: Plan) -> Ask:
        return next_token

    def measured(self, model: SequenceModel, side: str) -> Measured:
        part = self.train_part if side == "train" else getattr(self.sides, side)
        return Measured(loss_on(model, part, self.context).nats)

    def start(self, loss: float) -> InitialLoss:
        return initial_loss(loss, self.sides.dev.tokens[1:], len(self.sides.vocabulary))

    def texts(self, model: SequenceModel, plan: Plan) -> tuple[str, ...]:
        return texts(model, self.sides, SHOWN_SAMPLES, plan.seed)

    def samples(self, model: SequenceModel, plan: Plan) -> tuple[Sample, ...]:
        return samples_of(model, self.sides, FINAL_SAMPLES, plan.seed)

    def baselines(self, wishes: TrainingWishes) -> Iterator[Baseline]:
        for counted in baselines(self.sides):
            yield _Counted(counted, self.sides)

    def sentence(self, rung: Rung, best: Rung) -> str:
        return sentence(rung, best)

    def kept(self) -> Mapping[str, str]:
        import json

        return {"vocabulary.json": json.dumps(self.sides.vocabulary.to_json(), ensure_ascii=True)}

    def bits_per_character(self, loss: float) -> float:
        return bits_per_character(loss, self.sides)


def part_of(side: Side, n_predicted: int) -> Side:
    """As much of a side as that, spread evenly over it: whole items of a list, or eight stretches of a text.

    >>> part_of(Side(np.array([0, 1, 0, 2, 2, 0, 3, 0, 4, 0]), True), 5).tokens.tolist()
    [0, 1, 0, 3, 0]
    """
    if n_predicted >= side.n_predicted:
        return side
    if not side.has_boundary:
        length = max(2, n_predicted // 8)
        starts = np.linspace(0, len(side.tokens) - length, 8).astype(int)
        return Side(np.concatenate([side.tokens[start : start + length] for start in starts]), False)
    ends = np.flatnonzero(side.tokens == 0)
    every = -(-side.n_predicted // n_predicted)
    items = [side.tokens[ends[i] : ends[i + 1]] for i in range(0, len(ends) - 1, every)]
    return Side(np.concatenate([*items, side.tokens[:1]]), True)


def sentence(rung: Rung, best_count: Rung) -> str:
    """What the network earns over counting, or that it earns nothing; on dev, and on test where there is one.

    >>> network = Rung("transformer", False, 200_064, 1.8, 1.88, 1.89, 2.7, 60.0, 9e4)
    >>> print(sentence(network, Rung("Kneser–Ney 6-gram", True, 7, 1.6, 1.96, 1.95, 2.8, 1.0, None)))
    The transformer earns 0.080 nats a token over counting (1.8800 against the Kneser–Ney 6-gram's 1.9600 on dev; on
    test 0.060).
    """
    gap = best_count.dev - rung.dev
    against = f"{rung.dev:.4f} against the {best_count.name}'s {best_count.dev:.4f} on dev"
    on_test = ""
    if rung.test is not None and best_count.test is not None:
        on_test = f"; on test {best_count.test - rung.test:.3f}"
    if gap <= 0:
        return (
            f"The {rung.name} earns nothing over counting: it is {-gap:.3f} nats a token behind ({against}{on_test})."
        )
    return f"The {rung.name} earns {gap:.3f} nats a token over counting ({against}{on_test})."
