"""The rows of a CSV file, counted byte by byte before anybody parses it.

Readers guess: pandas fills short rows, reads a file with other separators as one column, and lets an unclosed quote eat
the rest. Here the structure is checked first, as NumPy over the bytes, and what does not fit is named by its line.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pellucid.errors import PellucidError, TooLarge, quoted

if TYPE_CHECKING:
    import numpy

    Array: TypeAlias = "numpy.ndarray[Any, numpy.dtype[Any]]"

QUOTE, LF, CR = 34, 10, 13
BLOCK = 1 << 24
LONGEST_ROW = 16 << 20
MOST_COLUMNS = 20_000
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}


@dataclass(frozen=True)
class Rows:
    """What the structure of a CSV file is."""

    header: list[str]
    n_rows: int  # without the header
    lines: "Array | None"  # the line each row begins on, where cells hold newlines


def check_rows(content: bytes, separator: str, name: str) -> Rows:
    """The header and the number of rows, or the line on which a row, a quote or the header is wrong.

    >>> check_rows(b"a,b\\n1,2\\n3,4\\n", ",", "t.csv").n_rows
    2
    >>> check_rows(b"a,b\\n1,2\\n3\\n", ",", "t.csv")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: a row has 1 cell where the header has 2 in t.csv:3. Mend the row, or its quotes.
    """
    import numpy

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
    n_newlines = sum(int((data[at : at + BLOCK] == LF).sum()) for at in range(0, len(data), BLOCK))
    is_plain = n_newlines == len(all_ends) - (int(all_ends[-1]) == len(data))
    lines = None if is_plain else _line_numbers(data, all_ends)
    return Rows(header, len(all_ends) - 1, lines)


def refuse_other_separator(head: str, separator: str, name: str) -> None:
    """Refuse a file whose first lines agree on another separator than this one."""
    lines = [line for line in head.splitlines()[:101] if line.strip()]
    if not lines or (lines[0].count(separator) > 0 and len({line.count(separator) for line in lines}) == 1):
        return
    for other, word in SEPARATORS.items():
        counts = {line.count(other) for line in lines}
        if other != separator and len(counts) == 1 and counts != {0}:
            shown = "\\t" if other == "\t" else other
            raise PellucidError(f"{name} looks separated by {word}", fix=f"Try --sep '{shown}'")


def require_separator(separator: str) -> str:
    """One character that can stand between cells.

    >>> require_separator("tab"), require_separator("\\\\t"), require_separator(";")
    ('\\t', '\\t', ';')
    """
    separator = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(separator, separator)
    if len(separator) != 1 or not separator.isascii() or separator.isalnum() or separator in '"\r\n\0':
        raise PellucidError(f"{quoted(separator)} cannot separate cells", fix="Try --sep ',' or --sep ';' or --sep tab")
    return separator


def _quotes(data: "Array", separator: int, name: str) -> "Iterator[tuple[int, Array]]":
    """For each block: where it starts, and which of its bytes stand inside quotes. Misplaced quotes are named."""
    import numpy

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


def _refuse_lone_returns(data: "Array", places: "Array", name: str) -> None:
    """Refuse a CR that is not part of CRLF: some readers end the row there, others keep it in the cell."""
    import numpy

    following = data[numpy.minimum(places + 1, len(data) - 1)]
    lone = places[(following != LF) & (places < len(data) - 1)]
    if len(lone):
        raise PellucidError(
            "a carriage return stands alone",
            where=f"in {name}:{_line(data, int(lone[0])):,}",
            fix="Remove it or quote it",
        )


def _unclosed(data: "Array", place: int, name: str) -> PellucidError:
    return PellucidError(
        f"the quote that opens on line {_line(data, place):,} is never closed properly",
        where=f"in {name}",
        fix="Close it, or double the quotes inside the cell",
    )


def _require_even(data: "Array", ends: "Array", n_cells: "Array", n_columns: int, last_end: int, name: str) -> None:
    """Refuse the first record that has another number of cells than the header, is empty, or is far too long."""
    import numpy

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
    return checked_header([column.strip() for column in names], name)


def checked_header(names: list[str], where: str) -> list[str]:
    """The names of the columns: none blank, none twice, not too many."""
    if len(names) > MOST_COLUMNS:
        raise TooLarge(f"{where} has {len(names):,} columns, and at most {MOST_COLUMNS:,} are read", fix="Keep fewer")
    seen: dict[str, int] = {}
    for number, column in enumerate(names, start=1):
        if not column:
            raise PellucidError(f"column {number} of {where} has no name", fix="Give it one in the first line")
        if column in seen:
            raise PellucidError(
                f"columns {seen[column]} and {number} of {where} are both called {quoted(column)}", fix="Rename one"
            )
        seen[column] = number
    return names


def _line(data: "Array", place: int) -> int:
    """The line that a byte stands on, counted from 1."""
    import numpy

    return 1 + sum(
        int(numpy.count_nonzero(data[at : min(at + BLOCK, place)] == LF)) for at in range(0, max(0, place), BLOCK)
    )


def _line_numbers(data: "Array", ends: "Array") -> "Array":
    import numpy

    newlines = numpy.flatnonzero(data == LF)
    return numpy.searchsorted(newlines, ends[:-1] + 1) + 1
