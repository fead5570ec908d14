"""The rows of a small table in parts, each of which is held out once: for cross-validation."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import TableData
from pellucid.data.options import DataOptions
from pellucid.data.prepare.examples import ExampleSides
from pellucid.data.prepare.table_examples import table_sides
from pellucid.data.splits.assignment import DEV, TRAIN
from pellucid.data.splits.hashing import Words

# Strategies that say themselves what is asked with which rows known; and of too few rows nothing is held out.
NOT_FOLDED = ("time", "given", "none")


def fold_sides(table: TableData, sides: ExampleSides, options: DataOptions, n_folds: int) -> Iterator[ExampleSides]:
    """The same table once for each part, which is its dev side; train is all the others, and test is empty.

    What is learned from train before the first step, such as means and categories, is learned anew each time. sides:
    as it is divided for the network that is kept, whose rows belong together here too.
    """
    assert sides.split is not None
    assert sides.words is not None
    there = np.sort(np.concatenate(list(sides.places.values())))
    targets = np.zeros(len(there), dtype=np.int64)
    if sides.task == "classification":
        for side, places in sides.places.items():
            targets[np.searchsorted(there, places)] = getattr(sides, side).targets
    numbers = fold_numbers(sides.words, targets, n_folds)
    group = sides.split.column if sides.split.strategy == "group" else ""
    for fold in range(n_folds):
        of_rows = np.full(len(table), TRAIN, dtype=np.int8)
        of_rows[there[numbers == fold]] = DEV
        yield table_sides(
            replace(table, sides=of_rows),
            options.target,
            task=options.task,
            leave_out=tuple(name for name in (*options.leave_out.split(","), group) if name),
        )


def fold_numbers(words: Words, classes: NDArray[np.int64], n_folds: int) -> NDArray[np.int64]:
    """The part of each row, (row,): rows with equal words share one, and every class is dealt out evenly.

    >>> fold_numbers(np.array([7, 7, 1, 2, 3, 4], dtype=np.uint64), np.array([0, 0, 0, 0, 1, 1]), 2).tolist()
    [0, 0, 0, 1, 1, 0]
    """
    forms, first, of_row = np.unique(words, return_index=True, return_inverse=True)
    order = np.lexsort((forms, classes[first]))  # by class, then by hash
    numbers = np.empty(len(forms), dtype=np.int64)
    numbers[order] = np.arange(len(forms)) % n_folds
    return numbers[of_row]
