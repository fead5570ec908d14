"""Many short texts end to end in one: ten million items of a list take about as much memory as their file is long."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import overload

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 16  # texts that are looked at together
BETWEEN = "\n"
MOST_SHOWN = 100
LOW_BITS = (1 << 32) - 1


class PackedTexts(Sequence[str]):
    """A list of texts that cannot be changed. A slice of it is an ordinary list.

    >>> names = PackedTexts.of(["emma", "mia", "", "two\\nlines"])
    >>> names[1], names[-1], names[:2], "mia" in names, "mi" in names
    ('mia', 'two\\nlines', ['emma', 'mia'], True, False)
    >>> list(names) == ["emma", "mia", "", "two\\nlines"] == names
    True
    """

    def __init__(self, text: str, ends: NDArray[np.uint64]) -> None:
        """text: all of them with a newline between each two; ends: where each of them ends there."""
        self.text = text
        self._ends = ends.astype(np.uint32) if len(text) < 1 << 32 else ends
        self._can_split = text.count(BETWEEN) == len(ends) - 1  # none of them holds a newline itself

    @classmethod
    def of(cls, texts: Iterable[str]) -> "PackedTexts":
        if isinstance(texts, PackedTexts):
            return texts
        pieces: list[str] = []
        lengths = array("Q")
        rest = iter(texts)
        while piece := list(islice(rest, PIECE)):
            pieces.append(BETWEEN.join(piece))
            lengths.extend(map(len, piece))
        ends = np.cumsum(np.array(lengths, dtype=np.uint64) + np.uint64(1)) - np.uint64(1)
        return cls(BETWEEN.join(pieces), ends)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            first, last, step = at.indices(len(self))
            if step == 1:
                return self._piece(first, max(first, last))
            return [self[place] for place in range(first, last, step)]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        return self._at(at + len(self) if at < 0 else at)

    def _at(self, place: int) -> str:
        return self.text[int(self._ends[place - 1]) + 1 if place else 0 : int(self._ends[place])]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), PIECE):
            yield from self._piece(first, min(first + PIECE, len(self)))

    def _piece(self, first: int, last: int) -> list[str]:
        if first == last:
            return []
        if not self._can_split:
            return [self._at(place) for place in range(first, last)]
        begin = int(self._ends[first - 1]) + 1 if first else 0
        return self.text[begin : int(self._ends[last - 1])].split(BETWEEN)

    def joined(self) -> Iterator[str]:
        """Their letters with a newline between each two, in pieces that end with a text."""
        yield self.text

    def where(self, is_kept: NDArray[np.bool_]) -> "PartOfPacked":
        """Those that are to be kept; their letters are held once, here."""
        return PartOfPacked(self, np.flatnonzero(is_kept).astype(np.uint32))

    def __contains__(self, text: object) -> bool:
        order, hashes = self._by_hash
        wanted = np.uint32(hash(text) & LOW_BITS)
        place = int(np.searchsorted(hashes, wanted))
        while place < len(hashes) and hashes[place] == wanted:
            if self[int(order[place])] == text:
                return True
            place += 1
        return False

    @cached_property
    def _by_hash(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """The places of all texts in the order of the lower half of their hashes, and these: eight bytes for each."""
        hashes = (self._hashes() & LOW_BITS).astype(np.uint32)
        order = np.argsort(hashes).astype(np.uint32)
        return order, hashes[order]

    def _hashes(self) -> NDArray[np.int64]:
        return np.fromiter(map(hash, self), np.int64, len(self))

    def count_different(self) -> int:
        """How many different texts there are, by hashes of 64 bits."""
        hashes = self._hashes()
        hashes.sort()  # in place: `unique` would hold them three times
        return int(np.count_nonzero(hashes[1:] != hashes[:-1])) + min(1, len(hashes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def __repr__(self) -> str:
        """As a list, of which the middle is left out where it is long."""
        if len(self) <= MOST_SHOWN:
            return repr(self[:])
        return f"[{', '.join(map(repr, self[:3]))}, … {len(self) - 4:,} more, {self[-1]!r}]"


class PartOfPacked(PackedTexts):
    """Some of packed texts, by their places there.

    >>> names = PackedTexts.of(["emma", "mia", "ava", "zoe"]).where(np.array([True, False, True, True]))
    >>> names[1], names[-1], names[1:], "mia" in names, list(names.joined())
    ('ava', 'zoe', ['ava', 'zoe'], False, ['emma\\nava\\nzoe'])
    """

    def __init__(self, whole: PackedTexts, places: NDArray[np.uint32]) -> None:
        self._whole, self._places = whole, places

    def joined(self) -> Iterator[str]:
        for first in range(0, len(self), PIECE):
            yield BETWEEN.join(self._piece(first, min(first + PIECE, len(self))))

    def __len__(self) -> int:
        return len(self._places)

    def _at(self, place: int) -> str:
        return self._whole._at(int(self._places[place]))

    def _piece(self, first: int, last: int) -> list[str]:
        found: list[str] = []
        # Of the whole in pieces, too: where few are kept, those of one piece stand far apart.
        places = self._places[first:last].astype(np.int64)
        while len(places):
            begin = int(places[0])
            n = int(np.searchsorted(places, begin + PIECE))
            texts = self._whole._piece(begin, int(places[n - 1]) + 1)
            found += [texts[place] for place in (places[:n] - begin).tolist()]
            places = places[n:]
        return found
