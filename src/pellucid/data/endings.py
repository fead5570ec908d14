"""Endings: a new source becomes what the sources that end as it does became. A memory of pairs, and no network.

What a pair teaches is where its target leaves its source, and how it goes on:

    Haus   → Häuser     behind "H": "aus" becomes "äuser"
    Bank   → der        nothing in common: whatever the source is, "der"

Each is counted for every ending of its source. A new source is answered by the longest of its endings that is known,
and there by what was counted most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
        return self.added if self.cut < 0 else source[: max(0, len(source) - self.cut)] + self.added


def change_of(source: str, target: str) -> EndingChange:
    """What is taken away and added behind the letters that both begin with.

    >>> change_of("city", "cities"), change_of("Baum", "der")
    (EndingChange(cut=1, added='ies'), EndingChange(cut=-1, added='der'))
    """
    n_same = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(source, target, strict=False)))
    return EndingChange(len(source) - n_same, target[n_same:]) if n_same else EndingChange(-1, target)


class EndingProposal(NamedTuple):
    """What the sources with the same ending became, and how much there is to say for it."""

    change: EndingChange
    n_letters: int  # of the ending
    n_times: int  # that sources with it changed so
    is_always: bool


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
            for ending in _endings_of(source, change):
                found = counts.setdefault(ending, {})
                found[number] = found.get(number, 0) + 1
        self.known = list(seen)
        # Of each ending: the most frequent change with its count, the next with its own, and the count of all. Of
        # equals the first that was seen.
        self.ranked: dict[str, tuple[int, int, int, int, int]] = {}
        for ending, found in counts.items():
            first = max(found, key=found.__getitem__)
            n_first = found.pop(first)
            second = max(found, key=found.__getitem__) if found else first
            n_all = n_first + sum(found.values())
            self.ranked[ending] = first, n_first, second, found.get(second, 0), n_all

    @property
    def n_stored(self) -> int:
        """Endings, each with its change."""
        return len(self.ranked)

    def answer(self, source: str) -> str:
        """The target of a source; the source itself where nothing is known of how it ends."""
        return self.propose(source).change.apply(source)

    def propose(self, source: str, target: str | None = None) -> EndingProposal:
        """What becomes of a source. target: of a pair of train, which is then left out: it would only quote itself.

        >>> known = Endings([("city", "cities"), ("lady", "ladies"), ("toy", "toys")])
        >>> known.propose("toy"), known.propose("toy", "toys").change.added
        (EndingProposal(change=EndingChange(cut=0, added='s'), n_letters=3, n_times=1, is_always=True), 'ies')
        """
        own = None if target is None else change_of(source, target)
        for length in range(min(len(source), LONGEST), -1, -1):
            ranked = self.ranked.get(source[len(source) - length :])
            if not ranked:
                continue
            first, n_first, second, n_second, n_all = ranked
            if own is not None and length >= own.cut:
                n_all -= 1
                if self.known[first] == own:
                    n_first -= 1
                    if n_first < n_second:
                        first, n_first = second, n_second
            if n_first > 0:
                return EndingProposal(self.known[first], length, n_first, n_first == n_all)
        return EndingProposal(EndingChange(0, ""), 0, 0, False)


def _endings_of(source: str, change: EndingChange) -> Iterator[str]:
    """The endings that a change is counted for: each holds all that is taken away, so that nothing else is."""
    for length in range(max(0, change.cut), min(len(source), LONGEST) + 1):
        yield source[len(source) - length :]
