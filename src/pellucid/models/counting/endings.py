"""Endings: a new source becomes what the sources that end as it does became. A memory of pairs, and no network.

What a pair teaches is where its target leaves its source, and how it goes on:

    Haus   → Häuser     behind "H": "aus" becomes "äuser"
    Bank   → der        nothing in common: whatever the source is, "der"

Each is counted for every ending of its source. A new source is answered by the longest of its endings that is known,
and there by what was counted most.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

LONGEST = 32  # letters of an ending; longer ones are as good as the whole source


class EndingChange(NamedTuple):
    """How a target follows from its source."""

    cut: int  # letters at the source's end that are taken away; all of them: -1
    added: str

    def apply(self, source: str) -> str:
        """The target of a source.

        >>> EndingChange(1, "ies").apply("city"), EndingChange(-1, "der").apply("Baum")
        ('cities', 'der')
        """
        return self.added if self.cut < 0 else source[: len(source) - self.cut] + self.added


def change_of(source: str, target: str) -> EndingChange:
    """What is taken away and added behind the letters that both begin with.

    >>> change_of("city", "cities"), change_of("Baum", "der")
    (EndingChange(cut=1, added='ies'), EndingChange(cut=-1, added='der'))
    """
    n_same = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(source, target, strict=False)))
    return EndingChange(len(source) - n_same, target[n_same:]) if n_same else EndingChange(-1, target)


class Endings:
    """The most frequent change for each ending of the sources of train.

    >>> plurals = Endings([("city", "cities"), ("lady", "ladies"), ("dog", "dogs"), ("cat", "cats"), ("bat", "bats")])
    >>> [plurals.answer(source) for source in ("body", "rat", "pig", "x")]
    ['bodies', 'rats', 'pigs', 'xs']
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        seen: dict[EndingChange, int] = {}  # each with a number of its own, which is counted faster
        counts: dict[str, dict[int, int]] = {}
        for source, target in pairs:
            change = change_of(source, target)
            number = seen.setdefault(change, len(seen))
            # An ending must hold all that is taken away, or it would be taken from sources that do not have it.
            for length in range(max(0, change.cut), min(len(source), LONGEST) + 1):
                found = counts.setdefault(source[len(source) - length :], {})
                found[number] = found.get(number, 0) + 1
        known = list(seen)
        # Of equals the first that was seen.
        self.changes = {ending: known[max(found, key=found.__getitem__)] for ending, found in counts.items()}

    @property
    def n_stored(self) -> int:
        """Endings, each with its change."""
        return len(self.changes)

    def answer(self, source: str) -> str:
        """The target of a source; the source itself where nothing is known of how it ends."""
        for length in range(min(len(source), LONGEST), -1, -1):
            change = self.changes.get(source[len(source) - length :])
            if change:
                return change.apply(source)
        return source
