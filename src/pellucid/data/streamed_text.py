"""The text of tokens that come one after another: what was given out is never taken back.

A token of bytes or byte pairs may be a part of a character. It waits until the character is whole, so that the pieces
together are what `decode` gives for all tokens at once.
"""

from __future__ import annotations

import codecs
from functools import cache
from typing import TYPE_CHECKING

from pellucid.data.vocabularies import BPE, Bytes, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class StreamedText:
    """Takes tokens and gives back text, as much of it as is certain.

    >>> text = StreamedText(Bytes(has_boundary=False))
    >>> [text.add(byte) for byte in "né".encode()], text.end()
    (['n', '', 'é'], '')
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        # What is no UTF-8 is shown as `decode` of each vocabulary shows it.
        errors = "backslashreplace" if isinstance(vocabulary, Bytes) else "replace"
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)
        self._bytes_of = _find_bytes(vocabulary)

    def add(self, token: int) -> str:
        """The text that is certain with this token; boundaries have none."""
        if self.vocabulary.is_boundary(token):
            return ""
        if self._bytes_of is None:
            return self.vocabulary.decode([token])
        return self._decoder.decode(self._bytes_of(token))

    def end(self) -> str:
        """What was waiting for the rest of its character."""
        return self._decoder.decode(b"", final=True)


def _find_bytes(vocabulary: Vocabulary) -> Callable[[int], bytes] | None:
    """How a token becomes bytes; None where it is whole characters."""
    if isinstance(vocabulary, Bytes):
        return lambda token: bytes([token - vocabulary.shift])
    if isinstance(vocabulary, BPE):
        return lambda token: bytes(_byte_of()[letter] for letter in vocabulary.stored_form(token))
    return None


@cache
def _byte_of() -> Mapping[str, int]:
    """The byte that each letter of the stored form of byte pairs stands for, as GPT-2 wrote them.

    Bytes that print are themselves, and the others follow each other from U+0100 on.
    """
    printing = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    found = {chr(byte): byte for byte in printing}
    others = [byte for byte in range(256) if byte not in set(printing)]
    return found | {chr(0x100 + place): byte for place, byte in enumerate(others)}
