"""n-gram: the next token depends on the n - 1 before it, by how often they were seen together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pellucid.models.counting.count_model import SLICE, CountModel, FloatArray, IntArray, Stream, logs
from pellucid.models.counting.counts import Grams, Level, count
from pellucid.models.counting.smoothing import KneserNey, Smoothing


@dataclass(frozen=True)
class NGramConfig:
    vocab_size: int
    order: int = 5
    smoothing: Smoothing = field(default_factory=KneserNey)


class NGram(CountModel):
    """Counts of every order up to n, smoothed. Small orders are whole tables of probabilities, large ones sorted.

    A gram that was seen has its probability ready. One that was not gets what its context hands on, times its
    probability after the shorter context, and so on down.
    """

    def __init__(self, grams: Grams, smoothing: Smoothing) -> None:
        self.grams = grams
        self.smoothing = smoothing
        self.vocab_size = grams.vocab_size
        self.reach = grams.order - 1
        self.has_boundary = grams.has_boundary
        self.orders: list[_Order] = []  # from the lowest up
        for level in grams.levels:
            # Evenly shared rests need no other order than the highest, but where a text begins.
            if smoothing.leans_on_shorter or level.order == grams.order or not grams.has_boundary:
                self.orders.append(self._order(level))

    @classmethod
    def fit(cls, corpus: Stream, config: NGramConfig) -> NGram:
        """Count the grams of a corpus."""
        return cls(count(corpus, config.vocab_size, config.order), config.smoothing)

    def _order(self, level: Level) -> _Order:
        kept, rest = self.smoothing.shares(self.grams, level.order)
        if not (self.smoothing.leans_on_shorter and self.orders):
            return _Order(level, kept + level.by_row(rest) / self.vocab_size, np.append(rest, 1.0))
        below = self.orders[-1].probability
        if level.is_dense:
            # A context without its oldest token is its code without the highest digit: the order below, for each again.
            spread = rest.reshape(self.vocab_size, -1, 1) * below.reshape(1, -1, self.vocab_size)
            return _Order(level, kept + spread.reshape(-1), np.append(rest, 1.0))
        return _Order(level, kept + level.by_row(rest) * below[level.suffixes], np.append(rest, 1.0))

    def _probabilities(self, contexts: list[IntArray], tokens: IntArray) -> FloatArray:
        """The probability of each token after the context that stands at its place, one code for each order."""
        shape = np.broadcast_shapes(contexts[0].shape, tokens.shape)
        rows = [np.broadcast_to(codes, shape).reshape(-1) for codes in contexts]
        tokens = np.broadcast_to(tokens, shape).reshape(-1)
        answer = np.empty(tokens.shape)
        factor = np.ones(tokens.shape)
        waiting = np.arange(len(tokens))
        for order in reversed(self.orders):
            here = rows[order.level.order - 1][waiting]
            places = order.level.find(here * self.vocab_size + tokens[waiting])
            is_seen = (here >= 0) & (places < len(order.probability))
            seen = waiting[is_seen]
            answer[seen] = factor[seen] * order.probability[places[is_seen]]
            waiting, here = waiting[~is_seen], here[~is_seen]
            if not len(waiting):
                break
            is_short = here < 0  # reaches back before the text: an order for shorter contexts has to answer
            factor[waiting] *= order.rest[np.where(is_short, -1, order.level.find_rows(here))]
            if not self.smoothing.leans_on_shorter:
                evenly = waiting[~is_short]
                answer[evenly] = factor[evenly] / self.vocab_size
                waiting = waiting[is_short]
        # What still waits was seen in no order.
        answer[waiting] = factor[waiting] / self.vocab_size
        return answer.reshape(shape)

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
        found = np.empty(max(0, len(tokens) - 1))
        # Where the highest order is one table, all but the beginning is one look into it for each token.
        is_table = self.orders[-1].level.is_dense
        first = min(len(tokens), max(2, self.reach)) if is_table else 1
        if first > 1 and len(found):
            found[: first - 1] = self._one_by_one(tokens, 1, first)
        for began in range(first, len(tokens), SLICE):
            end = min(len(tokens), began + SLICE)
            if is_table:
                codes = self.grams.codes(tokens[began - self.reach : end])
                self._log_table.take(codes, out=found[began - 1 : end - 1], mode="clip")
            else:
                found[began - 1 : end - 1] = self._one_by_one(tokens, began, end)
        return found

    def _one_by_one(self, tokens: IntArray, began: int, end: int) -> FloatArray:
        """The log-probabilities of the tokens from `began` up to `end`, order by order."""
        overlap = min(began, self.grams.order)
        part = tokens[began - overlap : end].astype(np.int64)
        contexts = [before[overlap:] for before, _ in self.grams.walk(part)]
        return logs(self._probabilities(contexts, part[overlap:]))

    @cached_property
    def _log_table(self) -> FloatArray:
        return logs(self.orders[-1].probability)

    @property
    def n_entries(self) -> int:
        return int(self.vocab_size**self.grams.order)

    @property
    def n_stored(self) -> int:
        # A dense order needs no rests: each of its probabilities is there.
        rests = sum(len(order.rest) - 1 for order in self.orders if not order.level.is_dense)
        return rests + sum(len(order.probability) for order in self.orders)


@dataclass(frozen=True)
class _Order:
    level: Level
    probability: FloatArray  # of each gram, as the counts stand
    rest: FloatArray  # of each context, and one 1 at the end for those never seen
