"""What a column of cells is, decided on all of it: numbers, categories, text or an order. Nothing is rounded.

Missing are the cells of one list, MISSING, and in columns of numbers also NOT_A_NUMBER. `nan` in a column of names is a
name. With missing_values="empty" only empty cells are missing.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pellucid.data.kinds import Column
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    import polars

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "-")
NOT_A_NUMBER = ("nan", "-nan", "+nan", "NAN", "-NaN")
EXACT = 2**53  # beyond this a float64 skips whole numbers
MANY = 10_000  # rows from which on it pays to look at different cells only
FEW = 20  # so many different values make a category in any table
_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]+$"
_LEADING_ZERO = r"^[+-]?0[0-9]"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_DRESSED = r"^[-+(]?\s?[$€£¥]?\s?[-+]?[0-9][0-9.,'_ \u{a0}]*\s?[%$€£¥]?\)?$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?Z?)?$"
_OTHER_DAY = r"^[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{2,4}$"

Place = Callable[[int], str]  # row -> where the user finds it


class Decided(NamedTuple):
    """A column after its type was decided."""

    values: "polars.Series"
    column: Column
    notes: tuple[str, ...]


def decide(cells: "polars.Series", place: Place, missing_values: str = "usual", as_number: bool = False) -> Decided:
    """Read a column of texts as what all of its cells are."""
    import polars

    name = cells.name
    if not as_number and not cells.null_count():
        whole = cells.cast(polars.Int64, strict=False)
        if not whole.null_count() and (whole.cast(polars.String) == cells).all():
            # The usual column of whole numbers, told without a regular expression for each cell.
            return _whole_numbers(cells, whole, 0)
    is_missing = cells.is_null() | (cells.str.strip_chars().is_in(MISSING if missing_values == "usual" else [""]))
    n_missing = int(is_missing.sum())
    cells = cells.set(is_missing, None) if n_missing else cells
    if n_missing == len(cells):
        return Decided(cells, Column(name, "text", n_missing), (f"{quoted(name)} has no value at all",))
    if as_number:
        cells = _undressed(cells, place)
    whole = cells.cast(polars.Int64, strict=False)
    if whole.null_count() == n_missing and (whole.cast(polars.String) == cells).all():
        return _whole_numbers(cells, whole, n_missing)
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
        if missing_values == "usual" and bare.filter(strange).is_in(NOT_A_NUMBER).all():
            cells = cells.set(strange, None)
            return decide(cells, place, missing_values)
        _refuse_broken_numbers(bare, strange, place)
    if n_numbers + n_missing == len(cells):
        return _numbers(cells, bare, n_missing, place)
    return _texts(cells, different.drop_nulls(), n_numbers, n_missing, is_number, place)


def said_of(name: str, n_rows: int, n_columns: int, because: str) -> str:
    """One line on what was opened."""
    reason = f" ({because})" if because else ""
    many = "s" if n_columns != 1 else ""
    return f"{name}: a table of {n_rows:,} rows and {n_columns:,} column{many}{reason}; --kind text to read it as text"


def missing_note(columns: Sequence[Column]) -> tuple[str, ...]:
    """How many cells are missing in each column that misses any."""
    gaps = [f"{column.name} {column.n_missing:,}" for column in columns if column.n_missing]
    return (f"missing cells: {', '.join(gaps)}",) if gaps else ()


def _whole_numbers(cells: "polars.Series", whole: "polars.Series", n_missing: int) -> Decided:
    largest = max(abs(_number(whole.min())), abs(_number(whole.max())))
    if largest > EXACT:
        return _as_ids(cells, n_missing, "numbers beyond 2^53")
    is_order = not n_missing and len(whole) >= 10 and bool((whole.diff().drop_nulls() > 0).all())
    return Decided(whole, Column(whole.name, "order" if is_order else "numeric", n_missing), ())


def _numbers(cells: "polars.Series", bare: "polars.Series", n_missing: int, place: Place) -> Decided:
    import polars

    present = bare.drop_nulls()
    if present.str.contains(_WHOLE).all():
        if present.str.contains(_LEADING_ZERO).any():
            return _as_ids(cells, n_missing, "numbers that begin with 0")
        whole = bare.str.strip_prefix("+").cast(polars.Int64, strict=False)
        if whole.null_count() > n_missing:
            return _as_ids(cells, n_missing, "numbers beyond 2^53")
        return _whole_numbers(cells, whole, n_missing)
    values = bare.cast(polars.Float64)
    if values.is_infinite().any():
        row = int(values.is_infinite().fill_null(False).arg_max() or 0)
        raise _bad_cell("is too large for a number", cells, row, place)
    return Decided(values, Column(cells.name, "numeric", n_missing), ())


def _as_ids(cells: "polars.Series", n_missing: int, why: str) -> Decided:
    note = f"{quoted(cells.name)} holds {why}, so it is kept as text and not rounded"
    return Decided(cells, Column(cells.name, "text", n_missing), (note,))


def _refuse_broken_numbers(bare: "polars.Series", strange: "polars.Series", place: Place) -> None:
    """Refuse a column of numbers with an infinity or a NUL in it, naming the cell."""
    odd = bare.filter(strange)
    if odd.str.contains(_INFINITE).all():
        raise _bad_cell("is not finite", bare, int(strange.arg_max() or 0), place)
    has_nul = odd.str.contains("\0", literal=True)
    if has_nul.all() and odd.str.replace_all("\0", "", literal=True).str.contains(_NUMBER).all():
        raise _bad_cell("holds a NUL", bare, int(strange.arg_max() or 0), place)


def _bad_cell(what: str, cells: "polars.Series", row: int, place: Place) -> PellucidError:
    return PellucidError(
        f"the cell {quoted(str(cells[row]))} {what}",
        where=f"in column {quoted(cells.name)}, {place(row)}",
        fix="Write a finite number, or leave it empty",
    )


def _texts(
    cells: "polars.Series",
    present: "polars.Series",
    n_numbers: int,
    n_missing: int,
    is_number: "polars.Series",
    place: Place,
) -> Decided:
    """present: the different cells, or all of them, without what is missing."""
    name = cells.name
    notes: list[str] = []
    kind = "category" if is_category(cells) else "text"
    if present.str.contains(_DAY).all():
        kind = "order"
        notes.append(f"{quoted(name)} holds dates, kept as text, which sorts in time")
    elif present.str.contains(_OTHER_DAY).all():
        notes.append(f"{quoted(name)} looks like dates, kept as text; write them as 2024-12-31 to use their order")
    elif present.str.contains(_DRESSED).all():
        notes.append(f"{quoted(name)} looks like numbers, as {quoted(str(present[0]))}; --as-number {name} reads them")
    elif n_numbers >= 0.9 * (len(cells) - n_missing):
        row = int((~is_number & cells.is_not_null()).arg_max() or 0)
        odd = f"{quoted(str(cells[row]))} ({place(row)})"
        notes.append(f"{quoted(name)} is text because of {odd}; {n_numbers:,} of its cells are numbers")
    return Decided(cells, Column(name, kind, n_missing), tuple(notes))


def is_category(cells: "polars.Series") -> bool:
    """Whether texts repeat so much that they name groups: at most 20 different, or one in 20 rows and at most 1,000."""
    n = cells.drop_nulls().n_unique()
    return (n <= FEW and (n < len(cells) or n <= 2)) or n <= min(1_000, len(cells) // 20)


def _undressed(cells: "polars.Series", place: Place) -> "polars.Series":
    """Numbers without currency, percent and thousands marks: "1,234.50 $" becomes "1234.50" and "5 %" becomes "5"."""
    import polars

    read: list[str | None] = []
    for row, cell in enumerate(cells):
        number = undressed(cell) if cell is not None else None
        if cell is not None and number is None:
            raise _bad_cell("cannot be read as a number", cells, row, place)
        read.append(number)
    return polars.Series(cells.name, read, dtype=polars.String)


def undressed(cell: str) -> str | None:
    """The plain number in a cell, or None where there is none or more than one way to read it.

    >>> undressed("$1,234.50"), undressed("(12)"), undressed("5 %"), undressed("1.234,5 €"), undressed("1,5")
    ('1234.50', '-12', '5', '1234.5', '1.5')
    >>> undressed("1,2,3") is None
    True
    """
    text = re.sub(r"[\s\xa0_'$€£¥%]", "", cell)
    if text.startswith("(") and text.endswith(")"):
        text = "-" + text[1:-1]
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", text):
        return text.replace(",", "")
    if re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+,\d*|[+-]?\d+,\d+", text):
        return text.replace(".", "").replace(",", ".")
    return text if re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", text, re.ASCII) else None


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
