"""Counts of a training side that have never seen the token they are asked about.

A model that counted a text knows every token of it, so a network that learns beside it on that same text would learn
to trust it blindly. So the text is cut into parts, and each token is predicted by counts of all other parts: about as
good, and as often wrong, as counts will be on new data.

Parts are cut as the dev side is: of a text they are stretches, because text nearby is alike; of a list they are items
by their hash, because equal items must not be in two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.data.prepare.tokens import Corpus
from pellucid.data.splits.hashing import item_hashes
from pellucid.data.vocabularies import ITEMS_AT_ONCE
from pellucid.models.counting.count_model import SLICE, CountModel, FloatArray, IntArray
from pellucid.models.counting.ngram import NGram, NGramConfig
from pellucid.models.counting.simple_models import Uniform, UniformConfig

FEWEST_PARTS, MOST_PARTS = 2, 8
TOKENS_OF_ALL_PARTS = 12_000_000  # counted, all parts together: about three seconds
NUMBERS_OF_ALL_PARTS = 50_000_000  # kept by their models: about a gigabyte. Thousands of symbols make many grams


@dataclass(frozen=True)
class PartsOfText:
    """The parts of a text, one behind the other."""

    n_tokens: int
    n_parts: int

    def of(self, places: IntArray) -> IntArray:
        """The part that the tokens at these places belong to."""
        return places * self.n_parts // self.n_tokens

    def without(self, part: int, side: Corpus) -> Corpus:
        """The text without one of them. Its two ends then meet: a few grams that never stood there."""
        first, last = (-(-self.n_tokens * one // self.n_parts) for one in (part, part + 1))
        return Corpus(np.concatenate([side.tokens[:first], side.tokens[last:]]), has_boundary=False)


@dataclass(frozen=True)
class PartsOfList:
    """The parts of a list."""

    part_of: npt.NDArray[np.uint8]  # of each item, with the boundary that closes it
    ends: npt.NDArray[Any]  # of each item, where that boundary stands: of few bytes, for there may be millions

    @classmethod
    def cut(cls, side: Corpus, items: Sequence[str], n_parts: int) -> PartsOfList:
        part_of = (item_hashes(items, "cross-fit") % np.uint64(n_parts)).astype(np.uint8)
        return cls(part_of, side.boundaries[1:])

    def of(self, places: IntArray) -> IntArray:
        """The part that the tokens at these places belong to, the first boundary with the first item."""
        # Of one type: else a copy of all ends would be made for every question.
        return self.part_of[np.searchsorted(self.ends, places.astype(self.ends.dtype))].astype(np.int64)

    def without(self, part: int, side: Corpus) -> Corpus:
        """The list without one of them."""
        kept = np.empty(len(side.tokens), side.tokens.dtype)
        kept[0], n_kept = side.tokens[0], 1
        for first in range(0, len(self.ends), ITEMS_AT_ONCE):
            ends = self.ends[first : first + ITEMS_AT_ONCE]
            before = int(self.ends[first - 1]) if first else 0
            lengths: IntArray = np.diff(ends.astype(np.int64), prepend=before)
            is_kept = np.repeat(self.part_of[first : first + ITEMS_AT_ONCE] != part, lengths)
            piece = side.tokens[before + 1 : int(ends[-1]) + 1][is_kept]
            kept[n_kept : n_kept + len(piece)] = piece
            n_kept += len(piece)
        return Corpus(kept[:n_kept], has_boundary=True, closing=side.closing)


@dataclass(frozen=True)
class CrossFit:
    """A training side in parts, and for each part the counts of all others."""

    side: Corpus
    parts: PartsOfText | PartsOfList
    n_parts: int
    config: NGramConfig

    @classmethod
    def cut(cls, side: Corpus, items: Sequence[str], config: NGramConfig, n_stored: int = 0) -> CrossFit:
        """items: of a list, as they stand in the side; of a text none. n_stored: by a model of all parts."""
        most = min(TOKENS_OF_ALL_PARTS // max(1, len(side.tokens)), NUMBERS_OF_ALL_PARTS // max(1, n_stored))
        n_parts = min(MOST_PARTS, max(FEWEST_PARTS, most))
        parts = PartsOfList.cut(side, items, n_parts) if side.has_boundary else PartsOfText(len(side.tokens), n_parts)
        return cls(side, parts, n_parts, config)

    def fit_part(self, part: int) -> CountModel:
        """The counts of all parts but this one."""
        return _fit_rest(self.parts.without(part, self.side), self.config)

    @cached_property
    def models(self) -> tuple[CountModel, ...]:
        """Those of every part, to be asked in any order."""
        return tuple(self.fit_part(part) for part in range(self.n_parts))

    def log_probabilities(self, places: IntArray) -> FloatArray:
        """places: (n,), of tokens that were read -> (n, vocab), of what comes after each; the next token is not known.

        Nothing is predicted after the last token of the side.
        """
        found = np.empty((len(places), self.config.vocab_size))
        for part, model in enumerate(self.models):
            rows = np.flatnonzero(self.parts.of(places + 1) == part)
            found[rows] = self._ask(model, places[rows])
        return found

    def tabulate(self) -> npt.NDArray[np.float32]:
        """The same of every token that something comes after, where the counts of one part at a time are in memory."""
        found = np.empty((self.side.n_predicted, self.config.vocab_size), np.float32)
        part_of = self.parts.of(np.arange(1, len(self.side.tokens)))
        for part in range(self.n_parts):
            model = self.fit_part(part)
            places = np.flatnonzero(part_of == part)
            for at in range(0, len(places), SLICE):
                piece = places[at : at + SLICE]
                found[piece] = self._ask(model, piece)
        return found

    def _ask(self, model: CountModel, places: IntArray) -> FloatArray:
        reach = max(1, model.reach)
        found = np.empty((len(places), model.vocab_size))
        is_short = places < reach - 1  # what stands before the beginning cannot be looked at
        if not is_short.all():
            windows = places[~is_short, None] + np.arange(1 - reach, 1)
            found[~is_short] = model.log_probabilities(self.side.tokens[windows])
        for row in np.flatnonzero(is_short):
            found[row] = model.log_probabilities(self.side.tokens[None, : places[row] + 1])[0]
        return found


def _fit_rest(rest: Corpus, config: NGramConfig) -> CountModel:
    """Where all items are in one part, the others know nothing."""
    if rest.n_predicted < 1:
        return Uniform.fit(rest, UniformConfig(config.vocab_size))
    return NGram.fit(rest, config).without_counts()
