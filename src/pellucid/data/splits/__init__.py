"""Honest divisions into train, dev and test: by hash, by strata, by time, by group, and a report on each.

Nothing heavy is loaded until a name below is first used, so that a bad request is refused at once.
"""

import importlib
from typing import TYPE_CHECKING

from pellucid.data.splits.request import FRACTIONS, SIDES, STRATEGIES, SplitRequest, require_fractions

if TYPE_CHECKING:
    from pellucid.data.splits.division import Division, divide
    from pellucid.data.splits.hashing import item_hashes, row_hashes
    from pellucid.data.splits.parts import write_parts
    from pellucid.data.splits.sides import Split, sides_of, split_list

_DOORS = {
    "Division": "division",
    "Split": "sides",
    "divide": "division",
    "item_hashes": "hashing",
    "row_hashes": "hashing",
    "sides_of": "sides",
    "split_list": "sides",
    "write_parts": "parts",
}

__all__ = [
    "FRACTIONS",
    "SIDES",
    "STRATEGIES",
    "Division",
    "Split",
    "SplitRequest",
    "divide",
    "item_hashes",
    "require_fractions",
    "row_hashes",
    "sides_of",
    "split_list",
    "write_parts",
]


def __getattr__(name: str) -> object:
    if name not in _DOORS:
        raise AttributeError(f"module 'pellucid.data.splits' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pellucid.data.splits.{_DOORS[name]}"), name)
