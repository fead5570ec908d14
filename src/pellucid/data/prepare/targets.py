"""The column of a table that is to be predicted, and what is wrong with it, said before anything is trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.data.kinds import TableData, unknown_column
from pellucid.data.splits.leaks import find_leaks
from pellucid.errors import PellucidError, quoted, require_one_of
from pellucid.records import Leak, Statement, make_note

if TYPE_CHECKING:
    import polars

TARGET_TASKS = ("classification", "regression")
FEW_NUMBERS = 10  # so many different whole numbers are taken for classes
MOST_CLASSES = 1_000
# Names that people give to what is to be predicted.
USUAL_TARGETS = ("target", "label", "class", "outcome")


@dataclass(frozen=True)
class Target:
    """A table that is ready to be learned from."""

    name: str
    task: str
    frame: "polars.DataFrame"  # without the rows that miss the target
    features: tuple[str, ...]
    classes: tuple[str, ...]  # empty for regression
    notes: tuple[Statement, ...]  # the first says how it is predicted, and why
    leaks: tuple[Leak, ...] = ()  # features that give the target away


def choose_target(table: TableData, name: str, *, task: str = "", refuse_missing: bool = False) -> Target:
    """Take a column as the target, for classification or regression, or say why it cannot be.

    >>> from pellucid.data import open_data
    >>> choose_target(open_data("penguins"), "species").notes[0]
    Statement(kind='target', facts={'column': 'species', 'n_classes': 3, 'because': 'texts'})
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
    because = "texts" if not is_number else "few whole numbers" if is_few else "numbers"
    chosen = task or ("classification" if not is_number or is_few else "regression")
    if chosen == "regression" and not is_number:
        raise PellucidError(
            f"the target {quoted(name)} is {table.column(name).kind}, not numbers",
            fix="Try {task}",
            options={"task": "classification"},
        )
    classes = _classes(column, table.name, is_number, notes) if chosen == "classification" else ()
    features = usable_features(table.name, frame, name, notes)
    described = make_note("target", column=name, n_classes=len(classes), because="asked" if task else because)
    return Target(
        name=name,
        task=chosen,
        frame=frame,
        features=features,
        classes=classes,
        notes=(described, *notes),
        leaks=find_leaks(frame, _tellable(table, features), name, is_class=bool(classes)),
    )


def _tellable(table: TableData, features: Sequence[str]) -> list[str]:
    """The features that a network could read the target off."""
    kinds = {column.name: column.kind for column in table.columns}
    return [name for name in features if kinds[name] in ("numeric", "category")]


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


def _with_target(table: TableData, name: str, refuse_missing: bool) -> "tuple[polars.DataFrame, list[Statement]]":
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
    note = make_note("rows-without-target", n=n_missing, n_all=len(table), target=name)
    return table.frame.filter(~is_missing), [note]


def _classes(column: "polars.Series", table: str, is_number: bool, notes: list[Statement]) -> tuple[str, ...]:
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
        notes.append(make_note("single-members", n=single))
    return tuple(str(value) for value in counts[column.name])


def usable_features(table: str, frame: "polars.DataFrame", target: str, notes: list[Statement]) -> tuple[str, ...]:
    """The other columns: without those that say nothing, and with a warning for those that say too much."""
    features = []
    for column in frame.get_columns():
        if column.name == target:
            continue
        if column.drop_nulls().n_unique() < 2:
            why = "empty" if column.null_count() == len(column) else "constant"
            notes.append(make_note("left-out", column=column.name, why=why))
            continue
        features.append(column.name)
    if not features and target:
        raise PellucidError(f"no column is left to predict {quoted(target)} from", fix="Add features to the table")
    if not features:
        raise PellucidError(f"every column of {table} is the same in all rows", fix="Give it more rows")
    if n_same := frame.height - frame.unique().height:
        notes.append(make_note("repeated-rows", n=n_same))
    return tuple(features)
