"""Files to examples: lists, text, tables, pairs and images; vocabularies; the sets that come with pellucid.

Nothing heavy is loaded by this: Polars when a table is read, NumPy when tokens are, Pillow when images are.
"""

from pellucid.data.bpe import BPE
from pellucid.data.card import DatasetCard
from pellucid.data.corpus import Corpus, encode_list, encode_text
from pellucid.data.kinds import (
    Column,
    Data,
    ImageFile,
    ImagesData,
    ListData,
    PairsData,
    PixelsData,
    TableData,
    TextData,
    require_kind,
)
from pellucid.data.opening import datasets, open_data
from pellucid.data.sources import DataChanged
from pellucid.data.stored import vocabulary_from_json
from pellucid.data.vocabularies import BOUNDARY, Bytes, Characters, Vocabulary, Words

__all__ = [
    "BOUNDARY",
    "BPE",
    "Bytes",
    "Characters",
    "Column",
    "Corpus",
    "Data",
    "DataChanged",
    "DatasetCard",
    "ImageFile",
    "ImagesData",
    "ListData",
    "PairsData",
    "PixelsData",
    "TableData",
    "TextData",
    "Vocabulary",
    "Words",
    "datasets",
    "encode_list",
    "encode_text",
    "open_data",
    "require_kind",
    "vocabulary_from_json",
]
