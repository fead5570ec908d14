"""Parquet, looked at before it is read: the footer, every page header, sizes and checksums, by our own reader.

A small file can unpack to gigabytes, and a damaged one often loads without an error. What the metadata promise is
checked against the file and against each other; where pages carry checksums these are checked too.
"""

import zlib
from typing import NamedTuple

from pellucid.data.memory import gigabytes, physical_memory
from pellucid.data.rows import checked_header
from pellucid.data.sources import Source
from pellucid.data.thrift import Broken, Compact
from pellucid.errors import PellucidError, TooLarge, quoted

MAGIC = b"PAR1"
LARGEST_FOOTER = 8 << 20
BOMB_BYTES = 256 << 20  # less than this unpacked harms nobody
BOMB_RATIO = 500
MOST_PAGES = 200_000
_PHYSICAL = {0: "boolean", 1: "int32", 2: "int64", 3: "int96", 4: "float", 5: "double", 6: "bytes", 7: "fixed bytes"}
_CONVERTED = {1: "map", 2: "map", 3: "list", 5: "decimal", 7: "time", 8: "time", 20: "BSON", 21: "interval"}
_LOGICAL = {2: "map", 3: "list", 5: "decimal", 7: "time", 12: "JSON", 13: "BSON", 14: "UUID", 15: "float16"}


class Chunk(NamedTuple):
    """One column of one row group."""

    n_values: int
    start: int
    n_bytes: int
    n_rows: int
    is_text: bool


def check_parquet(source: Source) -> int:
    """Refuse a Parquet file that is damaged, nested, or far larger than it looks; give its number of rows."""
    footer_start, meta = _footer(source)
    try:
        names = _flat_columns(_list(meta, 2), source.name)
        chunks = [chunk for group in _list(meta, 4) for chunk in _chunks(group, len(names), footer_start)]
        n_rows = _int(meta, 3)
        if n_rows != sum(_int(_struct(group), 3) for group in _list(meta, 4)) or n_rows < 0:
            raise Broken
        _refuse_bomb(sum(_decoded_size(chunk) for chunk in chunks), source)
        unpacked = sum(_unpacked_size(source, chunk) for chunk in chunks)
        _refuse_bomb(unpacked + sum(_decoded_size(chunk) for chunk in chunks), source)
    except Broken as error:
        raise _damaged(source, "its metadata contradict each other") from error
    return n_rows


def _footer(source: Source) -> tuple[int, dict[int, object]]:
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
        return start, Compact(source.read(start, length)).structure()
    except Broken as error:
        raise _damaged(source, "its metadata cannot be read") from error


def _flat_columns(schema: list[object], name: str) -> list[str]:
    """The names of the columns; a nested or exotic one is refused by name and type."""
    if not schema:
        raise Broken
    elements = [_struct(element) for element in schema]
    columns = []
    at = 1
    while at < len(elements):
        element = elements[at]
        column = _text(element, 4)
        what = _refused_type(element)
        if what:
            raise PellucidError(
                f"column {quoted(column)} of {name} is a {what}", fix="Turn it into plain numbers or text, or drop it"
            )
        columns.append(column)
        at += 1
    if len(columns) != _int(elements[0], 5):
        raise Broken
    return checked_header(columns, name)


def _refused_type(element: dict[int, object]) -> str:
    """What a column is, where it is nothing that a table of numbers and texts can hold; "" where it is."""
    converted = element.get(6, -1)
    logical = _struct(element[10]) if 10 in element else {}
    for table, keys in ((_LOGICAL, tuple(logical)), (_CONVERTED, (converted,))):
        for key in keys:
            if isinstance(key, int) and key in table:
                return table[key]
    if element.get(5):
        return "structure"
    if element.get(3, 0) == 2:
        return "list"
    if 8 in logical and _struct(logical[8]).get(1):
        return "time with a time zone"
    physical = element.get(1)
    is_text = converted in (0, 4) or 1 in logical or 4 in logical
    if physical in (3, 7) or (physical == 6 and not is_text) or physical not in _PHYSICAL:
        return f"column of {_PHYSICAL.get(physical, 'unknown type') if isinstance(physical, int) else 'unknown type'}"
    return ""


