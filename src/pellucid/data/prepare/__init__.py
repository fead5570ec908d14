"""Data as numbers on three sides, and the preparation that reads new examples in the same way.

What is learned from the data (means, deviations, categories, pieces of words) is learned from train alone.
"""

import dataclasses
from typing import Any, TypeAlias

from pellucid.data.prepare.examples import Examples, ExampleSides, damaged_preparation
from pellucid.data.prepare.image_examples import ImagePreparation, image_sides
from pellucid.data.prepare.table_examples import (
    CategoryColumn,
    TablePreparation,
    table_sides,
)
from pellucid.data.prepare.targets import choose_target
from pellucid.data.prepare.tokens import (
    Corpus,
    PairSides,
    SequenceSides,
    encode_list,
    encode_text,
    pair_sides,
)
from pellucid.errors import quoted
from pellucid.records.plain import as_plain, from_plain

__all__ = [
    "CategoryColumn",
    "Corpus",
    "ExampleSides",
    "Examples",
    "ImagePreparation",
    "PairSides",
    "Preparation",
    "SequenceSides",
    "TablePreparation",
    "choose_target",
    "encode_list",
    "encode_text",
    "image_sides",
    "pair_sides",
    "preparation_from_json",
    "preparation_to_json",
    "table_sides",
]

# How rows and images become numbers: learned from train once, kept with the run, the same for new ones.
Preparation: TypeAlias = TablePreparation | ImagePreparation


def preparation_to_json(preparation: Preparation) -> dict[str, Any]:
    """What `preparation_from_json` takes."""
    fields = as_plain(preparation)
    assert isinstance(fields, dict)
    return {"kind": preparation.kind, **fields}


def preparation_from_json(content: Any) -> Preparation:
    """The preparation that was stored. A run may come from someone else, so it is checked before it is believed.

    >>> gray = ImagePreparation(size=(8, 8), mode="gray", mean=(0.0,), deviation=(1.0,), classes=("cat", "dog"))
    >>> preparation_from_json(preparation_to_json(gray)) == gray
    True
    """
    fields = dict(content) if isinstance(content, dict) else {}
    kind = str(fields.pop("kind", ""))
    kinds: dict[str, type[Preparation]] = {of.kind: of for of in (TablePreparation, ImagePreparation)}
    if kind not in kinds:
        raise damaged_preparation(f"its kind is {quoted(kind)}")
    wanted = {field.name for field in dataclasses.fields(kinds[kind])}
    if set(fields) != wanted:
        raise damaged_preparation(f"it wants {', '.join(sorted(wanted))}")
    try:
        found = from_plain(kinds[kind], fields)
    except (ValueError, OverflowError) as error:
        raise damaged_preparation(str(error)) from error
    found.require_sound()
    return found
