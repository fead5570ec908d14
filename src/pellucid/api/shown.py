"""A record that shows itself where it is looked at: in a Python prompt, a notebook or `print`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Record = TypeVar("Record")


class Shown(Generic[Record]):
    """A record and the words for it. Its fields are the record's own.

    >>> from pellucid.records import Evaluation
    >>> seen = Shown(Evaluation(3, 1.9, 2.0), lambda record: print("dev", record.dev))
    >>> seen
    dev 2.0
    >>> seen.train
    1.9
    """

    def __init__(self, record: Record, show: Callable[[Record], None]) -> None:
        self.record = record
        self._show = show

    def __getattr__(self, name: str) -> Any:
        return getattr(self.record, name)

    def __repr__(self) -> str:
        words = io.StringIO()
        with contextlib.redirect_stdout(words):
            self._show(self.record)
        return words.getvalue().rstrip("\n")
