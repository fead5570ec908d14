"""Columns from which alone the target can be told: its copy, its code, what is known only after it.

Each column is asked by itself, and each row is answered by the others: by the rows with the same value, or of numbers
by the two nearest on either side. A number that follows the target in a straight line is a copy. A column that is
missing exactly where the target has one value, as a date of death is, tells it as well.

A column may tell the target and be sound; who knows where it comes from can judge. It is said, and nothing is left out.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits.hashing import numbered_hashes
from pellucid.records import Leak

if TYPE_CHECKING:
    import polars as pl

Codes = NDArray[np.int64]

SURE = 0.999  # a correlation that only a copy has
FORETOLD = 0.99  # of the errors of the commonest class; of the variance it is SURE squared
FEWEST_ROWS = 20
FEWEST_ERRORS = 10  # that the commonest class makes, for less may be chance
NEAREST = 2  # rows on either side
MOST_CELLS = 20_000_000  # of a table of values by classes


def find_leaks(frame: "pl.DataFrame", features: Sequence[str], target: str, *, is_class: bool) -> tuple[Leak, ...]:
    """The features that give the target away. Every row has a target."""
    if frame.height < FEWEST_ROWS:
        return ()
    truth = frame[target]
    codes = _codes(truth)
    numbers = truth.to_numpy().astype(np.float64) if truth.dtype.is_numeric() else None
    found = []
    for name in features:
        leak = _copy(frame[name], numbers) if numbers is not None else None
        leak = leak or (_tells_class(frame[name], codes) if is_class else _tells_number(frame[name], numbers))
        if leak is not None:
            found.append(leak)
    return tuple(found)


def _copy(column: "pl.Series", target: NDArray[np.float64]) -> Leak | None:
    """The target in other units, such as in pence."""
    if not column.dtype.is_numeric():
        return None
    there = column.is_not_null().to_numpy()
    values, wanted = column.drop_nulls().to_numpy().astype(np.float64), target[there]
    if len(values) < FEWEST_ROWS or _is_constant(values) or _is_constant(wanted):
        return None
    correlation = float(np.corrcoef(values / np.abs(values).max(), wanted / np.abs(wanted).max())[0, 1])
    return Leak(column.name, "copy", correlation) if abs(correlation) >= SURE else None


def _tells_class(column: "pl.Series", target: Codes) -> Leak | None:
    if column.null_count():
        share = avoided_errors(column.is_null().to_numpy().astype(np.int64), target)
        if share >= FORETOLD:
            return Leak(column.name, "missing", share)
    codes = _codes(column)
    if (int(codes.max()) + 1) * (int(target.max()) + 1) > MOST_CELLS:
        return None
    share = avoided_errors(codes, target)
    if share < FORETOLD and column.dtype.is_numeric() and not column.null_count():
        share = _avoided_by_nearest(codes, target)
    return Leak(column.name, "foretells", share) if share >= FORETOLD else None


def avoided_errors(codes: Codes, target: Codes) -> float:
    """The part of the commonest class's errors that rows with the same value avoid, each row left out once.

    >>> avoided_errors(np.repeat([0, 1, 2, 3], 10), np.repeat([0, 1], 20))
    1.0
    >>> avoided_errors(np.arange(40), np.repeat([0, 1], 20))  # a value that occurs once tells nothing
    -1.0
    """
    n_errors = _errors_of_commonest(target)
    if n_errors < FEWEST_ERRORS:
        return 0.0
    n_classes = int(target.max()) + 1
    counts = np.bincount(codes * n_classes + target, minlength=(int(codes.max()) + 1) * n_classes)
    counts = counts.reshape(-1, n_classes)
    first = counts.max(axis=1)
    is_only = (counts == first[:, None]).sum(axis=1) == 1
    # A row of the commonest class is told by the others if one of them is left over the next class.
    second = np.partition(counts, -2, axis=1)[:, -2]
    right = np.where(is_only & (first - 1 > second), first, 0).sum()
    return float(1 - (len(target) - right) / n_errors)


def _avoided_by_nearest(codes: Codes, target: Codes) -> float:
    """The same, where a row is told by its nearest; half of them are enough, for a class ends somewhere."""
    n_errors = _errors_of_commonest(target)
    if n_errors < FEWEST_ERRORS:
        return 0.0
    order, beside = _nearest(codes)
    is_right = (target[beside] == target[order][:, None]).sum(axis=1) >= NEAREST
    return float(1 - np.count_nonzero(~is_right) / n_errors)


def _tells_number(column: "pl.Series", target: NDArray[np.float64] | None) -> Leak | None:
    if target is None or column.null_count():
        return None
    codes = _codes(column)
    ranks = np.argsort(np.argsort(target, kind="stable"), kind="stable").astype(np.float64)
    if column.dtype.is_numeric():
        order, beside = _nearest(codes)
        errors = ranks[order] - ranks[beside].mean(axis=1)
    else:
        sizes = np.bincount(codes)
        others = np.bincount(codes, weights=ranks)[codes] - ranks
        errors = np.where(sizes[codes] > 1, ranks - others / np.maximum(sizes[codes] - 1, 1), ranks - ranks.mean())
    whole = float(((ranks - ranks.mean()) ** 2).sum())
    foretold = 1 - float((errors**2).sum()) / whole if whole and not _is_constant(target) else 0.0
    return Leak(column.name, "foretells", foretold) if foretold >= SURE**2 else None


def _nearest(codes: Codes) -> tuple[Codes, Codes]:
    """The rows in the order of the codes, and (row, 2 NEAREST) those that stand beside each.

    Rows with equal codes come in any order but the file's, which may be that of the target.
    """
    n = len(codes)
    order = np.lexsort((numbered_hashes(n, seed=""), codes))
    places = np.arange(n)[:, None] + np.array([shift for shift in range(-NEAREST, NEAREST + 1) if shift])
    # At either end all of the nearest stand on one side.
    window = 2 * NEAREST + 1
    places = np.where(places < 0, places + window, np.where(places >= n, places - window, places))
    return order, order[places]


def _codes(column: "pl.Series") -> Codes:
    """The place of each value among the different ones; of a missing cell one of its own."""
    if column.dtype.is_numeric():
        # By NumPy: a table may have ten thousand such columns.
        values = column.cast(float).to_numpy()
        return np.unique(values, return_inverse=True, equal_nan=True)[1].astype(np.int64)
    codes: Codes = column.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    return codes - int(codes.min())


def _errors_of_commonest(target: Codes) -> int:
    return len(target) - int(np.bincount(target).max())


def _is_constant(values: NDArray[np.float64]) -> bool:
    return bool(values.min() == values.max())
