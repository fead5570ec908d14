"""Near-duplicates in tables: rows that are equal once what names them is left out and small differences are rounded."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pellucid.data.splits.duplicates import straddles, twins
from pellucid.data.splits.hashing import row_hashes
from pellucid.data.splits.levels import Levels
from pellucid.data.splits.near import folded
from pellucid.data.splits.sides import Sides
from pellucid.records import Straddle

if TYPE_CHECKING:
    import polars as pl

DIGITS = 4  # significant ones that fractions are rounded to
TELLING = 0.5  # below this part of different rows, equality is no sign of a copy


def near_rows(
    frame: "pl.DataFrame",
    levels: Mapping[str, Levels],
    sides: Sides,
    left_out: Sequence[str],
    show: Callable[[int], str],
) -> tuple[list[Straddle], list[str]]:
    """Rows of dev and test that have such a twin in train, and notes where equality would say nothing.

    Left out are the key and order columns and whole numbers that differ in every row, such as an id.
    """
    n = frame.height
    ids = [name for name, one in levels.items() if one.n_levels >= n and _is_id(frame[name], one)]
    without = list(dict.fromkeys([*left_out, *ids]))
    kept = [name for name in frame.columns if name not in without]
    is_same = not without and all(_is_exact(frame[name]) for name in kept)
    if not kept or is_same:
        return [], []
    words = f"without {', '.join(without)}" if without else "after rounding"
    most = float(np.prod([float(levels[name].n_levels) if name in levels else float(n) for name in kept]))
    if most < TELLING * n:
        return [], [_says_nothing(words, int(most), n)]
    hashes = row_hashes(frame.select([_blurred(frame[name]) for name in kept]))
    found = twins(hashes, sides)
    if found.n_distinct < TELLING * n:
        return [], [_says_nothing(words, found.n_distinct, n)]
    what = f"rows equal {words}, fractions to {DIGITS} digits, text without case, spaces and punctuation"
    return straddles(found, sides, what, is_leak=False, show=show), []


def _says_nothing(words: str, n_distinct: int, n: int) -> str:
    return f"near-duplicates not counted: {words}, {n:,} rows have at most {n_distinct:,} different forms"


def _is_id(column: "pl.Series", levels: Levels) -> bool:
    return column.dtype.is_integer() and int((levels.totals() > 0).sum()) == len(column)


def _is_exact(column: "pl.Series") -> bool:
    import polars as pl

    return not column.dtype.is_float() and column.dtype != pl.String


def _blurred(column: "pl.Series") -> "pl.Series":
    import polars as pl

    if column.dtype.is_float():
        return column.round_sig_figs(DIGITS)
    if column.dtype == pl.String:
        distinct = column.drop_nulls().unique()
        return column.replace_strict(distinct, pl.Series([folded(one) for one in distinct.to_list()], dtype=pl.String))
    return column
