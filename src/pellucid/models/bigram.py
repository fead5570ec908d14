"""Bigram: the next token depends on this one and on nothing before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pellucid.errors import TooLarge
from pellucid.models.contract import CountModel, FloatArray, IntArray, ModelCard, Stream, logs
from pellucid.models.counts import MOST_BINS, count
from pellucid.models.smoothing import AddS


@dataclass(frozen=True)
class BigramConfig:
    vocab_size: int
    s: float = 0.0  # added to every count


class Bigram(CountModel):
    """P = A / row sums: the counts of pairs, each row divided by its sum, which is what maximum likelihood gives."""

    reach = 1

    def __init__(self, pairs: IntArray, singles: IntArray, s: float, has_boundary: bool) -> None:
        self.counts = pairs  # (vocab, vocab): row, then the token after it
        self.vocab_size = len(pairs)
        self.has_boundary = has_boundary
        added = pairs + AddS(s).s
        totals = added.sum(axis=1, keepdims=True)
        # After a token that was never followed by any, and with s = 0, any is as likely: that is where s → 0 leads.
        even = np.full(pairs.shape, 1 / self.vocab_size)
        self.log_table = logs(np.divide(added, totals, out=even, where=totals > 0))
        # Before anything was read: an item begins after the boundary, a text anywhere.
        self.log_first = self.log_table[0] if has_boundary else logs((singles + s) / (singles + s).sum())

    @classmethod
    def fit(cls, corpus: Stream, config: BigramConfig) -> Bigram:
        if config.vocab_size**2 > MOST_BINS:
            raise TooLarge(
                f"the bigram matrix of {config.vocab_size:,} tokens has {config.vocab_size**2:,} entries",
                fix="Use ngram with n = 2, which keeps only what was seen",
            )
        singles, pairs = (level.table() for level in count(corpus, config.vocab_size, order=2).levels)
        return cls(pairs.reshape(config.vocab_size, -1), singles, config.s, corpus.has_boundary)

    def after_each(self, tokens: IntArray) -> FloatArray:
        found: FloatArray = self.log_table[tokens]
        return found

    def log_probabilities(self, contexts: IntArray) -> FloatArray:
        if contexts.shape[1]:
            return self.after_each(contexts[:, -1])
        return np.broadcast_to(self.log_first, (len(contexts), self.vocab_size)).copy()

    def of_each(self, tokens: IntArray) -> FloatArray:
        found: FloatArray = self.log_table[tokens[:-1], tokens[1:]]
        return found

    @property
    def n_entries(self) -> int:
        return self.vocab_size**2

    @property
    def n_stored(self) -> int:
        return self.vocab_size**2


MODEL = ModelCard(
    name="bigram",
    says="the next token by the one before it: the matrix of counts, each row divided by its sum",
    fit=Bigram.fit,
    tiny=BigramConfig(vocab_size=5),
)
