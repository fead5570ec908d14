"""Vocabularies from JSON: what `to_json` gave, checked before it is believed."""

from typing import Any

from pellucid.data.bpe import BPE
from pellucid.data.vocabularies import Bytes, Characters, Vocabulary, Words
from pellucid.errors import PellucidError, quoted


def vocabulary_from_json(stored: Any) -> Vocabulary:
    """The vocabulary that `to_json` described.

    >>> vocabulary_from_json(Characters.of(["ab"]).to_json()).encode("ba")
    [2, 1]
    """
    kinds = ("characters", "words", "bytes", "bpe")
    if not isinstance(stored, dict) or stored.get("kind") not in kinds:
        found = quoted(str(stored.get("kind"))) if isinstance(stored, dict) else type(stored).__name__
        raise _damaged(f"its kind is {found}")
    has_boundary = stored.get("has_boundary")
    if not isinstance(has_boundary, bool):
        raise _damaged("has_boundary is no yes or no")
    if stored["kind"] == "bytes":
        return Bytes(has_boundary)
    if stored["kind"] == "bpe":
        if not isinstance(stored.get("tokenizer"), dict):
            raise _damaged("it has no tokenizer")
        return BPE.from_json(stored)
    tokens = stored.get("tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) and token for token in tokens):
        raise _damaged("its tokens are no list of texts")
    if len(set(tokens)) != len(tokens):
        raise _damaged("a token occurs twice")
    if stored["kind"] == "words":
        return Words(tokens, has_boundary)
    if any(len(token) != 1 for token in tokens):
        raise _damaged("a character is longer than one")
    return Characters(tokens, has_boundary)


def _damaged(why: str) -> PellucidError:
    return PellucidError(f"the stored vocabulary is damaged: {why}", fix="Make it again from the training data")
