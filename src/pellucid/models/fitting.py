"""From a user's data and wishes to a fitted count model, and what should be said about it.

Counted is the train side alone; n is chosen on dev; the test side is not looked at. Only the alphabet is everyone's.
"""

from dataclasses import dataclass

from pellucid.data import Bytes, Characters, ListData, TextData, Vocabulary, Words, encode_list, encode_text
from pellucid.data.splits import FRACTIONS, split_list
from pellucid.errors import PellucidError
from pellucid.models.bigram import Bigram, BigramConfig
from pellucid.models.contract import CountModel, IntArray, Stream
from pellucid.models.ngram import NGram, NGramConfig
from pellucid.models.search import ORDERS, SMOOTHINGS, best_ngram, loss
from pellucid.models.smoothing import AddS, KneserNey, Smoothing, WittenBell
from pellucid.models.uniform import Uniform, UniformConfig
from pellucid.models.unigram import Unigram, UnigramConfig
from pellucid.models.wishes import AUTO, Wishes
from pellucid.records import ModelFacts, Trial


@dataclass(frozen=True)
class Side:
    """One side of the data as tokens."""

    tokens: IntArray
    has_boundary: bool


@dataclass(frozen=True)
class Sides:
    """The data, divided, and in tokens."""

    vocabulary: Vocabulary
    train: Side
    dev: Side
    train_items: list[str]  # of a list; empty for running text
    dev_items: list[str]


@dataclass(frozen=True)
class Fitted:
    """A model and all that is needed to show what it does."""

    model: CountModel
    sides: Sides
    facts: ModelFacts

    @property
    def vocabulary(self) -> Vocabulary:
        return self.sides.vocabulary


def divided(data: ListData | TextData, tokens: str = "characters") -> Sides:
    """Lists by the hash of the item; running text in its own order, the first 80 % for train."""
    vocabulary = _vocabulary(data, tokens)
    if isinstance(data, TextData):
        whole = encode_text(data, vocabulary).tokens
        first, second = (int(len(whole) * part) for part in (FRACTIONS[0], FRACTIONS[0] + FRACTIONS[1]))
        return Sides(vocabulary, Side(whole[:first], False), Side(whole[first:second], False), [], [])
    split = split_list(data.items)
    if not split.train:
        raise PellucidError(
            f"none of the {len(data.items):,} items of {data.name} falls to the train side", fix="Give it more items"
        )
    train, dev = (Side(encode_list(items, vocabulary).tokens, True) for items in (split.train, split.dev))
    return Sides(vocabulary, train, dev, split.train, split.dev)


def _vocabulary(data: ListData | TextData, tokens: str) -> Vocabulary:
    has_boundary = isinstance(data, ListData)
    if tokens == "bytes":
        return Bytes(has_boundary)
    return (Words if tokens == "words" else Characters).of(data, has_boundary)


def fitted(data: ListData | TextData, wishes: Wishes) -> Fitted:
    """Divide the data, fit the model on train, and see how it does on dev beside the simplest models."""
    sides = divided(data, wishes.tokens)
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


def _ngram(train: Side, dev: Side, vocab_size: int, wishes: Wishes) -> tuple[NGram, tuple[Trial, ...]]:
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
