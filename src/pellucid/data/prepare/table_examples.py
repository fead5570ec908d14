"""Rows of a table as numbers, on three sides, and the column to predict: what is wrong with it is said before anything
is trained.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import MISSING_WORDS, TableData, unknown_column
from pellucid.data.prepare.examples import (
    Examples,
    ExampleSides,
    complete_places,
    damaged_preparation,
    mean_and_deviation,
    require_scale,
    require_task,
    standardise,
)
from pellucid.data.readers.sources import require_memory
from pellucid.data.splits import SIDES, SplitRequest
from pellucid.data.splits.hashing import Words, numbered_hashes, row_hashes
from pellucid.data.splits.proposal import choose_sides
from pellucid.errors import PellucidError, nearest, quoted, require_one_of

if TYPE_CHECKING:
    import polars

UNKNOWN = 0  # the code of a category that train does not have
REPEATED = 10  # a table whose rows occur so often each, on average, counts cases of a few kinds
BYTES_A_CELL = 4 + 8 + 8  # float32 for the network, and float64 twice on the way
TARGET_TASKS = ("classification", "regression")
FEW_NUMBERS = 10  # so many different whole numbers are taken for classes
MOST_CLASSES = 1_000
RECONSTRUCTION = "reconstruction"
# Names that people give to what is to be predicted.
USUAL_TARGETS = ("target", "label", "class", "outcome")
SURE = 0.999  # a feature that follows the target this closely is the target


@dataclass(frozen=True)
class Target:
    """A table that is ready to be learned from."""

    name: str
    task: str
    frame: "polars.DataFrame"  # without the rows that miss the target
    features: tuple[str, ...]
    classes: tuple[str, ...]  # empty for regression
    description: str
    notes: tuple[str, ...]


def choose_target(table: TableData, name: str, *, task: str = "", refuse_missing: bool = False) -> Target:
    """Take a column as the target, for classification or regression, or say why it cannot be.

    >>> from pellucid.data import open_data
    >>> choose_target(open_data("penguins"), "species").description
    'species: classification into 3 classes (it holds texts); task=regression to predict a number'
    """
    if task:
        require_one_of("task", task, TARGET_TASKS)
    if name not in table.frame.columns:
        raise unknown_column(name, table.frame.columns, table.name)
    frame, notes = _with_target(table, name, refuse_missing)
    column = frame[name]
    n_different = column.n_unique()
    if n_different < 2:
        raise PellucidError(
            f"the target {quoted(name)} is {quoted(str(column[0]))} in every row", fix="There is nothing to predict"
        )
    is_number = column.dtype.is_numeric()
    is_few = column.dtype.is_integer() and n_different <= min(FEW_NUMBERS, len(column) // 2)
    because = "it holds texts" if not is_number else "few whole numbers" if is_few else "it holds numbers"
    chosen = task or ("classification" if not is_number or is_few else "regression")
    if chosen == "regression" and not is_number:
        raise PellucidError(
            f"the target {quoted(name)} is {table.column(name).kind}, not numbers",
            fix="Try {task}",
            options={"task": "classification"},
        )
    classes = _classes(column, table.name, is_number, notes) if chosen == "classification" else ()
    features = _features(table.name, frame, name, notes)
    what = f"classification into {len(classes)} classes" if classes else "regression"
    asked = "asked for" if task else because
    otherwise = "task=regression to predict a number" if classes else "task=classification to predict a class"
    return Target(
        name=name,
        task=chosen,
        frame=frame,
        features=features,
        classes=classes,
        description=f"{name}: {what} ({asked}); {otherwise}",
        notes=tuple(notes),
    )


def likely_targets(table: TableData) -> list[str]:
    """The columns from the likeliest target on: by its name, by being a category, by standing first or last.

    >>> from pellucid.data import open_data
    >>> likely_targets(open_data("penguins"))[:3]
    ['species', 'island', 'sex']
    """
    last = len(table.columns) - 1

    def unlikeliness(place: int) -> tuple[bool, ...]:
        column = table.columns[place]
        return (
            column.name.lower() not in USUAL_TARGETS,
            column.kind not in ("category", "numeric"),
            column.kind != "category",
            column.n_missing > 0,
            place not in (0, last),
            place != last,
        )

    return [table.columns[place].name for place in sorted(range(last + 1), key=unlikeliness)]


def _with_target(table: TableData, name: str, refuse_missing: bool) -> "tuple[polars.DataFrame, list[str]]":
    is_missing = table.frame[name].is_null()
    n_missing = int(is_missing.sum())
    if not n_missing:
        return table.frame, []
    if n_missing == len(table):
        raise PellucidError(f"no row has a target {quoted(name)}", fix="Choose another column")
    if refuse_missing:
        first = table.place_of(int(is_missing.arg_max() or 0))
        raise PellucidError(
            f"{n_missing:,} of {len(table):,} rows have no target {quoted(name)} (first: {first})",
            where=f"in {table.name}",
            fix="Fill it in, or leave {refuse_missing_target} out, and they are left out",
            options={"refuse_missing_target": None},
        )
    return table.frame.filter(~is_missing), [f"{n_missing:,} of {len(table):,} rows have no {name} and were left out"]


def _classes(column: "polars.Series", table: str, is_number: bool, notes: list[str]) -> tuple[str, ...]:
    counts = column.value_counts().sort(column.name)
    n = counts.height
    if n > MOST_CLASSES or (is_number and n > len(column) / 2 and n > FEW_NUMBERS):
        fix = "It looks numeric; try {task}" if is_number else "It looks like an id; choose another column"
        raise PellucidError(
            f"the target {quoted(column.name)} would have {n:,} classes", fix=fix, options={"task": "regression"}
        )
    if len(column) < 2 * n:
        raise PellucidError(
            f"{table} has {len(column):,} rows for {n:,} classes, and at least {2 * n:,} are needed",
            fix="Give it more rows",
        )
    single = int((counts["count"] == 1).sum())
    if single:
        notes.append(f"{single:,} classes have one member, which stays in train")
    return tuple(str(value) for value in counts[column.name])


def _features(table: str, frame: "polars.DataFrame", target: str, notes: list[str]) -> tuple[str, ...]:
    """The other columns: without those that say nothing, and with a warning for those that say too much."""
    features = []
    for column in frame.get_columns():
        if column.name == target:
            continue
        if column.drop_nulls().n_unique() < 2:
            why = "has no value" if column.null_count() == len(column) else "is the same in every row"
            notes.append(f"{column.name} {why} and was left out")
            continue
        features.append(column.name)
        if target and (leak := _leak(column, frame[target])):
            notes.append(f"{column.name} gives the target away: {leak}")
    if not features and target:
        raise PellucidError(f"no column is left to predict {quoted(target)} from", fix="Add features to the table")
    if not features:
        raise PellucidError(f"every column of {table} is the same in all rows", fix="Give it more rows")
    if n_same := frame.height - frame.unique().height:
        notes.append(f"{n_same:,} rows repeat an earlier one")
    return tuple(features)


def _leak(feature: "polars.Series", target: "polars.Series") -> str:
    import polars

    if feature.dtype.is_numeric() and target.dtype.is_numeric():
        both = polars.DataFrame({"a": feature.cast(polars.Float64), "b": target.cast(polars.Float64)}).drop_nulls()
        if both.height < 3 or both["a"].n_unique() < 2 or both["b"].n_unique() < 2:
            return ""
        correlation = both.select(polars.corr("a", "b")).item()
        return f"correlation {correlation:.4f}" if correlation is not None and abs(correlation) >= SURE else ""
    n = feature.n_unique()
    if n < target.n_unique() or n > max(50, len(feature) // 10):
        return ""
    if polars.DataFrame({"a": feature, "b": target}).unique().height == n == target.n_unique():
        return "each of its values belongs to one class"
    return ""


def table_sides(
    table: TableData,
    target: str,
    *,
    task: str = "",
    refuse_missing: bool = False,
    split: SplitRequest | None = None,
) -> ExampleSides:
    """The rows of a table on three sides: those that are equal but for target and order columns share one.

    split: how they are to be divided, where that is not left to the data.
    For reconstruction the target may be "": then every column is read, and nothing is predicted but the row itself.

    >>> from pellucid.data import open_data
    >>> sides = table_sides(open_data("penguins"), "species")
    >>> sides.task, sides.classes, len(sides.train), sides.preparation.numbers_shape, sides.preparation.category_sizes
    ('classification', ('Adelie', 'Chinstrap', 'Gentoo'), 285, (9,), (4, 3))
    """
    require_memory(table.frame.width * len(table) * BYTES_A_CELL, table.name, "Keep fewer rows or columns")
    chosen = _choose(table, target, task, refuse_missing)
    task = task or chosen.task
    rows = replace(table, frame=chosen.frame)
    features = _readable(table, chosen.features)
    labels = _labels(chosen) if chosen.classes else np.zeros(len(rows), dtype=np.int64)
    there = np.flatnonzero(table.frame[target].is_not_null().to_numpy()) if target else np.arange(len(table))
    hashes, about_forms = _hashes(rows, set(features), target, there)
    sides, words, choice = choose_sides(rows, target, split or SplitRequest(), hashes)
    if choice.strategy == "time":
        places = {side: np.flatnonzero(sides == number) for number, side in enumerate(SIDES)}
    else:
        places = complete_places(sides, words, labels, table.name)
    group = choice.column if choice.strategy == "group" else ""
    features = [name for name in features if name != group]
    numeric, categories, about_train = learn_columns(rows, features, places["train"])
    if not numeric and not categories:
        raise PellucidError(f"every column of {table.name} is the same in all of train", fix="Give it more rows")
    preparation = TablePreparation(numeric, categories, target, task, chosen.classes)
    targets: NDArray[np.int64] | NDArray[np.float32] = labels
    if target and not chosen.classes:
        values = rows.frame[target].cast(float).to_numpy()
        mean, deviation = mean_and_deviation(values[places["train"]])
        preparation = replace(preparation, mean=mean, deviation=deviation)
        targets = standardise(values, mean, deviation)
    read = preparation.read(rows)
    whole = Examples(read.numbers, read.codes, targets)
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
            *([chosen.description] if chosen.description else []),
            *chosen.notes,
            *_notes_on_unread(table, chosen.features, features, group),
            *about_train,
            *about_forms,
        ),
        n_unknown=read.n_unknown,  # train knows all of its own
        split=choice,
    )


def _hashes(rows: TableData, features: set[str], target: str, places: NDArray[np.int64]) -> tuple[Words, list[str]]:
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
    return numbered, [f"the rows have {n_forms:,} different forms only, so equal ones stand on every side"]


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
    notes: list[str] = []
    features = _features(table.name, table.frame, "", notes)
    return Target("", RECONSTRUCTION, table.frame, features, (), "", tuple(notes))


def _readable(table: TableData, names: tuple[str, ...]) -> list[str]:
    """The columns that a network can read.

    Whole numbers that only grow are most often row numbers; they are read where nothing else is there.
    """
    kinds = {column.name: column.kind for column in table.columns}
    kept = [name for name in names if kinds[name] in ("numeric", "category")]
    if not kept:
        kept = [name for name in names if kinds[name] == "order" and table.frame[name].dtype.is_numeric()]
    if not kept:
        raise PellucidError(
            f"no column of {table.name} holds numbers or categories to predict from",
            fix="Add features to the table",
        )
    return kept


def _notes_on_unread(table: TableData, names: tuple[str, ...], read: Sequence[str], group: str) -> list[str]:
    """Why each of the columns that are not read is not."""
    why = {"order": "only tells an order", "text": "holds text that names no groups"}
    kinds = {column.name: column.kind for column in table.columns}
    of_group = "is the group, whose values train and dev do not share,"
    unread = set(names) - set(read)
    return [
        f"{name} {of_group if name == group else why[kinds[name]]} and was left out" for name in names if name in unread
    ]


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
