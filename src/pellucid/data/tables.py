"""Tables: CSV, TSV, JSON lines and Parquet, read by Polars after our own checks."""

import hashlib
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pellucid.data.columns import decide, missing_note, said_of
from pellucid.data.decoding import characters, guessed_encoding
from pellucid.data.kinds import FEWEST_ROWS, TableData
from pellucid.data.magic import is_parquet
from pellucid.data.memory import require_memory
from pellucid.data.rows import LONGEST_ROW, Rows, check_rows, refuse_other_separator, require_separator
from pellucid.data.sources import PIECE, Source, whole
from pellucid.data.typed import from_json, from_parquet, guarded
from pellucid.errors import PellucidError, TooLarge, did_you_mean, quoted

if TYPE_CHECKING:
    import polars

BOM = b"\xef\xbb\xbf"
MISSING_WAYS = ("usual", "empty")
# The bytes, their cells as texts, and the columns that are made of them.
MEMORY_FACTOR = 5


def read_table(
    source: Source,
    *,
    ending: str,
    because: str,
    encoding: str,
    separator: str,
    missing_values: str,
    as_number: Sequence[str],
    fewest_rows: int = FEWEST_ROWS,
) -> TableData:
    """The table in a file, or the line and column that keep it from being one."""
    if missing_values not in MISSING_WAYS:
        raise PellucidError(f"{quoted(missing_values)} says nothing of missing cells", fix="Write usual or empty")
    head = source.read(0, PIECE)
    if is_parquet(head) or ending in (".parquet", ".pq"):
        return _from_parquet(source, because, fewest_rows)
    require_memory(source.size * MEMORY_FACTOR, source.name, "Keep fewer rows or columns")
    if ending in (".jsonl", ".ndjson", ".json") or head.removeprefix(BOM).lstrip()[:1] == b"{":
        return _from_json(source, because, encoding, fewest_rows)
    separator = require_separator(separator) if separator else _likely_separator(head, ending)
    return _from_csv(source, because, encoding, separator, missing_values, as_number, fewest_rows)


def _from_csv(
    source: Source,
    because: str,
    encoding: str,
    separator: str,
    missing_values: str,
    as_number: Sequence[str],
    fewest_rows: int,
) -> TableData:
    name = source.name
    if source.size > LONGEST_ROW and not any(mark in source.read(0, LONGEST_ROW) for mark in (b"\n", b"\r")):
        raise TooLarge(
            f"the first line is longer than {LONGEST_ROW:,} bytes", where=f"in {name}:1", fix="Check that it is a table"
        )
    content = whole(source)
    fingerprint = hashlib.sha256(content).hexdigest()
    notes: list[str] = []
    if encoding != "utf-8":
        content = "".join(characters(source, encoding)).encode("utf-8")
    else:
        _require_utf8(content, name, separator)
    if content.startswith(BOM):
        content = content[len(BOM) :]
        notes.append("a byte order mark at the start was left out")
    if b"\r" in content and b"\n" not in content:
        content = content.replace(b"\r", b"\n")
        notes.append("lines end in CR alone, read as LF")
    content = content.rstrip(b"\r\n")
    if not content.strip():
        raise PellucidError(f"{name} holds no table, only white space", fix="Check that it is the file you meant")
    start = content[: 1 << 17].decode("utf-8", "ignore")
    refuse_other_separator(start, separator, name)
    rows = check_rows(content, separator, name)
    _require_rows(rows.n_rows, name, fewest_rows)
    cells = _cells(content, rows, separator, name)
    unknown = [column for column in as_number if column not in rows.header]
    if unknown:
        raise unknown_column(unknown[0], rows.header, name)

    def place(row: int) -> str:
        return f"{name}:{int(rows.lines[row]) if rows.lines is not None else row + 2}"

    decided = [decide(cells[column], place, missing_values, column in as_number) for column in rows.header]
    import polars

    frame = polars.DataFrame([one.values for one in decided])
    columns = tuple(one.column for one in decided)
    return TableData(
        name=name,
        frame=frame,
        columns=columns,
        said=said_of(name, frame.height, len(columns), because),
        fingerprint=fingerprint,
        notes=(*notes, *missing_note(columns), *(note for one in decided for note in one.notes)),
        lines=rows.lines,
    )


def _cells(content: bytes, rows: Rows, separator: str, name: str) -> "polars.DataFrame":
    """Every cell as text, by Polars; the header is its first row, because Polars would rename what we refuse."""
    import polars

    labels = [str(i) for i in range(len(rows.header))]
    with guarded(name):
        frame = polars.read_csv(
            io.BytesIO(content),
            has_header=False,
            schema=dict.fromkeys(labels, polars.String),
            separator=separator,
            quote_char='"',
            empty_string_is_null=False,
            encoding="utf8",
            glob=False,
        )
    # Two readers, one answer: if we and Polars count differently, neither is believed.
    if frame.height != rows.n_rows + 1:
        raise PellucidError(
            f"{name} can be read as {rows.n_rows + 1:,} or as {frame.height:,} lines",
            fix="Check its quotes and line ends",
        )
    frame = frame.slice(1)
    frame.columns = rows.header
    return frame


