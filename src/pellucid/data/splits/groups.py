"""Which column names the thing that several rows are about: a customer, a patient, a man asked in eight years.

Rows of one group on two sides are a leak that no comparison of rows finds: dev then asks about people that train
knows. A column is taken for a group when three things hold. Its values repeat. It names rather than measures: by its
name, or because the rows of each value stand together in the file, or because its rows nearly always share the target.
And its rows are alike far beyond chance: they share the target, or other columns never change within a group.

How alike is told by the intraclass correlation: 1 where all rows of a group are equal, 0 where a group tells nothing.
Of whole numbers only what the neighbouring values do not tell as well counts, or else age would be a group.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import TableData
from pellucid.data.splits.distributions import Levels, levels_of
from pellucid.records import GroupColumn

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]

FEWEST_GROUPS = 30  # with fewer, dev and test would have less than about three groups each
FEWEST_ROWS_EACH = 2.0
MOST_LOOKED_AT = 200  # columns that are tried as groups, and that are compared within one
TOGETHER = 1.1  # runs of equal values for each group, up to which rows of a group stand together
FAR = 5.0  # deviations above chance
SHARED = 0.1  # intraclass correlation from which on rows share their target
NEARLY_ALWAYS = 0.8
ALIKE = 0.3  # of another column
MANY = 1 / 3  # of the other columns
NEIGHBOURS = 3  # values on each side
MOST_CLASSES = 50
FEW_NUMBERS = 10  # so many different numbers are classes
COMMON = 0.95  # a column with one value this often is the same within groups by chance
_ID = re.compile(r"(^|[^a-z])(id|ids|uuid|guid|nr)([^a-z]|$)")
_NOUNS = {
    *("account", "animal", "author", "client", "company", "customer", "device", "donor", "family", "firm"),
    *("household", "individual", "member", "participant", "patient", "person", "player", "pupil", "respondent"),
    *("school", "session", "speaker", "student", "subject", "user", "visitor"),
}


def is_identifier_name(name: str) -> bool:
    """Whether people call a column so that tells who or what a row is about.

    >>> [is_identifier_name(name) for name in ("id", "CustomerId", "patient", "store_id", "paid", "width")]
    [True, True, True, True, False, False]
    """
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    return bool(_ID.search(words)) or not _NOUNS.isdisjoint(re.split(r"[^a-z]+", words))


def find_group(table: TableData, target: str = "", levels: Mapping[str, Levels] | None = None) -> GroupColumn | None:
    """The column that the rows hang together by, if there is one; the surest where there are several.

    levels: of columns whose levels are known already.
    """
    frame = table.frame
    if frame.height < FEWEST_GROUPS * FEWEST_ROWS_EACH:
        return None
    truth = target_columns(frame[target]) if target else None
    known = dict(levels or {})
    tried = [column for column in frame.get_columns() if column.name != target and _could_group(column, known)]
    found = [_examine(column, table, target, truth, known) for column in tried[:MOST_LOOKED_AT]]
    sure = [one for one in found if one is not None]
    return max(sure, key=lambda one: (one.is_named, one.is_together, one.shared_target), default=None)


def _could_group(column: "pl.Series", known: Mapping[str, Levels]) -> bool:
    import polars as pl

    if column.null_count() or not (column.dtype.is_integer() or column.dtype == pl.String):
        return False
    levels = known.get(column.name)
    n = column.n_unique() if levels is None else int(np.count_nonzero(levels.totals))
    return FEWEST_GROUPS <= n <= len(column) / FEWEST_ROWS_EACH


def _examine(
    column: "pl.Series", table: TableData, target: str, truth: Floats | None, known: dict[str, Levels]
) -> GroupColumn | None:
    if column.name not in known:
        known[column.name] = levels_of(column)
    levels = known[column.name]
    is_there = levels.totals > 0
    n_groups = int(np.count_nonzero(is_there))
    if n_groups < FEWEST_GROUPS:
        return None
    is_number = column.dtype.is_integer()
    is_named = is_identifier_name(column.name)
    is_together = 1 + int(np.count_nonzero(levels.codes[1:] != levels.codes[:-1])) <= TOGETHER * n_groups
    is_sorted_number = is_number and not is_named and table.column(column.name).kind == "order"
    if is_sorted_number or not (is_named or is_together or truth is not None):
        return None
    codes = (np.cumsum(is_there) - 1)[levels.codes]
    shared, is_far = 0.0, False
    if truth is not None:
        shared, is_far = intraclass(beyond_neighbours(truth, codes) if is_number else truth, codes)
    if not (is_named or is_together or (is_far and shared >= NEARLY_ALWAYS)):
        return None
    same, n_alike, n_others = _alike(codes, column.name, table, target, known)
    if not (is_far and shared >= SHARED) and not same and n_alike < MANY * max(1, n_others):
        return None
    return GroupColumn(
        column.name, n_groups, len(codes), max(0.0, shared), same, n_alike, n_others, is_named, is_together
    )


def _alike(
    codes: NDArray[np.int64], name: str, table: TableData, target: str, known: dict[str, Levels]
) -> tuple[tuple[str, ...], int, int]:
    """The columns that never change within a group, how many are alike in it, and how many were looked at."""
    others = [
        one.name for one in table.columns if one.name not in (name, target) and one.kind in ("numeric", "category")
    ]
    n_groups = int(codes.max()) + 1
    same, n_alike = [], 0
    for other in others[:MOST_LOOKED_AT]:
        if other not in known:
            known[other] = levels_of(table.frame[other])
        levels = known[other]
        shares = levels.totals[levels.totals > 0] / len(codes)
        if len(shares) < 2 or shares.max() > COMMON:
            continue
        # One value for each group is another name of the group, or a number of its own, and says nothing.
        if 2 * len(shares) <= n_groups and _never_changes(levels.codes, codes, n_groups):
            same.append(other)
        correlation, is_far = intraclass((levels.codes / max(1, levels.n_levels))[:, None], codes)
        n_alike += int(is_far and correlation >= ALIKE)
    return tuple(same), n_alike, len(others[:MOST_LOOKED_AT])


def _never_changes(values: NDArray[Any], codes: NDArray[np.int64], n_groups: int) -> bool:
    first = np.zeros(n_groups, dtype=np.int64)
    first[codes] = values
    return bool((first[codes] == values).all())


def target_columns(target: "pl.Series") -> Floats:
    """(row, class) of 0 and 1, or (row, 1) of ranks between 0 and 1: what rows of a group may share."""
    if target.dtype.is_numeric() and target.n_unique() > FEW_NUMBERS:
        return (target.rank().fill_null(len(target) / 2).to_numpy().astype(np.float64) / len(target))[:, None]
    codes = target.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    largest = np.argsort(-np.bincount(codes), kind="stable")[:MOST_CLASSES]
    one_hot: Floats = (codes[:, None] == largest).astype(np.float64)
    return one_hot


def intraclass(values: Floats, codes: NDArray[np.int64]) -> tuple[float, bool]:
    """How alike the rows of a group are, and whether that is far beyond chance; values: (row, column).

    >>> codes = np.repeat(np.arange(100), 5)
    >>> intraclass((codes % 2)[:, None].astype(float), codes)
    (1.0, True)
    >>> intraclass(np.tile([0.0, 1.0], 250)[:, None], codes)[1]
    False
    """
    n, sizes = len(values), np.bincount(codes).astype(np.float64)
    n_groups = len(sizes)
    whole = float(((values - values.mean(0)) ** 2).sum()) if values.size else 0.0
    if n <= n_groups or whole <= 0:
        return 0.0, False
    sums = np.stack([np.bincount(codes, weights=column, minlength=n_groups) for column in values.T], axis=1)
    between = float((sizes[:, None] * (sums / sizes[:, None] - values.mean(0)) ** 2).sum())
    mean_between, mean_within = between / (n_groups - 1), max(0.0, whole - between) / (n - n_groups)
    usual_size = (n - float((sizes**2).sum()) / n) / (n_groups - 1)
    correlation = (mean_between - mean_within) / (mean_between + (usual_size - 1) * mean_within)
    # By chance the ratio of the two is 1, with a deviation of about the root of 2 / groups.
    return correlation, bool(mean_between > mean_within * (1 + FAR * np.sqrt(2 / (n_groups - 1))))


def beyond_neighbours(values: Floats, codes: NDArray[np.int64]) -> Floats:
    """What is left of the values once the rows with the nearest other codes have been asked. (row, column)"""
    sizes = np.bincount(codes).astype(np.float64)
    left = np.empty_like(values)
    low = np.maximum(np.arange(len(sizes)) - NEIGHBOURS, 0)
    high = np.minimum(np.arange(len(sizes)) + NEIGHBOURS + 1, len(sizes))
    upto = np.concatenate([[0.0], np.cumsum(sizes)])
    n_near = upto[high] - upto[low] - sizes
    for place, column in enumerate(values.T):
        sums = np.bincount(codes, weights=column, minlength=len(sizes))
        upto_sums = np.concatenate([[0.0], np.cumsum(sums)])
        near = (upto_sums[high] - upto_sums[low] - sums) / np.maximum(n_near, 1)
        left[:, place] = column - near[codes]
    return left
