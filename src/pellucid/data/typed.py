"""Tables whose values already have types: Parquet and JSON lines."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.data.columns import EXACT, is_category, missing_note, said_of
from pellucid.data.kinds import Column, TableData
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    import polars


@contextlib.contextmanager
def guarded(name: str) -> Iterator[None]:
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


def from_parquet(content: bytes, n_rows: int, name: str, fingerprint: str, because: str) -> TableData:
    """A Parquet file that has passed `check_parquet`."""
    import polars

    with guarded(name):
        frame = polars.read_parquet(content, glob=False, hive_partitioning=False, use_statistics=False)
    if frame.height != n_rows:
        raise PellucidError(f"{name} promises {n_rows:,} rows and has {frame.height:,}", fix="Write or copy it again")
    decided = [_decided(series, name) for series in frame]
    return _table(decided, name, fingerprint, because, "row", None)


def from_json(
    columns: dict[str, list[Any]], numbers: list[int], name: str, fingerprint: str, because: str
) -> TableData:
    """Columns of Python values from JSON lines."""
    import numpy

    decided = [_of_values(key, values, numbers, name) for key, values in columns.items()]
    return _table(decided, name, fingerprint, because, "line", numpy.array(numbers))


def _table(
    decided: "Sequence[tuple[polars.Series, str, tuple[str, ...]]]",
    name: str,
    fingerprint: str,
    because: str,
    row_word: str,
    lines: Any,
) -> TableData:
    import polars

    columns = tuple(Column(series.name, kind, series.null_count()) for series, kind, _ in decided)
    frame = polars.DataFrame([series for series, _, _ in decided])
    return TableData(
        name=name,
        frame=frame,
        columns=columns,
        said=said_of(name, frame.height, len(columns), because),
        fingerprint=fingerprint,
        notes=(*missing_note(columns), *(note for _, _, notes in decided for note in notes)),
        row_word=row_word,
        lines=lines,
    )


def _decided(series: "polars.Series", name: str) -> "tuple[polars.Series, str, tuple[str, ...]]":
    """A typed column as one of ours, or refused by name and type."""
    import polars

    kind = series.dtype
    if kind.is_integer():
        wide = series.cast(polars.Int64, strict=False)
        if wide.null_count() > series.null_count() or _is_beyond(wide):
            note = f"{quoted(series.name)} holds numbers beyond 2^53, so it is kept as text and not rounded"
            return series.cast(polars.String), "text", (note,)
        return wide, _order_or_numeric(wide), ()
    if kind.is_float():
        values = series.cast(polars.Float64).fill_nan(None)
        if values.is_infinite().any():
            row = int(values.is_infinite().fill_null(False).arg_max() or 0)
            raise PellucidError(
                f"the cell {values[row]} is not finite",
                where=f"in column {quoted(series.name)}, row {row + 1:,} of {name}",
                fix="Write a finite number, or null",
            )
        return values, "numeric", ()
    if kind == polars.Boolean:
        return series.cast(polars.String), "category", ()
    if kind == polars.String or isinstance(kind, polars.Categorical | polars.Enum):
        return _texts(series.cast(polars.String))
    if kind == polars.Date or (isinstance(kind, polars.Datetime) and kind.time_zone is None):
        note = f"{quoted(series.name)} holds dates, kept as text, which sorts in time"
        return series.dt.to_string("iso"), "order", (note,)
    if kind == polars.Null:
        return series.cast(polars.String), "text", (f"{quoted(series.name)} has no value at all",)
    raise PellucidError(
        f"column {quoted(series.name)} of {name} is a {kind}", fix="Turn it into plain numbers or text, or drop it"
    )


def _of_values(
    key: str, values: list[Any], numbers: list[int], name: str
) -> "tuple[polars.Series, str, tuple[str, ...]]":
    import polars

    kinds = {type(value) for value in values if value is not None}
    column = key.strip()
    try:
        if kinds and kinds <= {int, float}:
            if any(isinstance(value, int) and abs(value) > EXACT for value in values):
                note = f"{quoted(column)} holds numbers beyond 2^53, so it is kept as text and not rounded"
                texts = [None if value is None else str(value) for value in values]
                return polars.Series(column, texts, dtype=polars.String), "text", (note,)
            dtype = polars.Float64 if float in kinds else polars.Int64
            series = polars.Series(column, values, dtype=dtype)
            return series, _order_or_numeric(series), ()
        texts = [value if isinstance(value, str) else None if value is None else _json(value) for value in values]
        series, kind, notes = _texts(polars.Series(column, texts, dtype=polars.String))
    except UnicodeEncodeError:
        raise PellucidError(f"column {quoted(column)} of {name} holds half a surrogate pair", fix="Remove it") from None
    if str in kinds and len(kinds) > 1:
        at = next(i for i, value in enumerate(values) if isinstance(value, str))
        notes = (*notes, f"{quoted(column)} mixes texts and numbers, so it is text; first text on line {numbers[at]:,}")
    return series, kind, notes


def _texts(series: "polars.Series") -> "tuple[polars.Series, str, tuple[str, ...]]":
    if series.null_count() == len(series):
        return series, "text", (f"{quoted(series.name)} has no value at all",)
    return series, "category" if is_category(series) else "text", ()


def _order_or_numeric(series: "polars.Series") -> str:
    is_order = (
        series.dtype.is_integer()
        and not series.null_count()
        and len(series) >= 10
        and bool((series.diff().drop_nulls() > 0).all())
    )
    return "order" if is_order else "numeric"


def _is_beyond(series: "polars.Series") -> bool:
    ends = [end for end in (series.min(), series.max()) if isinstance(end, int)]
    return any(abs(end) > EXACT for end in ends)


def _json(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
