"""JSON lines: one object a line, each value a number, a text, true, false or null."""

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy
import polars

from pellucid.data.kinds import ReadOptions, TableData
from pellucid.data.readers import require_header, require_rows
from pellucid.data.readers.columns import (
    EXACT,
    DecidedColumn,
    decide_column,
    keep_as_text,
    make_table,
)
from pellucid.data.readers.sources import Source, read_all
from pellucid.data.readers.text import characters
from pellucid.errors import PellucidError, TooLarge, quoted
from pellucid.records import make_note

LONGEST_OBJECT = 16 << 20


class _Repeated(ValueError):
    """A key stands twice in one object."""


def read_jsonl(source: Source, options: ReadOptions, because: str) -> TableData:
    """The table that has a row for each line and a column for each key."""
    name = source.name
    columns, lines = _read_objects("".join(characters(source, options.encoding)).split("\n"), name)
    require_rows(len(lines), name, options.fewest_rows)
    return make_table(
        name,
        [_decide(key.strip(), values, lines, name) for key, values in columns.items()],
        because=because,
        fingerprint=hashlib.sha256(read_all(source)).hexdigest(),
        lines=numpy.array(lines),
    )


def _read_objects(lines: Iterable[str], name: str) -> tuple[dict[str, list[Any]], list[int]]:
    """Columns by name, with None where a line has no such key, and the line of each row."""
    columns: dict[str, list[Any]] = {}
    numbers: list[int] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"in {name}:{number:,}"
        for key, value in _parse_object(line, where).items():
            if isinstance(value, dict | list):
                kind = "an object" if isinstance(value, dict) else "a list"
                raise PellucidError(f"column {quoted(key)} holds {kind}", where=where, fix="Flatten it first")
            if isinstance(value, float) and not math.isfinite(value):
                raise PellucidError(f"the value of {quoted(key)} is not finite", where=where, fix="Write null for it")
            if key not in columns:
                # A column that begins late has nothing in the rows before.
                columns[key] = [None] * len(numbers)
            columns[key].append(value)
        numbers.append(number)
        for values in columns.values():
            if len(values) < len(numbers):
                values.append(None)
    if not numbers:
        raise PellucidError(f"{name} holds no object", fix='Write one on each line, as {"a": 1}')
    require_header([key.strip() for key in columns], name)
    return columns, numbers


def _parse_object(line: str, where: str) -> dict[str, Any]:
    if len(line) > LONGEST_OBJECT:
        raise TooLarge(
            f"a line of {len(line):,} characters is longer than {LONGEST_OBJECT:,}", where=where, fix="Split it"
        )
    fix = 'Write one object a line, as {"a": 1}'
    try:
        found = _DECODER.decode(line)
    except _Repeated as error:
        raise PellucidError(f"the key {quoted(str(error))} stands twice", where=where, fix="Rename one") from None
    except RecursionError:
        raise PellucidError("the value is nested too deep", where=where, fix="Flatten it first") from None
    except ValueError as error:
        reason = error.msg.lower() if isinstance(error, json.JSONDecodeError) else "a number too long"
        raise PellucidError(f"this is no JSON object: {reason}", where=where, fix=fix) from None
    if not isinstance(found, dict):
        raise PellucidError(f"a {type(found).__name__} stands where an object is wanted", where=where, fix=fix)
    return found


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Repeated(next(key for key in keys if keys.count(key) > 1))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated)


def _decide(column: str, values: list[Any], lines: list[int], name: str) -> DecidedColumn:
    types = {type(value) for value in values if value is not None}
    is_number = bool(types) and types <= {int, float}
    is_exact = not any(isinstance(value, int) and abs(value) > EXACT for value in values)
    try:
        if is_number and is_exact:
            series = polars.Series(column, values, dtype=polars.Float64 if float in types else polars.Int64)
        else:
            series = polars.Series(column, [_text(value) for value in values], dtype=polars.String)
    except UnicodeEncodeError:
        raise PellucidError(f"column {quoted(column)} of {name} holds half a surrogate pair", fix="Remove it") from None
    if is_number and not is_exact:
        return keep_as_text(series, "huge")
    decided = decide_column(series, lambda row: f"{name}:{lines[row]:,}", is_typed=True)
    if str in types and len(types) > 1:
        at = next(i for i, value in enumerate(values) if isinstance(value, str))
        note = make_note("texts-and-numbers", column=column, line=lines[at])
        return decided._replace(notes=(*decided.notes, note))
    return decided


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
