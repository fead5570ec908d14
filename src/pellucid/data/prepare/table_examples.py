"""Rows of a table as numbers, on three sides, and the column to predict: what is wrong with it is said before anything
is trained.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import TableData
from pellucid.data.prepare.examples import Examples, ExampleSides, mean_and_deviation, places_by_hash, standardise
from pellucid.data.prepare.preparations import TablePreparation, learn_columns
from pellucid.data.readers.columns import unknown_column
from pellucid.data.readers.sources import require_memory
from pellucid.data.splits.hashing import Words, numbered_hashes, row_hashes
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    import polars

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


def choose_target(table: TableData, name: str, *, task: str = "", drop_missing: bool = False) -> Target:
    """Take a column as the target, for classification or regression, or say why it cannot be.

    >>> from pellucid.data import open_data
    >>> choose_target(open_data("penguins"), "species").description
    'species: classification into 3 classes (it holds texts); --task regression to predict a number'
    """
    if task and task not in TARGET_TASKS:
        raise PellucidError(f"there is no task called {quoted(task)}", fix="Write classification or regression")
    if name not in table.frame.columns:
        raise unknown_column(name, table.frame.columns, table.name)
    frame, notes = _with_target(table, name, drop_missing)
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
    classes: tuple[str, ...] = ()
    if chosen == "classification":
        classes = _classes(column, table.name, is_number, notes)
    features = _features(frame, name, notes)
    other = next(one for one in TARGET_TASKS if one != chosen)
    what = f"classification into {len(classes)} classes" if classes else "regression"
    asked = "asked for" if task else because
    wants = "predict a number" if other == "regression" else "predict a class"
    return Target(
        name=name,
        task=chosen,
        frame=frame,
        features=features,
        classes=classes,
        description=f"{name}: {what} ({asked}); --task {other} to {wants}",
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


def _with_target(table: TableData, name: str, drop_missing: bool) -> "tuple[polars.DataFrame, list[str]]":
    is_missing = table.frame[name].is_null()
    n_missing = int(is_missing.sum())
    if not n_missing:
        return table.frame, []
    if not drop_missing:
        first = table.place_of(int(is_missing.arg_max() or 0))
        raise PellucidError(
            f"{n_missing:,} rows have no target {quoted(name)} (first: {first})",
            where=f"in {table.name}",
            fix="Try {drop_missing_target}",
            options={"drop_missing_target": True},
        )
    if n_missing == len(table):
        raise PellucidError(f"no row has a target {quoted(name)}", fix="Choose another column")
    return table.frame.filter(~is_missing), [f"{n_missing:,} rows without {name} were left out"]


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


def _features(frame: "polars.DataFrame", target: str, notes: list[str]) -> tuple[str, ...]:
    """The other columns: without those that say nothing, and with a warning for those that say too much."""
    features = []
    for name in frame.columns:
        if name == target:
            continue
        column = frame[name]
        if column.null_count() == len(column) or column.drop_nulls().n_unique() < 2:
            why = "has no value" if column.null_count() == len(column) else "is the same in every row"
            notes.append(f"{name} {why} and was left out")
            continue
        features.append(name)
        leak = _leak(column, frame[target])
        if leak:
            notes.append(f"{name} gives the target away: {leak}")
    if not features:
        raise PellucidError(f"no column is left to predict {quoted(target)} from", fix="Add features to the table")
    n_same = frame.height - frame.unique().height
    if n_same:
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


def table_sides(table: TableData, target: str, *, task: str = "", drop_missing: bool = False) -> ExampleSides:
    """The rows of a table on three sides: those that are equal but for target and order columns share one.

    For reconstruction the target may be "": then every column is read, and nothing is predicted but the row itself.

    >>> from pellucid.data import open_data
    >>> sides = table_sides(open_data("penguins"), "species")
    >>> sides.task, sides.classes, len(sides.train), sides.preparation.numbers_shape, sides.preparation.category_sizes
    ('classification', ('Adelie', 'Chinstrap', 'Gentoo'), 285, (9,), (4, 3))
    """
    require_memory(table.frame.width * len(table) * BYTES_A_CELL, table.name, "Keep fewer rows or columns")
    chosen = _choose(table, target, task, drop_missing)
    task = task or chosen.task
    rows = replace(table, frame=chosen.frame)
    features, notes = _readable(table, chosen.features)
    labels = _labels(chosen) if chosen.classes else np.zeros(len(rows), dtype=np.int64)
    there = np.flatnonzero(table.frame[target].is_not_null().to_numpy()) if target else np.arange(len(table))
    hashes, about_forms = _hashes(rows, set(features), target, there)
    places = places_by_hash(hashes, labels, table.name)
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
            *notes,
            *about_train,
            *about_forms,
        ),
        n_unknown=read.n_unknown,  # train knows all of its own
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


def _choose(table: TableData, target: str, task: str, drop_missing: bool) -> Target:
    """The target and the features, with the notes of rows 31 to 43 of the list of what goes wrong with tables."""
    if target:
        return choose_target(table, target, task="" if task == RECONSTRUCTION else task, drop_missing=drop_missing)
    if task != RECONSTRUCTION:
        names = likely_targets(table)
        some = ", ".join(quoted(name, 24) for name in names[:4])
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        raise PellucidError(
            f"{table.name} is a table, and it is not said which column to predict",
            fix=f"Add {{target}}; it has {some}{more}{'; or read it as {kind}' * (len(names) == 2)}",
            options={"target": names[0], "kind": "pairs"},
        )
    constant = [column.name for column in table.frame.get_columns() if column.drop_nulls().n_unique() < 2]
    features = tuple(name for name in table.frame.columns if name not in constant)
    if not features:
        raise PellucidError(f"every column of {table.name} is the same in all rows", fix="Give it more rows")
    notes = tuple(f"{name} is the same in every row and was left out" for name in constant)
    return Target("", RECONSTRUCTION, table.frame, features, (), "", notes)


def _readable(table: TableData, names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The columns that a network can read, and notes on the others.

    Whole numbers that only grow are most often row numbers; they are read where nothing else is there.
    """
    kinds = {column.name: column.kind for column in table.columns}
    kept = [name for name in names if kinds[name] in ("numeric", "category")]
    if not kept:
        kept = [name for name in names if kinds[name] == "order" and table.frame[name].dtype.is_numeric()]
    read = set(kept)
    why = {"order": "only tells an order", "text": "holds text that names no groups"}
    notes = [f"{name} {why[kinds[name]]} and was left out" for name in names if name not in read]
    if not kept:
        raise PellucidError(
            f"no column of {table.name} holds numbers or categories to predict from",
            fix="Add features to the table",
        )
    return kept, notes


def _labels(chosen: Target) -> NDArray[np.int64]:
    """The place of each row's class; classes stand in the order of their values."""
    column = chosen.frame[chosen.name]
    place = {value: i for i, value in enumerate(column.unique().sort())}
    assert len(place) == len(chosen.classes)
    return np.array([place[value] for value in column], dtype=np.int64)
