"""How the rows of a table become numbers: learned from train once, kept with the run, the same for new rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.categories import Categories
from pellucid.data.examples.standard import mean_and_deviation, standardised
from pellucid.data.kinds import TableData
from pellucid.errors import PellucidError, nearest, quoted

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers, by its mean and deviation on train."""

    name: str
    mean: float
    deviation: float
    has_gaps: bool  # train misses some of them, so whether one is missing is a number of its own


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories, by its values on train; 0 stands for any other and for none."""

    name: str
    values: tuple[str, ...]


class RowsRead(NamedTuple):
    """Rows as numbers: (rows, features) and (rows, columns)."""

    numbers: NDArray[np.float32]
    codes: NDArray[np.int64]
    n_unknown: int  # cells with a category that train does not have
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TablePreparation:
    """What of a row a network reads: its numbers, standardised, then a 1 for each that is missing, and its categories.

    Only columns that train misses cells of have a place for "is missing"; a missing number itself becomes 0, the mean.
    """

    kind: ClassVar[str] = "table"
    numeric: tuple[NumericColumn, ...]
    categories: tuple[CategoryColumn, ...]
    target: str  # "" where there is none
    task: str
    classes: tuple[str, ...] = ()
    mean: float = 0.0  # of a target that is a number, on train
    deviation: float = 1.0

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*(column.name for column in self.numeric), *(column.name for column in self.categories))

    @property
    def numbers_shape(self) -> tuple[int, ...]:
        return (len(self.numeric) + sum(column.has_gaps for column in self.numeric),)

    @property
    def category_sizes(self) -> tuple[int, ...]:
        """How many codes each category column has, 0 included."""
        return tuple(len(column.values) + 1 for column in self.categories)

    @property
    def n_outputs(self) -> int:
        return len(self.classes) or 1

    def read(self, table: TableData) -> RowsRead:
        """The rows of a table with the same columns; others are left alone, and the target may be missing."""
        known = {*self.features, self.target}
        names = [name for name in table.frame.columns if name not in known]
        missing = [name for name in self.features if name not in table.frame.columns]
        if missing:
            raise _not_there(missing, names, table.name)
        others = [quoted(name, 20) for name in names]
        many = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        notes = (f"not read, for the network does not know them: {', '.join(others[:3])}{many}",) if others else ()
        rows = [_numbers(table, column.name) for column in self.numeric]
        columns = [standardised(row, one.mean, one.deviation) for row, one in zip(rows, self.numeric, strict=True)]
        columns += [np.isnan(row) for row, one in zip(rows, self.numeric, strict=True) if one.has_gaps]
        encoded = [Categories(column.values).encode(_texts(table, column.name)) for column in self.categories]
        return RowsRead(
            _side_by_side(columns, len(table), np.float32),
            _side_by_side([codes for codes, _ in encoded], len(table), np.int64),
            sum(n_unknown for _, n_unknown in encoded),
            notes,
        )

    def in_units(self, standard: NDArray[Any]) -> NDArray[np.float64]:
        """Standardised targets, or answers, as the numbers they stand for."""
        return standard.astype(np.float64) * self.deviation + self.mean

    def to_json(self) -> dict[str, Any]:
        """What `preparation_from_json` takes."""
        return {
            "kind": self.kind,
            "numeric": [asdict(column) for column in self.numeric],
            "categories": [{"name": column.name, "values": list(column.values)} for column in self.categories],
            "target": self.target,
            "task": self.task,
            "classes": list(self.classes),
            "mean": self.mean,
            "deviation": self.deviation,
        }


def learned_columns(
    table: TableData, names: Sequence[str], train: NDArray[np.int64]
) -> tuple[tuple[NumericColumn, ...], tuple[CategoryColumn, ...], list[str]]:
    """The named columns as train has them, and notes on those that say nothing there."""
    numeric, categories, notes = [], [], []
    for name in names:
        column = table.frame[name][train]
        if column.drop_nulls().n_unique() < 2:
            notes.append(f"{name} is the same in every row of train and was left out")
        elif column.dtype.is_numeric():
            mean, deviation = mean_and_deviation(_numbers(table, name)[train])
            numeric.append(NumericColumn(name, mean, deviation, has_gaps=column.null_count() > 0))
        else:
            categories.append(CategoryColumn(name, Categories.of(column).values))
    return tuple(numeric), tuple(categories), notes


def _not_there(missing: Sequence[str], others: Sequence[str], name: str) -> PellucidError:
    some = ", ".join(quoted(one, 24) for one in missing[:3])
    more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
    meant = nearest(missing[0], others)
    fix = (
        f"Perhaps its {quoted(meant, 24)} is {quoted(missing[0], 24)}; rename it"
        if meant
        else "Add them, empty if not known"
    )
    return PellucidError(f"{name} has no column {some}{more}, which the network reads", fix=fix)


def _side_by_side(columns: Sequence[NDArray[Any]], n_rows: int, dtype: Any) -> NDArray[Any]:
    joined = np.empty((n_rows, len(columns)), dtype=dtype)
    for place, column in enumerate(columns):
        joined[:, place] = column
    return joined


def _numbers(table: TableData, name: str) -> NDArray[np.float64]:
    """A column as float64, nan where it is missing; a cell that is no number is named."""
    import polars

    column = table.frame[name]
    values = column.cast(polars.Float64, strict=False)
    strange = values.is_null() & column.is_not_null()
    if strange.any():
        row = int(strange.arg_max() or 0)
        raise PellucidError(
            f"{quoted(name)} held numbers in training, and a cell is {quoted(str(column[row]))}",
            where=f"on {table.place_of(row)} of {table.name}",
            fix="Write a number, or leave it empty",
        )
    found: NDArray[np.float64] = values.fill_null(float("nan")).to_numpy()
    return found


def _texts(table: TableData, name: str) -> "polars.Series":
    import polars

    return table.frame[name].cast(polars.String)
