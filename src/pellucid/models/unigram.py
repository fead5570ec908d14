"""Unigram: each token by how often it was seen, whatever stands before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pellucid.models.contract import CountModel, FloatArray, IntArray, ModelCard, Stream, logs
from pellucid.models.counts import count
from pellucid.models.smoothing import AddS


@dataclass(frozen=True)
class UnigramConfig:
    vocab_size: int
    s: float = 0.0  # added to every count


class Unigram(CountModel):
    """One probability for each token: its share of all that was counted."""

    reach = 0

    def __init__(self, counts: IntArray, s: float, has_boundary: bool) -> None:
        self.counts = counts  # (vocab,)
        self.vocab_size = len(counts)
        self.has_boundary = has_boundary
        added = counts + AddS(s).s
        self.log_table = logs(added / added.sum())

    @classmethod
    def fit(cls, corpus: Stream, config: UnigramConfig) -> Unigram:
        (level,) = count(corpus, config.vocab_size, order=1).levels
        return cls(level.counts, config.s, corpus.has_boundary)

    def after_each(self, tokens: IntArray) -> FloatArray:
        return np.broadcast_to(self.log_table, (*tokens.shape, self.vocab_size)).copy()

    def log_probabilities(self, contexts: IntArray) -> FloatArray:
        return np.broadcast_to(self.log_table, (len(contexts), self.vocab_size)).copy()

    def of_each(self, tokens: IntArray) -> FloatArray:
        found: FloatArray = self.log_table[tokens[1:]]
        return found

    @property
    def n_entries(self) -> int:
        return self.vocab_size

    @property
    def n_stored(self) -> int:
        return self.vocab_size


MODEL = ModelCard(
    name="unigram",
    says="each token by how often it was seen, whatever stands before it",
    fit=Unigram.fit,
    tiny=UnigramConfig(vocab_size=5),
)
