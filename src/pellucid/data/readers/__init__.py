"""Readers, one file for each format: KINDS in kinds.py names the reader of each kind, TABLE_FORMATS those of tables."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.data.kinds import ReadOptions, TableData, load_named
from pellucid.data.readers.sources import HEAD, Source, require_memory

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class TableFormat:
    """A way to write a table into a file, told by the ending of its name or by its first bytes."""

    noun: str
    endings: tuple[str, ...]
    start: bytes
    reader: str  # module:function, called as read(source, options, because)
    is_binary: bool = False  # no text, whatever its first line looks like
    memory_factor: int = 0  # bytes of memory for each byte of the file; 0 where the reader asks itself


TABLE_FORMATS = (
    TableFormat("a Parquet file", (".parquet", ".pq"), b"PAR1", "pellucid.data.readers.parquet:read_parquet", True),
    # The bytes, their cells as texts, and the columns that are made of them.
    TableFormat(
        "JSON lines", (".jsonl", ".ndjson", ".json"), b"{", "pellucid.data.readers.jsonl:read_jsonl", memory_factor=5
    ),
    TableFormat(
        "separated values", (".csv", ".tsv", ".tab"), b"", "pellucid.data.readers.csv:read_csv", memory_factor=5
    ),
)
TABLE_ENDINGS = tuple(ending for one in TABLE_FORMATS for ending in one.endings)


def table_format(source: Source) -> TableFormat:
    """The format of a table: by its first bytes, else by its ending, else separated values."""
    head = source.read(0, HEAD)
    for one in TABLE_FORMATS:
        if source.ending in one.endings or head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(one.start):
            return one
    raise AssertionError("every file starts with nothing")


def read_table(source: Source, options: ReadOptions, because: str = "") -> TableData:
    """The table in a file of any of these formats."""
    found = table_format(source)
    if found.memory_factor:
        require_memory(source.size * found.memory_factor, source.name, "Keep fewer rows or columns")
    read: Callable[[Source, ReadOptions, str], TableData] = load_named(found.reader)
    return read(source, options, because)
