"""The three sides of a list or a text as tokens: train to learn from, dev to choose by, test to read once at the end.

Only the alphabet is everyone's; pieces of words are learned from train alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from pellucid.data.bpe import BPE
from pellucid.data.corpus import encode_list, encode_text
from pellucid.data.kinds import ListData, TextData
from pellucid.data.splits import FRACTIONS
from pellucid.data.splits.assignment import split_list
from pellucid.data.vocabularies import Bytes, Characters, Vocabulary, Words
from pellucid.errors import PellucidError

BPE_SIZE = 512  # pieces; small texts have no use for more


@dataclass(frozen=True)
class Side:
    """One side of the data as tokens. With a boundary, token 0 stands before, between and after the items."""

    tokens: npt.NDArray[Any]
    has_boundary: bool

    @property
    def n_predicted(self) -> int:
        return max(0, len(self.tokens) - 1)


@dataclass(frozen=True)
class Sides:
    """The data, divided, and in tokens."""

    vocabulary: Vocabulary
    train: Side
    dev: Side
    test: Side
    train_items: list[str]  # of a list; empty for running text
    dev_items: list[str]
    test_items: list[str]

    def characters_per_token(self, side: Side) -> float:
        """How many characters a predicted token stands for, where a closing boundary counts as one of both."""
        if self.vocabulary.kind == "characters" or not side.n_predicted:
            return 1.0
        n_characters = len(self.vocabulary.decode(side.tokens.tolist()))
        n_items = int((side.tokens == 0).sum()) - 1 if side.has_boundary else 0
        return (n_characters + n_items) / side.n_predicted


def divided(data: ListData | TextData, tokens: str = "characters") -> Sides:
    """Lists by the hash of the item; running text in its own order, the first 80 % for train."""
    if isinstance(data, TextData):
        vocabulary = _vocabulary_of_text(data, tokens)
        whole = encode_text(data, vocabulary).tokens
        first, second = (int(len(whole) * part) for part in (FRACTIONS[0], FRACTIONS[0] + FRACTIONS[1]))
        train, dev, test = (Side(part, False) for part in (whole[:first], whole[first:second], whole[second:]))
        return Sides(vocabulary, train, dev, test, [], [], [])
    split = split_list(data.items)
    if not split.train:
        raise PellucidError(
            f"none of the {len(data.items):,} items of {data.name} falls to the train side", fix="Give it more items"
        )
    vocabulary = _vocabulary(data, tokens) if tokens != "bpe" else BPE.train(split.train, BPE_SIZE)
    train, dev, test = (
        Side(encode_list(items, vocabulary).tokens, True) for items in (split.train, split.dev, split.test)
    )
    return Sides(vocabulary, train, dev, test, split.train, split.dev, split.test)


def _vocabulary(data: ListData | TextData, tokens: str) -> Vocabulary:
    has_boundary = isinstance(data, ListData)
    if tokens == "bytes":
        return Bytes(has_boundary)
    return (Words if tokens == "words" else Characters).of(data, has_boundary)


def _vocabulary_of_text(data: TextData, tokens: str) -> Vocabulary:
    if tokens != "bpe":
        return _vocabulary(data, tokens)
    text = data.read()
    return BPE.train([text[: int(len(text) * FRACTIONS[0])]], BPE_SIZE, has_boundary=False)
