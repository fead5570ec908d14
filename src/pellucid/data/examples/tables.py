"""A table divided and in numbers, with everything that the user should hear of it."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pellucid.data.examples.sides import Examples, ExampleSides, places_by_hash
from pellucid.data.examples.standard import mean_and_deviation, standardised
from pellucid.data.examples.table_preparation import TablePreparation, learned_columns
from pellucid.data.kinds import TableData
from pellucid.data.readers.sources import require_memory
from pellucid.data.splits.hashing import Words, numbered_hashes, row_hashes
from pellucid.data.targets import Target, choose_target
from pellucid.errors import PellucidError, quoted

RECONSTRUCTION = "reconstruction"
# Names that people give to what is to be predicted.
USUAL_TARGETS = ("target", "label", "class", "outcome")
REPEATED = 10  # a table whose rows occur so often each, on average, counts cases of a few kinds
BYTES_A_CELL = 4 + 8 + 8  # float32 for the network, and float64 twice on the way


def table_sides(table: TableData, target: str, *, task: str = "", drop_missing: bool = False) -> ExampleSides:
    """The rows of a table on three sides: those that are equal but for target and order columns share one.

    For reconstruction the target may be "": then every column is read, and nothing is predicted but the row itself.

    >>> from pellucid.data import open_data
    >>> sides = table_sides(open_data("penguins"), "species")
    >>> sides.task, sides.classes, len(sides.train), sides.preparation.numbers_shape, sides.preparation.category_sizes
    ('classification', ('Adelie', 'Chinstrap', 'Gentoo'), 285, (9,), (4, 3))
    """
    require_memory(table.frame.width * len(table) * BYTES_A_CELL, table.name, "Keep fewer rows or columns")
    chosen = _chosen(table, target, task, drop_missing)
    task = task or chosen.task
    rows = replace(table, frame=chosen.frame)
    features, notes = _readable(table, chosen.features)
    labels = _labels(chosen) if chosen.classes else np.zeros(len(rows), dtype=np.int64)
    there = np.flatnonzero(table.frame[target].is_not_null().to_numpy()) if target else np.arange(len(table))
    hashes, about_forms = _hashes(rows, set(features), target, there)
    places = places_by_hash(hashes, labels, table.name)
    numeric, categories, about_train = learned_columns(rows, features, places["train"])
    if not numeric and not categories:
        raise PellucidError(f"every column of {table.name} is the same in all of train", fix="Give it more rows")
    preparation = TablePreparation(numeric, categories, target, task, chosen.classes)
    targets: NDArray[np.int64] | NDArray[np.float32] = labels
    if target and not chosen.classes:
        values = rows.frame[target].cast(float).to_numpy()
        mean, deviation = mean_and_deviation(values[places["train"]])
        preparation = replace(preparation, mean=mean, deviation=deviation)
        targets = standardised(values, mean, deviation)
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
        notes=(*([chosen.said] if chosen.said else []), *chosen.notes, *notes, *about_train, *about_forms),
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


def _chosen(table: TableData, target: str, task: str, drop_missing: bool) -> Target:
    """The target and the features, with the notes of rows 31 to 43 of the list of what goes wrong with tables."""
    if target:
        return choose_target(table, target, task="" if task == RECONSTRUCTION else task, drop_missing=drop_missing)
    if task != RECONSTRUCTION:
        names = likely_targets(table)
        some = ", ".join(quoted(name, 24) for name in names[:4])
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        raise PellucidError(
            f"{table.name} is a table, and it is not said which column to predict",
            fix=f"Add --target {names[0]}; it has {some}{more}{'; or read it as --kind pairs' * (len(names) == 2)}",
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
