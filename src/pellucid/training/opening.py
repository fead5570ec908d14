"""From a word on the command line to sides that a network can learn from, or to a refusal before the first step."""

from dataclasses import dataclass
from pathlib import PurePath

from pellucid.data import ListData, TextData, open_data, require_kind
from pellucid.data.sides import Sides, divided
from pellucid.data.splits import SIDES
from pellucid.errors import PellucidError, quoted
from pellucid.records import DataFacts

SHOWN = 12  # items, or symbols of a text's beginning times this
CONTEXT_OF_TEXT = 64


@dataclass(frozen=True)
class DataWishes:
    """How the data are to be read, as it was asked for."""

    source: str = "names"
    kind: str = ""
    encoding: str = "utf-8"
    newlines: str = "keep"
    tokens: str = "characters"
    context: int = 0  # tokens in a window of a text; 0: as many as usual


@dataclass(frozen=True)
class Opened:
    """Data that can be learned from."""

    data: ListData | TextData
    sides: Sides
    facts: DataFacts
    context: int  # that every side has room for


def opened(wishes: DataWishes) -> Opened:
    """Read the data, divide them, and make sure that there is something to learn and something to measure it on."""
    data = open_data(wishes.source, kind=wishes.kind, encoding=wishes.encoding, newlines=wishes.newlines)
    require_kind(data, "list", "text")
    assert isinstance(data, ListData | TextData)
    sides = divided(data, wishes.tokens)
    _require_learnable(data, sides)
    context, note = _context(sides, wishes.context)
    facts = DataFacts(
        # A run can go elsewhere, so it holds no path of this machine.
        source=PurePath(wishes.source).name if PurePath(wishes.source).is_absolute() else wishes.source,
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
    return Opened(data, sides, facts, context)


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


def _longest_item(tokens: "object") -> int:
    import numpy as np

    places = np.flatnonzero(np.asarray(tokens) == 0)
    return int(np.diff(places).max(initial=1)) - 1


def _first(sides: Sides) -> tuple[str, ...]:
    if sides.train_items:
        return tuple(sides.train_items[:SHOWN])
    return (quoted(sides.vocabulary.decode(sides.train.tokens[: SHOWN * 20].tolist()), SHOWN * 20)[1:-1],)
