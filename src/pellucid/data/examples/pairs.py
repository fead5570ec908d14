"""Pairs divided and in tokens, source and target in one vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pellucid.data.examples.sides import places_by_hash
from pellucid.data.kinds import PairsData
from pellucid.data.splits.hashing import item_hashes
from pellucid.data.vocabularies import Characters

Tokens = list[tuple[list[int], list[int]]]  # source and target, without boundaries


@dataclass(frozen=True)
class PairSides:
    """Every pair as characters. The alphabet is everyone's; token 0 is the boundary."""

    vocabulary: Characters
    train: Tokens = field(repr=False)
    dev: Tokens = field(repr=False)
    test: Tokens = field(repr=False)
    longest_source: int  # of all three sides, in tokens
    longest_target: int
    texts: Mapping[str, list[tuple[str, str]]] = field(repr=False)  # of each side


def pair_sides(data: PairsData) -> PairSides:
    """Pairs on three sides by the hash of the source, so that no source is asked for in dev that train gave away.

    >>> from pellucid.data import open_data
    >>> sides = pair_sides(open_data("dedupe-sort"))
    >>> sides.texts["train"][0], sides.train[0], sides.vocabulary.tokens
    (('DBBC', 'BCD'), ([4, 2, 2, 3], [2, 3, 4]), ['·', 'A', 'B', 'C', 'D'])
    """
    vocabulary = Characters.of(text for pair in data.pairs for text in pair)
    hashes = item_hashes(source for source, _ in data.pairs)
    places = places_by_hash(hashes, np.zeros(len(hashes), dtype=np.int64), data.name)
    texts = {side: [data.pairs[row] for row in rows] for side, rows in places.items()}
    tokens = {
        side: [(vocabulary.encode(source), vocabulary.encode(target)) for source, target in pairs]
        for side, pairs in texts.items()
    }
    return PairSides(
        vocabulary=vocabulary,
        train=tokens["train"],
        dev=tokens["dev"],
        test=tokens["test"],
        longest_source=max(len(source) for source, _ in data.pairs),
        longest_target=max(len(target) for _, target in data.pairs),
        texts=texts,
    )
