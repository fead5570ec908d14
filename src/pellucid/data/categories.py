"""Categories as numbers, with a place for what was never seen."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    import polars

UNKNOWN = 0


@dataclass(frozen=True)
class Categories:
    """The values of a column on the training side, in order; index 0 stands for any other, and for nothing at all.

    >>> categories = Categories.of(["male", "female", None, "male"])
    >>> categories.values, categories.encode(["female", "drake", None])
    (('female', 'male'), (array([1, 0, 0]), 1))
    """

    values: tuple[str, ...]

    @classmethod
    def of(cls, column: "Iterable[str | None] | polars.Series") -> "Categories":
        """Every value that occurs."""
        return cls(tuple(sorted({value for value in column if value is not None})))

    def __len__(self) -> int:
        return len(self.values) + 1

    def encode(self, column: "Iterable[str | None] | polars.Series") -> "tuple[numpy.ndarray[Any, Any], int]":
        """The number of each value, and how many values were never seen (missing ones are not counted)."""
        import numpy

        index = {value: i for i, value in enumerate(self.values, start=1)}
        cells = list(column)
        codes = numpy.array([index.get(cell, UNKNOWN) if cell is not None else UNKNOWN for cell in cells], dtype=int)
        return codes, sum(cell is not None and cell not in index for cell in cells)
