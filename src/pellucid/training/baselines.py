"""What counting alone reaches on the same sides: the bar that a network has to clear."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pellucid.data.sides import Sides
from pellucid.models.contract import CountModel
from pellucid.models.ngram import NGram, NGramConfig
from pellucid.models.search import best_ngram, loss
from pellucid.models.smoothing import AddS, KneserNey
from pellucid.models.uniform import Uniform, UniformConfig
from pellucid.models.unigram import Unigram, UnigramConfig
from pellucid.records import Rung


@dataclass(frozen=True)
class Counted:
    """A model that only counts, and what it reached."""

    rung: Rung
    model: CountModel

    def with_test(self, sides: Sides) -> Rung:
        """The rung with its loss on test, which is read here and not before."""
        has_test = sides.test.n_predicted > 0
        return self.rung._replace(test=loss(self.model, sides.test).nats if has_test else None)


def baselines(sides: Sides) -> Iterator[Counted]:
    """Uniform guessing, unigrams, bigrams, and the best Kneser–Ney n-gram by dev, one as soon as it is counted."""
    vocab_size = len(sides.vocabulary)
    yield _counted("uniform", sides, lambda: Uniform.fit(sides.train, UniformConfig(vocab_size)))
    yield _counted("unigram", sides, lambda: Unigram.fit(sides.train, UnigramConfig(vocab_size, 1.0)))
    yield _counted("bigram", sides, lambda: NGram.fit(sides.train, NGramConfig(vocab_size, 2, AddS(1.0))))
    yield _counted("", sides, lambda: best_ngram(sides.train, sides.dev, vocab_size, smoothings=(KneserNey(),)).model)


def _counted(name: str, sides: Sides, fit: Callable[[], CountModel]) -> Counted:
    began = time.perf_counter()
    model = fit()
    if isinstance(model, NGram) and not name:
        name = f"Kneser–Ney {model.grams.order}-gram"
    dev = loss(model, sides.dev).nats
    rung = Rung(
        name=name,
        is_counted=True,
        parameters=model.n_stored,
        train=loss(model, sides.train).nats,
        dev=dev,
        test=None,
        bits_per_character=bits_per_character(dev, sides),
        seconds=time.perf_counter() - began,
        tokens_per_second=None,
    )
    return Counted(rung, model)


def bits_per_character(nats: float, sides: Sides) -> float:
    """Nats a token on dev as bits a character, where the boundary that closes an item counts as one."""
    return nats / math.log(2) / sides.characters_per_token(sides.dev)
