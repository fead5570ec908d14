"""Finds the one card that each file of a room carries, for those who must list everything.

Adding a model, a data set or a figure is adding one file that ends with a card. Ordinary code imports what it wants;
the command line, the docs and the tests ask here.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import TypeVar

from pellucid.errors import require_one_of

Card = TypeVar("Card")


def cards(package: str, attribute: str, of: type[Card] | tuple[type[Card], ...]) -> dict[str, Card]:
    """Every card of a package by its name: the value called `attribute` of each of its files, sorted by name.

    A file without one carries none and is passed over. Two cards with one name stop the program. A room may have cards
    of several types, and then all of them are named in `of`.

    >>> from pellucid.data.sets import DatasetCard
    >>> "names" in cards("pellucid.data.sets", "DATASET", DatasetCard)
    True
    """
    found: dict[str, Card] = {}
    places: dict[str, str] = {}
    for place, module in _modules(package):
        card = getattr(module, attribute, None)
        if card is None:
            continue
        assert isinstance(card, of), f"{attribute} of {place} is a {type(card).__name__}, which is no card of this room"
        name: str = card.name  # type: ignore[attr-defined]  # a card is whatever has a name
        # Our own mistake, and it shows the moment the second file is written.
        assert name not in found, f"{places[name]} and {place} both carry a card named {name!r}"
        found[name], places[name] = card, place
    return {name: found[name] for name in sorted(found)}


def find(package: str, attribute: str, of: type[Card] | tuple[type[Card], ...], name: str, noun: str) -> Card:
    """The card called `name`; an unknown name is answered with the nearest known one.

    noun: what the user calls such a thing, as "data set".
    """
    known = cards(package, attribute, of)
    require_one_of(noun, name, known)
    return known[name]


def _modules(package: str) -> Iterator[tuple[str, ModuleType]]:
    home = importlib.import_module(package)
    for found in sorted(pkgutil.iter_modules(home.__path__), key=lambda module: module.name):
        if found.name != "__main__":
            place = f"{package}.{found.name}"
            yield place, importlib.import_module(place)
