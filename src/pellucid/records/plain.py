"""Records as what JSON can hold."""

import math
from collections.abc import Mapping


def as_plain(record: object) -> object:
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
    if isinstance(record, Mapping):
        return {str(name): as_plain(item) for name, item in record.items()}
    if isinstance(record, list | tuple):
        return [as_plain(item) for item in record]
    return record