def _from_json(source: Source, because: str, encoding: str, fewest_rows: int) -> TableData:
    from pellucid.data.jsonl import read_objects

    content = whole(source)
    lines = "".join(characters(source, encoding)).split("\n")
    columns, numbers = read_objects(lines, source.name)
    _require_rows(len(numbers), source.name, fewest_rows)
    return from_json(columns, numbers, source.name, hashlib.sha256(content).hexdigest(), because)


def _from_parquet(source: Source, because: str, fewest_rows: int) -> TableData:
    from pellucid.data.parquet import check_parquet

    n_rows = check_parquet(source)
    _require_rows(n_rows, source.name, fewest_rows)
    content = whole(source)
    return from_parquet(content, n_rows, source.name, hashlib.sha256(content).hexdigest(), because)


def stacked(tables: Sequence[TableData]) -> TableData:
    """Several tables with the same columns as one; where they differ, the difference is named."""
    import polars

    first = tables[0]
    for other in tables[1:]:
        for here, there, one in ((first, other, other), (other, first, first)):
            gone = [column.name for column in here.columns if column.name not in there.frame.columns]
            if gone:
                raise PellucidError(
                    f"{one.name} has no column {quoted(gone[0])}, and {here.name} has",
                    fix="Give tables with the same columns",
                )
        for column in first.columns:
            if other.column(column.name).kind != column.kind and "numeric" in (
                other.column(column.name).kind,
                column.kind,
            ):
                raise PellucidError(
                    f"column {quoted(column.name)} is {column.kind} in {first.name} and "
                    f"{other.column(column.name).kind} in {other.name}",
                    fix="Give tables with the same columns",
                )
    frame = polars.concat([table.frame.select(first.frame.columns) for table in tables], how="vertical_relaxed")
    n_missing = {column.name: sum(table.column(column.name).n_missing for table in tables) for column in first.columns}
    columns = tuple(column._replace(n_missing=n_missing[column.name]) for column in first.columns)
    return TableData(
        name=f"{first.name} and {len(tables) - 1} more",
        frame=frame,
        columns=columns,
        said=said_of(f"{len(tables)} files", frame.height, len(columns), "the same columns in each"),
        fingerprint=hashlib.sha256("".join(table.fingerprint for table in tables).encode()).hexdigest(),
        notes=missing_note(columns),
        row_word="row",
    )


def unknown_column(wanted: str, known: Sequence[str], name: str) -> PellucidError:
    """The error for a column that is not there, with the one that was probably meant."""
    some = ", ".join(quoted(column, 20) for column in known[:6])
    fix = did_you_mean(wanted, known, f"It has {some}{' and more' if len(known) > 6 else ''}", show=quoted)
    return PellucidError(f"{name} has no column {quoted(wanted)}", fix=fix)


def _likely_separator(head: bytes, ending: str) -> str:
    if ending in (".tsv", ".tab"):
        return "\t"
    first = head.split(b"\n", 1)[0]
    return "\t" if b"\t" in first and b"," not in first and ending != ".csv" else ","


def _require_rows(n_rows: int, name: str, fewest: int) -> None:
    if n_rows < 1:
        raise PellucidError(
            f"{name} has a header and no rows", fix=f"Give it at least {fewest} row{'s' * (fewest > 1)}"
        )
    if n_rows < fewest:
        raise PellucidError(f"{name} has 1 row, and at least {fewest} are needed", fix="Give it more rows")


def _require_utf8(content: bytes, name: str, separator: str) -> None:
    """Refuse bytes that are no UTF-8, by line and column."""
    try:
        for start in range(0, len(content), 1 << 24):
            # Cut between characters: a byte that continues one has the form 10xxxxxx.
            end = min(start + (1 << 24), len(content))
            start = _boundary(content, start)
            content[start : _boundary(content, end)].decode("utf-8")
    except UnicodeDecodeError as error:
        offset = start + error.start
        begin = content.rfind(b"\n", 0, offset) + 1
        line = content.count(b"\n", 0, offset) + 1
        number = content[begin:offset].count(separator.encode()) + 1
        header = content.split(b"\n", 1)[0].decode("utf-8", "replace").split(separator)
        column = quoted(header[number - 1].strip(' "\r\ufeff')) if line > 1 and number <= len(header) else str(number)
        guess = guessed_encoding(content[:4096], content[max(0, offset - 64) : offset + 64])
        raise PellucidError(
            f"a cell is not UTF-8 at byte {offset:,}",
            where=f"in {name}:{line}, column {column}",
            fix=f"It looks like {guess.upper()}; try --encoding {guess}" if guess else "Write the file again as UTF-8",
        ) from None
    if b"\0" in content and guessed_encoding(content[:4096]):
        guess = guessed_encoding(content[:4096])
        raise PellucidError(f"{name} looks like {guess.upper()}", fix=f"Try --encoding {guess}")


def _boundary(content: bytes, at: int) -> int:
    for back in range(4):
        if at - back <= 0 or at >= len(content) or content[at - back] & 0xC0 != 0x80:
            return max(0, at - back)
    return at
