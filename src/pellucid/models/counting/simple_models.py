"""Uniform, unigram and bigram: models that are one dense table of probabilities; and bigram counts for pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pellucid.data import Characters, ListData, TextData
from pellucid.data.prepare import Corpus, encode_list, encode_text
from pellucid.data.prepare.tokens import label_ends
from pellucid.errors import TooLarge
from pellucid.models.counting.count_model import CountModel, FloatArray, IntArray, Stream, logs
from pellucid.models.counting.counts import MOST_BINS, Grams, count
from pellucid.models.counting.ngram import AddS
from pellucid.records import BigramCount, BigramCounts


@dataclass(frozen=True)
class UniformConfig:
    vocab_size: int


class ContextFree(CountModel):
    """One log-probability for each token, whatever was read. log_table: (vocab,)."""

    reach = 0

    def __init__(self, log_table: FloatArray, has_boundary: bool, closing: int = 0) -> None:
        self.log_table = log_table
        self.vocab_size = len(log_table)
        self.has_boundary, self.closing = has_boundary, closing

    def after_each(self, tokens: IntArray) -> FloatArray:
        return np.broadcast_to(self.log_table, (*tokens.shape, self.vocab_size)).copy()

    def log_probabilities(self, contexts: IntArray) -> FloatArray:
        return np.broadcast_to(self.log_table, (len(contexts), self.vocab_size)).copy()

    def of_each(self, tokens: IntArray) -> FloatArray:
        found: FloatArray = self.log_table[label_ends(tokens[1:], self.closing)]
        return found

    @property
    def n_stored(self) -> int:
        return self.n_entries


class Uniform(ContextFree):
    """1/|V| for every token: what a model has to beat to have learned anything."""

    @classmethod
    def fit(cls, corpus: Stream, config: UniformConfig) -> Uniform:
        return cls(np.full(config.vocab_size, -math.log(config.vocab_size)), corpus.has_boundary, corpus.closing)

    @property
    def n_entries(self) -> int:
        return 1


@dataclass(frozen=True)
class UnigramConfig:
    vocab_size: int
    s: float = 0.0  # added to every count


class Unigram(ContextFree):
    """One probability for each token: its share of all that was counted."""

    @classmethod
    def fit(cls, corpus: Stream, config: UnigramConfig) -> Unigram:
        (level,) = count(corpus, config.vocab_size, order=1).levels
        added = level.counts + AddS(config.s).s
        return cls(logs(added / added.sum()), corpus.has_boundary, corpus.closing)

    @property
    def n_entries(self) -> int:
        return self.vocab_size


@dataclass(frozen=True)
class BigramConfig:
    vocab_size: int
    s: float = 0.0  # added to every count


class Bigram(CountModel):
    """P = A / row sums: the counts of pairs, each row divided by its sum, which is what maximum likelihood gives."""

    reach = 1

    def __init__(self, pairs: IntArray, singles: IntArray, s: float, has_boundary: bool, closing: int = 0) -> None:
        self.counts = pairs  # (vocab, vocab): row, then the token after it
        self.vocab_size = len(pairs)
        self.has_boundary, self.closing = has_boundary, closing
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
        return cls(pairs.reshape(config.vocab_size, -1), singles, config.s, corpus.has_boundary, corpus.closing)

    def after_each(self, tokens: IntArray) -> FloatArray:
        found: FloatArray = self.log_table[tokens]
        return found

    def log_probabilities(self, contexts: IntArray) -> FloatArray:
        if contexts.shape[1]:
            return self.after_each(contexts[:, -1])
        return np.broadcast_to(self.log_first, (len(contexts), self.vocab_size)).copy()

    def of_each(self, tokens: IntArray) -> FloatArray:
        found: FloatArray = self.log_table[tokens[:-1], label_ends(tokens[1:], self.closing)]
        return found

    @property
    def n_entries(self) -> int:
        return self.vocab_size**2

    @property
    def n_stored(self) -> int:
        return self.vocab_size**2


def bigram_counts(data: ListData | TextData, boundary: str = "one") -> BigramCounts:
    """Every pair of neighbours in the data with its count; in a list the boundaries are neighbours too.

    boundary: "one" opens and closes every item; with "two" <S> opens and <E> closes it.
    """
    if isinstance(data, ListData):
        vocabulary = Characters.of(data, has_end=boundary == "two")
        source = f"{len(data):,} item{'s' * (len(data) != 1)} of {data.name}"
        return _record(encode_list(data, vocabulary), vocabulary, source)
    vocabulary = Characters.of(data, has_boundary=False)
    return _record(encode_text(data, vocabulary), vocabulary, data.name)


def word_counts(word: str, boundary: str = "one") -> BigramCounts:
    """The pairs of one word between its boundaries, and the walk that it takes over them.

    >>> counts = word_counts("emma")
    >>> counts.symbols, counts.walk, counts.total
    (('·', 'a', 'e', 'm'), (0, 2, 3, 3, 1, 0), 5)
    >>> counts = word_counts("emma", boundary="two")
    >>> counts.symbols, counts.walk, counts.total
    (('<S>', 'a', 'e', 'm', '<E>'), (0, 2, 3, 3, 1, 4), 5)
    """
    vocabulary = Characters.of([word], has_end=boundary == "two")
    corpus = encode_list([word], vocabulary)
    return _record(corpus, vocabulary, f"the word {word}")._replace(walk=(0, *corpus.targets.tolist()))


def _record(corpus: Corpus, vocabulary: Characters, source: str) -> BigramCounts:
    vocab_size = len(vocabulary)
    codes, counts = counted_pairs(count(corpus, vocab_size, order=2))
    order = np.lexsort((codes, -counts))
    rows = zip((codes // vocab_size)[order], (codes % vocab_size)[order], counts[order], strict=True)
    bigrams = tuple([BigramCount(int(first), int(second), int(n)) for first, second, n in rows])
    return BigramCounts(source, tuple(vocabulary.tokens), corpus.has_boundary, bigrams, closing=corpus.closing)


def counted_pairs(grams: Grams) -> tuple[IntArray, IntArray]:
    """The codes of the pairs that occur, and how often each does."""
    level = grams.levels[1]
    codes = np.flatnonzero(level.counts) if level.is_dense else level.codes
    return codes, level.counts[level.find(codes)]
