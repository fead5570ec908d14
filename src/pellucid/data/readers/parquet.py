"""Parquet, read by Polars after a look at what it promises: sizes, types and checksums.

Polars gives the schema and the number of rows without reading a value. Two things it does not tell, and each costs a
user's data or machine: it ignores the checksums of pages (a flipped bit loads as another number), and it says nothing
of how far texts unpack (7 kB to 200 MB). Both stand in the page headers, so these are walked here, and nothing else is.
"""

import io
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar

import polars

from pellucid.data.kinds import ReadOptions, TableData
from pellucid.data.readers import require_header, require_rows
from pellucid.data.readers.columns import (
    decide_column,
    make_table,
    polars_errors,
    require_plain_types,
)
from pellucid.data.readers.sources import Source, begin_fingerprint, gigabytes, read_all, require_memory
from pellucid.errors import PellucidError, TooLarge

MAGIC = b"PAR1"
LARGEST_FOOTER = 8 << 20
BOMB_BYTES = 256 << 20  # less than this unpacked harms nobody
BOMB_RATIO = 500
MOST_PAGES = 200_000
DEEPEST = 16  # values inside each other; Parquet needs fewer

Value = TypeVar("Value")


class _Broken(ValueError):
    """What should describe the file does not."""


def read_parquet(source: Source, options: ReadOptions, because: str) -> TableData:
    """The table in a Parquet file, or why it is damaged, nested or far larger than it looks."""
    name = source.name
    footer, footer_start = _footer(source)
    _refuse_bomb(source.size, source)
    content = read_all(source)
    fingerprint = begin_fingerprint(content)
    with polars_errors(name):
        lazy = polars.scan_parquet(io.BytesIO(content), glob=False, hive_partitioning=False, use_statistics=False)
        schema = lazy.collect_schema()
        n_rows = int(lazy.select(polars.len()).collect().item())
    require_header([column.strip() for column in schema], name)
    require_plain_types(schema, name)
    require_rows(n_rows, name, options.fewest_rows)
    n_bytes = n_rows * sum(16 if dtype == polars.String else 8 for dtype in schema.dtypes())
    _refuse_bomb(n_bytes, source)
    try:
        chunks = list(_chunks(footer, footer_start, n_rows, len(schema)))
        _refuse_bomb(n_bytes + sum(_unpacked_size(source, *chunk) for chunk in chunks), source)
    except _Broken as error:
        raise _damaged(source, "its metadata contradict each other") from error
    with polars_errors(name):
        frame = lazy.collect()
    if frame.height != n_rows:
        raise PellucidError(f"{name} promises {n_rows:,} rows and has {frame.height:,}", fix="Write or copy it again")
    return make_table(
        name,
        [decide_column(column, lambda row: f"row {row + 1:,} of {name}", is_typed=True) for column in frame],
        because=because,
        fingerprint=fingerprint(),
        row_word="row",
    )


def _footer(source: Source) -> tuple[dict[int, Any], int]:
    """The file's own description, and the byte it begins at."""
    if source.size < 12 or source.read(0, 4) != MAGIC:
        raise _damaged(source, "it does not begin with PAR1")
    tail = source.read(source.size - 8, 8)
    if tail[4:] == b"PARE":
        raise PellucidError(f"{source.name} is encrypted", fix="Decrypt it first")
    if tail[4:] != MAGIC:
        raise _damaged(source, "it does not end with PAR1, as if it were cut short")
    length = int.from_bytes(tail[:4], "little")
    start = source.size - 8 - length
    if start < 4:
        raise _damaged(source, "its metadata would begin before it does")
    if length > LARGEST_FOOTER:
        raise TooLarge(
            f"the metadata of {source.name} have {length:,} bytes", fix=f"At most {LARGEST_FOOTER:,} are read"
        )
    try:
        return _Compact(source.read(start, length)).structure(), start
    except _Broken as error:
        raise _damaged(source, "its metadata cannot be read") from error


