"""Rows, images and pairs as numbers on three sides, and the preparation that reads new ones in the same way.

What is learned from the data (means, deviations, categories) is learned from train alone.
"""

from pellucid.data.examples.image_preparation import ImagePreparation
from pellucid.data.examples.images import image_sides
from pellucid.data.examples.pairs import PairSides, pair_sides
from pellucid.data.examples.sides import Examples, ExampleSides
from pellucid.data.examples.stored import Preparation, preparation_from_json
from pellucid.data.examples.table_preparation import CategoryColumn, NumericColumn, RowsRead, TablePreparation
from pellucid.data.examples.tables import table_sides

__all__ = [
    "CategoryColumn",
    "ExampleSides",
    "Examples",
    "ImagePreparation",
    "NumericColumn",
    "PairSides",
    "Preparation",
    "RowsRead",
    "TablePreparation",
    "image_sides",
    "pair_sides",
    "preparation_from_json",
    "table_sides",
]
