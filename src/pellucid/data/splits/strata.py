"""Strata: quantile bins of a numeric column, the tail in bins of its own, jointly with other columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits.levels import Levels
from pellucid.data.splits.sides import MOST_STRATA, SMALLEST_STRATUM
from pellucid.errors import PellucidError

DECILES = tuple(tenth / 10 for tenth in range(1, 10))
ROWS_FOR_A_SIDE = 10  # the fewest that the smallest side shall get of a tail bin
MOST_VALUES = 100  # of a column that divides bins further


@dataclass(frozen=True)
class Strata:
    """codes: (row,) -> stratum. bins: (row,) -> quantile bin, rising with the value."""

    codes: NDArray[Any]
    bins: NDArray[Any]
    marks: tuple[float, ...]  # the parts of the rows at which bins end, such as 0.1 ... 0.9, 0.99
    n_strata: int
    n_too_small: int  # strata with fewer rows than sides; their rows train


def strata_of(by: Levels, together_with: Sequence[Levels], smallest_fraction: float) -> Strata:
    """Deciles of `by`, then the top 1 %, 0.1 %, ... while every side gets rows of them, times the other columns."""
    if not by.is_numeric:
        raise PellucidError(f"{by.name} is no numeric column, so it has no quantiles", fix="Name another with --by")
    totals = by.totals()
    cumulated = np.cumsum(totals[: len(by.values)])
    n = int(cumulated[-1]) if len(cumulated) else 0
    marks = [*DECILES, *_tail_marks(n, smallest_fraction)]
    ends = {int(np.searchsorted(cumulated, math.ceil(mark * n - 1e-9))): mark for mark in reversed(marks)} if n else {}
    # Bins are bounded by values, so equal values share a bin, and bins without rows of their own vanish.
    bin_of_level = np.searchsorted(np.array(sorted(ends)), np.arange(by.n_levels), "left")
    if by.has_missing:
        bin_of_level[-1] = bin_of_level.max() + 1
    bins = bin_of_level.astype(np.uint16)[by.codes]
    codes = bins.astype(np.uint32)
    n_cells = int(bin_of_level.max()) + 1
    for other in together_with:
        if other.n_levels > MOST_VALUES:
            raise PellucidError(
                f"{other.name} has {other.n_levels:,} different values, too many to stratify by",
                fix=f"Name a column with at most {MOST_VALUES}",
            )
        n_cells *= other.n_levels
        if n_cells > MOST_STRATA:
            raise PellucidError(f"these columns make {n_cells:,} strata", fix="Leave one out of --with")
        codes *= np.uint32(other.n_levels)
        codes += other.codes.astype(np.uint32)
    sizes = np.bincount(codes)
    n_too_small = int(((sizes > 0) & (sizes < SMALLEST_STRATUM)).sum())
    return Strata(codes, bins, tuple(ends[end] for end in sorted(ends)), int((sizes > 0).sum()), n_too_small)


def _tail_marks(n: int, smallest_fraction: float) -> list[float]:
    """
    >>> _tail_marks(1_700_000, 0.1)
    [0.99, 0.999, 0.9999]
    """
    marks = []
    for digits in range(2, 10):
        if n * 10.0**-digits * smallest_fraction < ROWS_FOR_A_SIDE:
            break
        marks.append(round(1 - 10.0**-digits, digits))
    return marks
