"""What a column of a table is, decided on all of its cells: numbers, categories, text or an order. Nothing is rounded.

Missing are the cells of one list, MISSING, and in columns of numbers also NOT_A_NUMBER. `nan` in a column of names is a
name, and so are "None", "NA" and the like where they are frequent among categories: a garden has no pool far more often
than nobody looked. With missing_values="empty" only empty cells are missing.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy
import polars
from numpy.typing import NDArray

from pellucid.data.kinds import MISSING_WORDS, Column, TableData
from pellucid.errors import PellucidError, quoted
from pellucid.records import Statement, make_note

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "-")
NOT_A_NUMBER = ("nan", "-nan", "+nan", "NAN", "-NaN")
FREQUENT = 0.05  # part of a column's cells from which on such a word is a category; a judgement, and it is told
EXACT = 2**53  # beyond this a float64 skips whole numbers
MANY = 10_000  # rows from which on it pays to look at different cells only
SOME = 64  # cells that tell what most columns of a large table cannot be
FEW = 20  # so many different values make a category in any table
_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]+$"
_LEADING_ZERO = r"^[+-]?0[0-9]"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_DRESSED = r"^[-+(]?\s?[$€£¥]?\s?[-+]?[0-9][0-9.,'_ \u{a0}]*\s?[%$€£¥]?\)?$"
_DAY = r"^[0-9]{4}[-/.][0-9]{2}[-/.][0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?Z?)?$"
_DOTTED_DAY = r"^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}$"
_OTHER_DAY = r"^[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{2,4}$"
_NO_WORD = "|".join((_NUMBER, _DRESSED, _DAY, _OTHER_DAY))  # of a column whose gaps are gaps, whatever they are called

RowPlace = Callable[[int], str]  # row -> where the user finds it


class DecidedColumn(NamedTuple):
    """A column after its type was decided."""

    values: polars.Series
    column: Column
    notes: tuple[Statement, ...] = ()


def decide_column(
    cells: polars.Series,
    place: RowPlace,
    *,
    is_typed: bool = False,
    missing_values: str = "usual",
    as_number: bool = False,
    names_none: bool | None = None,
) -> DecidedColumn:
    """Read a column as what all of its cells are. is_typed: a text is a text, even where it looks like a number.

    names_none: whether "None", "NA" and the like are categories here; None: where they are frequent.
    """
    dtype = cells.dtype
    if dtype.is_integer():
        return _whole_numbers(cells, cells.cast(polars.Int64, strict=False))
    if dtype.is_float():
        return _fractions(cells, cells.cast(polars.Float64).fill_nan(None), place)
    if dtype == polars.Boolean:
        return _decided(cells.cast(polars.String), "category")
    if dtype.is_temporal():
        return _decided(cells.dt.to_string("iso"), "order", make_note("dates", column=cells.name))
    texts = cells.cast(polars.String)
    if not is_typed:
        return _parse_cells(texts, place, missing_values, as_number, names_none)
    if texts.null_count() == len(texts):
        return _decided(texts, "text", make_note("no-value", column=texts.name))
    if _all_match(texts.drop_nulls(), _DAY):
        return _decided(texts, "order", make_note("dates", column=texts.name))
    return _decided(texts, "category" if is_category(texts) else "text")


def require_plain_types(schema: Mapping[str, polars.DataType], table: str) -> None:
    """Refuse a column whose type no table of numbers and texts can hold, by its name and type."""
    refused = {
        polars.List: "list",
        polars.Array: "list",
        polars.Struct: "structure",
        polars.Decimal: "decimal",
        polars.Time: "time",
        polars.Binary: "column of bytes",
        polars.Duration: "Duration",
        polars.Object: "column of objects",
    }
    for name, dtype in schema.items():
        what = refused.get(dtype.base_type(), "")
        if isinstance(dtype, polars.Datetime) and dtype.time_zone is not None:
            what = "time with a time zone"
        if what:
            raise PellucidError(
                f"column {quoted(name)} of {table} is a {what}", fix="Turn it into plain numbers or text, or drop it"
            )


def _parse_cells(
    cells: polars.Series, place: RowPlace, missing_values: str, as_number: bool, names_none: bool | None = None
) -> DecidedColumn:
    """The cells of a text file, each of which could be a number."""
    if not as_number and not cells.null_count():
        could_be_numbers = bool(cells.head(SOME).str.contains(_NUMBER).all())
        if could_be_numbers:
            whole = cells.cast(polars.Int64, strict=False)
            if not whole.null_count() and _is_as_written(cells, whole):
                # The usual column of whole numbers, told without a regular expression for each cell.
                return _whole_numbers(cells, whole)
            if whole.null_count() and cells.str.contains(_NUMBER).all() and not cells.str.contains(_WHOLE).all():
                # And that of fractions: a table may have ten thousand of them.
                return _fractions(cells, cells.cast(polars.Float64), place, "too large for a number")
        elif len(cells) > MANY and (names := _plain_names(cells)) is not None:
            # And that of names that repeat: each of them is asked once.
            return _texts(cells, names, len(names), 0, polars.Series([False]), place)
    bare = cells.str.strip_chars()
    is_missing = cells.is_null() | bare.is_in([""] if missing_values == "empty" else MISSING)
    n_missing = int(is_missing.sum())
    if n_missing and missing_values == "usual" and not as_number:
        note = _names_none(bare, is_missing, names_none)
        if note is not None:
            kept = cells.set(is_missing & ~bare.is_in(MISSING_WORDS), None)
            return _decided(kept, "category", *([note] if names_none is None else []))
    cells = cells.set(is_missing, None) if n_missing else cells
    if n_missing == len(cells):
        return _decided(cells, "text", make_note("no-value", column=cells.name))
    if as_number:
        cells = _plain_numbers(cells, place)
    whole = cells.cast(polars.Int64, strict=False)
    if whole.null_count() == n_missing and _is_as_written(cells, whole):
        return _whole_numbers(cells, whole)
    bare = cells.str.strip_chars()
    different = bare.unique() if len(bare) > MANY else bare
    if len(different) < len(bare) / 10:
        # Few different cells: ask each of them once, not every row.
        is_number = bare.is_in(different.filter(different.str.contains(_NUMBER)).to_list()).fill_null(False)
    else:
        is_number, different = bare.str.contains(_NUMBER).fill_null(False), bare
    n_numbers = int(is_number.sum())
    if n_numbers + n_missing < len(cells) and n_numbers:
        strange = ~is_number & bare.is_not_null()
        if missing_values != "empty" and bare.filter(strange).is_in(NOT_A_NUMBER).all():
            return _parse_cells(cells.set(strange, None), place, missing_values, as_number=False)
        _refuse_broken_numbers(bare, strange, place)
    if n_numbers + n_missing == len(cells):
        return _numbers(cells, bare, place)
    return _texts(cells, different.drop_nulls(), cells.drop_nulls().n_unique(), n_missing, is_number, place)


def _is_as_written(cells: polars.Series, whole: polars.Series) -> bool:
    """Whether every cell is its number as it is usually written: no sign +, no leading zero. whole: cells as Int64.

    The usual form is the shortest that is read as this number, so it is enough to add up the lengths.

    >>> [_is_as_written(cells := polars.Series([cell, "-10"]), cells.cast(polars.Int64)) for cell in ("7", "07", "-0")]
    [True, False, False]
    """
    values = whole.drop_nulls().to_numpy()
    if not len(values):
        return True
    least, greatest = int(values.min()), int(values.max())
    n_shortest = len(values) + (int(numpy.count_nonzero(values < 0)) if least < 0 else 0)
    for power in (10**digits for digits in range(1, 19)):
        n_shortest += int(numpy.count_nonzero(values >= power)) if greatest >= power else 0
        n_shortest += int(numpy.count_nonzero(values <= -power)) if least <= -power else 0
    return int(cells.str.len_bytes().sum()) == n_shortest


def _plain_names(cells: polars.Series) -> polars.Series | None:
    """The different cells without the spaces around them, where they are few and none is missing or a number."""
    if cells.head(MANY).n_unique() > MANY / 10:
        return None
    names = cells.unique(maintain_order=True).str.strip_chars()
    is_plain = not (names.is_in(MISSING) | names.str.contains(_NUMBER)).any()
    return names if is_plain and len(names) < len(cells) / 10 else None


def _all_match(texts: polars.Series, pattern: str) -> bool:
    """Whether all texts match. Some of them are asked first."""
    return bool(texts.head(SOME).str.contains(pattern).all() and texts.str.contains(pattern).all())


def _names_none(bare: polars.Series, is_missing: polars.Series, is_known: bool | None) -> Statement | None:
    """The note on a column of categories in which "None" or the like is one of them; None where it is not.

    is_known: whether it is one, where that was decided before, as for the new rows of a trained network.
    """
    words = bare.filter(is_missing & bare.is_in(MISSING_WORDS))
    others = bare.filter(~is_missing)
    if is_known is None:
        is_frequent = len(words) >= max(1, FREQUENT * len(bare))
        is_known = is_frequent and len(others) > 0 and is_category(others) and not others.str.contains(_NO_WORD).any()
    if not is_known or not len(words):
        return None
    return make_note("none-as-category", column=bare.name, counts=dict(words.value_counts(sort=True).iter_rows()))


def _decided(values: polars.Series, kind: str, *notes: Statement) -> DecidedColumn:
    return DecidedColumn(values, Column(values.name, kind, values.null_count()), notes)


def _whole_numbers(cells: polars.Series, whole: polars.Series) -> DecidedColumn:
    """cells: as they came; whole: as Int64, with a gap where that cannot hold one."""
    ends = [abs(end) for end in (whole.min(), whole.max()) if isinstance(end, int)]
    if whole.null_count() > cells.null_count() or max(ends, default=0) > EXACT:
        return keep_as_text(cells, "huge")
    is_order = not whole.null_count() and len(whole) >= 10 and _is_rising(whole)
    return _decided(whole, "order" if is_order else "numeric")


def _is_rising(whole: polars.Series) -> bool:
    # Chunk by chunk, as one array of all would be a copy; and few are asked first.
    chunks = [chunk.to_numpy() for chunk in whole.get_chunks() if len(chunk)]
    return all(before[-1] < after[0] for before, after in pairwise(chunks)) and all(
        (values[1:] > values[:-1]).all() for values in (chunks[0][:SOME], *chunks)
    )


def _fractions(cells: polars.Series, values: polars.Series, place: RowPlace, what: str = "not finite") -> DecidedColumn:
    if values.is_infinite().any():
        raise _bad_cell(f"is {what}", cells, int(values.is_infinite().fill_null(False).arg_max() or 0), place)
    return _decided(values, "numeric")


def _numbers(cells: polars.Series, bare: polars.Series, place: RowPlace) -> DecidedColumn:
    present = bare.drop_nulls()
    if not present.str.contains(_WHOLE).all():
        return _fractions(cells, bare.cast(polars.Float64), place, "too large for a number")
    if present.str.contains(_LEADING_ZERO).any():
        return keep_as_text(cells, "leading zero")
    return _whole_numbers(cells, bare.str.strip_prefix("+").cast(polars.Int64, strict=False))


def keep_as_text(cells: polars.Series, why: str) -> DecidedColumn:
    """A column whose numbers are names: a float would round them ("huge"), or drop the "leading zero"."""
    return _decided(cells.cast(polars.String), "text", make_note("kept-as-text", column=cells.name, why=why))


def _refuse_broken_numbers(bare: polars.Series, strange: polars.Series, place: RowPlace) -> None:
    """Refuse a column of numbers with an infinity or a NUL in it, naming the cell."""
    odd = bare.filter(strange)
    if odd.str.contains(_INFINITE).all():
        raise _bad_cell("is not finite", bare, int(strange.arg_max() or 0), place)
    has_nul = odd.str.contains("\0", literal=True)
    if has_nul.all() and odd.str.replace_all("\0", "", literal=True).str.contains(_NUMBER).all():
        raise _bad_cell("holds a NUL", bare, int(strange.arg_max() or 0), place)


def _bad_cell(what: str, cells: polars.Series, row: int, place: RowPlace) -> PellucidError:
    return PellucidError(
        f"the cell {quoted(str(cells[row]))} {what}",
        where=f"in column {quoted(cells.name)}, {place(row)}",
        fix="Write a finite number, or leave it empty",
    )


def _texts(
    cells: polars.Series,
    present: polars.Series,
    n_different: int,
    n_missing: int,
    is_number: polars.Series,
    place: RowPlace,
) -> DecidedColumn:
    """present: the different cells, or all of them, without what is missing and without spaces around them."""
    name = cells.name
    n_numbers = int(is_number.sum())
    kind = "category" if _are_few(n_different, len(cells)) else "text"
    if present.str.contains(_DAY).all():
        return _decided(cells, "order", make_note("dates", column=name))
    if (days := _days_with_dots(cells, present)) is not None:
        note = make_note("dates-day-first", column=name, written=str(present[0]), day=days.drop_nulls()[0])
        return _decided(days, "order", note)
    if present.str.contains(_OTHER_DAY).all():
        note = make_note("looks-like-dates", column=name)
    elif present.str.contains(_DRESSED).all():
        note = make_note("looks-like-numbers", column=name, cell=str(present[0]))
    elif n_numbers >= 0.9 * (len(cells) - n_missing):
        row = int((~is_number & cells.is_not_null()).arg_max() or 0)
        note = make_note("text-by-one-cell", column=name, cell=str(cells[row]), place=place(row), n=n_numbers)
    else:
        return _decided(cells, kind)
    return _decided(cells, kind, note)


def _days_with_dots(cells: polars.Series, present: polars.Series) -> polars.Series | None:
    """Dates such as 31.12.2024 as 2024-12-31; None where a cell is none.

    With dots the day is written first wherever they are used. With slashes it depends on the country, so 1/2/2024 is
    left alone.
    """
    if not present.str.contains(_DOTTED_DAY).all():
        return None
    days = cells.str.strip_chars().str.to_date("%d.%m.%Y", strict=False)
    return days.dt.to_string("iso") if days.null_count() == cells.null_count() else None


def is_category(cells: polars.Series) -> bool:
    """Whether texts repeat so much that they name groups: at most 20 different, or one in 20 rows and at most 1,000."""
    return _are_few(cells.drop_nulls().n_unique(), len(cells))


def _are_few(n_different: int, n_cells: int) -> bool:
    if n_different <= FEW and (n_different < n_cells or n_different <= 2):
        return True
    return n_different <= min(1_000, n_cells // 20)


def _plain_numbers(cells: polars.Series, place: RowPlace) -> polars.Series:
    read: list[str | None] = []
    for row, cell in enumerate(cells):
        number = plain_number(cell) if cell is not None else None
        if cell is not None and number is None:
            raise _bad_cell("cannot be read as a number", cells, row, place)
        read.append(number)
    return polars.Series(cells.name, read, dtype=polars.String)


def plain_number(cell: str) -> str | None:
    """A cell without currency, percent and thousands marks, or None where it is no number or could be several.

    >>> plain_number("$1,234.50"), plain_number("(12)"), plain_number("5 %"), plain_number("1.234,5 €")
    ('1234.50', '-12', '5', '1234.5')
    >>> plain_number("1,5"), plain_number("1,2,3")
    ('1.5', None)
    """
    text = re.sub(r"[\s\xa0_'$€£¥%]", "", cell)
    if text.startswith("(") and text.endswith(")"):
        text = "-" + text[1:-1]
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", text):
        return text.replace(",", "")
    if re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+,\d*|[+-]?\d+,\d+", text):
        return text.replace(".", "").replace(",", ".")
    return text if re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", text, re.ASCII) else None


def make_table(
    name: str,
    decided: Sequence[DecidedColumn],
    *,
    because: str,
    fingerprint: str,
    notes: Sequence[Statement] = (),
    row_word: str = "line",
    lines: NDArray[Any] | None = None,
) -> TableData:
    """The table of columns whose types are decided."""
    columns = tuple(one.column for one in decided)
    gaps = {column.name: column.n_missing for column in columns if column.n_missing}
    missing = [make_note("missing-cells", gaps=gaps)] if gaps else []
    frame = polars.DataFrame([one.values for one in decided])
    return TableData(
        name=name,
        frame=frame,
        columns=columns,
        because=because,
        fingerprint=fingerprint,
        notes=(*notes, *missing, *(note for one in decided for note in one.notes)),
        row_word=row_word,
        lines=lines,
    )


def stack_tables(tables: Sequence[TableData]) -> TableData:
    """Several tables with the same columns as one; where they differ, the difference is named."""
    first = tables[0]
    fix = "Give tables with the same columns"
    for other in tables[1:]:
        for here, there, one in ((first, other, other), (other, first, first)):
            gone = [column.name for column in here.columns if column.name not in there.frame.columns]
            if gone:
                raise PellucidError(f"{one.name} has no column {quoted(gone[0])}, and {here.name} has", fix=fix)
        for column in first.columns:
            kind = other.column(column.name).kind
            if kind != column.kind and "numeric" in (kind, column.kind):
                raise PellucidError(
                    f"column {quoted(column.name)} is {column.kind} in {first.name} and {kind} in {other.name}", fix=fix
                )
    frame = polars.concat([table.frame.select(first.frame.columns) for table in tables], how="vertical_relaxed")
    decided = [_decided(frame[column.name], column.kind) for column in first.columns]
    return make_table(
        f"{first.name} and {len(tables) - 1} more",
        decided,
        because="the same columns in each",
        fingerprint=hashlib.sha256("".join(table.fingerprint for table in tables).encode()).hexdigest(),
        row_word="row",
    )


@contextlib.contextmanager
def polars_errors(name: str) -> Iterator[None]:
    """Turn whatever Polars makes of a damaged file into one error, and keep its threads off the terminal."""
    try:
        terminal: int | None = os.dup(2)
    except OSError:
        terminal = None  # standard error is closed: nothing to keep quiet
    try:
        if terminal is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, PellucidError):
        raise
    except BaseException as error:  # a panic in Polars is no Exception
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise PellucidError(f"{name} cannot be read as a table: {reason}", fix="Write or copy it again") from error
    finally:
        if terminal is not None:
            os.dup2(terminal, 2)
            os.close(terminal)
