"""JSON lines: one object a line, each value a number, a text, true, false or null."""

import json
import math
from collections.abc import Iterable
from typing import Any

from pellucid.data.rows import LONGEST_ROW, checked_header
from pellucid.errors import PellucidError, TooLarge, quoted

EXACT = 2**53


class _Repeated(ValueError):
    """A key stands twice in one object."""


def read_objects(lines: Iterable[str], name: str) -> tuple[dict[str, list[Any]], list[int]]:
    """Columns by name, with None where a line has no such key, and the line of each row."""
    columns: dict[str, list[Any]] = {}
    numbers: list[int] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        found = _object(line, f"in {name}:{number:,}")
        for key, value in found.items():
            if isinstance(value, dict | list):
                kind = "an object" if isinstance(value, dict) else "a list"
                raise PellucidError(
                    f"column {quoted(key)} holds {kind}", where=f"in {name}:{number:,}", fix="Flatten it first"
                )
            if isinstance(value, float) and not math.isfinite(value):
                raise PellucidError(
                    f"the value of {quoted(key)} is not finite", where=f"in {name}:{number:,}", fix="Write null for it"
                )
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
    checked_header([key.strip() for key in columns], name)
    return columns, numbers


def _object(line: str, where: str) -> dict[str, Any]:
    if len(line) > LONGEST_ROW:
        raise TooLarge(
            f"a line of {len(line):,} characters is longer than {LONGEST_ROW:,}", where=where, fix="Split it"
        )
    try:
        found = _DECODER.decode(line)
    except _Repeated as error:
        raise PellucidError(f"the key {quoted(str(error))} stands twice", where=where, fix="Rename one") from None
    except RecursionError:
        raise PellucidError("the value is nested too deep", where=where, fix="Flatten it first") from None
    except ValueError as error:
        reason = getattr(error, "msg", "a number too long").lower()
        raise PellucidError(
            f"this is no JSON object: {reason}", where=where, fix='Write one object a line, as {"a": 1}'
        ) from None
    if not isinstance(found, dict):
        raise PellucidError(
            f"a {type(found).__name__} stands where an object is wanted",
            where=where,
            fix='Write one object a line, as {"a": 1}',
        )
    return found


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Repeated(next(key for key in keys if keys.count(key) > 1))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unrepeated)
