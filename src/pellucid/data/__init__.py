"""Files to examples: lists, text, tables, pairs and images; vocabularies; the sets that come with pellucid.

Nothing heavy is loaded by this: Polars when a table is read, NumPy when tokens are, Pillow when images are.
"""

from pellucid.data.bpe import BPE
from pellucid.data.categories import Categories
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
from pellucid.data.opening import open_data
from pellucid.data.readers.columns import stack_tables
from pellucid.data.readers.pictures import decode_images
from pellucid.data.sets import DatasetCard, datasets
from pellucid.data.stored import vocabulary_from_json
from pellucid.data.targets import Target, choose_target
from pellucid.data.vocabularies import BOUNDARY, Bytes, Characters, Vocabulary, Words
from pellucid.errors import DataChanged

__all__ = [
    "BOUNDARY",
    "BPE",
    "Bytes",
    "Categories",
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
    "Target",
    "TextData",
    "Vocabulary",
    "Words",
    "choose_target",
    "datasets",
    "decode_images",
    "encode_list",
    "encode_text",
    "open_data",
    "require_kind",
    "stack_tables",
    "vocabulary_from_json",
]
