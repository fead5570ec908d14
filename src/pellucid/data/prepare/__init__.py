"""Data as numbers on three sides, and the preparation that reads new examples in the same way.

What is learned from the data (means, deviations, categories, pieces of words) is learned from train alone.
"""

from pellucid.data.prepare.examples import Examples, ExampleSides
from pellucid.data.prepare.image_examples import image_sides
from pellucid.data.prepare.preparations import (
    CategoryColumn,
    ImagePreparation,
    NumericColumn,
    Preparation,
    PreparedRows,
    TablePreparation,
    preparation_from_json,
)
from pellucid.data.prepare.table_examples import Target, choose_target, table_sides
from pellucid.data.prepare.tokens import (
    Corpus,
    PairSides,
    SequenceSides,
    encode_list,
    encode_text,
    pair_sides,
    split_sequences,
)

__all__ = [
    "CategoryColumn",
    "Corpus",
    "ExampleSides",
    "Examples",
    "ImagePreparation",
    "NumericColumn",
    "PairSides",
    "Preparation",
    "PreparedRows",
    "SequenceSides",
    "TablePreparation",
    "Target",
    "choose_target",
    "encode_list",
    "encode_text",
    "image_sides",
    "pair_sides",
    "preparation_from_json",
    "split_sequences",
    "table_sides",
]
