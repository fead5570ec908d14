"""The bigram counts of data or of one word, as a record for pictures."""

import numpy as np

from pellucid.data import Characters, ListData, TextData
from pellucid.data.prepare import Corpus, encode_list, encode_text
from pellucid.models.contract import IntArray
from pellucid.models.counts import Grams, count
from pellucid.records import Bigram, BigramCounts


def bigram_counts(data: ListData | TextData) -> BigramCounts:
    """Every pair of neighbours in the data with its count; in a list the boundaries are neighbours too."""
    if isinstance(data, ListData):
        vocabulary = Characters.of(data)
        source = f"{len(data):,} item{'s' * (len(data) != 1)} of {data.name}"
        return _record(encode_list(data, vocabulary), vocabulary, source)
    vocabulary = Characters.of(data, has_boundary=False)
    return _record(encode_text(data, vocabulary), vocabulary, data.name)


def word_counts(word: str) -> BigramCounts:
    """The pairs of one word between its boundaries, and the walk that it takes over them.

    >>> counts = word_counts("emma")
    >>> counts.symbols, counts.walk, counts.total
    (('·', 'a', 'e', 'm'), (0, 2, 3, 3, 1, 0), 5)
    """
    vocabulary = Characters.of([word])
    corpus = encode_list([word], vocabulary)
    return _record(corpus, vocabulary, f"the word {word}")._replace(walk=tuple(corpus.tokens.tolist()))


def _record(corpus: Corpus, vocabulary: Characters, source: str) -> BigramCounts:
    vocab_size = len(vocabulary)
    codes, counts = counted_pairs(count(corpus, vocab_size, order=2))
    order = np.lexsort((codes, -counts))
    rows = zip((codes // vocab_size)[order], (codes % vocab_size)[order], counts[order], strict=True)
    bigrams = tuple([Bigram(int(first), int(second), int(n)) for first, second, n in rows])
    return BigramCounts(source, tuple(vocabulary.tokens), corpus.has_boundary, bigrams)


def counted_pairs(grams: Grams) -> tuple[IntArray, IntArray]:
    """The codes of the pairs that occur, and how often each does."""
    level = grams.levels[1]
    codes = np.flatnonzero(level.counts) if level.is_dense else level.codes
    return codes, level.counts[level.find(codes)]
