"""Rows of a table as numbers, on three sides, and the column to predict: what is wrong with it is said before anything
is trained.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import MISSING_WORDS, TableData, unknown_column
from pellucid.data.prepare.dates import PARTS, date_columns, date_part_name, with_date_parts
from pellucid.data.prepare.examples import (
    Examples,
    ExampleSides,
    Places,
    are_too_few,
    complete_places,
    damaged_preparation,
    mean_and_deviation,
    require_scale,
    require_task,
    standardise,
    whole_as_train,
)
from pellucid.data.prepare.named_numbers import named_numbers, value_name, with_values
from pellucid.data.prepare.targets import Target, choose_target, likely_targets, usable_features
from pellucid.data.readers.sources import require_memory
from pellucid.data.splits import SIDES, SplitRequest
from pellucid.data.splits.groups import is_identifier_name
from pellucid.data.splits.hashing import Words, numbered_hashes, row_hashes
from pellucid.data.splits.proposal import choose_sides
from pellucid.errors import PellucidError, nearest, quoted
from pellucid.records import SplitChoice, Statement, make_note

if TYPE_CHECKING:
    import polars

UNKNOWN = 0  # the code of a category that train does not have
REPEATED = 10  # a table whose rows occur so often each, on average, counts cases of a few kinds
BYTES_A_CELL = 4 + 8 + 8  # float32 for the network, and float64 twice on the way
FEWEST_NUMBERED = 20  # rows, from which on a number for each is no chance
MOST_NAMED = 3  # columns that are not known
RECONSTRUCTION = "reconstruction"


def name_row(row: int) -> str:
    """Where a user finds a row of a table that is no file.

    >>> name_row(0)
    'row 1'
    """
    return f"row {row + 1:,}"


def table_sides(
    table: TableData,
    target: str,
    *,
    task: str = "",
    refuse_missing: bool = False,
    split: SplitRequest | None = None,
    leave_out: Sequence[str] = (),
) -> ExampleSides:
    """The rows of a table on three sides: those that are equal but for target and order columns share one.

    split: how they are to be divided, where that is not left to the data. leave_out: columns that are not to be read.
    For reconstruction the target may be "": then every column is read, and nothing is predicted but the row itself.

    >>> from pellucid.data import open_data
    >>> sides = table_sides(open_data("penguins"), "species")
    >>> sides.task, sides.classes, len(sides.train), sides.preparation.numbers_shape, sides.preparation.category_sizes
    ('classification', ('Adelie', 'Chinstrap', 'Gentoo'), 285, (9,), (4, 3))
    """
    require_memory(table.frame.width * len(table) * BYTES_A_CELL, table.name, "Keep fewer rows or columns")
    target = target or ("" if task == RECONSTRUCTION else table.target)
    chosen = _choose(table, target, task, refuse_missing)
    task = task or chosen.task
    there = np.flatnonzero(table.frame[target].is_not_null().to_numpy()) if target else np.arange(len(table))
    rows = replace(table, frame=chosen.frame, sides=None if table.sides is None else table.sides[there])
    for name in leave_out:
        if name not in table.frame.columns or name == target:
            raise unknown_column(name, [one for one in table.frame.columns if one != target], table.name)
    asked = tuple(name for name in chosen.features if name not in leave_out)
    dates = [name for name in date_columns(table) if name in asked]
    parts = [date_part_name(name, part) for name in dates for part in PARTS]
    features = _readable(table, asked, parts)
    labels = _labels(chosen) if chosen.classes else np.zeros(len(rows), dtype=np.int64)
    hashes, about_forms = _hashes(rows, set(features), target, there)
    places, words, choice = _divide(rows, target, split or SplitRequest(), hashes, labels)
    group = choice.column if choice.strategy == "group" else ""
    features = [name for name in features if name != group]
    read = with_date_parts(rows, dates)
    flat = {name for name in parts if read.frame[name][places["train"]].drop_nulls().n_unique() < 2}
    features = [name for name in features if name not in flat]
    named = named_numbers(rows, target, features, places["train"])
    read = with_values(read, named)
    both = [*features, *map(value_name, named)]
    numeric, categories, about_train = learn_columns(read, both, places["train"])
    if not numeric and not categories:
        raise PellucidError(f"every column of {table.name} is the same in all of train", fix="Give it more rows")
    preparation = TablePreparation(numeric, categories, target, task, chosen.classes, dates=tuple(dates), named=named)
    targets: NDArray[np.int64] | NDArray[np.float32] = labels
    if target and not chosen.classes:
        values = rows.frame[target].cast(float).to_numpy()
        mean, deviation = mean_and_deviation(values[places["train"]])
        preparation = replace(preparation, mean=mean, deviation=deviation)
        targets = standardise(values, mean, deviation)
    prepared = preparation.read(rows)
    whole = Examples(prepared.numbers, prepared.codes, targets)
    return ExampleSides(
        train=whole.rows(places["train"]),
        dev=whole.rows(places["dev"]),
        test=whole.rows(places["test"]),
        places={side: there[where] for side, where in places.items()},
        preparation=preparation,
        task=task,
        classes=chosen.classes,
        target=target,
        notes=(
            *chosen.notes,
            *_notes_on_unread(table, chosen.features, [*features, *dates], group, leave_out),
            *_notes_on_dates(dates, features),
            *[make_note("number-as-category", column=name) for name in named],
            *_notes_on_late_classes(chosen.classes, labels[places["train"]]),
            *about_train,
            *about_forms,
        ),
        n_unknown=prepared.n_unknown,  # train knows all of its own
        split=choice,
        leaks=tuple(leak for leak in chosen.leaks if leak.column in set(features)),
        words=words,
        name_of=table.place_of if table.is_file else name_row,
    )


def _divide(
    rows: TableData, target: str, asked: SplitRequest, hashes: Words, labels: NDArray[np.int64]
) -> tuple[dict[str, Places], Words, SplitChoice]:
    """The rows of each side, the words that keep rows together, and how that was chosen.

    All of them train where they are too few to divide and nobody asked for it, or where train can spare none.
    """
    is_left_open = rows.sides is None and not (asked.strategy or asked.group or asked.order or asked.by)
    has_too_few = is_left_open and are_too_few(hashes)
    if not has_too_few:
        sides, words, choice = choose_sides(rows, target, asked, hashes)
        if choice.strategy in ("time", "given"):
            return {side: np.flatnonzero(sides == number) for number, side in enumerate(SIDES)}, words, choice
        places = complete_places(sides, words, labels)
        if len(places["dev"]):
            return places, words, choice
    n_different = len(np.unique(hashes))
    return whole_as_train(len(rows)), hashes, SplitChoice("none", has_too_few, target=target, n_different=n_different)


def _hashes(
    rows: TableData, features: set[str], target: str, places: NDArray[np.int64]
) -> tuple[Words, list[Statement]]:
    """What the sides of rows are told by, and a note where that is only their place in the table.

    The target does not count: of equal features with two targets, one would always be held out, and train would learn
    the other. A row number would make equal rows look different; one that is read, because nothing else is, counts.
    """
    is_order = {column.name for column in rows.columns if column.kind == "order"}
    names = [name for name in rows.frame.columns if name != target and (name in features or name not in is_order)]
    hashes = row_hashes(rows.frame, names)
    n_forms = len(np.unique(hashes))
    if n_forms * REPEATED > len(hashes):
        return hashes, []
    # A few kinds of rows, as many as there were cases of them: holding kinds out would be another task.
    numbered = numbered_hashes(int(places[-1]) + 1, seed="")[places]
    return numbered, [make_note("few-forms", n=n_forms)]


def _choose(table: TableData, target: str, task: str, refuse_missing: bool) -> Target:
    """The target and the features, and notes on columns that say nothing or too much."""
    if target:
        return choose_target(table, target, task="" if task == RECONSTRUCTION else task, refuse_missing=refuse_missing)
    if task != RECONSTRUCTION:
        names = likely_targets(table)
        some = ", ".join(quoted(name, 24) for name in names[:4])
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        raise PellucidError(
            f"{table.name} is a table, and it is not said which column to predict",
            fix=f"Add {{target}}; it has {some}{more}{'; or read it as {kind}' * (len(names) == 2)}",
            options={"target": names[0], "kind": "pairs"},
        )
    notes: list[Statement] = []
    features = usable_features(table.name, table.frame, "", notes)
    return Target("", RECONSTRUCTION, table.frame, features, (), tuple(notes))


def _readable(table: TableData, names: tuple[str, ...], parts: Sequence[str]) -> list[str]:
    """The columns that a network can read, and the parts of dates behind them.

    Whole numbers that only grow are most often row numbers; they are read where nothing else is there.
    """
    kinds = {column.name: column.kind for column in table.columns}
    kept = [name for name in names if kinds[name] in ("numeric", "category") and not _is_identifier(table, name)]
    kept += parts
    if not kept:
        kept = [name for name in names if kinds[name] == "numeric"]
    if not kept:
        kept = [name for name in names if kinds[name] == "order" and table.frame[name].dtype.is_numeric()]
    if not kept:
        raise PellucidError(
            f"no column of {table.name} holds numbers or categories to predict from",
            fix="Add features to the table",
        )
    return kept


def _is_identifier(table: TableData, name: str) -> bool:
    """Whether whole numbers only tell rows apart: each occurs once, and they fill a range or are called so."""
    column = table.frame[name]
    if not column.dtype.is_integer() or len(column) < FEWEST_NUMBERED or column.n_unique() < len(column):
        return False
    low, high = column.min(), column.max()
    assert isinstance(low, int)
    assert isinstance(high, int)
    return high - low + 1 == len(column) or is_identifier_name(name)


def _notes_on_unread(
    table: TableData, names: tuple[str, ...], read: Sequence[str], group: str, leave_out: Sequence[str]
) -> list[Statement]:
    """Why each of the columns that are not read is not."""
    why = {"order": "order", "text": "text", "numeric": "identifier"}
    kinds = {column.name: column.kind for column in table.columns}
    is_read = {*read, *leave_out} - {group}
    notes = [
        make_note("left-out", column=name, why="group" if name == group else why[kinds[name]])
        for name in names
        if name not in is_read
    ]
    return [*notes, *([make_note("left-out-as-asked", columns=list(leave_out))] if leave_out else [])]


def _notes_on_dates(dates: Sequence[str], features: Sequence[str]) -> list[Statement]:
    """What is read of each column of dates."""
    told = {name: [part for part in PARTS if date_part_name(name, part) in features] for name in dates}
    return [make_note("date-parts", column=name, parts=parts) for name, parts in told.items() if parts]


def _notes_on_late_classes(classes: Sequence[str], train: NDArray[np.int64]) -> list[Statement]:
    """The classes that no row of train has, as happens where rows are divided by time."""
    late = [one for place, one in enumerate(classes) if place not in set(train.tolist())]
    return [make_note("late-classes", classes=late)] if late else []


def _labels(chosen: Target) -> NDArray[np.int64]:
    """The place of each row's class; classes stand in the order of their values."""
    column = chosen.frame[chosen.name]
    place = {value: i for i, value in enumerate(column.unique().sort())}
    assert len(place) == len(chosen.classes)
    return np.array([place[value] for value in column], dtype=np.int64)


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
    notes: tuple[Statement, ...]


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
    dates: tuple[str, ...] = ()  # columns of dates, whose parts are among the numbers
    named: tuple[str, ...] = ()  # columns of whole numbers that are among the categories too

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*(column.name for column in self.numeric), *(column.name for column in self.categories))

    @property
    def names_none(self) -> tuple[str, ...]:
        """The columns in which "None", "NA" or the like was a category."""
        known = {**{one.name: one.values for one in self.categories}, self.target: self.classes}
        return tuple(name for name, values in known.items() if not set(values).isdisjoint(MISSING_WORDS))

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
        parts = {date_part_name(name, part) for name in self.dates for part in PARTS} | set(map(value_name, self.named))
        columns_read = [*self.dates, *(name for name in self.features if name not in parts)]
        known = {*columns_read, self.target}
        names = [name for name in table.frame.columns if name not in known]
        there = set(table.frame.columns)
        missing = [name for name in columns_read if name not in there]
        if missing:
            raise _not_there(missing, names, table.name)
        notes = (make_note("unknown-columns", columns=names[:MOST_NAMED], n=len(names)),) if names else ()
        table = with_values(with_date_parts(table, self.dates), self.named)
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

    def require_sound(self) -> None:
        """Refuse what no table could have been prepared by."""
        names = self.features
        if not all(names) or not names or len({*names, self.target}) != len(names) + 1:
            raise damaged_preparation("it has no columns, or one of them twice")
        if any(len(set(column.values)) != len(column.values) for column in self.categories):
            raise damaged_preparation("a category stands twice")
        require_scale(
            [self.mean, *(column.mean for column in self.numeric)],
            [self.deviation, *(column.deviation for column in self.numeric)],
        )
        require_task(self.task, self.classes)
        if not self.target and (self.classes or self.task != "reconstruction"):
            raise damaged_preparation("it has no target")


def learn_columns(
    table: TableData, names: Sequence[str], train: NDArray[np.int64]
) -> tuple[tuple[NumericColumn, ...], tuple[CategoryColumn, ...], list[Statement]]:
    """The named columns as train has them, and notes on those that say nothing there."""
    numeric, categories, notes = [], [], []
    for name in names:
        column = table.frame[name]
        values = _numbers(table, name)[train] if column.dtype.is_numeric() else np.zeros(0)
        there = values[~np.isnan(values)]
        n_different = int(len(there) > 0) + int(len(there) > 0 and there.min() < there.max())
        if not column.dtype.is_numeric():
            column = column[train]
            n_different = column.drop_nulls().n_unique()
        if n_different < 2:
            notes.append(make_note("left-out", column=name, why="constant in train"))
        elif column.dtype.is_numeric():
            mean, deviation = mean_and_deviation(values)
            numeric.append(NumericColumn(name, mean, deviation, has_gaps=len(there) < len(values)))
        else:
            categories.append(CategoryColumn.learn(name, column))
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
    if column.dtype.is_numeric():
        numbers: NDArray[np.float64] = column.cast(polars.Float64).to_numpy()  # nan where it is missing
        return numbers
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
