"""From a word on the command line to a task that a network can learn, or to a refusal before the first step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from pellucid.data import Data, ImagesData, ListData, PairsData, PixelsData, TableData, TextData, open_data
from pellucid.data.sides import Sides, divided
from pellucid.data.splits import SIDES
from pellucid.errors import PellucidError, quoted
from pellucid.records import DataFacts

if TYPE_CHECKING:
    from pellucid.training.task import Task

SHOWN = 12  # items, or symbols of a text's beginning times this
CONTEXT_OF_TEXT = 64


@dataclass(frozen=True)
class DataWishes:
    """How the data are to be read, as it was asked for. What does not concern their kind is not looked at."""

    source: str = "names"
    kind: str = ""
    encoding: str = "utf-8"
    newlines: str = "keep"
    tokens: str = "characters"
    context: int = 0  # tokens in a window of a text; 0: as many as usual
    separator: str = ""  # of a table; "" looks
    as_number: str = ""  # columns of a table to read as numbers, with commas
    target: str = ""  # the column of a table to predict
    task: str = ""  # classification, regression or reconstruction; "" looks
    drop_missing_target: bool = False
    skip_bad: bool = False  # images that cannot be read
    skip_empty: bool = False  # class folders without images
    image_size: int = 0  # every image as a square of so many pixels; 0: as they are
    colour: str = ""  # gray or rgb; "" looks
    examples: int = 0  # of the training side; 0: all


def read(wishes: DataWishes) -> Data:
    """Open the data as asked, without torch."""
    return open_data(
        wishes.source,
        kind=wishes.kind,
        encoding=wishes.encoding,
        separator=wishes.separator,
        newlines=wishes.newlines,
        as_number=tuple(name for name in wishes.as_number.split(",") if name),
        skip_bad=wishes.skip_bad,
        skip_empty=wishes.skip_empty,
    )


def opened(wishes: DataWishes) -> Task:
    """Read the data and make a task of them."""
    return task_of(read(wishes), wishes)


def task_of(data: Data, wishes: DataWishes) -> Task:
    """Divide the data, and make sure that there is something to learn and something to measure it on."""
    if isinstance(data, ListData | TextData):
        return _sequences(data, wishes)
    if isinstance(data, PairsData):
        from pellucid.training.pair_task import pair_task

        return pair_task(data, source_word(wishes))
    from pellucid.training.example_opening import example_task

    assert isinstance(data, TableData | ImagesData | PixelsData)
    return example_task(data, wishes, source_word(wishes))


def source_word(wishes: DataWishes) -> str:
    """What opens the data again. A run can go elsewhere, so it holds no path of this machine."""
    return PurePath(wishes.source).name if PurePath(wishes.source).is_absolute() else wishes.source


def _sequences(data: ListData | TextData, wishes: DataWishes) -> Task:
    from pellucid.training.sequence_task import SequenceTask

    sides = divided(data, wishes.tokens)
    _require_learnable(data, sides)
    context, note = _context(sides, wishes.context)
    facts = DataFacts(
        source=source_word(wishes),
        said=data.said,
        kind=data.kind,
        tokens=wishes.tokens,
        fingerprint=data.fingerprint,
        vocab_size=len(sides.vocabulary),
        symbols=tuple(sides.vocabulary.tokens[:256]),
        items=dict(zip(SIDES, (len(sides.train_items), len(sides.dev_items), len(sides.test_items)), strict=True)),
        n_tokens={name: getattr(sides, name).n_predicted for name in SIDES},
        notes=(*data.notes, *note),
        first=_first(sides),
    )
    return SequenceTask(sides, facts, context)


def _require_learnable(data: ListData | TextData, sides: Sides) -> None:
    n_symbols = len(sides.vocabulary) - int(sides.vocabulary.has_boundary)
    if n_symbols < 2:
        raise PellucidError(
            f"{data.name} has only one distinct symbol, so there is nothing to predict", fix="Give it other data"
        )
    for name in SIDES[:2]:
        side = getattr(sides, name)
        if side.n_predicted < 2:
            noun = f"{len(data):,} items" if data.kind == "list" else f"{len(data):,} characters"
            wanted = "about 30 different items" if data.kind == "list" else "at least 30 characters"
            raise PellucidError(f"{data.name} has {noun}, too few for a {name} side", fix=f"Give it {wanted} or more")


def _context(sides: Sides, wanted: int) -> tuple[int, tuple[str, ...]]:
    """The context that every side has room for. Of a list it is the longest item and its boundary."""
    asked = wanted or CONTEXT_OF_TEXT
    if sides.train.has_boundary:
        return max(_longest_item(side.tokens) for side in (sides.train, sides.dev, sides.test)) + 1, ()
    room = min(side.n_predicted for side in (sides.train, sides.dev))
    if asked <= room:
        return asked, ()
    smaller = min(len(side.tokens) for side in (sides.train, sides.dev))
    return room, (f"context {asked} needs {asked + 1} tokens on each side and one has {smaller:,}: {room} is used",)


def _longest_item(tokens: object) -> int:
    import numpy as np

    places = np.flatnonzero(np.asarray(tokens) == 0)
    return int(np.diff(places).max(initial=1)) - 1


def _first(sides: Sides) -> tuple[str, ...]:
    if sides.train_items:
        return tuple(sides.train_items[:SHOWN])
    return (quoted(sides.vocabulary.decode(sides.train.tokens[: SHOWN * 20].tolist()), SHOWN * 20)[1:-1],)
