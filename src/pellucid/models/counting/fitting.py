"""From data and options to a fitted count model: the train side is counted, and n is chosen on dev.

The test side is never looked at. Only the alphabet is everyone's.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pellucid.data import ListData, TextData, Vocabulary
from pellucid.data.prepare.tokens import Corpus, SequenceSides, split_sequences
from pellucid.errors import PellucidError
from pellucid.models.counting import AUTO, CountOptions
from pellucid.models.counting.count_model import CountModel, Stream
from pellucid.models.counting.counts import count
from pellucid.models.counting.ngram import AddS, KneserNey, NGram, NGramConfig, Smoothing, WittenBell
from pellucid.models.counting.simple_models import Bigram, BigramConfig, Uniform, UniformConfig, Unigram, UnigramConfig
from pellucid.records import MeanLoss, ModelFacts, Trial

ORDERS = range(1, 8)
SMOOTHINGS: tuple[Smoothing, ...] = (
    KneserNey(),
    *(KneserNey(discount) for discount in (0.6, 0.75, 0.9)),
    WittenBell(),
    *(AddS(s) for s in (1.0, 0.1, 0.01)),
)
# What every other model is shown beside: train and the number of tokens -> the model. One more in every count, so that
# the loss of each is finite.
SIMPLEST_MODELS: Mapping[str, Callable[[Stream, int], CountModel]] = {
    "uniform": lambda train, vocab_size: Uniform.fit(train, UniformConfig(vocab_size)),
    "unigram": lambda train, vocab_size: Unigram.fit(train, UnigramConfig(vocab_size, 1.0)),
    "bigram": lambda train, vocab_size: NGram.fit(train, NGramConfig(vocab_size, 2, AddS(1.0))),
}


@dataclass(frozen=True)
class Choice:
    """The model that was best on dev, and everything that was tried, in the order of trying."""

    model: NGram
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        return min(self.trials, key=lambda trial: trial.dev)


def best_ngram(
    train: Stream,
    dev: Stream,
    vocab_size: int,
    orders: Iterable[int] = ORDERS,
    smoothings: Sequence[Smoothing] = SMOOTHINGS,
) -> Choice:
    """Fit every order with every smoothing on train; keep the one whose loss on dev is least, of equals the first."""
    wanted = sorted(set(orders))
    grams = count(train, vocab_size, max(wanted))
    trials: list[Trial] = []
    best: NGram | None = None
    least = math.inf
    for order in wanted:
        for smoothing in smoothings:
            model = NGram(grams.up_to(order), smoothing)
            dev_loss = count_loss(model, dev).nats
            trials.append(Trial(order, smoothing.description, dev_loss, model.n_stored))
            if best is None or dev_loss < least:
                best, least = model, dev_loss
    assert best is not None, "no order was given"
    return Choice(best, tuple(trials))


def count_loss(model: CountModel, corpus: Stream) -> MeanLoss:
    """The mean surprise in nats over every predicted token of the corpus, closing boundaries included.

    Infinite as soon as one token was impossible; then `n_impossible` says how many were.
    """
    found = model.of_each(corpus.tokens)
    n_impossible = int((found == -math.inf).sum())
    return MeanLoss(float(-found.mean()) + 0.0 if len(found) else math.nan, len(found), n_impossible)


@dataclass(frozen=True)
class FittedCounts:
    """A model and all that is needed to show what it does."""

    model: CountModel
    sides: SequenceSides
    facts: ModelFacts

    @property
    def vocabulary(self) -> Vocabulary:
        return self.sides.vocabulary


def fit_count_model(data: ListData | TextData, options: CountOptions, boundary: str = "one") -> FittedCounts:
    """Divide the data, fit the model on train, and see how it does on dev beside the simplest models.

    boundary: "one" or "two", of a list.
    """
    sides = split_sequences(data, options.tokens, boundary)
    train, dev, vocab_size = sides.train, sides.dev, len(sides.vocabulary)
    model, trials = fit_on_sides(train, dev, vocab_size, options)
    has_dev = len(dev.tokens) > 1
    facts = ModelFacts(
        name=count_model_name(model, options),
        source=data.description,
        vocab_size=vocab_size,
        n_train=len(train.tokens) - 1,
        n_dev=max(0, len(dev.tokens) - 1),
        n_entries=model.n_entries,
        n_stored=model.n_stored,
        train=count_loss(model, train),
        dev=count_loss(model, dev) if has_dev else None,
        baselines=tuple(
            (name, count_loss(fit(train, vocab_size), dev).nats) for name, fit in SIMPLEST_MODELS.items() if has_dev
        ),
        trials=trials,
    )
    return FittedCounts(model, sides, facts)


def fit_on_sides(
    train: Corpus, dev: Corpus, vocab_size: int, options: CountOptions
) -> tuple[CountModel, tuple[Trial, ...]]:
    """The model that is asked for, and where its order or smoothing was chosen on dev, what was tried."""
    if options.model == "uniform":
        return Uniform.fit(train, UniformConfig(vocab_size)), ()
    if options.model == "unigram":
        return Unigram.fit(train, UnigramConfig(vocab_size, options.s)), ()
    if options.model == "bigram":
        return Bigram.fit(train, BigramConfig(vocab_size, options.s)), ()
    return _ngram(train, dev, vocab_size, options)


def count_model_name(model: CountModel, options: CountOptions) -> str:
    """A model with all that tells it from others.

    >>> import numpy as np
    >>> count_model_name(Uniform(np.zeros(27), has_boundary=True), CountOptions(model="bigram", s=0.1))
    'bigram, add-0.1'
    """
    if isinstance(model, NGram):
        return f"{model.grams.order}-gram, {model.smoothing.description}"
    return options.model if options.model == "uniform" else f"{options.model}, {AddS(options.s).description}"


def _ngram(train: Corpus, dev: Corpus, vocab_size: int, options: CountOptions) -> tuple[NGram, tuple[Trial, ...]]:
    smoothings = SMOOTHINGS if options.smoothing == AUTO else (_smoothing(options),)
    if options.n != AUTO and len(smoothings) == 1:
        return NGram.fit(train, NGramConfig(vocab_size, options.order, smoothings[0])), ()
    if len(dev.tokens) < 2:
        raise PellucidError(
            "there is no dev side to choose the n-gram on",
            fix="Choose it yourself: {n} {smoothing}",
            options={"n": 3, "smoothing": "kneser-ney"},
        )
    orders = ORDERS if options.n == AUTO else [options.order]
    choice = best_ngram(train, dev, vocab_size, orders, smoothings)
    return choice.model, choice.trials


def _smoothing(options: CountOptions) -> Smoothing:
    if options.smoothing == "add":
        return AddS(options.s)
    return WittenBell() if options.smoothing == "witten-bell" else KneserNey(options.discount)
