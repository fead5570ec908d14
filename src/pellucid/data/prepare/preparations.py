"""How rows and images become numbers: learned from train once, kept with the run, the same for new ones.

A run may come from someone else, so what was stored is checked before it is believed.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import TableData
from pellucid.data.prepare.examples import mean_and_deviation, standardise
from pellucid.data.readers.images import LARGEST_FILE
from pellucid.data.readers.pictures import MODES, decode_image, find_trouble
from pellucid.data.readers.sources import FileSource, read_all
from pellucid.errors import PellucidError, nearest, quoted
from pellucid.records.plain import as_plain, from_plain

if TYPE_CHECKING:
    import polars

TASKS = ("classification", "regression", "reconstruction")
UNKNOWN = 0
LARGEST_SIDE = 1 << 12  # pixels; more is a mistake
Kept = TypeVar("Kept", bound="TablePreparation | ImagePreparation")
Pixels = NDArray[np.uint8]  # (image, height, width) or (image, height, width, 3)


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers, by its mean and deviation on train."""

    name: str
    mean: float
    deviation: float
    has_gaps: bool  # train misses some of them, so whether one is missing is a number of its own


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories, by its values on train, in order; 0 stands for any other, and for nothing at all.

    >>> sex = CategoryColumn.learn("sex", ["male", "female", None, "male"])
    >>> sex.values, sex.encode(["female", "drake", None])
    (('female', 'male'), (array([1, 0, 0]), 1))
    """

    name: str
    values: tuple[str, ...]

    @classmethod
    def learn(cls, name: str, column: "Iterable[str | None] | polars.Series") -> "CategoryColumn":
        """Every value that occurs."""
        return cls(name, tuple(sorted({value for value in column if value is not None})))

    def encode(self, column: "Iterable[str | None] | polars.Series") -> tuple[NDArray[np.int64], int]:
        """The number of each value, and how many values were never seen (missing ones are not counted)."""
        index = {value: i for i, value in enumerate(self.values, start=1)}
        cells = list(column)
        codes = np.array([index.get(cell, UNKNOWN) if cell is not None else UNKNOWN for cell in cells], dtype=int)
        return codes, sum(cell is not None and cell not in index for cell in cells)


class PreparedRows(NamedTuple):
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

    def read(self, table: TableData) -> PreparedRows:
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
        columns = [standardise(row, one.mean, one.deviation) for row, one in zip(rows, self.numeric, strict=True)]
        columns += [np.isnan(row) for row, one in zip(rows, self.numeric, strict=True) if one.has_gaps]
        encoded = [column.encode(table.frame[column.name].cast(str)) for column in self.categories]
        return PreparedRows(
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
        return _plain(self)

    def require_sound(self) -> None:
        """Refuse what no table could have been prepared by."""
        names = self.features
        if not all(names) or not names or len({*names, self.target}) != len(names) + 1:
            raise _damaged("it has no columns, or one of them twice")
        if any(len(set(column.values)) != len(column.values) for column in self.categories):
            raise _damaged("a category stands twice")
        _require_numbers(
            [self.mean, *(column.mean for column in self.numeric)],
            [self.deviation, *(column.deviation for column in self.numeric)],
        )
        _require_task(self.task, self.classes)
        if not self.target and (self.classes or self.task != "reconstruction"):
            raise _damaged("it has no target")


def learn_columns(
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
            categories.append(CategoryColumn.learn(name, column))
    return tuple(numeric), tuple(categories), notes


@dataclass(frozen=True)
class ImagePreparation:
    """What of an image a network reads.

    >>> gray = ImagePreparation(size=(2, 1), mode="gray", mean=(100.0,), deviation=(50.0,), classes=("cat", "dog"))
    >>> gray.read(np.array([[[50, 200]]], dtype=np.uint8)).tolist()
    [[[[-1.0, 2.0]]]]
    """

    kind: ClassVar[str] = "images"
    size: tuple[int, int]  # (width, height)
    mode: str  # "gray" or "rgb"
    mean: tuple[float, ...]  # of each channel on train
    deviation: tuple[float, ...]
    classes: tuple[str, ...]
    task: str = "classification"

    @property
    def numbers_shape(self) -> tuple[int, ...]:
        return (len(self.mean), self.size[1], self.size[0])

    @property
    def category_sizes(self) -> tuple[int, ...]:
        return ()

    @property
    def n_outputs(self) -> int:
        return len(self.classes)

    def read(self, pixels: Pixels) -> NDArray[np.float32]:
        """(image, height, width[, 3]), 0 to 255 -> (image, channels, height, width), standardised."""
        channels = in_channels(pixels)
        if channels.shape[1:] != self.numbers_shape:
            height, width = channels.shape[2:]
            raise PellucidError(
                f"the images are {width}×{height} with {channels.shape[1]} channels, and the network reads "
                f"{self.size[0]}×{self.size[1]} {self.mode}",
                fix="Give images like those it was trained on",
            )
        mean, deviation = (
            np.array(values, dtype=np.float32).reshape(-1, 1, 1) for values in (self.mean, self.deviation)
        )
        numbers = channels.astype(np.float32)
        numbers -= mean
        numbers /= deviation
        return numbers

    def pixels_of(self, paths: Sequence[Path]) -> Pixels:
        """Image files as pixels of this size and mode, whatever theirs are; one that cannot be read is named."""
        shape = (len(paths), self.size[1], self.size[0]) + ((3,) if self.mode == "rgb" else ())
        pixels = np.zeros(shape, dtype=np.uint8)
        for place, path in enumerate(paths):
            source = FileSource(path)
            is_too_large = source.size > LARGEST_FILE
            content = b"" if is_too_large else read_all(source)
            trouble = f"larger than {LARGEST_FILE >> 20} MB" if is_too_large else find_trouble(content)[3]
            if trouble:
                raise PellucidError(f"the image {source.name} cannot be read: {trouble}", fix="Mend or replace it")
            pixels[place] = decode_image(content, self.mode, self.size)
        return pixels

    def to_json(self) -> dict[str, Any]:
        """What `preparation_from_json` takes."""
        return _plain(self)

    def require_sound(self) -> None:
        """Refuse what no images could have been prepared by."""
        if not all(1 <= side <= LARGEST_SIDE for side in self.size):
            raise _damaged("its size is no width and height")
        n_channels = 3 if self.mode == "rgb" else 1
        if self.mode not in MODES or not len(self.mean) == len(self.deviation) == n_channels:
            raise _damaged("its mode and its channels do not agree")
        _require_numbers(self.mean, self.deviation)
        _require_task(self.task, self.classes)
        if not self.classes:
            raise _damaged("it has no classes")


def in_channels(pixels: Pixels) -> Pixels:
    """(image, height, width[, 3]) -> (image, channels, height, width)."""
    return np.moveaxis(pixels, -1, 1) if pixels.ndim == 4 else pixels[:, None]


Preparation: TypeAlias = TablePreparation | ImagePreparation


def preparation_from_json(content: Any) -> Preparation:
    """The preparation that `to_json` described.

    >>> gray = ImagePreparation(size=(8, 8), mode="gray", mean=(0.0,), deviation=(1.0,), classes=("cat", "dog"))
    >>> preparation_from_json(gray.to_json()) == gray
    True
    """
    kind = content.get("kind") if isinstance(content, dict) else ""
    for of in (TablePreparation, ImagePreparation):
        if kind == of.kind:
            return _from_plain(of, content)
    raise _damaged(f"its kind is {quoted(str(kind))}")


def _from_plain(of: type[Kept], content: dict[str, Any]) -> Kept:
    fields = {name: value for name, value in content.items() if name != "kind"}
    wanted = {field.name for field in dataclasses.fields(of)}
    if set(fields) != wanted:
        raise _damaged(f"it wants {', '.join(sorted(wanted))}")
    try:
        found = from_plain(of, fields)
    except (ValueError, OverflowError) as error:
        raise _damaged(str(error)) from error
    found.require_sound()
    return found


def _plain(preparation: Preparation) -> dict[str, Any]:
    fields = as_plain(preparation)
    assert isinstance(fields, dict)
    return {"kind": preparation.kind, **fields}


def _require_numbers(means: Sequence[float], deviations: Sequence[float]) -> None:
    if not all(math.isfinite(number) for number in (*means, *deviations)) or not all(one > 0 for one in deviations):
        raise _damaged("a mean is no finite number, or a deviation is not above 0")


def _require_task(task: str, classes: tuple[str, ...]) -> None:
    if task not in TASKS:
        raise _damaged(f"there is no task {quoted(task)}")
    is_fitting = len(classes) >= 2 if task == "classification" else not classes if task == "regression" else True
    if not is_fitting or len(set(classes)) != len(classes):
        raise _damaged(f"{len(classes)} classes do not fit the task {task}, or one stands twice")


def _damaged(why: str) -> PellucidError:
    return PellucidError(f"the stored preparation is damaged: {why}", fix="Take the file from a copy of the run")


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
