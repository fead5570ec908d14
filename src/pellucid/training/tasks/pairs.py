"""Pairs as a task: a source is read, and its target is to be written, letter by letter."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from pellucid.data import PairsData
from pellucid.data.pair_vocabularies import LettersToChanges, LettersToWords
from pellucid.data.prepare import PairSides, pair_sides
from pellucid.data.splits import SIDES, dev_of_train
from pellucid.decoding.novelty import edit_distances
from pellucid.errors import PellucidError
from pellucid.models.catalogue import NetworkCard, find_network
from pellucid.models.contracts import PairModel
from pellucid.models.pairs.padding import pad_rows
from pellucid.models.settings import SIZES
from pellucid.models.stepwise import greedy_answers
from pellucid.records import AnsweredExample, Answers, DataFacts, InitialLoss, Measure, Plan
from pellucid.training.distributed import ALONE, World
from pellucid.training.loop import mean_token_loss
from pellucid.training.options import TrainOptions
from pellucid.training.sharding import works_in_step
from pellucid.training.tasks.baselines import Baseline, SideResult, pair_baselines
from pellucid.training.tasks.batches import IGNORED, PairBatch, PairBatches, make_pair_batch
from pellucid.training.tasks.metrics import exact_match, match_units, tokens_right
from pellucid.training.tasks.task import (
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

AT_ONCE = 256  # pairs of one pass that is not learned from
MEASURE = Measure("nats", "exact match", "simple models", "token")
PREVIEWED, MOST_SHOWN = 5, 40
TIMED = 128  # pairs, to foretell how long all answers will take to write


def open_pairs(data: PairsData, source: str, targets: str = "") -> PairTask:
    """Split the pairs by their sources, and say what was found. targets: how they are written; "": as suits them."""
    sides = pair_sides(data, targets)
    for name in SIDES[:2]:
        if not getattr(sides, name):
            raise PellucidError(
                f"{data.name} has {len(data):,} pairs, too few for a {name} side", fix="Give it about 30 or more"
            )
    facts = DataFacts(
        source=source,
        description=data.description,
        is_file=data.is_file,
        kind="pairs",
        tokens=sides.vocabulary.kind.replace("-", " "),
        fingerprint=data.fingerprint,
        vocab_size=len(sides.vocabulary),
        symbols=tuple(sides.vocabulary.tokens[:256]),
        items={name: len(getattr(sides, name)) for name in SIDES},
        n_tokens={name: sum(len(target) + 1 for _, target in getattr(sides, name)) for name in SIDES},
        notes=data.notes,
        first_pairs=tuple((before, after) for before, after in sides.texts["train"][:12]),
        about=_about(sides),
        dev_of_train=dev_of_train(data),
    )
    return PairTask(sides, facts)


def _about(sides: PairSides) -> tuple[str, ...]:
    """What a network reads and writes."""
    vocabulary = sides.vocabulary
    sources = f"sources of up to {sides.longest_source - vocabulary.n_beside} letters"
    if isinstance(vocabulary, LettersToWords):
        return (f"{sources}, targets of up to {sides.longest_target} of {len(vocabulary.words)} words, each a token",)
    if isinstance(vocabulary, LettersToChanges):
        return (
            f"{sources}, and what the longest known ending of each would become",
            f"targets as changes of their sources, of up to {sides.longest_target - 1} letters",
        )
    return (f"{sources}, targets of up to {sides.longest_target}",)


@dataclass(frozen=True)
class PairTask(Task):
    """The target of each source."""

    sides: PairSides
    facts: DataFacts
    written: WeakKeyDictionary[PairModel, dict[str, list[str]]] = field(default_factory=WeakKeyDictionary, repr=False)

    @property
    def measure(self) -> Measure:
        return MEASURE

    @property
    def has_words(self) -> bool:
        """Whether targets are written in words, of which each is a token."""
        return isinstance(self.sides.vocabulary, LettersToWords)

    @property
    def n_train(self) -> int:
        return self.facts.n_tokens["train"]

    def find_card(self, name: str) -> NetworkCard:
        return find_network(name, "pairs")

    def suggest_size(self) -> str:
        """By the letters of the targets, however they are written: what there is to learn is the same."""
        n_letters = sum(len(target) + 1 for _, target in self.sides.texts["train"])
        return [size for size in SIZES if n_letters >= self.worth[size]][-1]

    def make_config(self, card: NetworkCard, size: str) -> Any:
        return card.of_size(size, len(self.sides.vocabulary), self.sides.longest_source, self.sides.longest_target)

    @staticmethod
    def estimate_parameters(config: Any) -> int:
        """Two tables of tokens, and blocks on the way in and on the way out."""
        settings = dataclasses.asdict(config)
        return int(2 * settings["vocab_size"] * settings["width"] + 28 * settings["depth"] * settings["width"] ** 2)

    @property
    def max_batch_size(self) -> int:
        return len(self.sides.train)

    def make_batches(self, plan: Plan, *, is_fair: bool) -> SharedBatches:
        return PairBatches(self.sides.train, plan.batch_size, plan.seed, by_length=not is_fair)

    def dev_batches(self, batch_size: int, plan: Plan) -> Batches:
        return PairBatches(self.sides.dev, batch_size, plan.seed)

    def split_batch(self, model: PairModel, batch: PairBatch) -> Inputs:
        return (batch.sources, batch.tokens), batch.targets

    def loss_function(self, plan: Plan) -> LossFunction:
        return next_target_loss

    @cached_property
    def train_part(self) -> Sequence[tuple[list[int], list[int]]]:
        """Of train, as many as dev has, spread evenly over it."""
        return self.sides.train[:: max(1, len(self.sides.train) // len(self.sides.dev))]

    def evaluate(self, model: PairModel, side: str, most: int = 0, world: World = ALONE) -> SideResult:
        """The loss of every token of the targets. Whole answers are only written at the end: they take much longer."""
        pairs = self.train_part if side == "train" else getattr(self.sides, side)
        if most:
            pairs = pairs[:: max(1, sum(len(target) + 1 for _, target in pairs) // most)]
        pairs = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))  # hardly anything is padded
        firsts = range(0, len(pairs), AT_ONCE)
        sums, device = np.zeros(len(firsts)), device_of(model)
        with evaluating(model):
            for (place, first), is_own in world.deal(enumerate(firsts), in_step=works_in_step(model)):
                batch = batch_to(make_pair_batch(pairs[first : first + AT_ONCE]), device)
                scores = model(batch.sources, batch.tokens).flatten(0, 1)
                loss = functional.cross_entropy(scores, batch.targets.flatten(), ignore_index=IGNORED, reduction="sum")
                sums[place] = is_own * loss.double().item()
        total, n_tokens = 0.0, sum(len(target) + 1 for _, target in pairs)
        for one in world.add(sums).tolist():  # one after another, so that it is the same for any number of processes
            total += one
        return SideResult(total / n_tokens if n_tokens else math.nan)

    def check_initial_loss(self, loss: float, plan: Plan) -> InitialLoss:
        targets = np.array([token for _, target in self.sides.dev for token in (*target, 0)])
        return initial_loss(loss, targets, len(self.sides.vocabulary))

    def preview(self, model: PairModel, plan: Plan) -> tuple[str, ...]:
        pairs, said = self.sides.texts["dev"], self.write_answers(model, "dev", most=PREVIEWED)
        return tuple(f"{before} → {answer}" for (before, _), answer in zip(pairs, said, strict=False))

    def write_answers(self, model: PairModel, side: str, most: int | None = None) -> list[str]:
        """What the network writes for the first sources of a side, by the likeliest token each time."""
        sources = [source for source, _ in getattr(self.sides, side)[:most]]
        answers: dict[int, list[int]] = {}
        by_length = sorted(range(len(sources)), key=lambda row: len(sources[row]))  # hardly anything is padded
        for first in range(0, len(sources), AT_ONCE):
            rows = by_length[first : first + AT_ONCE]
            answers |= zip(rows, greedy_answers(model, pad_rows([sources[row] for row in rows])), strict=True)
        pairs = zip(self.sides.texts[side], range(len(sources)), strict=False)
        return [self.sides.vocabulary.decode_target(before, answers[row]) for (before, _), row in pairs]

    def seconds_to_finish(self, model: PairModel, prediction: float) -> float:
        """Answers are written token by token, which takes longer than to score those that are there.

        A network that has learned nothing ends at once or never, so it is timed over as many tokens as targets have.
        """
        pairs = self.sides.dev[:: max(1, len(self.sides.dev) // TIMED)]
        n_steps = -(-sum(len(target) + 1 for _, target in pairs) // len(pairs))
        began = time.monotonic()
        ready = model.for_inference()
        state = ready.begin(pad_rows([source for source, _ in pairs]))
        for _ in range(n_steps):
            _, state = ready.advance(torch.zeros(len(pairs), dtype=torch.int64), state)
        written = (time.monotonic() - began) / len(pairs) * (len(self.sides.dev) + len(self.sides.test))
        return written + super().seconds_to_finish(model, prediction)

    def evaluate_whole(self, model: PairModel, side: str, world: World = ALONE) -> SideResult:
        """The loss, and which answers are right: it is by these that it is compared with models that have no loss."""
        said, truth = self.write_side(model, side), [after for _, after in self.sides.texts[side]]
        result = self.evaluate(model, side, world=world)
        return result._replace(metric=exact_match(said, truth), units=match_units(said, truth))

    def write_side(self, model: PairModel, side: str) -> list[str]:
        """What a network that learns no more writes for each source; twice asked for, written once."""
        said = self.written.setdefault(model, {})
        if side not in said:
            said[side] = self.write_answers(model, side)
        return said[side]

    def answers(self, model: PairModel, plan: Plan) -> Answers:
        said = {side: self.write_side(model, side) for side in ("dev", "test")}
        metrics = {
            side: pair_metrics(said[side], [after for _, after in self.sides.texts[side]], by_words=self.has_words)
            for side in said
        }
        pairs = self.sides.texts["dev"]
        shown = sorted(range(len(pairs)), key=lambda row: said["dev"][row] == pairs[row][1])[:MOST_SHOWN]
        examples = tuple(
            AnsweredExample(pairs[row][0], pairs[row][1], said["dev"][row], None, said["dev"][row] == pairs[row][1])
            for row in shown
        )
        return Answers(len(pairs), metrics["dev"], metrics["test"], examples=examples)

    def fit_baselines(self, options: TrainOptions) -> Iterator[Baseline]:
        return pair_baselines(self.sides)

    def files(self, plan: Plan) -> Mapping[str, str | bytes]:
        return {"vocabulary.json": json.dumps(self.sides.vocabulary.to_json(), ensure_ascii=True)}


def next_target_loss(model: PairModel, batch: PairBatch) -> Tensor:
    """The mean loss over the tokens of the targets, each told the ones before it."""
    return mean_token_loss(model(batch.sources, batch.tokens), batch.targets)


def pair_metrics(said: Sequence[str], truth: Sequence[str], *, by_words: bool = False) -> dict[str, float]:
    """How many answers are right as a whole and token by token, and how many edits they are away from the truth.

    Nothing where there is no answer. by_words: tokens are the words of a target and not its letters.
    """
    if not truth:
        return {}
    answers, targets = ([text.split(" ") if by_words else text for text in texts] for texts in (said, truth))
    return {
        "exact match": exact_match(said, truth),
        "tokens right" if by_words else "letters right": tokens_right(answers, targets),
        "edit distance": float(edit_distances(answers, targets).mean()),
    }
