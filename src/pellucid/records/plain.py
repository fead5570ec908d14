"""Records as what JSON can hold, and back."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pellucid.records.statements import Statement

Record = TypeVar("Record")


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
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        return {name: as_plain(item) for name, item in record._asdict().items()}
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {field.name: as_plain(getattr(record, field.name)) for field in dataclasses.fields(record)}
    if isinstance(record, Mapping):
        return {str(name): as_plain(item) for name, item in record.items()}
    if isinstance(record, Sequence) and not isinstance(record, str | bytes):
        return [as_plain(item) for item in record]
    return record


def from_plain(kind: type[Record], plain: object) -> Record:
    """The record of that kind which `as_plain` described. A ValueError says what does not fit.

    >>> from pellucid.records.training import Evaluation
    >>> from_plain(Evaluation, {"step": 3, "train": 2.0, "dev": "inf"})
    Evaluation(step=3, train=2.0, dev=inf, metric=None)
    """
    made: Record = _make(kind, plain, kind.__name__)
    return made


def _make(kind: Any, plain: object, where: str) -> Any:
    if kind is Statement and isinstance(plain, str):
        return Statement("written", {"sentence": plain})  # a run from before 2026-11 holds sentences
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in (object, Any):
        return plain
    if origin in (typing.Union, types.UnionType):
        return None if plain is None else _make(next(one for one in inner if one is not types.NoneType), plain, where)
    if origin is tuple and (len(inner) != 2 or inner[1] is not ...):
        _require(isinstance(plain, list) and len(plain) == len(inner), where, plain)
        return tuple(_make(one, item, where) for one, item in zip(inner, typing.cast(list[object], plain), strict=True))
    if origin in (tuple, list, Sequence):
        _require(isinstance(plain, list), where, plain)
        return tuple(_make(inner[0], item, where) for item in typing.cast(list[object], plain))
    if origin in (dict, Mapping):
        _require(isinstance(plain, dict), where, plain)
        return {name: _make(inner[1], item, where) for name, item in typing.cast(dict[str, object], plain).items()}
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        _require(isinstance(plain, dict), where, plain)
        fields = typing.cast(dict[str, object], plain)
        hints = typing.get_type_hints(kind)
        for name in fields:
            _require(name in hints, where, name)
        try:
            return kind(**{name: _make(hints[name], item, f"{where}.{name}") for name, item in fields.items()})
        except TypeError as error:
            raise ValueError(f"{where}: {error}") from error
    if kind is float and (plain in ("nan", "inf", "-inf") or (isinstance(plain, int) and not isinstance(plain, bool))):
        return float(typing.cast(str, plain))
    _require(isinstance(plain, kind) and (kind is not int or not isinstance(plain, bool)), where, plain)
    return plain


def _require(is_so: bool, where: str, plain: object) -> None:
    if not is_so:
        raise ValueError(f"{where} cannot be {str(plain)[:40]!r}")