def _chunks(group: object, n_columns: int, footer_start: int) -> list[Chunk]:
    found = _struct(group)
    n_rows = _int(found, 3)
    chunks = []
    for column in _list(found, 1):
        about = _struct(_struct(column).get(3))
        start = _int(about, 9)
        dictionary = about.get(11, 0)
        if isinstance(dictionary, int) and 0 < dictionary < start:
            start = dictionary
        n_bytes = _int(about, 7)
        if start < 4 or n_bytes < 0 or start + n_bytes > footer_start or _int(about, 5) != n_rows:
            raise Broken
        chunks.append(Chunk(_int(about, 5), start, n_bytes, n_rows, about.get(1) == 6))
    if len(chunks) != n_columns:
        raise Broken
    return chunks


def _decoded_size(chunk: Chunk) -> int:
    return chunk.n_values * (16 if chunk.is_text else 8)


def _unpacked_size(source: Source, chunk: Chunk) -> int:
    """Walk the pages of a column: their headers, their checksums, and how much they unpack to."""
    at, end, n_values, unpacked = chunk.start, chunk.start + chunk.n_bytes, 0, 0
    n_pages = 0
    while at < end:
        reader, page = _page_header(source, at, end)
        n_pages += 1
        if n_pages > MOST_PAGES:
            raise TooLarge(
                f"a column of {source.name} has more than {MOST_PAGES:,} pages", fix="Write it with larger pages"
            )
        size, full = _int(page, 3), _int(page, 2)
        at += reader.at
        if size < 0 or full < 0 or at + size > end:
            raise Broken
        if 4 in page and zlib.crc32(source.read(at, size)) != _int(page, 4) & 0xFFFFFFFF:
            raise _damaged(source, f"the checksum of the page at byte {at:,} does not match")
        for field in (5, 8):
            if field in page:
                n_values += _int(_struct(page[field]), 1)
        unpacked += full
        at += size
    if n_values != chunk.n_values:
        raise Broken
    return unpacked


def _page_header(source: Source, at: int, end: int) -> tuple[Compact, dict[int, object]]:
    # A header is small, but the statistics in it may hold long texts.
    for length in (512, 1 << 16):
        reader = Compact(source.read(at, min(end - at, length)))
        try:
            return reader, reader.structure()
        except Broken:
            continue
    raise Broken


def _refuse_bomb(n_bytes: int, source: Source) -> None:
    there = physical_memory()
    if n_bytes > BOMB_BYTES and n_bytes > BOMB_RATIO * source.size:
        raise TooLarge(
            f"{source.name} would unpack from {source.size:,} bytes to {gigabytes(n_bytes)}",
            fix="It looks like a bomb; write it again with plain encoding if it is yours",
        )
    if n_bytes > there:
        raise TooLarge(
            f"{source.name} needs about {gigabytes(n_bytes)} of memory, and this machine has {gigabytes(there)}",
            fix="Keep fewer rows or columns",
        )


def _damaged(source: Source, why: str) -> PellucidError:
    return PellucidError(f"{source.name} is no sound Parquet file: {why}", fix="Write or copy it again")


def _struct(value: object) -> dict[int, object]:
    if not isinstance(value, dict):
        raise Broken
    return value


def _list(found: dict[int, object], field: int) -> list[object]:
    value = found.get(field)
    if not isinstance(value, list):
        raise Broken
    return value


def _int(found: dict[int, object], field: int) -> int:
    value = found.get(field)
    if not isinstance(value, int):
        raise Broken
    return value


def _text(found: dict[int, object], field: int) -> str:
    value = found.get(field)
    if not isinstance(value, bytes):
        raise Broken
    return value.decode("utf-8", "backslashreplace")
