"""Pairs as a task: a source is read, and its target is to be written, letter by letter."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pellucid.data import PairsData
from pellucid.data.examples import PairSides, pair_sides
from pellucid.data.splits import SIDES
from pellucid.errors import PellucidError
from pellucid.models.pairs.answering import answers
from pellucid.models.pairs.contract import PairCard, PairModel, pair_network_called
from pellucid.models.pairs.sources import padded
from pellucid.records import Answered, Answers, DataFacts, InitialLoss, Measure, Plan, Rung
from pellucid.training.batches import IGNORED
from pellucid.training.earning import sentence
from pellucid.training.initial import initial_loss
from pellucid.training.measures import exact_match, tokens_right
from pellucid.training.pair_batches import PairBatch, PairBatches, together
from pellucid.training.simple import SimplePairModel, simple_pair_models
from pellucid.training.sizes import rough_pair_parameters, size_for
from pellucid.training.task import Ask, Baseline, Batches, Measured, Task
from pellucid.training.wishes import TrainingWishes

AT_ONCE = 256  # pairs of one pass that is not learned from
MEASURE = Measure("nats a token", "exact match", "simple models", "token")
SHOWN, MOST_SHOWN = 5, 40


def pair_task(data: PairsData, source: str) -> PairTask:
    """Divide the pairs by their sources, and say what was found."""
    sides = pair_sides(data)
    for name in SIDES[:2]:
        if not getattr(sides, name):
            raise PellucidError(
                f"{data.name} has {len(data):,} pairs, too few for a {name} side", fix="Give it about 30 or more"
            )
    facts = DataFacts(
        source=source,
        said=data.said,
        kind="pairs",
        tokens="characters",
        fingerprint=data.fingerprint,
        vocab_size=len(sides.vocabulary),
        symbols=tuple(sides.vocabulary.tokens[:256]),
        items={name: len(getattr(sides, name)) for name in SIDES},
        n_tokens={name: sum(len(target) + 1 for _, target in getattr(sides, name)) for name in SIDES},
        notes=data.notes,
        first=tuple(f"{before} → {after}" for before, after in sides.texts["train"][:12]),
        about=(f"sources of up to {sides.longest_source} letters, targets of up to {sides.longest_target}",),
    )
    return PairTask(sides, facts)


@dataclass(frozen=True)
class PairTask(Task):
    """The target of each source."""

    sides: PairSides
    facts: DataFacts

    @property
    def measure(self) -> Measure:
        return MEASURE

    @property
    def n_train(self) -> int:
        return self.facts.n_tokens["train"]

    def card(self, name: str) -> PairCard:
        return pair_network_called(name)

    def sized(self, card: PairCard, size: str) -> Any:
        return card.sized(size, len(self.sides.vocabulary), self.sides.longest_source, self.sides.longest_target)

    def size(self) -> str:
        return size_for(self.n_train)

    def rough_parameters(self, config: Any) -> int:
        return rough_pair_parameters(config)

    @property
    def most_rows(self) -> int:
        return len(self.sides.train)

    def batches(self, plan: Plan, *, is_fair: bool) -> Batches:
        return PairBatches(self.sides.train, plan.batch, plan.seed)

    def ask(self, plan: Plan) -> Ask:
        return next_target

    @cached_property
    def train_part(self) -> Sequence[tuple[list[int], list[int]]]:
        """Of train, as many as dev has, spread evenly over it."""
        return self.sides.train[:: max(1, len(self.sides.train) // len(self.sides.dev))]

    def measured(self, model: PairModel, side: str) -> Measured:
        """The loss of every token of the targets. Whole answers are only written at the end: they take much longer."""
        pairs = self.train_part if side == "train" else getattr(self.sides, side)
        was_training = model.training
        model.eval()
        total, n_tokens = 0.0, 0
        try:
            with torch.inference_mode():
                for first in range(0, len(pairs), AT_ONCE):
                    batch = together(pairs[first : first + AT_ONCE])
                    scores = model(batch.sources, batch.tokens).flatten(0, 1)
                    losses = functional.cross_entropy(
                        scores, batch.targets.flatten(), ignore_index=IGNORED, reduction="sum"
                    )
                    total += losses.double().item()
                    n_tokens += batch.n_tokens
        finally:
            model.train(was_training)
        return Measured(total / n_tokens if n_tokens else math.nan)

    def start(self, loss: float) -> InitialLoss:
        targets = np.array([token for _, target in self.sides.dev for token in (*target, 0)])
        return initial_loss(loss, targets, len(self.sides.vocabulary))

    def texts(self, model: PairModel, plan: Plan) -> tuple[str, ...]:
        pairs = self.sides.texts["dev"][:SHOWN]
        said = self.answered(model, [source for source, _ in self.sides.dev[:SHOWN]])
        return tuple(f"{before} → {answer}" for (before, _), answer in zip(pairs, said, strict=True))

    def answered(self, model: PairModel, sources: Sequence[Sequence[int]]) -> list[str]:
        """What the network writes for each source, by the likeliest token each time."""
        decode = self.sides.vocabulary.decode
        return [decode(answer) for answer in answers(model, padded(sources))] if sources else []

    def answers(self, model: PairModel, plan: Plan) -> Answers:
        said = {
            side: self.answered(model, [source for source, _ in getattr(self.sides, side)]) for side in ("dev", "test")
        }
        metrics = {side: pair_metrics(said[side], [after for _, after in self.sides.texts[side]]) for side in said}
        pairs = self.sides.texts["dev"]
        shown = sorted(range(len(pairs)), key=lambda row: said["dev"][row] == pairs[row][1])[:MOST_SHOWN]
        examples = tuple(
            Answered(pairs[row][0], pairs[row][1], said["dev"][row], None, said["dev"][row] == pairs[row][1])
            for row in shown
        )
        return Answers(len(pairs), metrics["dev"], metrics["test"], examples=examples)

    def baselines(self, wishes: TrainingWishes) -> Iterator[Baseline]:
        for model in simple_pair_models(self.sides):
            yield SimplePair(self.sides, model)

    def sentence(self, rung: Rung, best: Rung) -> str:
        return sentence(rung, best, self.measure)

    def kept(self) -> Mapping[str, str]:
        return {"vocabulary.json": json.dumps(self.sides.vocabulary.to_json(), ensure_ascii=True)}


def next_target(model: PairModel, batch: PairBatch) -> Tensor:
    """The mean loss over the tokens of the targets, each told the ones before it."""
    scores = model(batch.sources, batch.tokens)
    return functional.cross_entropy(scores.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)


def pair_metrics(said: Sequence[str], truth: Sequence[str]) -> dict[str, float]:
    """How many answers are right as a whole, and letter by letter; nothing where there is no answer."""
    if not truth:
        return {}
    return {"exact match": exact_match(said, truth), "letters right": tokens_right(said, truth)}


@dataclass(frozen=True)
class SimplePair:
    """A way to answer without a network. It has no probabilities, and so no loss."""

    sides: PairSides
    model: SimplePairModel

    @cached_property
    def rung(self) -> Rung:
        began = time.perf_counter()
        return Rung(
            name=self.model.name,
            is_counted=True,
            parameters=self.model.n_parameters,
            train=math.nan,
            dev=math.nan,
            test=None,
            bits_per_character=math.nan,
            metric=self._matched("dev"),
            seconds=self.model.seconds + time.perf_counter() - began,
            tokens_per_second=None,
        )

    def with_test(self) -> Rung:
        return self.rung._replace(test_metric=self._matched("test")) if self.sides.test else self.rung

    def _matched(self, side: str) -> float:
        pairs = self.sides.texts[side]
        return exact_match(self.model.answers([source for source, _ in pairs]), [target for _, target in pairs])
