"""Records to tables, pictures and pages. No torch: what was seen yesterday can be drawn today."""

from typing import Any, Generic, TypeVar

Record = TypeVar("Record")


class Shown(Generic[Record]):
    """A record and the words for it, in a Python prompt, a notebook or `print`. Its fields are the record's own.

    >>> from pellucid.records import Predictions
    >>> seen = Shown(Predictions("digits", "cnn", "class", "classification", ()))
    >>> seen
    cnn of the run digits predicts class
    <BLANKLINE>
        class
    >>> seen.network
    'cnn'
    """

    def __init__(self, record: Record) -> None:
        self.record = record

    def __getattr__(self, name: str) -> Any:
        return getattr(self.record, name)

    def show(self) -> None:
        """Print it."""
        from pellucid.figures.show import show

        show(self.record)

    def __repr__(self) -> str:
        from pellucid.figures.show import record_text

        return record_text(self.record)
