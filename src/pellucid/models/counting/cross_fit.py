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

import numpy as np

from pellucid.data.prepare.tokens import Corpus
from pellucid.data.splits.hashing import item_hashes
from pellucid.models.counting.count_model import CountModel, FloatArray, IntArray
from pellucid.models.counting.ngram import NGram, NGramConfig
from pellucid.models.counting.simple_models import Uniform, UniformConfig

FEWEST_PARTS, MOST_PARTS = 2, 8
TOKENS_OF_ALL_PARTS = 12_000_000  # counted, all parts together: about three seconds


@dataclass(frozen=True)
class CrossFit:
    """One count model for each part, fitted on all other parts."""

    tokens: IntArray
    part_of: IntArray  # of each token, as the one that is predicted
    models: tuple[CountModel, ...]
    has_boundary: bool

    @classmethod
    def fit(cls, side: Corpus, items: Sequence[str], config: NGramConfig) -> CrossFit:
        """items: of a list, as they stand in the side; of a text none."""
        n_parts = min(MOST_PARTS, max(FEWEST_PARTS, TOKENS_OF_ALL_PARTS // max(1, len(side.tokens))))
        part_of = _parts(side, items, n_parts)
        models = tuple(_fit_rest(_without(side, part_of, part), config) for part in range(n_parts))
        return cls(side.tokens, part_of, models, side.has_boundary)

    def log_probabilities(self, places: IntArray) -> FloatArray:
        """places: (n,), of tokens that were read -> (n, vocab), of what comes after each; the next token is not known.

        Nothing is predicted after the last token of the side.
        """
        reach = max(1, *(model.reach for model in self.models))
        found = np.empty((len(places), self.models[0].vocab_size))
        part_of = self.part_of[places + 1]
        for part, model in enumerate(self.models):
            is_short = places < reach - 1  # what stands before the beginning cannot be looked at
            rows = np.flatnonzero((part_of == part) & ~is_short)
            if len(rows):
                windows = places[rows, None] + np.arange(1 - reach, 1)
                found[rows] = model.log_probabilities(self.tokens[windows])
            for row in np.flatnonzero((part_of == part) & is_short):
                found[row] = model.log_probabilities(self.tokens[None, : places[row] + 1])[0]
        return found


def _parts(side: Corpus, items: Sequence[str], n_parts: int) -> IntArray:
    """The part that each token belongs to, the closing boundary of an item with the item."""
    if not side.has_boundary:
        return np.arange(len(side.tokens)) * n_parts // len(side.tokens)
    of_items = (item_hashes(items, "cross-fit") % np.uint64(n_parts)).astype(np.int64)
    lengths = np.diff(np.flatnonzero(side.tokens == 0))
    return np.concatenate([of_items[:1], np.repeat(of_items, lengths)])


def _without(side: Corpus, part_of: IntArray, part: int) -> Corpus:
    """The side without one of its parts. In a text its two ends then meet: a few grams that never stood there."""
    rest = side.tokens[part_of != part]
    if not side.has_boundary:
        return Corpus(rest, has_boundary=False)
    return Corpus(np.concatenate([side.tokens[:1], rest[1:] if part_of[0] != part else rest]), has_boundary=True)


def _fit_rest(rest: Corpus, config: NGramConfig) -> CountModel:
    """Where all items are in one part, the others know nothing."""
    if rest.n_predicted < 1:
        return Uniform.fit(rest, UniformConfig(config.vocab_size))
    return NGram.fit(rest, config)
