"""n-gram: the next token depends on the n - 1 before it, by how often they were seen together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pellucid.models.contract import SLICE, CountModel, FloatArray, IntArray, ModelCard, Stream, logs
from pellucid.models.counts import Grams, Level, count
from pellucid.models.smoothing import KneserNey, Smoothing


@dataclass(frozen=True)
class NGramConfig:
    vocab_size: int
    order: int = 5
    smoothing: Smoothing = field(default_factory=KneserNey)


class NGram(CountModel):
    """Counts of every order up to n, smoothed. Small orders are whole tables of probabilities, large ones sorted."""

    def __init__(self, grams: Grams, smoothing: Smoothing) -> None:
        self.grams = grams
        self.smoothing = smoothing
        self.vocab_size = grams.vocab_size
        self.reach = grams.order - 1
        self.has_boundary = grams.has_boundary
        self.tables: list[FloatArray] = []  # for each dense order the probability of each gram
        self.sparse: list[_SparseOrder] = []
        for level in grams.levels:
            # Evenly shared rests need no other order than the highest, but where a text begins.
            if smoothing.leans_on_shorter or level.order == grams.order or not grams.has_boundary:
                self._add(level)

    @classmethod
    def fit(cls, corpus: Stream, config: NGramConfig) -> NGram:
        """Count the grams of a corpus."""
        return cls(count(corpus, config.vocab_size, config.order), config.smoothing)

    def _add(self, level: Level) -> None:
        kept, rest = self.smoothing.shares(self.grams, level.order)
        if not level.is_dense:
            self.sparse.append(_SparseOrder(level, np.append(kept, 0.0), np.append(rest, 1.0)))
            return
        below = np.full(self.vocab_size, 1 / self.vocab_size)
        if self.smoothing.leans_on_shorter and self.tables:
            below = self.tables[-1]
        # A context without its oldest token is its code without the highest digit: the table below, once more for each.
        spread = rest.reshape(-1, len(below) // self.vocab_size, 1) * below.reshape(1, -1, self.vocab_size)
        self.tables.append(kept + spread.reshape(-1))

    def _probabilities(self, contexts: list[IntArray], tokens: IntArray) -> FloatArray:
        """The probability of each token after the context that stands at its place, one code for each order."""
        answer = np.full(np.broadcast_shapes(contexts[0].shape, tokens.shape), 1 / self.vocab_size)
        if self.tables:
            answer = self._by_tables(contexts, tokens)
        for order in self.sparse:
            level, rows = order.level, contexts[order.level.order - 1]
            below = answer if self.smoothing.leans_on_shorter else 1 / self.vocab_size
            rest = order.rest[level.find_rows(rows)]
            found = order.kept[level.find(rows * self.vocab_size + tokens)] + rest * below
            answer = found if self.has_boundary else np.where(rows < 0, answer, found)
        return answer

    def _by_tables(self, contexts: list[IntArray], tokens: IntArray) -> FloatArray:
        highest = self._highest_dense
        answer: FloatArray = self.tables[-1][contexts[highest - 1] * self.vocab_size + tokens]
        if not self.has_boundary:
            # Where the text has only begun, a shorter context has to do. Text has a table for every order.
            for order in range(highest - 1, 0, -1):
                lower = self.tables[order - 1][contexts[order - 1] * self.vocab_size + tokens]
                answer = np.where(contexts[order] < 0, lower, answer)
        return answer

    @cached_property
    def _highest_dense(self) -> int:
        return max(level.order for level in self.grams.levels if level.is_dense)

    def after_each(self, tokens: IntArray) -> FloatArray:
        longer = np.concatenate([tokens, tokens[..., :1]], axis=-1)
        contexts = [before[..., 1:, None] for before, _ in self.grams.walk(longer)]
        return logs(self._probabilities(contexts, np.arange(self.vocab_size)))

    def log_probabilities(self, contexts: IntArray) -> FloatArray:
        read = contexts[:, contexts.shape[1] - min(self.reach, contexts.shape[1]) :].astype(np.int64)
        longer = np.concatenate([read, np.zeros((len(read), 1), np.int64)], axis=1)
        codes = [before[:, -1:] for before, _ in self.grams.walk(longer)]
        return logs(self._probabilities(codes, np.arange(self.vocab_size)))

    def of_each(self, tokens: IntArray) -> FloatArray:
        parts = []
        for began in range(1, len(tokens), SLICE):
            overlap = min(began, self.grams.order)
            part = tokens[began - overlap : began + SLICE].astype(np.int64)
            contexts = [before[overlap:] for before, _ in self.grams.walk(part)]
            parts.append(logs(self._probabilities(contexts, part[overlap:])))
        return np.concatenate(parts) if parts else np.zeros(0)

    @property
    def n_entries(self) -> int:
        return int(self.vocab_size**self.grams.order)

    @property
    def n_stored(self) -> int:
        dense = sum(len(table) for table in self.tables)
        return dense + sum(len(order.kept) + len(order.rest) - 2 for order in self.sparse)


@dataclass(frozen=True)
class _SparseOrder:
    level: Level
    kept: FloatArray  # and one 0 at the end, for the grams never seen
    rest: FloatArray  # and one 1, for the contexts never seen


MODEL = ModelCard(
    name="ngram",
    says="the next token by the n - 1 before it: counts of every order up to n, smoothed",
    fit=NGram.fit,
    tiny=NGramConfig(vocab_size=5, order=3),
)
