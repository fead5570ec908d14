"""n-gram: the next token depends on the n - 1 before it, by how often they were seen together.

What was never seen is left something by smoothing. Every way here is of one form: a context's grams keep a share of the
probability, and the rest is handed to a simpler distribution. With c(g) the count of a gram and N the sum of the counts
in its context,

    P(w | context) = kept(context, w) + rest(context) · P'(w)

    add-s          kept = c / (N + s|V|)          rest = s|V| / (N + s|V|)      P' is uniform
    Witten–Bell    kept = c / (N + T)             rest = T / (N + T)            P' is the next shorter context's
    Kneser–Ney     kept = max(c - D(c), 0) / N    rest = what D took away / N   the same

T is the number of different tokens seen after the context. Below the highest order Kneser–Ney counts a gram once for
each different token seen before it. A context that was never seen keeps nothing: the rest is 1.
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from pellucid.data.prepare.tokens import label_ends
from pellucid.errors import PellucidError
from pellucid.models.counting.code_index import CAN_SCORE, CodeValues
from pellucid.models.counting.count_model import SLICE, CountModel, FloatArray, IntArray, Stream, logs
from pellucid.models.counting.counts import Grams, Level, count

CACHED = 1 << 19  # probabilities that stay in a CPU's cache
WORTH_SORTING, FEWER = 1_000, 0.8  # contexts among which equal ones are looked for, and the share that are different
FALLBACK = (0.5, 1.0, 1.5)  # discounts where the data have no gram of some small count to estimate them from


class Shares(NamedTuple):
    """What each gram of one order keeps (as its counts stand), and what each context hands on."""

    kept: FloatArray
    rest: FloatArray


class Smoothing(Protocol):
    """One way to share out probability, order by order."""

    @property
    def leans_on_shorter(self) -> bool:
        """Whether the rest goes to the next shorter context; else it is spread evenly."""

    @property
    def description(self) -> str:
        """Its name, as a reader knows it."""

    def shares(self, grams: Grams, order: int) -> Shares: ...


@dataclass(frozen=True)
class AddS:
    """s more for every count. With s = 0 it is maximum likelihood: what was never seen is impossible.

    A context that was never seen answers evenly even then, which is where s → 0 leads.
    """

    s: float = 1.0
    leans_on_shorter: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.s) and self.s >= 0):
            raise PellucidError(f"s is {self.s}", fix="Choose a finite s of 0 or more, such as 0.1")

    @property
    def description(self) -> str:
        return f"add-{self.s:g}" if self.s else "maximum likelihood (s = 0)"

    def shares(self, grams: Grams, order: int) -> Shares:
        level = grams.levels[order - 1]
        added = self.s * grams.vocab_size
        totals = level.row_sums(level.counts)
        # An empty row of a dense table with s = 0 would be 0/0.
        weights = np.divide(1.0, totals + added, out=np.zeros_like(totals), where=totals + added > 0)
        return Shares(level.counts * level.by_row(weights), np.where(totals > 0, added * weights, 1.0))


@dataclass(frozen=True)
class WittenBell:
    """As much for the unseen as there were first times: each different token of a context was new once."""

    leans_on_shorter: bool = True
    description: str = "Witten–Bell"

    def shares(self, grams: Grams, order: int) -> Shares:
        level = grams.levels[order - 1]
        totals = level.row_sums(level.counts)
        kinds = level.row_sums(level.counts > 0)
        weights = np.divide(1.0, totals + kinds, out=np.zeros_like(totals), where=totals > 0)
        return Shares(level.counts * level.by_row(weights), np.where(totals > 0, kinds * weights, 1.0))


@dataclass(frozen=True)
class KneserNey:
    """Interpolated Kneser–Ney. Without a `discount`, the modified one of Chen and Goodman (1999): three for each order.

    The boundaries before an item are counted as any other token. To give what follows them its plain counts in every
    order, as some do, lets the same counts speak twice: 0.03 nats worse on names.
    """

    discount: float = 0.0  # one for every count; 0 means three, estimated from the counts of counts
    leans_on_shorter: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.discount <= 1:
            raise PellucidError(f"the discount is {self.discount}", fix="Choose one above 0, at most 1, such as 0.75")

    @property
    def description(self) -> str:
        return f"Kneser–Ney with discount {self.discount:g}" if self.discount else "modified Kneser–Ney"

    def shares(self, grams: Grams, order: int) -> Shares:
        level = grams.levels[order - 1]
        counts = level.counts if order == grams.order else continuations(grams, order)
        small, middle, large = (self.discount,) * 3 if self.discount else modified_discounts(counts)
        taken = np.array([0.0, small, middle, large])[np.minimum(counts, 3)]
        totals = level.row_sums(counts)
        weights = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
        rest = np.where(totals > 0, level.row_sums(taken) * weights, 1.0)
        return Shares((counts - taken) * level.by_row(weights), rest)


def modified_discounts(counts: IntArray) -> tuple[float, float, float]:
    """The discounts for counts of 1, 2 and 3 or more, from how many grams were seen once, twice, ... four times.

    Where every gram was seen once, the discount is 1: the whole of it goes to the shorter context.

    >>> modified_discounts(np.array([1, 1, 1, 1, 2, 2, 3, 4]))
    (0.5, 1.25, 1.0)
    >>> modified_discounts(np.array([1, 1, 1, 1]))
    (1.0, 1.0, 1.5)
    """
    n_seen = [int(np.count_nonzero(counts == c)) for c in (1, 2, 3, 4)]
    if not n_seen[0]:
        return FALLBACK
    ratio = n_seen[0] / (n_seen[0] + 2 * n_seen[1])
    found = list(FALLBACK)
    for c in (1, 2, 3):
        here, above = n_seen[c - 1 : c + 1]
        estimate = c - (c + 1) * ratio * above / here if here else 0.0
        # Outside this range a gram would gain, or owe more than it has: the counts are not of the kind assumed.
        if 0 < estimate <= c:
            found[c - 1] = estimate
    return found[0], found[1], found[2]


def continuations(grams: Grams, order: int) -> IntArray:
    """For each gram of this order, how many different tokens were seen before it; as its counts stand."""
    return np.bincount(grams.levels[order].suffixes, minlength=len(grams.levels[order - 1].counts))


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
        self.has_boundary, self.closing = grams.has_boundary, grams.closing
        self.orders: list[_Order] = []  # from the lowest up
        for level in grams.levels:
            # Evenly shared rests need no other order than the highest, but where a text begins.
            if smoothing.leans_on_shorter or level.order == grams.order or not grams.has_boundary:
                self.orders.append(self._order(level))

    @classmethod
    def fit(cls, corpus: Stream, config: NGramConfig) -> NGram:
        """Count the grams of a corpus."""
        return cls(count(corpus, config.vocab_size, config.order), config.smoothing)

    def without_counts(self) -> NGram:
        """The same answers from half of the memory; what only smoothing needs is gone."""
        light = copy.copy(self)
        levels = tuple(level.without_counts() for level in self.grams.levels)
        light.grams = dataclasses.replace(self.grams, levels=levels)
        light.orders = [dataclasses.replace(order, level=levels[order.level.order - 1]) for order in self.orders]
        return light

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
        contexts = [before[..., 1:].reshape(-1) for before, _ in self.grams.walk(longer)]
        return self._log_distributions(contexts).reshape(*tokens.shape, self.vocab_size)

    def log_probabilities(self, contexts: IntArray) -> FloatArray:
        read = contexts[:, contexts.shape[1] - min(self.reach, contexts.shape[1]) :].astype(np.int64)
        longer = np.concatenate([read, np.zeros((len(read), 1), np.int64)], axis=1)
        return self._log_distributions([before[:, -1] for before, _ in self.grams.walk(longer)])

    def _log_distributions(self, contexts: list[IntArray]) -> FloatArray:
        """As `_distributions`, in logarithms: a few rows at a time, which with many symbols is six times as fast.

        Of many contexts, those that come again are worked out once.
        """
        if len(contexts[-1]) >= WORTH_SORTING and not self.grams.ranked and contexts[-1].min() >= 0:
            # A context of the highest order says what all shorter ones are.
            different, firsts, places = np.unique(contexts[-1], return_index=True, return_inverse=True)
            if len(different) <= FEWER * len(places):
                return self._log_distributions([codes[firsts] for codes in contexts])[places]
        found = np.empty((len(contexts[0]), self.vocab_size))
        n_rows = max(1, CACHED // self.vocab_size)
        for at in range(0, len(found), n_rows):
            some = slice(at, at + n_rows)
            found[some] = logs(self._distributions([codes[some] for codes in contexts]))
        return found

    def _distributions(self, contexts: list[IntArray]) -> FloatArray:
        """The whole distribution after each context, of which one code is given for each order: (n, vocab).

        From the lowest order up: what was seen after the context has its probability ready, and all else keeps what
        it had, times what the context hands on. A dense order is a table in which every context has its row.
        """
        answer = np.full((len(contexts[0]), self.vocab_size), 1 / self.vocab_size)
        for place, order in enumerate(self.orders):
            above = self.orders[place + 1].level if place + 1 < len(self.orders) else None
            if above is not None and above.is_dense and not (contexts[above.order - 1] < 0).any():
                continue  # that one has every context
            codes = contexts[order.level.order - 1]
            if not self.smoothing.leans_on_shorter:
                answer[codes >= 0] = 1 / self.vocab_size  # a shorter context speaks only where a longer one cannot be
            places = np.where(codes < 0, order.level.n_rows, order.level.find_rows(codes))
            known = np.flatnonzero(places < order.level.n_rows)
            rows = places[known]
            if order.level.is_dense:
                answer[known] = order.probability.reshape(-1, self.vocab_size)[rows]
                continue
            answer[known] *= order.rest[rows, None]
            firsts, lengths = order.level.row_starts[rows], order.level.row_lengths[rows]
            # Where the grams of each context stand, one context after another.
            grams = np.repeat(firsts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
            cells = np.repeat(known * self.vocab_size, lengths) + order.level.codes[grams] % self.vocab_size
            answer.reshape(-1)[cells] = order.probability[grams]
        return answer

    def of_each(self, tokens: IntArray) -> FloatArray:
        found = np.empty(max(0, len(tokens) - 1))
        # Where the highest order is one table, all but the beginning is one look into it for each token; where it is
        # sorted and can be looked up at once, only what was never seen needs the shorter orders.
        highest = self.orders[-1].level
        is_table = highest.is_dense
        if not is_table and CAN_SCORE and not self.grams.ranked and len(tokens) > self.grams.order:
            return self._of_seen(tokens)
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

    def _of_seen(self, tokens: IntArray) -> FloatArray:
        """What `of_each` gives: first of all grams of the highest order that were seen, then of the others."""
        found = np.empty(len(tokens) - 1)
        # In a list a gram that would reach back before the beginning has boundaries there; in a text there is none.
        first = 1 if self.has_boundary else self.grams.order - 1
        if first > 1:
            found[: first - 1] = self._one_by_one(tokens, 1, first)
        alphabet = (self.vocab_size, self.grams.order, self.has_boundary, self.closing)
        if self._values.score(tokens, found[first - 1 :], *alphabet):
            unseen = np.flatnonzero(np.isnan(found))
            late = unseen[unseen >= self.grams.order - 2]
            found[late] = self._at(tokens, late + 1)
            if len(late) < len(unseen):
                found[: self.grams.order - 2] = self._one_by_one(tokens, 1, self.grams.order - 1)
        return found

    def _at(self, tokens: IntArray, places: IntArray) -> FloatArray:
        """The log-probabilities of the tokens at these places, each at least order - 1 from the beginning."""
        windows = tokens[places[:, None] + np.arange(1 - self.grams.order, 1)].astype(np.int64)
        contexts = [before[:, -1] for before, _ in self.grams.walk(windows)]
        return logs(self._probabilities(contexts, label_ends(windows[:, -1], self.closing)))

    def _one_by_one(self, tokens: IntArray, began: int, end: int) -> FloatArray:
        """The log-probabilities of the tokens from `began` up to `end`, order by order."""
        overlap = min(began, self.grams.order)
        part = tokens[began - overlap : end].astype(np.int64)
        contexts = [before[overlap:] for before, _ in self.grams.walk(part)]
        return logs(self._probabilities(contexts, label_ends(part[overlap:], self.closing)))

    @cached_property
    def _values(self) -> CodeValues:
        """The log-probability of each gram of the highest order."""
        return CodeValues(self.orders[-1].level.codes, logs(self.orders[-1].probability))

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
