"""Near-duplicates of short strings: equal but for case, spaces and punctuation, or one edit apart.

One edit is a character put in, left out or exchanged. Every string is turned into the hashes of its variants: with one
place blanked out, with one place left out, and whole. Two strings of equal length are one exchange apart exactly when
they share a variant with the same place blanked out; one is the other with a character more exactly when it is
one of the other's shorter variants. So the cost is the number of characters, not of pairs.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits.hashing import Words, mix

SHORTEST = 4  # below it, most strings are one edit from some other
LONGEST = 32
MOST_CHARACTERS = 20_000_000  # of all items together; beyond it edits are not looked for
BLANK = 0x110000  # one past the last code point
_PIECE = 1 << 15
_UNSPOKEN = {code: None for code in range(128) if not chr(code).isalnum()}


def folded(item: str) -> str:
    """The letters and digits of an item without case; the item itself where it has none.

    >>> folded("Mary-Ann "), folded("MARY ANN"), folded("...")
    ('maryann', 'maryann', '...')
    """
    if item.isascii():
        return item.lower().translate(_UNSPOKEN) or item
    plain = unicodedata.normalize("NFKC", item).casefold()
    return "".join(c for c in plain if c.isalnum()) or item


def one_edit_apart(held: Sequence[str], train: Sequence[str]) -> NDArray[np.bool_]:
    """(held item,): whether some training item is exactly one edit away. Items outside 4..32 characters have none.

    >>> one_edit_apart(["marie", "anna", "otto"], ["maria", "annas", "anna", "toto"]).tolist()
    [True, True, False]
    """
    of_train = [_variants(train, length) for length in range(SHORTEST, LONGEST + 1)]
    found = np.zeros(len(held), dtype=bool)
    lengths = np.array([len(item) for item in held])
    for number, length in enumerate(range(SHORTEST, LONGEST + 1)):
        places = np.flatnonzero(lengths == length).tolist()
        if not len(places):
            continue
        whole, blanked, shorter = _hashes([held[place] for place in places], length)
        known_whole, known_blanked, _ = of_train[number]
        # A training item equal to this one would blank out to the same variants, and is no edit away.
        is_known = np.isin(whole, known_whole)
        copies = np.isin(blanked, known_blanked)
        if is_known.any():
            copies[is_known] = _has_other(blanked[is_known], known_blanked)
        found[places] |= copies.any(axis=1)
        if number > 0:
            found[places] |= np.isin(shorter, of_train[number - 1][0]).any(axis=1)
        if number + 1 < len(of_train):
            found[places] |= np.isin(whole, of_train[number + 1][2])
    return found


def is_one_edit(first: str, second: str) -> bool:
    """Whether a character put in, left out or exchanged turns one into the other.

    >>> is_one_edit("anna", "hanna"), is_one_edit("anna", "anne"), is_one_edit("anna", "anna")
    (True, True, False)
    """
    short, long = sorted((first, second), key=len)
    if len(long) - len(short) > 1 or first == second:
        return False
    same = next((place for place, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return short[same + (len(short) == len(long)) :] == long[same + 1 :]


def _variants(items: Sequence[str], length: int) -> tuple[Words, Words, Words]:
    """The variants of all different items of one length: whole, with a blank, and one shorter."""
    wholes, blanks, shorts = [], [], []
    chosen = sorted({item for item in items if len(item) == length})
    for start in range(0, len(chosen), _PIECE):
        whole, blanked, shorter = _hashes(chosen[start : start + _PIECE], length)
        wholes.append(whole)
        blanks.append(blanked.ravel())
        shorts.append(shorter.ravel())
    if not wholes:
        none = np.zeros(0, dtype=np.uint64)
        return none, none, none
    return np.concatenate(wholes), np.concatenate(blanks), np.unique(np.concatenate(shorts))


def _hashes(items: Sequence[str], length: int) -> tuple[Words, Words, Words]:
    """(item,), (item, place) and (item, place): a string hashes to the sum of a word for each place and character."""
    raw = "".join(items).encode("utf-32-le", "surrogatepass")
    characters = np.frombuffer(raw, dtype="<u4").astype(np.uint64).reshape(len(items), length)
    places = np.arange(length, dtype=np.uint64) << np.uint64(32)
    words = mix(characters + places)
    earlier = np.zeros_like(words)  # the same characters, each one place further left
    earlier[:, 1:] = mix(characters[:, 1:] + places[:-1])
    blanks = mix(places + np.uint64(BLANK))
    whole = words.sum(axis=1, dtype=np.uint64)
    before = np.cumsum(words, axis=1, dtype=np.uint64) - words
    after = earlier.sum(axis=1, dtype=np.uint64)[:, None] - np.cumsum(earlier, axis=1, dtype=np.uint64)
    return whole, whole[:, None] - words + blanks, before + after


def _has_other(blanked: Words, known: Words) -> NDArray[np.bool_]:
    """(item, place): whether more than one training item has this variant."""
    ranked = np.sort(known)
    n_known = np.searchsorted(ranked, blanked, "right") - np.searchsorted(ranked, blanked, "left")
    return n_known > 1
