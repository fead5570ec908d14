"""What is to be said and is not yet a sentence: `figures/words/` makes one of it, at the end."""

from collections.abc import Mapping
from typing import NamedTuple


class Statement(NamedTuple):
    """What is to be said, by its name, and the numbers and names that it is said with.

    Which sentence it becomes is told by where it stands: a note's is in figures/words/notes.py, a plan's reason's in
    training.py there, and what a layer was fed or wanted in shapes.py.
    """

    kind: str
    facts: Mapping[str, object]


def make_note(kind: str, **facts: object) -> Statement:
    """A note for whoever reads data, or an answer.

    >>> make_note("empty-lines", n=3)
    Statement(kind='empty-lines', facts={'n': 3})
    """
    return Statement(kind, facts)
