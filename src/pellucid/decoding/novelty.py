"""How new a sample is: whether the data have it, the nearest training item, the longest part that was copied."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.decoding.sampling import Drawn
from pellucid.records import Sample
from pellucid.records.packed_texts import PackedTexts

Bins = npt.NDArray[np.uint8]
BINS = 64  # for letters; letters that share one only make the lower bound lower
MOST_COUNTED = 500_000  # texts whose letters are kept as counts
AT_ONCE = 1 << 14  # texts whose letters are counted together
MOST_EDITS = (1 << 16) - 1  # that are told apart before items are compared
FIRST = 64  # candidates compared first; then twice as many, until none can be nearer


@dataclass(frozen=True)
class Novelty:
    """What is known of one sample."""

    where: str  # "train", "dev" or "new"
    nearest: str  # "" where there is no training item
    distance: int
    copied: str


class Known:
    """The items of train and dev, ready to be compared with."""

    def __init__(self, train: Sequence[str], dev: Iterable[str] = ()) -> None:
        self.train, self.dev = PackedTexts.of(train), PackedTexts.of(dev)
        self._letters = letter_counts(self.train) if len(self.train) <= MOST_COUNTED else None

    def where(self, text: str) -> str:
        return "train" if text in self.train else "dev" if text in self.dev else "new"

    def novelty(self, text: str) -> Novelty:
        nearest, distance = self.nearest(text)
        return Novelty(self.where(text), nearest, distance, longest_copied(text, self._sources))

    @cached_property
    def _sources(self) -> list[str]:
        return list(self.train.joined())

    def nearest(self, text: str) -> tuple[str, int]:
        """The training item with the fewest single-letter edits, and how many.

        Two texts are at least as far apart as their letters are, order aside; so items are compared in that order, and
        no more once none of the rest can be nearer.
        """
        if text in self.train or not self.train:
            return (text, 0) if self.train else ("", len(text))
        own = letter_counts([text]).astype(np.int16)
        least = np.empty(len(self.train), np.uint16)  # of two bytes, and never sorted: there may be millions
        for place, counts in self._letters_in_pieces():
            least[place : place + len(counts)] = np.minimum(least_edits(counts, own), MOST_EDITS)
        best, item, size = len(text) + len(self.train[int(least.argmin())]) + 1, "", FIRST
        for edits in np.unique(least).tolist():
            if edits >= best:
                break
            places = np.flatnonzero(least == edits)
            while edits < best and len(places):
                batch = [self.train[place] for place in places[:size].tolist()]
                found = edit_distances([text], batch)
                if found.min() < best:
                    best, item = int(found.min()), batch[int(found.argmin())]
                places, size = places[size:], 2 * size
        return item, best

    def _letters_in_pieces(self) -> Iterator[tuple[int, Bins]]:
        """Those of all training items, each piece with its place: kept of a few, counted each time of very many."""
        for first in range(0, len(self.train), AT_ONCE):
            last = first + AT_ONCE
            yield first, letter_counts(self.train[first:last]) if self._letters is None else self._letters[first:last]


def letter_counts(texts: Sequence[str]) -> Bins:
    """(text, bin): how many letters of each text fall into each bin, at most 255."""
    found = np.empty((len(texts), BINS), np.uint8)
    for first in range(0, len(texts), AT_ONCE):
        some = texts[first : first + AT_ONCE]
        rows = np.repeat(np.arange(len(some)), [len(text) for text in some])
        bins = _codes("".join(some)) % BINS
        counts = np.bincount(rows * BINS + bins, minlength=len(some) * BINS)
        found[first : first + len(some)] = np.minimum(counts, 255).reshape(len(some), BINS)
    return found


def least_edits(counts: Bins, own: npt.NDArray[np.int16]) -> npt.NDArray[np.int32]:
    """(text,): so many edits at least lie between each text and one with these letters, whatever their order."""
    gaps = counts - own
    missing, spare = np.maximum(gaps, 0), np.maximum(-gaps, 0)
    least: npt.NDArray[np.int32] = np.maximum(missing.sum(axis=1, dtype=np.int32), spare.sum(axis=1, dtype=np.int32))
    return least


def edit_distances(texts: Sequence[Sequence[Hashable]], others: Sequence[Sequence[Hashable]]) -> npt.NDArray[np.int64]:
    """How many tokens must be put in, taken out or replaced to turn each text into the other of its row (Levenshtein).

    Tokens are the letters of a text or the words of a list. One text alone is held against all the others.

    >>> edit_distances(["kitten", "abc", ""], ["sitting", "abc", "xy"]).tolist()
    [3, 0, 2]
    >>> edit_distances(["emma"], ["emma", "emmy", "gemma", "ema", ""]).tolist()
    [0, 1, 1, 1, 4]
    """
    numbers: dict[Hashable, int] = {}
    (said, lengths), (truth, other_lengths) = _padded(texts, numbers), _padded(others, numbers)
    across = np.arange(truth.shape[1] + 1)
    # distances[i, j]: from what was read of the i-th text to the first j tokens of the other.
    distances = np.tile(across, (len(others), 1))
    for at in range(said.shape[1]):
        replaced = distances[:, :-1] + (said[:, at, None] != truth)
        nearer = np.minimum(distances[:, 1:] + 1, replaced)
        first = np.concatenate([np.full((len(others), 1), at + 1), nearer], axis=1)
        # Putting tokens in: each place is at most one more than the place before it.
        after = np.minimum.accumulate(first - across, axis=1) + across
        distances = np.where((at < lengths)[:, None], after, distances)
    found: npt.NDArray[np.int64] = distances[np.arange(len(others)), other_lengths]
    return found


def _padded(texts: Sequence[Sequence[Hashable]], numbers: dict[Hashable, int]) -> tuple[npt.NDArray[np.int64], ...]:
    """(text, place): a number for each token, -1 behind the last; and the lengths. numbers: of tokens but letters."""
    lengths = np.array([len(text) for text in texts], np.int64)
    width = int(lengths.max(initial=0))
    padded = np.full((len(texts), width), -1, np.int64)
    tokens = [token for text in texts for token in text]
    are_letters = all(isinstance(text, str) for text in texts)
    codes = (
        _codes("".join(map(str, texts))) if are_letters else [numbers.setdefault(one, len(numbers)) for one in tokens]
    )
    padded[np.arange(width) < lengths[:, None]] = codes
    return padded, lengths


def longest_copied(text: str, sources: Sequence[str]) -> str:
    """The longest part of the text that stands somewhere in one of the sources; of equals the first.

    >>> longest_copied("annabelly", ["isabelle annika"])
    'abell'
    """
    found = ""
    for start in range(len(text)):
        while len(longer := text[start : start + len(found) + 1]) > len(found):
            if not any(longer in source for source in sources):
                break
            found = longer
    return found


def _codes(text: str) -> npt.NDArray[Any]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)


NOT_KNOWN = Novelty("not known", "", 0, "")
MOST_COMPARED = 20_000_000_000  # letters of a sample times letters of the source
Decode = Callable[[Sequence[int]], str]


def describe_items(drawn: Iterable[Drawn], decode: Decode, start: Sequence[int], known: Known | None) -> list[Sample]:
    """Samples of a list, each compared with every item of train and dev; without these, nothing is said about it."""
    found = []
    for sample in drawn:
        text = decode([*start, *sample.tokens])
        new = known.novelty(text) if known else NOT_KNOWN
        n_tokens = len(sample.tokens) + (not sample.is_cut)
        novelty = (new.where, new.nearest, new.distance, new.copied)
        found.append(Sample(text, -sample.log_probability, n_tokens, *novelty, sample.is_cut))
    return found


def describe_texts(drawn: Iterable[Drawn], decode: Decode, start: Sequence[int], source: str) -> list[Sample]:
    """Samples of running text, and the longest part of each that stands in the source; "" where it is not known."""
    found = []
    for sample in drawn:
        text = decode(sample.tokens)
        copied = longest_copied(text, [source]) if len(text) * len(source) <= MOST_COMPARED else ""
        whole = decode([*start, *sample.tokens])
        found.append(Sample(whole, -sample.log_probability, len(sample.tokens), "", "", 0, copied))
    return found
