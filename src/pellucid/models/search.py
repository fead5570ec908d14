"""The n-gram that predicts dev best, and what was tried to find it. The test side is never looked at."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pellucid.models.contract import CountModel, Stream
from pellucid.models.counts import count
from pellucid.models.ngram import NGram
from pellucid.models.smoothing import AddS, KneserNey, Smoothing, WittenBell
from pellucid.records import Loss, Trial

ORDERS = range(1, 8)
SMOOTHINGS: tuple[Smoothing, ...] = (
    KneserNey(),
    *(KneserNey(discount) for discount in (0.6, 0.75, 0.9)),
    WittenBell(),
    *(AddS(s) for s in (1.0, 0.1, 0.01)),
)


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
            dev_loss = loss(model, dev).nats
            trials.append(Trial(order, smoothing.says, dev_loss, model.n_stored))
            if best is None or dev_loss < least:
                best, least = model, dev_loss
    assert best is not None, "no order was given"
    return Choice(best, tuple(trials))


def loss(model: CountModel, corpus: Stream) -> Loss:
    """The mean surprise in nats over every predicted token of the corpus, closing boundaries included.

    Infinite as soon as one token was impossible; then `n_impossible` says how many were.
    """
    found = model.of_each(corpus.tokens)
    n_impossible = int((found == -math.inf).sum())
    return Loss(float(-found.mean()) + 0.0 if len(found) else math.nan, len(found), n_impossible)
