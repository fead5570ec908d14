"""Numbers by how many deviations they stand from the mean, whatever their size, and never nan."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

FARTHEST = 1e4  # deviations; what stands farther out counts as that, so that float32 holds it


def mean_and_deviation(values: Numbers) -> tuple[float, float]:
    """Of the values that are there; the deviation of equal values is 1, so that they become 0 and not nan.

    >>> mean_and_deviation(np.array([1.0, 3.0, np.nan])), mean_and_deviation(np.array([7.0, 7.0]))
    ((2.0, 1.0), (7.0, 1.0))
    >>> mean_and_deviation(np.array([-1e308, 1e308]))
    (0.0, 1e+308)
    """
    there = values[~np.isnan(values)]
    largest = float(np.abs(there).max(initial=0.0))
    if not largest:
        return 0.0, 1.0
    # Divided by the largest, so that neither a sum nor a square leaves the range of a float64.
    scaled = there / largest
    deviation = float(scaled.std()) * largest
    # Equal values may leave a deviation of a rounding error behind.
    is_constant = there.min() == there.max() or not deviation
    return float(scaled.mean()) * largest, 1.0 if is_constant else deviation


def standardised(values: Numbers, mean: float, deviation: float) -> NDArray[np.float32]:
    """(values − mean) / deviation, at most FARTHEST from 0; a missing value becomes 0, the mean.

    >>> standardised(np.array([1.0, 3.0, np.nan, 1e300]), 2.0, 1.0).tolist()
    [-1.0, 1.0, 0.0, 10000.0]
    """
    with np.errstate(over="ignore"):
        # Halved, for the difference of two huge numbers may be larger than any float64.
        far = (values / 2 - mean / 2) / deviation * 2
    kept: NDArray[np.float32] = np.clip(
        np.nan_to_num(far, nan=0.0, posinf=FARTHEST, neginf=-FARTHEST), -FARTHEST, FARTHEST
    ).astype(np.float32)
    return kept
