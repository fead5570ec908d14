"""The column to predict: what is wrong with it is said before anything is trained."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.data.kinds import TableData
from pellucid.data.readers.columns import unknown_column
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    import polars

TASKS = ("classification", "regression")
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
    said: str
    notes: tuple[str, ...]


def choose_target(table: TableData, name: str, *, task: str = "", drop_missing: bool = False) -> Target:
    """Take a column as the target, for classification or regression, or say why it cannot be.

    >>> from pellucid.data import open_data
    >>> choose_target(open_data("penguins"), "species").said
    'species: classification into 3 classes (it holds texts); --task regression to predict a number'
    """
    if task and task not in TASKS:
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
            f"the target {quoted(name)} is {table.column(name).kind}, not numbers", fix="Try --task classification"
        )
    classes: tuple[str, ...] = ()
    if chosen == "classification":
        classes = _classes(column, table.name, is_number, notes)
    features = _features(frame, name, notes)
    other = next(one for one in TASKS if one != chosen)
    what = f"classification into {len(classes)} classes" if classes else "regression"
    asked = "asked for" if task else because
    wants = "predict a number" if other == "regression" else "predict a class"
    return Target(
        name=name,
        task=chosen,
        frame=frame,
        features=features,
        classes=classes,
        said=f"{name}: {what} ({asked}); --task {other} to {wants}",
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
            fix="Try --drop-missing-target",
        )
    if n_missing == len(table):
        raise PellucidError(f"no row has a target {quoted(name)}", fix="Choose another column")
    return table.frame.filter(~is_missing), [f"{n_missing:,} rows without {name} were left out"]


def _classes(column: "polars.Series", table: str, is_number: bool, notes: list[str]) -> tuple[str, ...]:
    counts = column.value_counts().sort(column.name)
    n = counts.height
    if n > MOST_CLASSES or (is_number and n > len(column) / 2 and n > FEW_NUMBERS):
        fix = "It looks numeric; try --task regression" if is_number else "It looks like an id; choose another column"
        raise PellucidError(f"the target {quoted(column.name)} would have {n:,} classes", fix=fix)
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
