"""Whole numbers that name rather than measure, such as the number of a school: they are read as categories too.

As a number alone, school 12 stands between 11 and 13, and a network that reads a few intervals of it cannot tell them
apart, where trees can. How it is told: rows with the same number share their target far beyond chance, and what they
share is not told by the neighbouring numbers as well, as it is of ages.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import Column, TableData
from pellucid.data.splits.groups import beyond_neighbours, intraclass, target_columns

FEWEST_VALUES, MOST_VALUES = 20, 500
ROWS_EACH = 10  # on average, below which a vector for each number would be learned by heart
SHARED = 0.02  # intraclass correlation beyond the neighbours, and
UNORDERED = 0.5  # so much of that with them: the order of the numbers tells little
MOST_LOOKED_AT = 200  # columns
VALUE = "value"


def value_name(column: str) -> str:
    """What the categories are called that such numbers are read as.

    >>> value_name("school")
    'school (value)'
    """
    return f"{column} ({VALUE})"


def named_numbers(table: TableData, target: str, names: Sequence[str], train: NDArray[np.int64]) -> tuple[str, ...]:
    """Of these columns the whole numbers that name rather than measure, by the rows of train alone."""
    if not target:
        return ()
    truth, found = target_columns(table.frame[target][train]), []
    is_whole = {name for name, dtype in table.frame.schema.items() if dtype.is_integer()}
    whole = [name for name in names if name in is_whole]
    for name in whole[:MOST_LOOKED_AT]:
        column = table.frame[name][train]
        n_values = column.n_unique()
        if column.null_count() or not FEWEST_VALUES <= n_values <= min(MOST_VALUES, len(column) / ROWS_EACH):
            continue
        codes = column.rank("dense").to_numpy().astype(np.int64) - 1
        beyond, is_far = intraclass(beyond_neighbours(truth, codes), codes)
        if is_far and beyond >= max(SHARED, UNORDERED * intraclass(truth, codes)[0]):
            found.append(name)
    return tuple(found)


def with_values(table: TableData, names: Sequence[str]) -> TableData:
    """The table with a column of categories behind it for each of these columns of numbers, if it has them."""
    there = [name for name in names if name in table.frame.columns]
    if not there:
        return table
    values = [table.frame[name].cast(str).alias(value_name(name)) for name in there]
    columns = (*table.columns, *(Column(one.name, "category", one.null_count()) for one in values))
    return replace(table, frame=table.frame.with_columns(values), columns=columns)
