"""Records as what JSON can hold, and back."""

import dataclasses
import functools
import math
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pellucid.records.statements import Statement
from pellucid.records.validity import LARGEST_WHOLE, find_mistake

Record = TypeVar("Record")
HALF_CHARACTER = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def as_plain(record: object) -> Any:
    """The record as dictionaries, lists and numbers that JSON can hold; non-finite numbers become words.

    >>> from pellucid.records.derivation import Note
    >>> as_plain(Note("1/0 is infinite", 3))
    {'text': '1/0 is infinite', 'column': 3}
    >>> as_plain([1.0, float("-inf")])
    [1.0, '-inf']
    """
    if isinstance(record, float):
        return record if math.isfinite(record) else str(record)
    if record is None or isinstance(record, int | str):
        return record
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        return {name: as_plain(item) for name, item in record._asdict().items()}
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {field.name: as_plain(getattr(record, field.name)) for field in dataclasses.fields(record)}
    if isinstance(record, Mapping):
        return {str(name): as_plain(item) for name, item in record.items()}
    if isinstance(record, Sequence) and not isinstance(record, bytes):
        return [as_plain(item) for item in record]
    return record


def from_plain(kind: type[Record], plain: object, where: str = "") -> Record:
    """The record of that kind which `as_plain` described. A ValueError names the field that does not fit.

    It is named from `where` the record stands, by default from its kind. Types are the record's own;
    `records/validity.py` has the ranges of numbers and the names that there are.

    >>> from pellucid.records.training import Evaluation
    >>> from_plain(Evaluation, {"step": 3, "train": 2.0, "dev": "inf"})
    Evaluation(step=3, train=2.0, dev=inf, metric=None)
    """
    made: Record = _make(kind, plain, where or kind.__name__)
    return made


def _make(kind: Any, plain: object, where: str) -> Any:
    if type(plain) is kind and _is_sound(plain):
        return plain  # nine in ten of what a run holds: looking into their types would take most of its reading
    if kind is Statement and isinstance(plain, str):
        return Statement("written", {"sentence": plain})  # a run from before 2026-11 holds sentences
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in (object, Any):
        return plain
    if origin in (typing.Union, types.UnionType):
        return None if plain is None and types.NoneType in inner else _make_either(inner, plain, where)
    if origin is tuple and (len(inner) != 2 or inner[1] is not ...):
        _require(isinstance(plain, list) and len(plain) == len(inner), where, plain)
        return tuple(_make(one, item, where) for one, item in zip(inner, typing.cast(list[object], plain), strict=True))
    if origin in (tuple, list, Sequence):
        _require(isinstance(plain, list), where, plain)
        items = typing.cast(list[object], plain)
        if inner[0] is float and all(type(item) is float for item in items):
            return tuple(items)  # most of what a run holds: maps and curves of thousands of numbers
        return tuple(_make(inner[0], item, where) for item in items)
    if origin in (dict, Mapping):
        _require(isinstance(plain, dict), where, plain)
        pairs = typing.cast(dict[str, object], plain).items()
        return {_make(str, name, where): _make(inner[1], item, f"{where}.{name}"[:120]) for name, item in pairs}
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        _require(isinstance(plain, dict), where, plain)
        fields = typing.cast(dict[str, object], plain)
        hints = _hints_of(kind)
        for name in fields:
            _require(name in hints, where, name)
        made = {name: _make(hints[name], item, f"{where}.{name}") for name, item in fields.items()}
        try:
            record = kind(**made)
        except TypeError as error:
            missing = [name for name in hints if name not in made and f"'{name}'" in str(error)]
            raise ValueError(f"{where}.{missing[0]} is missing" if missing else f"{where}: {error}") from error
        if name := find_mistake(record):
            _require(False, f"{where}.{name}", fields.get(name))
        return record
    if kind is float and (plain in ("nan", "inf", "-inf") or (isinstance(plain, int) and not isinstance(plain, bool))):
        _require(isinstance(plain, str) or abs(plain) < 2**1023, where, "a number beyond all others")
        return float(typing.cast(str, plain))
    _require(isinstance(plain, kind) and (kind is not int or not isinstance(plain, bool)), where, plain)
    _require(_is_sound(plain), where, plain)
    return plain


def _is_sound(plain: object) -> bool:
    """Whether a number or a text is one that can be computed with, or shown; of other things nothing is known."""
    if isinstance(plain, str):
        return not _is_torn(plain)
    return not isinstance(plain, int) or abs(plain) <= LARGEST_WHOLE


@functools.cache
def _hints_of(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _make_either(kinds: tuple[Any, ...], plain: object, where: str) -> Any:
    """Of several types the first that fits; the message is that of the first."""
    first: ValueError | None = None
    for kind in kinds:
        if kind is not types.NoneType:
            try:
                return _make(kind, plain, where)
            except ValueError as error:
                first = first or error
    raise first or ValueError(f"{where} fits nothing")


def _is_torn(text: str) -> bool:
    """Whether half of a character is in it that no terminal can show; undecodable bytes of a file's name are none."""
    return HALF_CHARACTER.search(text) is not None


def _require(is_so: bool, where: str, plain: object) -> None:
    if not is_so:
        raise ValueError(f"{where} cannot be {ascii(plain)[:40]}")
