"""CSV and TSV: the rows are counted byte by byte before anybody parses them, then read by Polars.

Readers guess: pandas fills short rows, reads a file with other separators as one column, and lets an unclosed quote eat
the rest. Here the structure is checked first, as NumPy over the bytes, and what does not fit is named by its line.

Most tables have neither quotes nor carriage returns, and most of their columns are whole numbers written as usual, or
names that repeat. Where a C compiler was there at install, `_plain_cells.c` checks and reads those in one pass, and
Polars reads the other columns. What comes out is the same.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy
from numpy.typing import NDArray

from pellucid.data.kinds import ReadOptions, TableData, unknown_column
from pellucid.data.readers import MOST_COLUMNS, require_header, require_rows
from pellucid.data.readers.sources import PIECE, Source, begin_fingerprint, read_all
from pellucid.data.readers.text import characters, guessed_encoding
from pellucid.errors import PellucidError, TooLarge, quoted
from pellucid.records import make_note

try:
    from pellucid.data.readers import _plain_cells
except ImportError:  # it was installed without a C compiler
    _plain_cells = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import polars

    from pellucid.data.readers._plain_cells import PlainColumn

Array: TypeAlias = NDArray[Any]
QUOTE, LF, CR = 34, 10, 13
BLOCK = 1 << 24
LONGEST_ROW = 16 << 20
_ALL_BYTES = bytes(range(256))
BOM = b"\xef\xbb\xbf"
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}


@dataclass(frozen=True)
class CsvRows:
    """What the structure of a CSV file is."""

    header: list[str]
    n_rows: int  # without the header
    lines: Array | None  # the line each row begins on, where cells hold newlines
    columns: Sequence[PlainColumn] = ()  # empty: not read yet


def read_csv(source: Source, options: ReadOptions, because: str) -> TableData:
    """The table in a file of separated values, or the line and column that keep it from being one."""
    name = source.name
    separator = require_separator(options.separator) if options.separator else _likely_separator(source)
    if source.size > LONGEST_ROW and not _has_line_end(source):
        raise TooLarge(
            f"the first line is longer than {LONGEST_ROW:,} bytes", where=f"in {name}:1", fix="Check that it is a table"
        )
    content = read_all(source)
    fingerprint = begin_fingerprint(content)
    notes = []
    if options.encoding != "utf-8":
        content = "".join(characters(source, options.encoding)).encode("utf-8")
    else:
        _require_utf8(content, name, separator)
    if content.startswith(BOM):
        content = content[len(BOM) :]
        notes.append(make_note("byte-order-mark"))
    if b"\r" in content and b"\n" not in content:
        content = content.replace(b"\r", b"\n")
        notes.append(make_note("cr-read-as-lf"))
    if content[-2:] != content[-2:-1].rstrip(b"\r\n") + b"\n":
        content = content.rstrip(b"\r\n")  # which copies all of it
    if not content or content.isspace():
        raise PellucidError(f"{name} holds no table, only white space", fix="Check that it is the file you meant")
    refuse_other_separator(content[: 1 << 17].decode("utf-8", "ignore"), separator, name)
    rows = check_rows(content, separator, name)
    require_rows(rows.n_rows, name, options.fewest_rows)

    # Polars is loaded only for what is a table.
    from pellucid.data.readers.columns import decide_column, make_table

    cells = _cells(content, rows, separator, name)
    unknown = [column for column in options.as_number if column not in rows.header]
    if unknown:
        raise unknown_column(unknown[0], rows.header, name)

    def place(row: int) -> str:
        return f"{name}:{int(rows.lines[row]) if rows.lines is not None else row + 2}"

    decided = [
        decide_column(
            cells[column],
            place,
            missing_values=options.missing_values,
            as_number=column in options.as_number,
            names_none=None if options.names_none is None else column in options.names_none,
        )
        for column in rows.header
    ]
    return make_table(name, decided, because=because, fingerprint=fingerprint(), notes=notes, lines=rows.lines)


def _has_line_end(source: Source) -> bool:
    pieces = (source.read(start, PIECE) for start in range(0, LONGEST_ROW, PIECE))
    return any(b"\n" in piece or b"\r" in piece for piece in pieces)


def _cells(content: bytes, rows: CsvRows, separator: str, name: str) -> dict[str, polars.Series]:
    """The cells of each column: as whole numbers where all of them are, else as text."""
    import polars

    places = range(len(rows.header))
    others = [place for place in places if not rows.columns or rows.columns[place] is None]
    frame = _texts(content, others, rows, separator, name) if others else None
    found = {}
    for place, header in enumerate(rows.header):
        column = rows.columns[place] if rows.columns else None
        if isinstance(column, bytes):
            cells = polars.Series(numpy.frombuffer(column, numpy.int64))
        elif column is not None:
            cells = polars.Series(column[1], dtype=polars.String).gather(numpy.frombuffer(column[0], numpy.uint16))
        else:
            assert frame is not None
            cells = frame[str(place)]
        found[header] = cells.alias(header)
    return found


def _texts(content: bytes, places: list[int], rows: CsvRows, separator: str, name: str) -> polars.DataFrame:
    """The cells of some columns as text, by Polars; the header is a row, because Polars would rename what we refuse."""
    import polars

    from pellucid.data.readers.columns import polars_errors

    labels = [str(i) for i in range(len(rows.header))]
    with polars_errors(name):
        frame = polars.read_csv(
            io.BytesIO(content),
            columns=places,
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
    return frame.slice(1)


def check_rows(content: bytes, separator: str, name: str) -> CsvRows:
    """The header and the number of rows, or the line on which a row, a quote or the header is wrong.

    >>> check_rows(b"a,b\\n1,2\\n3,4\\n", ",", "t.csv").n_rows
    2
    >>> check_rows(b"a,b\\n1,2\\n3\\n", ",", "t.csv")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: a row has 1 cell where the header has 2 in t.csv:3. Mend the row, or its quotes.
    """
    if (plain := _plain_rows(content, separator, name)) is not None:
        return plain
    if (n_lines := _even_lines(content, separator)) is not None:
        return CsvRows(_header(content.split(b"\n", 1)[0], separator, name), n_lines - 1, None)
    data = numpy.frombuffer(content, dtype=numpy.uint8)
    ends: list[Array] = []  # of every record, the place of its newline
    n_columns = 0
    before = 0  # separators of a record that began in an earlier block
    last_end = -1
    has_returns = b"\r" in content
    for start, inside in _quotes(data, ord(separator), name):
        block = data[start : start + BLOCK]
        is_free = ~inside
        newlines = numpy.flatnonzero((block == LF) & is_free)
        if has_returns:
            _refuse_lone_returns(data, start + numpy.flatnonzero((block == CR) & is_free), name)
        marks = numpy.flatnonzero((block == ord(separator)) & is_free)
        counts = numpy.diff(numpy.searchsorted(marks, newlines), prepend=0)
        if len(newlines):
            counts[0] += before
            before = len(marks) - int(numpy.searchsorted(marks, newlines[-1]))
        else:
            before += len(marks)
        places = newlines + start
        if not n_columns and len(counts):
            n_columns = int(counts[0]) + 1
        _require_even(data, places, counts + 1, n_columns, last_end, name)
        if len(places):
            last_end = int(places[-1])
            ends.append(places)
    if last_end < len(data) - 1:
        # The last record has no newline behind it.
        place = numpy.array([len(data)])
        n_columns = n_columns or before + 1
        _require_even(data, place, numpy.array([before + 1]), n_columns, last_end, name)
        ends.append(place)
    header = _header(content[: int(ends[0][0])], separator, name)
    all_ends = numpy.concatenate(ends)
    is_plain = content.count(b"\n") == len(all_ends) - (int(all_ends[-1]) == len(data))
    lines = None if is_plain else numpy.searchsorted(numpy.flatnonzero(data == LF), all_ends[:-1] + 1) + 1
    return CsvRows(header, len(all_ends) - 1, lines)


def _plain_rows(content: bytes, separator: str, name: str) -> CsvRows | None:
    """The rows of a table without quotes whose lines are even, with what is plain of its columns; None of any other.

    >>> _plain_rows(b'a,b\\n1,"2"\\n', ",", "t.csv")
    """
    if _plain_cells is None or b'"' in content or b"\r" in content:
        return None
    header = content[: max(0, content.find(b"\n"))]
    start, n_columns = len(header) + 1, 1 + header.count(separator.encode())
    if not header or start == len(content) or start > LONGEST_ROW or n_columns > MOST_COLUMNS:
        return None
    found = _plain_cells.read(content, start, separator, n_columns, LONGEST_ROW)
    return None if found is None else CsvRows(_header(header, separator, name), found[0], None, found[1])


def _even_lines(content: bytes, separator: str) -> int | None:
    """The number of lines, where no cell is quoted and all have as many cells as the first; None where one may not.

    Of every line nothing is looked at but its separators and its end.

    >>> _even_lines(b"a,b\\n1,2", ","), _even_lines(b"a,b\\n1", ","), _even_lines(b'a\\n"1"', ",")
    (2, None, None)
    """
    if b'"' in content or b"\r" in content or not content:
        return None
    mark = separator.encode()
    marks = content.translate(None, _ALL_BYTES.translate(None, mark + b"\n")) + b"\n" * (not content.endswith(b"\n"))
    line = marks[: marks.index(b"\n") + 1]
    if line == b"\n" and (b"\n\n" in content or content.startswith(b"\n")):
        return None
    n_lines = len(marks) // len(line)
    if marks != line * n_lines:
        return None
    start = 0
    while len(content) - start > LONGEST_ROW:
        # Between here and the last line end in reach no line is too long.
        start = content.rfind(b"\n", start, start + LONGEST_ROW + 1) + 1
        if not start:
            return None
    return n_lines


def refuse_other_separator(head: str, separator: str, name: str) -> None:
    """Refuse a file whose first lines agree on another separator than this one."""
    lines = [line for line in head.splitlines()[:101] if line.strip()]
    if not lines or (lines[0].count(separator) > 0 and len({line.count(separator) for line in lines}) == 1):
        return
    for other, word in SEPARATORS.items():
        counts = {line.count(other) for line in lines}
        if other != separator and len(counts) == 1 and counts != {0}:
            shown = "tab" if other == "\t" else other
            raise PellucidError(
                f"{name} looks separated by {word}", fix="Try {separator}", options={"separator": shown}
            )


def require_separator(separator: str) -> str:
    """One character that can stand between cells.

    >>> require_separator("tab"), require_separator("\\\\t"), require_separator(";")
    ('\\t', '\\t', ';')
    """
    separator = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(separator, separator)
    if len(separator) != 1 or not separator.isascii() or separator.isalnum() or separator in '"\r\n\0':
        raise PellucidError(
            f"{quoted(separator)} cannot separate cells",
            fix="Use one character, as in {separator}",
            options={"separator": ";"},
        )
    return separator


def _quotes(data: Array, separator: int, name: str) -> Iterator[tuple[int, Array]]:
    """For each block: where it starts, and which of its bytes stand inside quotes. Misplaced quotes are named."""
    is_open, opened_at = False, -1
    for start in range(0, len(data), BLOCK):
        block = data[start : start + BLOCK]
        is_quote = block == QUOTE
        at = numpy.flatnonzero(is_quote)
        if not len(at):
            yield start, numpy.full(len(block), is_open)
            continue
        inside = ((numpy.cumsum(is_quote, dtype=numpy.int64) + is_open) & 1).astype(bool)
        opens = inside[at]
        places = at + start
        previous = data[places - 1]
        following = data[numpy.minimum(places + 1, len(data) - 1)]
        is_last = places == len(data) - 1
        second = data[numpy.minimum(places + 2, len(data) - 1)]
        ends_line = (following == LF) | ((following == CR) & ((second == LF) | (places + 2 >= len(data))))
        well_opened = (places == 0) | (previous == separator) | (previous == LF) | (previous == QUOTE)
        well_closed = is_last | (following == separator) | ends_line | (following == QUOTE)
        wrong = numpy.flatnonzero(~numpy.where(opens, well_opened, well_closed))
        openings = places[opens]
        if len(wrong):
            place = int(places[wrong[0]])
            if opens[wrong[0]]:
                raise PellucidError(
                    "a quote stands inside a cell that does not begin with one",
                    where=f"in {name}:{_line(data, place):,}",
                    fix="Put the whole cell in quotes and double the quote inside it",
                )
            earlier = openings[openings < place]
            raise _unclosed(data, int(earlier[-1]) if len(earlier) else opened_at, name)
        opened_at = int(openings[-1]) if len(openings) else opened_at
        is_open = bool(inside[-1])
        yield start, inside
    if is_open:
        raise _unclosed(data, opened_at, name)


def _refuse_lone_returns(data: Array, places: Array, name: str) -> None:
    """Refuse a CR that is not part of CRLF: some readers end the row there, others keep it in the cell."""
    following = data[numpy.minimum(places + 1, len(data) - 1)]
    lone = places[(following != LF) & (places < len(data) - 1)]
    if len(lone):
        raise PellucidError(
            "a carriage return stands alone",
            where=f"in {name}:{_line(data, int(lone[0])):,}",
            fix="Remove it or quote it",
        )


def _unclosed(data: Array, place: int, name: str) -> PellucidError:
    return PellucidError(
        f"the quote that opens on line {_line(data, place):,} is never closed properly",
        where=f"in {name}",
        fix="Close it, or double the quotes inside the cell",
    )


def _require_even(data: Array, ends: Array, n_cells: Array, n_columns: int, last_end: int, name: str) -> None:
    """Refuse the first record that has another number of cells than the header, is empty, or is far too long."""
    starts = numpy.concatenate([[last_end], ends[:-1]]) + 1 if len(ends) else ends
    lengths = ends - starts
    is_empty = (lengths == 0) | ((lengths == 1) & (data[numpy.minimum(starts, len(data) - 1)] == CR))
    wrong = numpy.flatnonzero((n_cells != n_columns) | is_empty | (lengths > LONGEST_ROW))
    if not len(wrong):
        return
    first = int(wrong[0])
    where = f"in {name}:{_line(data, int(starts[first])):,}"
    if lengths[first] > LONGEST_ROW:
        raise TooLarge(
            f"a row of {int(lengths[first]):,} bytes is longer than {LONGEST_ROW:,}",
            where=where,
            fix="Check that it is a table",
        )
    if is_empty[first]:
        raise PellucidError("a line is empty", where=where, fix="Remove the line")
    n = int(n_cells[first])
    raise PellucidError(
        f"a row has {n} cell{'s' if n != 1 else ''} where the header has {n_columns}",
        where=where,
        fix="Mend the row, or its quotes",
    )


def _header(line: bytes, separator: str, name: str) -> list[str]:
    names = next(csv.reader([line.decode("utf-8").rstrip("\r")], delimiter=separator), [])
    return require_header([column.strip() for column in names], name)


def _line(data: Array, place: int) -> int:
    """The line that a byte stands on, counted from 1."""
    return 1 + data[: max(0, place)].tobytes().count(b"\n")


def _likely_separator(source: Source) -> str:
    ending = source.ending
    if ending in (".tsv", ".tab"):
        return "\t"
    first = source.read(0, PIECE).split(b"\n", 1)[0]
    return "\t" if b"\t" in first and b"," not in first and ending != ".csv" else ","


def _require_utf8(content: bytes, name: str, separator: str) -> None:
    """Refuse bytes that are no UTF-8, by line and column."""
    head = content[:4096]
    try:
        if not content.isascii():  # which makes no text of all of it
            content.decode("utf-8")
    except UnicodeDecodeError as error:
        offset = error.start
        begin = content.rfind(b"\n", 0, offset) + 1
        line = content.count(b"\n", 0, offset) + 1
        number = content[begin:offset].count(separator.encode()) + 1
        header = content.split(b"\n", 1)[0].decode("utf-8", "replace").split(separator)
        column = quoted(header[number - 1].strip(' "\r\ufeff')) if line > 1 and number <= len(header) else str(number)
        guess = guessed_encoding(head, content[max(0, offset - 64) : offset + 64])
        raise PellucidError(
            f"a cell is not UTF-8 at byte {offset:,}",
            where=f"in {name}:{line}, column {column}",
            fix=f"It looks like {guess.upper()}; try {{encoding}}" if guess else "Write the file again as UTF-8",
            options={"encoding": guess},
        ) from None
    if b"\0" in content and (guess := guessed_encoding(head)):
        raise PellucidError(f"{name} looks like {guess.upper()}", fix="Try {encoding}", options={"encoding": guess})
