"""Files to examples: lists, text, tables, pairs and images; vocabularies; the sets that come with pellucid.

Nothing heavy is loaded by this: Polars when a table is read, Pillow when images are, NumPy by `pellucid.data.prepare`.
"""

from pellucid.data.kinds import (
    Column,
    Data,
    ImagesData,
    ListData,
    PairsData,
    PixelsData,
    TableData,
    TextData,
    require_kind,
)
from pellucid.data.readers import open_data
from pellucid.data.readers.images import decode_images
from pellucid.data.sets import DatasetCard, datasets
from pellucid.data.vocabularies import BPE, Bytes, Characters, Vocabulary, Words, vocabulary_from_json
from pellucid.errors import DataChanged

__all__ = [
    "BPE",
    "Bytes",
    "Characters",
    "Column",
    "Data",
    "DataChanged",
    "DatasetCard",
    "ImagesData",
    "ListData",
    "PairsData",
    "PixelsData",
    "TableData",
    "TextData",
    "Vocabulary",
    "Words",
    "datasets",
    "decode_images",
    "open_data",
    "require_kind",
    "vocabulary_from_json",
]