def _chunks(footer: dict[int, Any], footer_start: int, n_rows: int, n_columns: int) -> Iterator[tuple[int, int, int]]:
    """Of each column of each row group: its first byte, its bytes and its values."""
    n_left = n_rows
    for group in _get(footer, 4, list):
        n = _get(group, 3, int)
        n_left -= n
        columns = _get(group, 1, list)
        if len(columns) != n_columns:
            raise _Broken
        for column in columns:
            about = _get(column, 3, dict)
            start, n_bytes = _get(about, 9, int), _get(about, 7, int)
            if 11 in about and 0 < _get(about, 11, int) < start:
                start = about[11]  # a dictionary stands before the values
            if start < 4 or n_bytes < 0 or start + n_bytes > footer_start or _get(about, 5, int) != n:
                raise _Broken
            yield start, n_bytes, n
    if n_left:
        raise _Broken


def _unpacked_size(source: Source, start: int, n_bytes: int, n_values: int) -> int:
    """Walk the pages of a column: their headers, their checksums, and how much they unpack to."""
    at, end, unpacked, n_pages = start, start + n_bytes, 0, 0
    while at < end:
        page, n_header = _page_header(source, at, end)
        n_pages += 1
        if n_pages > MOST_PAGES:
            raise TooLarge(
                f"a column of {source.name} has more than {MOST_PAGES:,} pages", fix="Write it with larger pages"
            )
        at += n_header
        full, size = _get(page, 2, int), _get(page, 3, int)
        if size < 0 or full < 0 or at + size > end:
            raise _Broken
        if 4 in page and zlib.crc32(source.read(at, size)) != _get(page, 4, int) & 0xFFFFFFFF:
            raise _damaged(source, f"the checksum of the page at byte {at:,} does not match")
        n_values -= sum(_get(page[field], 1, int) for field in (5, 8) if field in page)  # data pages, versions 1 and 2
        unpacked += full
        at += size
    if n_values:
        raise _Broken
    return unpacked


def _page_header(source: Source, at: int, end: int) -> tuple[dict[int, Any], int]:
    # A header is small, but the statistics in it may hold long texts.
    for length in (512, 1 << 16):
        reader = _Compact(source.read(at, min(end - at, length)))
        try:
            return reader.structure(), reader.at
        except _Broken:
            continue
    raise _Broken


def _refuse_bomb(n_bytes: int, source: Source) -> None:
    if n_bytes > BOMB_BYTES and n_bytes > BOMB_RATIO * source.size:
        raise TooLarge(
            f"{source.name} would unpack from {source.size:,} bytes to {gigabytes(n_bytes)}",
            fix="It looks like a bomb; write it again with plain encoding if it is yours",
        )
    require_memory(n_bytes, source.name, "Keep fewer rows or columns")


def _damaged(source: Source, why: str) -> PellucidError:
    return PellucidError(f"{source.name} is no sound Parquet file: {why}", fix="Write or copy it again")


def _get(structure: object, field: int, of: type[Value]) -> Value:
    value = structure.get(field) if isinstance(structure, dict) else None
    if not isinstance(value, of):
        raise _Broken
    return value


class _Compact:
    """Thrift's compact protocol, as much as Parquet needs: a structure becomes {field number: value}."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while kind := self._take(1)[0]:
            field = field + (kind >> 4) if kind >> 4 else self._whole()
            found[field] = self._value(kind & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise _Broken
        if kind in (1, 2):  # a truth value stands in the type itself
            return kind == 1
        if kind == 3:
            return self._take(1)[0]
        if kind in (4, 5, 6):
            return self._whole()
        if kind == 7:
            return self._take(8)
        if kind == 8:
            return self._take(self._varint())
        if kind in (9, 10):
            head = self._take(1)[0]
            n = head >> 4 if head >> 4 < 15 else self._varint()
            if n > len(self.content) - self.at:
                raise _Broken
            # In a list each truth value has a byte of its own.
            item = 3 if head & 15 in (1, 2) else head & 15
            return [self._value(item, depth + 1) for _ in range(n)]
        if kind == 12:
            return self.structure(depth + 1)
        raise _Broken  # maps (11) occur nowhere in a footer

    def _take(self, n: int) -> bytes:
        if n > len(self.content) - self.at:
            raise _Broken
        self.at += n
        return self.content[self.at - n : self.at]

    def _whole(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self._take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise _Broken
