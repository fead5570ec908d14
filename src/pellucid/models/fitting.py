"""From a user's data and wishes to a fitted count model, and what should be said about it.

Counted is the train side alone; n is chosen on dev; the test side is not looked at. Only the alphabet is everyone's.
"""

from dataclasses import dataclass

from pellucid.data import ListData, TextData, Vocabulary
from pellucid.data.prepare.tokens import Corpus, SequenceSides, split_sequences
from pellucid.errors import PellucidError
from pellucid.models.bigram import Bigram, BigramConfig
from pellucid.models.contract import CountModel, Stream
from pellucid.models.ngram import NGram, NGramConfig
from pellucid.models.search import ORDERS, SMOOTHINGS, best_ngram, loss
from pellucid.models.smoothing import AddS, KneserNey, Smoothing, WittenBell
from pellucid.models.uniform import Uniform, UniformConfig
from pellucid.models.unigram import Unigram, UnigramConfig
from pellucid.models.wishes import AUTO, Wishes
from pellucid.records import ModelFacts, Trial


@dataclass(frozen=True)
class Fitted:
    """A model and all that is needed to show what it does."""

    model: CountModel
    sides: SequenceSides
    facts: ModelFacts

    @property
    def vocabulary(self) -> Vocabulary:
        return self.sides.vocabulary


def fitted(data: ListData | TextData, wishes: Wishes) -> Fitted:
    """Divide the data, fit the model on train, and see how it does on dev beside the simplest models."""
    sides = split_sequences(data, wishes.tokens)
    train, dev, vocab_size = sides.train, sides.dev, len(sides.vocabulary)
    trials: tuple[Trial, ...] = ()
    model: CountModel
    if wishes.model == "uniform":
        model, name = Uniform.fit(train, UniformConfig(vocab_size)), "uniform"
    elif wishes.model == "unigram":
        model, name = Unigram.fit(train, UnigramConfig(vocab_size, wishes.s)), f"unigram, {AddS(wishes.s).says}"
    elif wishes.model == "bigram":
        model, name = Bigram.fit(train, BigramConfig(vocab_size, wishes.s)), f"bigram, {AddS(wishes.s).says}"
    else:
        model, trials = _ngram(train, dev, vocab_size, wishes)
        name = f"{model.grams.order}-gram, {model.smoothing.says}"
    has_dev = len(dev.tokens) > 1
    facts = ModelFacts(
        name=name,
        source=data.said,
        vocab_size=vocab_size,
        n_train=len(train.tokens) - 1,
        n_dev=max(0, len(dev.tokens) - 1),
        n_entries=model.n_entries,
        n_stored=model.n_stored,
        train=loss(model, train),
        dev=loss(model, dev) if has_dev else None,
        baselines=_baselines(train, dev, vocab_size) if has_dev else (),
        trials=trials,
    )
    return Fitted(model, sides, facts)


def _ngram(train: Corpus, dev: Corpus, vocab_size: int, wishes: Wishes) -> tuple[NGram, tuple[Trial, ...]]:
    smoothings = SMOOTHINGS if wishes.smoothing == AUTO else (_smoothing(wishes),)
    if wishes.n != AUTO and len(smoothings) == 1:
        return NGram.fit(train, NGramConfig(vocab_size, wishes.order, smoothings[0])), ()
    if len(dev.tokens) < 2:
        raise PellucidError(
            "there is no dev side to choose the n-gram on", fix="Choose it yourself: --n 3 --smoothing kneser-ney"
        )
    orders = ORDERS if wishes.n == AUTO else [wishes.order]
    choice = best_ngram(train, dev, vocab_size, orders, smoothings)
    return choice.model, choice.trials


def _smoothing(wishes: Wishes) -> Smoothing:
    if wishes.smoothing == "add":
        return AddS(wishes.s)
    return WittenBell() if wishes.smoothing == "witten-bell" else KneserNey(wishes.discount)


def _baselines(train: Stream, dev: Stream, vocab_size: int) -> tuple[tuple[str, float], ...]:
    """What the simplest models reach on dev; one more in every count, so that each is finite."""
    models: dict[str, CountModel] = {
        "uniform": Uniform.fit(train, UniformConfig(vocab_size)),
        "unigram": Unigram.fit(train, UnigramConfig(vocab_size, 1.0)),
        "bigram": NGram.fit(train, NGramConfig(vocab_size, 2, AddS(1.0))),
    }
    return tuple((name, loss(model, dev).nats) for name, model in models.items())
