"""Lists and texts as a task: every token is to be predicted from those before it, and counting is the bar."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from pellucid.data import ListData, TextData
from pellucid.data.prepare.tokens import Corpus, SequenceSides, split_sequences
from pellucid.data.splits import SIDES
from pellucid.decoding.novelty import Known, describe_items, describe_texts
from pellucid.decoding.sampling import NEVER, Drawn, draw
from pellucid.errors import PellucidError, quoted
from pellucid.models.catalogue import NetworkCard, Recipe, find_network
from pellucid.models.contracts import SequenceModel
from pellucid.models.stepwise import NeuralReading
from pellucid.records import DataFacts, InitialLoss, MeanLoss, Measure, Plan, Sample
from pellucid.training.loop import next_token_loss
from pellucid.training.options import TrainOptions
from pellucid.training.tasks.baselines import Baseline, SideResult, bits_per_character, sequence_baselines
from pellucid.training.tasks.batches import IGNORED, Batch, list_items, make_batches
from pellucid.training.tasks.task import Batches, Inputs, LossFunction, Task, evaluating, initial_loss

DEFAULT_CONTEXT = 64  # tokens in a window of a text
SHOWN = 12  # items, or symbols of a text's beginning times this
PREVIEWED, FINAL_SAMPLES = 5, 10
TOKENS_OF_AN_ITEM = 6  # a batch of a text holds as many tokens as one of short items
MOST_TOKENS = 4096  # of one pass: few enough to stay in a CPU's cache
MOST_SCORES = 1 << 22  # of one pass, so that a large vocabulary does not fill the memory
LONGEST_ITEM = 100  # tokens; an item without an end is cut here
LENGTH_OF_PREVIEW, LENGTH_OF_SAMPLE = 80, 300  # tokens of running text
MOST_SEARCHED = 2_000_000  # tokens of running text in which copies are looked for


def open_sequences(data: ListData | TextData, source: str, *, tokens: str, context: int) -> SequenceTask:
    """Split a list or a text and encode it. context: tokens in a window of a text; 0: as many as usual."""
    sides = split_sequences(data, tokens)
    _require_learnable(data, sides)
    context, note = _fit_context(sides, context)
    facts = DataFacts(
        source=source,
        description=data.description,
        is_file=data.is_file,
        kind=data.kind,
        tokens=tokens,
        fingerprint=data.fingerprint,
        vocab_size=len(sides.vocabulary),
        symbols=tuple(sides.vocabulary.tokens[:256]),
        items=dict(zip(SIDES, (len(sides.train_items), len(sides.dev_items), len(sides.test_items)), strict=True)),
        n_tokens={name: getattr(sides, name).n_predicted for name in SIDES},
        notes=(*data.notes, *note),
        first=_first_items(sides),
    )
    return SequenceTask(sides, facts, context)


def _require_learnable(data: ListData | TextData, sides: SequenceSides) -> None:
    n_symbols = len(sides.vocabulary) - int(sides.vocabulary.has_boundary)
    if n_symbols < 2:
        raise PellucidError(
            f"{data.name} has only one distinct symbol, so there is nothing to predict", fix="Give it other data"
        )
    for name in SIDES[:2]:
        if getattr(sides, name).n_predicted < 2:
            noun = f"{len(data):,} items" if data.kind == "list" else f"{len(data):,} characters"
            wanted = "about 30 different items" if data.kind == "list" else "at least 30 characters"
            raise PellucidError(f"{data.name} has {noun}, too few for a {name} side", fix=f"Give it {wanted} or more")


def _fit_context(sides: SequenceSides, wanted: int) -> tuple[int, tuple[str, ...]]:
    """The context that every side has room for. Of a list it is the longest item and its boundary."""
    asked = wanted or DEFAULT_CONTEXT
    if sides.train.has_boundary:
        return max(_longest_item(side) for side in (sides.train, sides.dev, sides.test)) + 1, ()
    room = min(side.n_predicted for side in (sides.train, sides.dev))
    if asked <= room:
        return asked, ()
    smaller = min(len(side.tokens) for side in (sides.train, sides.dev))
    return room, (f"context {asked} needs {asked + 1} tokens on each side and one has {smaller:,}: {room} is used",)


def _longest_item(side: Corpus) -> int:
    return int(np.diff(np.flatnonzero(side.tokens == 0)).max(initial=1)) - 1


def _first_items(sides: SequenceSides) -> tuple[str, ...]:
    if sides.train_items:
        return tuple(sides.train_items[:SHOWN])
    return (quoted(sides.vocabulary.decode(sides.train.tokens[: SHOWN * 20].tolist()), SHOWN * 20)[1:-1],)


@dataclass(frozen=True)
class SequenceTask(Task):
    """The next token of a list's items or of a text's windows."""

    sides: SequenceSides
    facts: DataFacts
    context: int

    is_causal = True

    @property
    def measure(self) -> Measure:
        return Measure()

    @property
    def is_list(self) -> bool:
        return self.sides.train.has_boundary

    @property
    def n_train(self) -> int:
        return self.sides.train.n_predicted

    @cached_property
    def train_part(self) -> Corpus:
        """Of train, as large as dev, on which the training loss is measured."""
        return take_part(self.sides.train, self.sides.dev.n_predicted)

    def find_card(self, name: str) -> NetworkCard:
        return find_network(name, "list")

    def make_config(self, card: NetworkCard, size: str) -> Any:
        return card.sized(size, len(self.sides.vocabulary), self.context)

    @staticmethod
    def estimate_parameters(config: Any) -> int:
        """By its settings alone.

        >>> from pellucid.models.sequences.configs import TransformerConfig
        >>> config = TransformerConfig(vocab_size=27, context=16, width=64, depth=4, n_heads=4)
        >>> SequenceTask.estimate_parameters(config)
        200064
        """
        settings = dataclasses.asdict(config)
        vocab_size, depth = settings["vocab_size"], settings.get("depth", 1)
        width, hidden, embedding = (settings.get(name, 0) for name in ("width", "hidden", "embedding"))
        tables = vocab_size * (2 * width + hidden + embedding) + (settings.get("order", 1) - 1) * vocab_size**2
        inner = (12 if "n_heads" in settings else 6) * depth * width**2 + (depth - 1) * hidden**2
        return int(tables + inner + settings.get("context", 0) * embedding * hidden)

    @property
    def max_batch_size(self) -> int:
        return len(self.sides.train_items) if self.is_list else max(1, self.n_train // self.context)

    def batch_size_for(self, recipe: Recipe) -> int:
        """Items, or windows that hold as many tokens."""
        wanted = recipe.batch_size if self.is_list else recipe.batch_size * TOKENS_OF_AN_ITEM // self.context
        return max(1, min(wanted, self.max_batch_size))

    def make_batches(self, plan: Plan, *, is_fair: bool) -> Batches:
        return make_batches(self.sides.train, plan.batch_size, plan.context, plan.seed, by_length=not is_fair)

    def dev_batches(self, batch_size: int, plan: Plan) -> Batches:
        return make_batches(self.sides.dev, batch_size, plan.context, plan.seed)

    def split_batch(self, model: SequenceModel, batch: Batch) -> Inputs:
        return (batch.tokens,), batch.targets

    def loss_function(self, plan: Plan) -> LossFunction:
        return next_token_loss

    def evaluate(self, model: SequenceModel, side: str) -> SideResult:
        part = self.train_part if side == "train" else getattr(self.sides, side)
        return SideResult(evaluate_loss(model, part, self.context).nats)

    def check_initial_loss(self, loss: float) -> InitialLoss:
        return initial_loss(loss, self.sides.dev.tokens[1:], len(self.sides.vocabulary))

    def preview(self, model: SequenceModel, plan: Plan) -> tuple[str, ...]:
        drawn = self._draw(model, PREVIEWED, plan.seed, LENGTH_OF_PREVIEW)
        return tuple(self.sides.vocabulary.decode(list(sample.tokens)) for sample in drawn)

    def samples(self, model: SequenceModel, plan: Plan) -> tuple[Sample, ...]:
        """Samples, each with how new it is; of running text a single one."""
        decode, drawn = self.sides.vocabulary.decode, self._draw(model, FINAL_SAMPLES, plan.seed, LENGTH_OF_SAMPLE)
        if self.is_list:
            return tuple(describe_items(drawn, decode, [], Known(self.sides.train_items, self.sides.dev_items)))
        return tuple(describe_texts(drawn, decode, [], decode(self.sides.train.tokens[:MOST_SEARCHED].tolist())))

    def _draw(self, model: SequenceModel, n_samples: int, seed: int, length: int) -> list[Drawn]:
        return draw(
            NeuralReading(model),
            n_samples=n_samples if self.is_list else 1,
            longest=LONGEST_ITEM if self.is_list else length,
            start=[0] if self.is_list else [],
            stop=0 if self.is_list else NEVER,
            seed=seed,
        )

    def fit_baselines(self, options: TrainOptions) -> Iterator[Baseline]:
        return sequence_baselines(self.sides)

    def files(self) -> Mapping[str, str]:
        return {"vocabulary.json": json.dumps(self.sides.vocabulary.to_json(), ensure_ascii=True)}

    def bits_per_character(self, loss: float) -> float:
        return bits_per_character(loss, self.sides)


def take_part(side: Corpus, n_predicted: int) -> Corpus:
    """As much of a side as that, spread evenly over it: whole items of a list, or eight stretches of a text.

    >>> take_part(Corpus(np.array([0, 1, 0, 2, 2, 0, 3, 0, 4, 0]), True), 5).tokens.tolist()
    [0, 1, 0, 3, 0]
    """
    if n_predicted >= side.n_predicted:
        return side
    if not side.has_boundary:
        length = max(2, n_predicted // 8)
        starts = np.linspace(0, len(side.tokens) - length, 8).astype(int)
        return Corpus(np.concatenate([side.tokens[start : start + length] for start in starts]), False)
    ends = np.flatnonzero(side.tokens == 0)
    every = -(-side.n_predicted // n_predicted)
    items = [side.tokens[ends[i] : ends[i + 1]] for i in range(0, len(ends) - 1, every)]
    return Corpus(np.concatenate([*items, side.tokens[:1]]), True)


def evaluate_loss(model: SequenceModel, side: Corpus, context: int) -> MeanLoss:
    """The mean loss in nats over every token of the side but the first.

    A text is read in windows of `context` targets, one after another; each begins with the last token of the one
    before it and has seen nothing else.
    """
    total, n_tokens, n_impossible = 0.0, 0, 0
    with evaluating(model):
        for tokens, targets, n in _passes(side, context, max(1, min(MOST_TOKENS, MOST_SCORES // model.vocab_size))):
            scores = model(tokens).flatten(0, 1)
            losses = functional.cross_entropy(scores, targets.flatten(), ignore_index=IGNORED, reduction="none")
            total += losses.sum(dtype=torch.float64).item()
            n_impossible += int(losses.isinf().sum())
            n_tokens += n
    return MeanLoss(total / n_tokens if n_tokens else math.nan, n_tokens, n_impossible)


def _passes(side: Corpus, context: int, most_tokens: int) -> Iterator[Batch]:
    """The whole side in batches of at most so many tokens, or of one row where that is longer."""
    if side.n_predicted < 1:
        return
    if side.has_boundary:
        items = list_items(side)
        order = np.argsort(items.lengths, kind="stable")
        lengths = items.lengths[order].tolist()
        first = 0
        while first < len(order):
            end = first + 1
            # As many as fit beside the longest of them, which is the last: rows times its length.
            while end < len(order) and (end + 1 - first) * lengths[end] <= most_tokens:
                end += 1
            yield items.collate(order[first:end])
            first = end
        return
    n_windows, n_left = divmod(side.n_predicted, context)
    each = max(1, most_tokens // context)
    for first in range(0, n_windows, each):
        n = min(each, n_windows - first)
        stretch = torch.from_numpy(side.tokens[first * context : (first + n) * context + 1].astype(np.int64))
        yield Batch(stretch[:-1].view(n, context), stretch[1:].view(n, context), n * context)
    if n_left:
        rest = torch.from_numpy(side.tokens[n_windows * context :].astype(np.int64))[None]
        yield Batch(rest[:, :-1], rest[:, 1:], n_left)
