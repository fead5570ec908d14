"""Baselines: what models that are no network reach on the same split, the bar that a network has to clear.

Sequences are counted; rows and images get the usual simple models, and pairs four ways to answer without a network. No
setting was chosen for these data but the order of the best n-gram, by dev, and k of the nearest neighbours, on train.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.endings import Endings
from pellucid.data.prepare import Examples, ExampleSides, PairSides, TablePreparation
from pellucid.data.prepare.tokens import Corpus, SequenceSides, take_part
from pellucid.decoding.novelty import edit_distances
from pellucid.models.counting.count_model import CountModel
from pellucid.models.counting.fitting import SIMPLEST_MODELS
from pellucid.models.counting.ngram import NGram
from pellucid.models.counting.simple_models import Uniform
from pellucid.records import CountedParts, MetricInterval, Rung, TokenAccuracy
from pellucid.training.tasks.example_answers import class_metrics, intervals_of, number_metrics
from pellucid.training.tasks.metrics import (
    Units,
    class_units,
    exact_match,
    match_units,
    number_units,
    r_squared,
    token_accuracy,
    token_units,
)
from pellucid.training.tasks.simple_models import FittedModel, fit_simple_models, flatten_examples

MOST_SCORES_RANKED = 20_000_000  # of a count model, to find its likeliest tokens: about half a second
MOST_SCORES_AT_ONCE = 1 << 21  # of those, so that memory stays flat
MOST_REMEMBERED = 50_000  # pairs of a translation memory, evenly from all
ALIKE = 16  # sources that a new one is held against letter by letter, up to
LONGEST_COMPARED = 128  # letters, and so that memory stays flat with at most
MOST_CELLS = 1 << 21  # of them at once


class SideResult(NamedTuple):
    """How a model did on a side."""

    loss: float  # nan where it has no probabilities, and so no loss
    metric: float | None = None  # None where the measure has none, or it is not worth its time here
    units: Units | None = None  # the same one by one
    # The simple models of rows and images by every metric that a network is judged by, and where those of others lie.
    all_metrics: Mapping[str, float] = MappingProxyType({})
    intervals: tuple[MetricInterval, ...] = ()
    accuracy: TokenAccuracy | None = None  # of next tokens, where it was asked for
    parts: CountedParts | None = None  # of a network on counting, where it was looked at on the way


@dataclass(frozen=True)
class Baseline:
    """A model that is no network, fitted on train, and what it reached there and on dev."""

    rung: Rung
    evaluate: Callable[[str], SideResult]  # on a side, by its name
    has_test: bool
    test_seconds: float = 0.0  # that test will take, by what dev took
    measure_accuracy: Callable[[str], TokenAccuracy | None] = lambda side: None  # of next tokens on a side

    def with_test(self) -> Rung:
        """The rung with what it reaches on test, which is read here and not before."""
        found = [self.measure_accuracy(side) for side in ("dev", *["test"] * self.has_test)]
        rung = self.rung._replace(accuracies=tuple(one for one in found if one is not None))
        if not self.has_test:
            return rung
        result = self.evaluate("test")
        return rung._replace(test=None if math.isnan(result.loss) else result.loss, test_metric=result.metric)


def _make_baseline(
    name: str,
    n_parameters: int,
    evaluate: Callable[[str], SideResult],
    seconds: float,
    *,
    has_test: bool,
    has_dev: bool = True,
) -> Baseline:
    """evaluate: the model on a side, by its name; seconds: that it took to fit."""
    began = time.perf_counter()
    train = evaluate("train")
    on_train = time.perf_counter() - began
    dev = evaluate("dev") if has_dev else SideResult(math.nan, train.metric)
    took = time.perf_counter() - began
    rung = Rung(
        name=name,
        is_counted=True,
        parameters=n_parameters,
        train=train.loss,
        dev=dev.loss,
        test=None,
        bits_per_character=math.nan,
        seconds=seconds + took,
        tokens_per_second=None,
        metric=dev.metric,
    )
    return Baseline(rung, evaluate, has_test, test_seconds=(took - on_train) * has_test)


def sequence_baselines(
    sides: SequenceSides, parts: Mapping[str, Corpus], context: int, best: Callable[[], NGram]
) -> Iterator[Baseline]:
    """Uniform guessing, unigrams, bigrams, and the best Kneser–Ney n-gram by dev, one as soon as it is counted.

    parts: of each side what models are measured on; context: tokens of a window of a text; best: fits that n-gram.
    """
    vocab_size = len(sides.vocabulary)
    for name in (*SIMPLEST_MODELS, ""):
        began = time.perf_counter()
        model: CountModel
        if name:
            model = SIMPLEST_MODELS[name](sides.train, vocab_size)
        else:
            model = counted = best()
            name = f"Kneser–Ney {counted.grams.order}-gram"
        yield count_baseline(name, model, time.perf_counter() - began, sides, parts, context)


def count_baseline(
    name: str, model: CountModel, seconds: float, sides: SequenceSides, parts: Mapping[str, Corpus], context: int
) -> Baseline:
    """A count model on each side. seconds: that it took to fit."""

    def evaluate(side: str) -> SideResult:
        losses = -model.of_each(parts[side].tokens)
        nats = float(losses.mean()) + 0.0 if len(losses) else math.nan
        return SideResult(nats, units=token_units(losses, parts[side], context))

    @cache
    def measure_accuracy(side: str) -> TokenAccuracy | None:
        if isinstance(model, Uniform):
            return None  # no token is likelier than another
        part = take_part(parts[side], max(1, MOST_SCORES_RANKED // model.vocab_size))
        return token_accuracy(side, likeliest_are_right(model, part), part, sides.vocabulary)

    found = _make_baseline(name, model.n_stored, evaluate, seconds, has_test=sides.test.n_predicted > 0)
    return dataclasses.replace(
        found,
        rung=found.rung._replace(bits_per_character=bits_per_character(found.rung.dev, sides)),
        measure_accuracy=measure_accuracy,
    )


def likeliest_are_right(model: CountModel, side: Corpus) -> NDArray[np.bool_]:
    """Whether each token of a side but the first is the likeliest after those before it: (n,)."""
    tokens, targets, found = side.tokens, side.targets, np.zeros(side.n_predicted, dtype=bool)
    each = max(1, MOST_SCORES_AT_ONCE // model.vocab_size)
    for first in range(0, len(found), each):
        end = min(len(found), first + each)
        began = max(0, first - model.reach)
        logs = model.after_each(tokens[began:end].astype(np.int64))[first - began :]
        found[first:end] = logs.argmax(axis=1) == targets[first:end]
    return found


def bits_per_character(nats: float, sides: SequenceSides) -> float:
    """Nats a token on dev as bits a character, where the boundary that closes an item counts as one."""
    return nats / math.log(2) / sides.characters_per_token(sides.dev)


def pair_baselines(sides: PairSides) -> Iterator[Baseline]:
    """Copying, the most frequent target of train, that of the nearest source, and what the same ending becomes.

    None of them has probabilities, nor a loss.
    """
    began = time.perf_counter()
    counts = Counter(target for _, target in sides.texts["train"])
    usual = min(counts, key=lambda target: (-counts[target], target))
    seconds = time.perf_counter() - began

    def matches(answers: Callable[[list[str]], list[str]]) -> Callable[[str], SideResult]:
        @cache
        def evaluate(side: str) -> SideResult:
            if side == "train":
                return SideResult(math.nan)  # the ladder shows the metric on dev and test alone
            said = answers([source for source, _ in sides.texts[side]])
            truth = [target for _, target in sides.texts[side]]
            return SideResult(math.nan, exact_match(said, truth), match_units(said, truth))

        return evaluate

    has_test = bool(sides.test)
    yield _make_baseline("copying the source", 0, matches(lambda sources: sources), 0.0, has_test=has_test)
    always = matches(lambda sources: [usual] * len(sources))
    yield _make_baseline("most frequent target", len(usual), always, seconds, has_test=has_test)
    began = time.perf_counter()
    memory = TranslationMemory(sides.texts["train"], usual)
    seconds = time.perf_counter() - began
    yield _make_baseline("nearest known source", memory.n_stored, matches(memory.answers), seconds, has_test=has_test)
    began = time.perf_counter()
    endings = Endings(sides.texts["train"])
    seconds = time.perf_counter() - began
    by_ending = matches(lambda sources: [endings.answer(source) for source in sources])
    yield _make_baseline("longest known ending", endings.n_stored, by_ending, seconds, has_test=has_test)


class TranslationMemory:
    """What the source of train that is most like a new one became: the fewest edits among those that share most of it.

    Alike in pairs of letters come first into question, so that not every source is held against every other.

    >>> memory = TranslationMemory([("night", "Nacht"), ("light", "Licht"), ("day", "Tag")], otherwise="?")
    >>> memory.answers(["knight", "days", "night", "ox"])
    ['Nacht', 'Tag', 'Nacht', '?']
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], otherwise: str) -> None:
        """otherwise: the answer where no source shares a pair of letters."""
        counts: dict[str, Counter[str]] = {}
        for source, target in pairs[:: -(-len(pairs) // MOST_REMEMBERED)]:
            counts.setdefault(source, Counter())[target] += 1
        self.otherwise, self.sources = otherwise, list(counts)
        self.targets = [min(seen, key=lambda target: (-seen[target], target)) for seen in counts.values()]
        having: dict[str, list[int]] = {}
        for place, source in enumerate(self.sources):
            for both in _letter_pairs(source):
                having.setdefault(both, []).append(place)
        self.having = {both: np.array(places) for both, places in having.items()}
        self.n_pairs = np.array([len(_letter_pairs(source)) for source in self.sources])

    @property
    def n_stored(self) -> int:
        """Letters that it keeps."""
        return sum(map(len, self.sources)) + sum(map(len, self.targets))

    def answers(self, sources: list[str]) -> list[str]:
        found = dict.fromkeys(sources, self.otherwise)
        asked = {source: self._alike(source) for source in found}
        rows = [(source, place) for source, places in asked.items() for place in places.tolist()]
        at_once = max(1, MOST_CELLS // LONGEST_COMPARED)
        edits: list[int] = []
        for first in range(0, len(rows), at_once):
            some = rows[first : first + at_once]
            ours, theirs = zip(*((source, self.sources[place]) for source, place in some), strict=True)
            edits += edit_distances(*([one[:LONGEST_COMPARED] for one in texts] for texts in (ours, theirs))).tolist()
        fewest: dict[str, int] = {}
        for (source, place), n_edits in zip(rows, edits, strict=True):
            if n_edits < fewest.get(source, n_edits + 1):  # of equals the one that shares most
                fewest[source], found[source] = n_edits, self.targets[place]
        return [found[source] for source in sources]

    def _alike(self, source: str) -> NDArray[np.int64]:
        """Places of the sources that share most of their pairs of letters, the most alike first."""
        pairs = _letter_pairs(source)
        known = [self.having[both] for both in sorted(pairs) if both in self.having]
        if not known:
            return np.zeros(0, dtype=np.int64)
        shared = np.bincount(np.concatenate(known), minlength=len(self.sources))
        some = np.flatnonzero(shared)
        likeness = shared[some] / (self.n_pairs[some] + len(pairs))
        if len(some) > ALIKE:  # sorting all of them, of tens of thousands, took most of the time
            near = likeness >= np.partition(likeness, -ALIKE)[-ALIKE]
            some, likeness = some[near], likeness[near]
        alike: NDArray[np.int64] = some[np.lexsort((some, -likeness))[:ALIKE]]
        return alike


def _letter_pairs(text: str) -> frozenset[str]:
    """Of each two neighbours, the beginning and the end among them."""
    return frozenset(first + second for first, second in pairwise(f"\0{text}\0"))


def example_baselines(sides: ExampleSides, train_part: Examples, latent: int = 2) -> Iterator[Baseline]:
    """The simple models for the task. train_part: to measure train on; latent: as many components as PCA keeps."""
    parts = {"train": train_part, "dev": sides.dev, "test": sides.test}
    for model, seconds in fit_simple_models(sides, latent):

        @cache
        def evaluate(side: str, model: FittedModel = model) -> SideResult:
            answers, targets = model.answers(parts[side]), parts[side].targets
            if sides.task == "classification":
                found = class_metrics(sides, answers, targets, answers)
                return SideResult(found["log loss"], found["accuracy"], class_units(answers, targets), found)
            if sides.task == "reconstruction":
                targets = flatten_examples(parts[side], sides.preparation.category_sizes)
            loss, units = float(np.mean((answers - targets) ** 2)), number_units(answers, targets)
            if sides.task == "reconstruction":
                return SideResult(loss, r_squared(answers, targets), units)
            assert isinstance(sides.preparation, TablePreparation)
            found = number_metrics(answers, targets, sides.preparation.deviation)
            if side == "train":
                return SideResult(loss, found["R²"], units, found)  # no interval says anything of other rows
            intervals = tuple(intervals_of(side, *map(sides.preparation.in_units, (answers, targets))))
            return SideResult(loss, found["R²"], units, found, intervals)

        has_dev, has_test = len(sides.dev) > 0, len(sides.test) > 0
        yield _make_baseline(model.name, model.n_parameters, evaluate, seconds, has_test=has_test, has_dev=has_dev)
