"""Lists and texts as a task: every token is to be predicted from those before it, and counting is the bar."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from pellucid.data import ListData, TextData
from pellucid.data.options import DataOptions
from pellucid.data.prepare.tokens import DEFAULT_CONTEXT, Corpus, SequenceSides, take_part
from pellucid.data.splits import SIDES, dev_of_train
from pellucid.decoding.novelty import Known, describe_items, describe_texts
from pellucid.decoding.sampling import NEVER, Drawn, FromContexts, draw_tokens
from pellucid.errors import PellucidError, quoted
from pellucid.models.catalogue import NetworkCard, Recipe, find_network
from pellucid.models.contracts import Network, SequenceModel
from pellucid.models.counting.count_model import CountModel
from pellucid.models.counting.fitting import count_loss
from pellucid.models.counting.ngram import NGram
from pellucid.models.sequences.on_counting import COUNTS_FILE, OnCounting, Parts, counts_to_bytes, with_own_scores
from pellucid.models.stepwise import NeuralReading
from pellucid.records import CountedParts, DataFacts, InitialLoss, MeanLoss, Measure, Plan, Sample, Statement, make_note
from pellucid.training.distributed import ALONE, World
from pellucid.training.loop import loss_on_counting, next_token_loss, places_of_tokens
from pellucid.training.options import TrainOptions
from pellucid.training.sharding import works_in_step
from pellucid.training.tasks.baselines import Baseline, SideResult, bits_per_character, sequence_baselines
from pellucid.training.tasks.batches import (
    IGNORED,
    Batch,
    Ints,
    Items,
    ListBatches,
    list_items,
    make_batches,
    share_of_tokens,
)
from pellucid.training.tasks.counted_sides import CountedSides
from pellucid.training.tasks.metrics import token_accuracy, token_units
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

Floats = npt.NDArray[np.float64]
Passes = list[tuple[Batch, Ints]]  # a side in batches, and where each prediction stands

if TYPE_CHECKING:
    from pellucid.training.fine_tuning import Origin

SHOWN = 12  # items, or symbols of a text's beginning times this
PREVIEWED, FINAL_SAMPLES = 5, 10
TOKENS_OF_AN_ITEM = 6  # a batch of a text holds as many tokens as one of short items
TOLD_BY, LEAST_TOKENS = 128, 2 / 3  # items of a batch by which it is told whether a list can be mixed, and their share
MOST_KEPT_EVALUATED = 1 << 21  # log-probabilities of a part of dev that is evaluated again and again
NEAR_COUNTING = 0.01  # nats; before its first step a network on counting says what counts say
MOST_LOOKED_AT = 20_000  # tokens of dev, to tell what is counted and what learned, and
MOST_SCORES_LOOKED_AT = 20_000_000  # of all of them together
COUNTED_AND_LEARNED = 3  # times a prediction: what it takes to look at one from all sides
MOST_TOKENS = 4096  # of one pass: few enough to stay in a CPU's cache
MOST_SCORES = 1 << 22  # of one pass, so that a large vocabulary does not fill the memory
LONGEST_ITEM = 100  # tokens; an item without an end is cut here
LENGTH_OF_PREVIEW, LENGTH_OF_SAMPLE = 80, 300  # tokens of running text
MOST_SEARCHED = 2_000_000  # tokens of running text in which copies are looked for


def open_sequences(
    data: ListData | TextData,
    source: str,
    options: DataOptions,
    origin: Origin | None = None,
    counted: CountedSides | None = None,
) -> SequenceTask:
    """Split a list or a text and encode it, unless that was done before.

    origin: the run that a training begins from, whose vocabulary and context these data are read with.
    """
    counted = counted or CountedSides.split(data, options, origin.vocabulary if origin else None)
    sides, context = counted.sides, options.context
    _require_learnable(data, sides)
    if origin and not context:
        context = min(origin.longest, DEFAULT_CONTEXT)
    context, note = _fit_context(sides, context)
    if origin and context > origin.longest:
        raise PellucidError(
            f"{data.name} needs {context:,} tokens at once, and {origin.run.name} reads {origin.longest:,}",
            fix="Leave the longest items out, or train a new run",
        )
    facts = DataFacts(
        source=source,
        description=data.description,
        is_file=data.is_file,
        kind=data.kind,
        tokens=origin.vocabulary.kind if origin else options.tokens,
        fingerprint=data.fingerprint,
        vocab_size=len(sides.vocabulary),
        symbols=tuple(sides.vocabulary.tokens[:256]),
        items=dict(zip(SIDES, (len(sides.train_items), len(sides.dev_items), len(sides.test_items)), strict=True)),
        n_tokens={name: getattr(sides, name).n_predicted for name in SIDES},
        notes=(*data.notes, *note),
        first=_first_items(sides),
        dev_of_train=dev_of_train(data),
        random_loss=_random_loss(data, sides),
    )
    return SequenceTask(counted, facts, context, origin)


def _random_loss(data: ListData | TextData, sides: SequenceSides) -> float | None:
    """On dev, of what was drawn at random, in nats a token; None where nobody knows it."""
    if not isinstance(data, ListData) or not data.random_nats or not sides.dev.n_predicted:
        return None
    return data.random_nats * len(sides.dev_items) / sides.dev.n_predicted


def _require_learnable(data: ListData | TextData, sides: SequenceSides) -> None:
    n_symbols = len(sides.vocabulary.symbols)
    if n_symbols < 2:
        raise PellucidError(
            f"{data.name} has only one distinct symbol, so there is nothing to predict", fix="Give it other data"
        )
    for name in SIDES[:2]:
        if getattr(sides, name).n_predicted < 2:
            noun = f"{len(data):,} items" if data.kind == "list" else f"{len(data):,} characters"
            wanted = "about 30 different items" if data.kind == "list" else "at least 30 characters"
            raise PellucidError(f"{data.name} has {noun}, too few for a {name} side", fix=f"Give it {wanted} or more")


def _fit_context(sides: SequenceSides, wanted: int) -> tuple[int, tuple[Statement, ...]]:
    """The context that every side has room for. Of a list it is the longest item and its boundary."""
    asked = wanted or DEFAULT_CONTEXT
    if sides.train.has_boundary:
        return max(side.longest_item for side in (sides.train, sides.dev, sides.test)) + 1, ()
    room = min(side.n_predicted for side in (sides.train, sides.dev))
    if asked <= room:
        return asked, ()
    smaller = min(len(side.tokens) for side in (sides.train, sides.dev))
    return room, (make_note("context-cut", asked=asked, needed=asked + 1, smaller=smaller, used=room),)


def _first_items(sides: SequenceSides) -> tuple[str, ...]:
    if sides.train_items:
        return tuple(sides.train_items[:SHOWN])
    return (quoted(sides.vocabulary.decode(sides.train.tokens[: SHOWN * 20].tolist()), SHOWN * 20)[1:-1],)


@dataclass(frozen=True)
class SequenceTask(Task):
    """The next token of a list's items or of a text's windows."""

    counted: CountedSides
    facts: DataFacts
    context: int
    origin: Origin | None = None  # the run that a training begins from

    is_causal = True
    has_own_sizes = True

    @property
    def default_start(self) -> str:  # type: ignore[override]  # it follows from the run that it begins from
        return self.origin.run.start if self.origin else "counts"

    @property
    def measure(self) -> Measure:
        return Measure()

    @property
    def is_list(self) -> bool:
        return self.sides.train.has_boundary

    @cached_property
    def is_mixable(self) -> bool:  # type: ignore[override]  # a fact of these data
        """Of Thai words, which have up to 81 letters, half of a mixed batch would be padding."""
        return self.is_list and share_of_tokens(self.sides.train, TOLD_BY) > LEAST_TOKENS

    @property
    def n_train(self) -> int:
        return self.sides.train.n_predicted

    @property
    def sides(self) -> SequenceSides:
        return self.counted.sides

    @property
    def parts(self) -> Mapping[str, Corpus]:
        return self.counted.parts

    @property
    def counts(self) -> NGram:
        return self.counted.counts

    def n_evaluated(self, side: str) -> int:
        return self.parts[side].n_predicted

    @property
    def n_looked_at(self) -> int:
        """Tokens of dev by which is told what is counted and what learned, where that takes a pass of its own."""
        return min(MOST_LOOKED_AT, MOST_SCORES_LOOKED_AT // len(self.sides.vocabulary), self.n_evaluated("dev"))

    @property
    def is_all_looked_at(self) -> bool:
        """Whether dev has so few scores that what is counted and what learned is told of all of it on the way."""
        return self.n_evaluated("dev") * len(self.sides.vocabulary) <= MOST_SCORES_LOOKED_AT

    @property
    def n_finishing(self) -> int:
        looked_at = self.n_evaluated("dev") if self.is_all_looked_at else COUNTED_AND_LEARNED * self.n_looked_at
        return super().n_finishing + looked_at

    def build_network(self, card: NetworkCard, config: Any, plan: Plan) -> Network:
        if plan.start == "scratch":
            alone = super().build_network(card, config, plan)
            assert isinstance(alone, SequenceModel)
            if self.origin:
                self.origin.give_weights(alone)
            else:
                alone.look_back()  # on counting it earned nothing: the tokens just before are what is counted
            return alone
        network = super().build_network(card, with_own_scores(config), plan)
        assert isinstance(network, SequenceModel)
        model = OnCounting(network, self.counts)
        if self.origin:
            self.origin.give_weights(model)
        else:
            model.start_at_counting()
        return model

    def find_card(self, name: str) -> NetworkCard:
        return find_network(name, "list")

    def make_config(self, card: NetworkCard, size: str) -> Any:
        return self.origin.config if self.origin else card.of_size(size, len(self.sides.vocabulary), self.context)

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
        tables = vocab_size * (2 * width + hidden + embedding) + (settings.get("n", 1) - 1) * vocab_size**2
        inner = (12 if "n_heads" in settings else 6) * depth * width**2 + (depth - 1) * hidden**2
        return int(tables + inner + settings.get("context", 0) * embedding * hidden)

    @property
    def max_batch_size(self) -> int:
        return len(self.sides.train_items) if self.is_list else max(1, self.n_train // self.context)

    def batch_size_for(self, recipe: Recipe) -> int:
        """Items, or windows that hold as many tokens."""
        wanted = recipe.batch_size if self.is_list else recipe.batch_size * TOKENS_OF_AN_ITEM // self.context
        return max(1, min(wanted, self.max_batch_size))

    def make_batches(self, plan: Plan, *, is_fair: bool) -> SharedBatches:
        counted = None if plan.start == "scratch" else self._counted
        return make_batches(
            self.sides.train,
            plan.batch_size,
            plan.context,
            plan.seed,
            by_length=not is_fair,
            is_mixed=plan.is_mixed,
            counted=counted,
        )

    def _counted(self, places: Ints) -> torch.Tensor:
        """places: of tokens of train -> what counts that have not seen the next token say comes after each."""
        if self.counted.table is not None:
            return torch.from_numpy(self.counted.table)[torch.from_numpy(places)]
        logs = self.counted.cross_fit.log_probabilities(places.reshape(-1))
        return torch.from_numpy(logs.astype(np.float32)).view(*places.shape, -1)

    def dev_batches(self, batch_size: int, plan: Plan) -> Batches:
        return make_batches(self.sides.dev, batch_size, plan.context, plan.seed)

    def split_batch(self, model: SequenceModel, batch: Batch) -> Inputs:
        return (batch.tokens,), batch.targets

    def loss_function(self, plan: Plan) -> LossFunction:
        return next_token_loss if plan.start == "scratch" else loss_on_counting

    def evaluate(self, model: SequenceModel, side: str, most: int = 0, world: World = ALONE) -> SideResult:
        part = self._part(side, most)
        if side == "train" and isinstance(model, OnCounting):
            return SideResult(self._train_loss(model, part.n_predicted, world))
        passes = self._kept_passes(side, part, most, model.counts) if isinstance(model, OnCounting) and most else None
        return self._side_result(token_losses(model, part, self.context, world=world, passes=passes), part)

    def _kept_passes(self, side: str, part: Corpus, most: int, counts: CountModel) -> Passes | None:
        """A part that is evaluated again and again, with what is counted there; None where memory has no room."""
        if part.n_predicted * counts.vocab_size > MOST_KEPT_EVALUATED:
            return None
        if (side, most) not in self._passes_kept:
            passes = _passes(part, self.context, tokens_of_a_pass(counts.vocab_size), counts)
            self._passes_kept[side, most] = [
                (batch if batch.counted is not None else _with_counted(batch, counts), places)
                for batch, places in passes
            ]
        return self._passes_kept[side, most]

    @cached_property
    def _passes_kept(self) -> dict[tuple[str, int], Passes]:
        return {}

    def evaluate_whole(self, model: SequenceModel, side: str, world: World = ALONE) -> SideResult:
        part, is_right = self.parts[side], np.zeros(self.parts[side].n_predicted, dtype=bool)
        is_looked_at = side == "dev" and isinstance(model, OnCounting) and not world.is_shared and self.is_all_looked_at
        sums = CountedSums() if is_looked_at else None
        result = self._side_result(token_losses(model, part, self.context, is_right, world, sums=sums), part)
        accuracy = token_accuracy(side, is_right, part, self.sides.vocabulary)
        return result._replace(accuracy=accuracy, parts=sums.means() if sums else None)

    def _side_result(self, losses: Floats, part: Corpus) -> SideResult:
        nats = float(losses.mean()) if len(losses) else math.nan
        return SideResult(nats, units=token_units(losses, part, self.context))

    def _train_loss(self, model: OnCounting, n_predicted: int, world: World) -> float:
        """On counting, over about so many tokens of train: counts that have seen them would make it look learned."""
        most_tokens = tokens_of_a_pass(model.vocab_size)
        n_rows = max(1, round(n_predicted / self.n_train * self.max_batch_size))
        drawn = make_batches(self.sides.train, n_rows, self.context, seed=0, by_length=False, counted=self._counted)
        rows = drawn.rows(1)
        collate: Callable[[Ints], Batch]
        if isinstance(drawn, ListBatches):
            passes, collate = list(_sorted_rows(drawn.items, rows, most_tokens)), drawn.items.collate
            n_tokens = int(drawn.items.lengths[rows].sum())
        else:
            n_passes = min(len(rows), -(-len(rows) * self.context // most_tokens))
            passes, collate = np.array_split(rows, n_passes), drawn.collate
            n_tokens = len(rows) * drawn.context
        sums, device = np.zeros(len(passes)), device_of(model)
        with evaluating(model):
            for place, is_own in world.deal(range(len(passes)), in_step=works_in_step(model)):
                batch = batch_to(collate(passes[place]), device)
                sums[place] = is_own * next_token_loss(model, batch).double().item() * batch.n_tokens
        total = 0.0
        for one in world.add(sums).tolist():  # one after another, so that it is the same for any number of processes
            total += one
        return total / n_tokens

    def prepare_training(self, options: TrainOptions) -> None:
        if (options.start or self.default_start) == "counts" and self.counted.table is None:
            _ = self.counted.cross_fit

    def counted_parts(self, model: SequenceModel) -> CountedParts | None:
        if not isinstance(model, OnCounting):
            return None
        part, sums = take_part(self.parts["dev"], self.n_looked_at), CountedSums()
        token_losses(model, part, self.context, sums=sums)
        return sums.means()

    def _part(self, side: str, most: int) -> Corpus:
        return take_part(self.parts[side], most) if most else self.parts[side]

    def require_options(self, options: TrainOptions) -> None:
        if "init" in options.network and (options.start or self.default_start) == "counts":
            raise PellucidError(
                "{init} changes nothing where a network starts from counting",
                fix="Add {start}",
                options={"init": None, "start": "scratch"},
            )

    def check_initial_loss(self, loss: float, plan: Plan) -> InitialLoss:
        found = initial_loss(loss, self.sides.dev.targets, len(self.sides.vocabulary))
        if self.origin:
            return found._replace(is_as_expected=math.isfinite(loss), start="from a run")
        if plan.start == "scratch":
            return found
        is_there = abs(loss - count_loss(self.counts, self._part("dev", plan.evaluated)).nats) < NEAR_COUNTING
        return found._replace(is_as_expected=is_there, start="from counting" if is_there else found.start)

    def preview(self, model: SequenceModel, plan: Plan) -> tuple[str, ...]:
        drawn = self._draw(model, PREVIEWED, plan.seed, LENGTH_OF_PREVIEW)
        return tuple(self.sides.vocabulary.decode(list(sample.tokens)) for sample in drawn)

    def samples(self, model: SequenceModel | CountModel, plan: Plan) -> tuple[Sample, ...]:
        """Samples, each with how new it is; of running text a single one."""
        decode, drawn = self.sides.vocabulary.decode, self._draw(model, FINAL_SAMPLES, plan.seed, LENGTH_OF_SAMPLE)
        if self.is_list:
            return tuple(describe_items(drawn, decode, [], Known(self.sides.train_items, self.sides.dev_items)))
        return tuple(describe_texts(drawn, decode, [], decode(self.sides.train.tokens[:MOST_SEARCHED].tolist())))

    def _draw(self, model: SequenceModel | CountModel, n_samples: int, seed: int, length: int) -> list[Drawn]:
        return draw_tokens(
            FromContexts(model.log_probabilities) if isinstance(model, CountModel) else NeuralReading(model),
            n_samples=n_samples if self.is_list else 1,
            longest=LONGEST_ITEM if self.is_list else length,
            start=[0] if self.is_list else [],
            stop=self.sides.vocabulary.closing if self.is_list else NEVER,
            seed=seed,
        )

    def fit_baselines(self, options: TrainOptions | None) -> Iterator[Baseline]:
        return sequence_baselines(self.sides, self.parts, self.context, lambda: self.counts)

    def files(self, plan: Plan) -> Mapping[str, str | bytes]:
        vocabulary = json.dumps(self.sides.vocabulary.to_json(), ensure_ascii=True)
        if plan.start == "scratch":
            return {"vocabulary.json": vocabulary}
        return {
            "vocabulary.json": vocabulary,
            COUNTS_FILE: counts_to_bytes(self.counts.grams.order, self.counts.vocab_size, self.sides.train),
        }

    def bits_per_character(self, loss: float) -> float:
        return bits_per_character(loss, self.sides)


def evaluate_loss(model: SequenceModel, side: Corpus, context: int) -> MeanLoss:
    """The mean loss in nats over every token of the side but the first.

    A text is read in windows of `context` targets, one after another; each begins with the last token of the one
    before it and has seen nothing else.
    """
    losses = token_losses(model, side, context)
    return MeanLoss(float(losses.mean()) if len(losses) else math.nan, len(losses), int(np.isinf(losses).sum()))


class CountedSums:
    """What `CountedParts` are the means of, over all tokens that were added."""

    def __init__(self) -> None:
        self.sums, self.n_tokens = np.zeros(5), 0

    def add(self, parts: Parts, targets: torch.Tensor, losses: torch.Tensor, guesses: torch.Tensor) -> None:
        """parts: of n tokens, (n, …); targets, and the loss and the likeliest token of both together: (n,)."""
        counted, alone = (
            functional.cross_entropy(one, targets, reduction="none") for one in (parts.counted, parts.alone)
        )
        means = [one.double().sum() for one in (parts.gate, counted, losses, alone)]
        changed = (parts.counted.argmax(-1) != guesses).sum()
        self.sums += np.array([float(one) for one in (*means, changed)])
        self.n_tokens += len(targets)

    def means(self) -> CountedParts:
        return CountedParts(self.n_tokens, *(self.sums / self.n_tokens).tolist())


def token_losses(
    model: SequenceModel,
    side: Corpus,
    context: int,
    is_right: npt.NDArray[np.bool_] | None = None,
    world: World = ALONE,
    passes: Passes | None = None,
    sums: CountedSums | None = None,
) -> Floats:
    """The loss of every token of the side but the first, in their order; what `evaluate_loss` is the mean of.

    is_right: (n,), is told of each of them whether it was the likeliest. world: processes that make a part each.
    passes: the side in batches, where they are made already. sums: are told what is counted there and what learned.
    """
    found = np.zeros(side.n_predicted)
    counts = model.counts if isinstance(model, OnCounting) else None
    device = device_of(model)
    with evaluating(model):
        made = passes or _passes(side, context, tokens_of_a_pass(model.vocab_size), counts)
        for (read, places), is_own in world.deal(made, in_step=works_in_step(model)):
            batch, is_real = batch_to(read, device), read.targets.flatten() != IGNORED
            scores, parts = _scores_of_tokens(model, batch, is_real, with_parts=sums is not None)
            if not is_own:
                continue
            at, targets = places.reshape(-1)[is_real.numpy()], batch.targets.flatten()[is_real]
            losses = functional.cross_entropy(scores, targets, reduction="none")
            found[at] = losses.cpu().double().numpy()
            if is_right is None and parts is None:
                continue
            guesses = scores.argmax(-1)
            if is_right is not None:
                is_right[at] = (guesses == targets).cpu().numpy()
            if sums is not None and parts is not None:
                sums.add(parts, targets, losses, guesses)
    if is_right is not None:
        is_right |= world.add(is_right.astype(np.uint8)).astype(bool)
    return world.add(found)


def _scores_of_tokens(
    model: SequenceModel, batch: Batch, is_real: torch.Tensor, *, with_parts: bool
) -> tuple[torch.Tensor, Parts | None]:
    """The scores of a batch without its padding, (n, vocab), and of a network on counting what they are made of."""
    real = places_of_tokens(model, batch)
    counted = batch.counted_in_place() if real is None else batch.counted
    if with_parts and isinstance(model, OnCounting):
        parts = model.predict(batch.tokens, counted, real)
        if real is None:
            parts = Parts(*(one.flatten(0, 1)[is_real] for one in parts))
        return parts.logits, parts
    given = (batch.tokens,) if counted is None else (batch.tokens, counted)
    return (model(*given).flatten(0, 1)[is_real] if real is None else model(*given, real=real)), None


def _with_counted(batch: Batch, counts: CountModel) -> Batch:
    return batch._replace(counted=counts.forward(batch.tokens)[batch.targets != IGNORED])


def tokens_of_a_pass(vocab_size: int) -> int:
    """As many as a CPU's cache and the memory have room for.

    >>> tokens_of_a_pass(27), tokens_of_a_pass(7_000)
    (4096, 599)
    """
    return max(1, min(MOST_TOKENS, MOST_SCORES // vocab_size))


def _sorted_rows(items: Items, rows: Ints, most_tokens: int) -> Iterator[Ints]:
    """These rows by their length, in batches of at most so many places, or of one row where that is longer."""
    order = rows[np.argsort(items.lengths[rows], kind="stable")]
    lengths = items.lengths[order].tolist()
    first = 0
    while first < len(order):
        end = first + 1
        # As many as fit beside the longest of them, which is the last: rows times its length.
        while end < len(order) and (end + 1 - first) * lengths[end] <= most_tokens:
            end += 1
        yield order[first:end]
        first = end


def _passes(side: Corpus, context: int, most_tokens: int, counts: CountModel | None) -> Iterator[tuple[Batch, Ints]]:
    """The whole side in batches of at most so many tokens, or of one row where that is longer, and where each stands.

    counts: have read what stands before a window of a text, which the network has not.
    """
    if side.n_predicted < 1:
        return
    if side.has_boundary:
        items = list_items(side)
        for rows in _sorted_rows(items, np.arange(len(items)), most_tokens):
            batch = items.collate(rows)
            yield batch, items.starts[rows, None] + np.arange(batch.tokens.shape[1])
        return
    n_windows, n_left = divmod(side.n_predicted, context)
    each = max(1, most_tokens // context)
    stretches = [(first * context, min(each, n_windows - first), context) for first in range(0, n_windows, each)]
    for first, n, length in (*stretches, *([(n_windows * context, 1, n_left)] if n_left else ())):
        end = first + n * length
        stretch = torch.from_numpy(side.tokens[first : end + 1].astype(np.int64))
        counted = None
        if counts is not None:
            began = max(0, first - counts.reach)
            logs = counts.after_each(side.tokens[began:end].astype(np.int64))[first - began :]
            counted = torch.from_numpy(logs)
        batch = Batch(stretch[:-1].view(n, length), stretch[1:].view(n, length), n * length, counted)
        yield batch, np.arange(first, end).reshape(n, length)
