"""What counting pairs shows, as plain records for pictures: the counts themselves, and what smoothing does to them."""

from collections.abc import Sequence

import numpy as np

from pellucid.data import Characters, Corpus, ListData, TextData, encode_list, encode_text
from pellucid.data.sides import divided
from pellucid.errors import PellucidError, quoted
from pellucid.models.contract import FloatArray, IntArray, Stream
from pellucid.models.counts import Grams, count
from pellucid.records import Bigram, BigramCounts, SmoothedLoss, SmoothedRow, Smoothing

SHOWN = (0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0)
TRIED = (0.0, *[digit * 10.0**power for power in range(-2, 7) for digit in (1, 2, 5)], 1e7)
SPOKEN = {"space": " ", "newline": "\n", "tab": "\t"}


def bigram_counts(data: ListData | TextData) -> BigramCounts:
    """Every pair of neighbours in the data with its count; in a list the boundaries are neighbours too."""
    if isinstance(data, ListData):
        corpus = encode_list(data, Characters.of(data))
        return _record(corpus, f"{len(data):,} item{'s' * (len(data) != 1)} of {data.name}")
    return _record(encode_text(data, Characters.of(data, has_boundary=False)), data.name)


def word_counts(word: str) -> BigramCounts:
    """The pairs of one word between its boundaries, and the walk that it takes over them.

    >>> counts = word_counts("emma")
    >>> counts.symbols, counts.walk, counts.total
    (('·', 'a', 'e', 'm'), (0, 2, 3, 3, 1, 0), 5)
    """
    corpus = encode_list([word], Characters.of([word]))
    return _record(corpus, f"the word {word}")._replace(walk=tuple(corpus.tokens.tolist()))


def _record(corpus: Corpus, source: str) -> BigramCounts:
    vocab_size = len(corpus.vocabulary)
    codes, counts = _pairs(count(corpus, vocab_size, order=2))
    order = np.lexsort((codes, -counts))
    rows = zip((codes // vocab_size)[order], (codes % vocab_size)[order], counts[order], strict=True)
    bigrams = tuple([Bigram(int(first), int(second), int(n)) for first, second, n in rows])
    return BigramCounts(source, tuple(corpus.vocabulary.tokens), corpus.has_boundary, bigrams)


def _pairs(grams: Grams) -> tuple[IntArray, IntArray]:
    """The codes of the pairs that occur, and how often each does."""
    level = grams.levels[1]
    codes = np.flatnonzero(level.counts) if level.is_dense else level.codes
    return codes, level.counts[level.find(codes)]


def smoothing_study(data: ListData | TextData, after: str = "") -> Smoothing:
    """Count pairs on the train side and add ever more to each count: one symbol's row, and the loss on both sides.

    after: the symbol whose row is shown; "" is the boundary of a list and the most frequent symbol of a text.
    """
    sides = divided(data)
    vocab_size = len(sides.vocabulary)
    if len(sides.train.tokens) < 2 or len(sides.dev.tokens) < 2:
        raise PellucidError(f"nothing of {data.name} falls to the dev side to measure on", fix="Give it more items")
    train = count(sides.train, vocab_size, order=2)
    level = train.levels[1]
    sums = np.zeros(vocab_size, np.int64)
    codes, counts = _pairs(train)
    np.add.at(sums, codes // vocab_size, counts)
    place = _place(after, sides.vocabulary.tokens, sides.vocabulary.has_boundary, sums, data.name)
    row = np.zeros(vocab_size, np.int64)
    is_in_row = codes // vocab_size == place
    row[codes[is_in_row] % vocab_size] = counts[is_in_row]

    def seen_in_train(side: Stream) -> tuple[IntArray, IntArray, IntArray]:
        """For each pair of a side: how often it stands there, how often in train, and how often its first does."""
        found, n = _pairs(count(side, vocab_size, order=2))
        return n, np.append(level.counts, 0)[level.find(found)], sums[found // vocab_size]

    measured = [seen_in_train(side) for side in (sides.train, sides.dev)]
    n_dev, in_train, _ = measured[1]
    return Smoothing(
        source=data.name,
        symbols=tuple(sides.vocabulary.tokens),
        has_boundary=sides.vocabulary.has_boundary,
        after=place,
        n_after=int(sums[place]),
        n_train=int(measured[0][0].sum()),
        n_dev=int(n_dev.sum()),
        n_dev_unseen=int(n_dev[in_train == 0].sum()),
        rows=tuple([SmoothedRow(s, tuple(_smoothed(row, sums[place], s, vocab_size).tolist())) for s in SHOWN]),
        losses=tuple([SmoothedLoss(s, *[_loss(*side, s, vocab_size) for side in measured]) for s in TRIED]),
    )


def _smoothed(counts: IntArray, sums: IntArray, s: float, vocab_size: int) -> FloatArray:
    """Add-s probabilities of pairs. After what was never followed by any, each is as likely, as where s → 0 leads."""
    even = np.full(np.shape(counts), 1 / vocab_size)
    totals = np.broadcast_to(sums + s * vocab_size, np.shape(counts))
    found: FloatArray = np.divide(counts + s, totals, out=even, where=totals > 0)
    return found


def _loss(n: IntArray, counts: IntArray, sums: IntArray, s: float, vocab_size: int) -> float:
    """The mean surprise over every pair of a side, in nats."""
    probabilities = _smoothed(counts, sums, s, vocab_size)
    with np.errstate(divide="ignore"):
        return float(-(n * np.log(probabilities)).sum() / n.sum())


def _place(after: str, tokens: Sequence[str], has_boundary: bool, sums: IntArray, name: str) -> int:
    if not after:
        return 0 if has_boundary else int(np.argmax(sums))
    symbol = after if after in tokens else SPOKEN.get(after, after)
    if symbol not in tokens:
        known = "".join([token for token in tokens if token.isprintable()][:40])
        raise PellucidError(f"{quoted(after)} never occurs in {name}", fix=f"Choose one character of {quoted(known)}")
    return list(tokens).index(symbol)
