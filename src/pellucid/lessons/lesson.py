"""The card of a lesson: what it is called, how its numbers are measured and how they are drawn.

Adding a lesson is adding one file to this room that ends with `LESSON = Lesson(...)`. What is heavy (torch, NumPy) is
imported inside `measure`, so that listing the lessons stays fast.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pellucid.cards import cards
from pellucid.figures.picture import Picture

Record = TypeVar("Record")


def no_notes(record: object) -> tuple[str, ...]:
    """Of a record that says everything in its picture."""
    return ()


@dataclass(frozen=True)
class Lesson(Generic[Record]):
    """One thing that is taught by a picture.

    The parameters of `measure` are what can be asked of the lesson; all have a default. Those that `pellucid draw`
    knows (seed, input, after, patch, source, kind, encoding) become its options, the others are for Python.
    """

    name: str
    summary: str  # one sentence for `draw --list`
    measure: Callable[..., Record]
    draw: Callable[[Record], Picture]
    tiny: Record  # a record to try `draw` on
    figure_of_run: str = ""  # the figure that shows of one run what this lesson compares in several trainings
    notes: Callable[[Record], tuple[str, ...]] = no_notes  # how the record came about, for the terminal

    @property
    def options(self) -> tuple[str, ...]:
        """The names of what can be asked."""
        return tuple(inspect.signature(self.measure).parameters)


def all_lessons() -> dict[str, Lesson[Any]]:
    """Every lesson by its name."""
    return cards("pellucid.lessons", "LESSON", Lesson)
