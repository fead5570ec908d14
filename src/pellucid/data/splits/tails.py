"""How heavy the upper end of a numeric column is: mean beside median, quantiles, Hill's tail index, and its histogram
by equal steps and by powers of ten.

Everything is told by how many rows stand on each level, so that millions of rows are sorted at most once.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pellucid.data.kinds import ListData, TableData, unknown_column
from pellucid.data.splits import SIDES
from pellucid.data.splits.distributions import FEWEST_ROWS, Counts, Levels, levels_of
from pellucid.errors import PellucidError, quoted
from pellucid.records import ColumnHistogram, HeavyTail, HistogramBar, Survival, Tail

FEWEST_OF_TAIL = 10  # values that the tail index is taken from, at least
PART_OF_TAIL = 100  # one row in so many, where that is more
MOST_STEPS = 400  # of a survival curve that a picture can show
LARGEST_VALUE = 1e100  # whose cube is still a number
LENGTH = "length"  # of the items of a list, which has no columns


def heavy_tail(levels: Levels) -> HeavyTail | None:
    """Skewness and Hill's tail index of a numeric column; None where there is no positive tail to speak of."""
    counts = levels.totals[: len(levels.values)]
    n = int(counts.sum())
    if not levels.is_numeric or n < FEWEST_ROWS or len(levels.values) < 3:
        return None
    values = levels.values.astype(np.float64)
    if not np.isfinite(values).all():
        return None
    skewness = _skewness(values, counts)
    tail_index = hill(values, counts, size_of_tail(n))
    if not math.isfinite(skewness) or tail_index is None:
        return None
    return HeavyTail(levels.name, skewness, tail_index)


def _skewness(values: NDArray[np.float64], counts: Counts) -> float:
    n = int(counts.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        centred = values - np.dot(values, counts) / n
        variance = float(np.dot(centred**2, counts) / n)
        return float(np.dot(centred**3, counts) / n) / variance**1.5 if variance > 0 else 0.0


def size_of_tail(n: int) -> int:
    """The number of the greatest values that the tail index of n is taken from.

    >>> size_of_tail(1_000), size_of_tail(1_700_000)
    (10, 17000)
    """
    return max(FEWEST_OF_TAIL, n // PART_OF_TAIL)


def hill(values: NDArray[np.float64], counts: NDArray[np.int64], n_top: int) -> float | None:
    """Hill's estimate of the tail index from the n_top greatest: 1 / mean(log(x / x_next)).

    The lower, the heavier: below 2 the variance does not settle as rows are added, below 1 not even the mean.
    values rise; counts says how often each occurs.

    >>> hill(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 1]), 2) == 1 / (1.5 * math.log(2))
    True
    """
    from_top = np.cumsum(counts[::-1])
    last = int(np.searchsorted(from_top, n_top))
    below = int(np.searchsorted(from_top, n_top + 1))
    if below >= len(values) or values[::-1][below] <= 0:
        return None
    weights = counts[::-1][: last + 1].astype(np.float64)
    weights[-1] -= from_top[last] - n_top
    excess = float(np.dot(np.log(values[::-1][: last + 1] / values[::-1][below]), weights)) / n_top
    return 1 / excess if excess > 0 else math.inf


def quantile(levels: Levels, counts: NDArray[np.int64], part: float) -> float | None:
    """The least value that at least this part of the rows does not exceed; None where there are no rows."""
    n = int(counts.sum())
    if not n:
        return None
    return float(levels.values[int(np.searchsorted(np.cumsum(counts), math.ceil(part * n - 1e-9)))])


def median(levels: Levels, counts: Counts) -> float | None:
    """The middle value, or the mean of the two middle ones; None where there are no rows."""
    n = int(counts.sum())
    if not n:
        return None
    cumulated = np.cumsum(counts)
    low, high = (float(levels.values[int(np.searchsorted(cumulated, place))]) for place in ((n + 1) // 2, n // 2 + 1))
    return low + (high - low) / 2


def most_telling(tails: Iterable[HeavyTail]) -> HeavyTail | None:
    """The heaviest tail; the most skewed one where none is heavy."""
    found = list(tails)
    heavy = [tail for tail in found if tail.is_heavy]
    if heavy:
        return min(heavy, key=lambda tail: tail.tail_index)
    return max(found, key=lambda tail: tail.skewness, default=None)


def tails(levels: Levels, counts: Counts, sides: Sequence[str] = SIDES) -> list[Tail]:
    """The tail of the whole table and of each side. counts: (level, side). sides: that there are."""
    present = counts[: len(levels.values)]
    whole = present.sum(axis=1)
    threshold = quantile(levels, whole, 0.99)
    named = [("all", whole), *[(side, present[:, SIDES.index(side)]) for side in sides]]
    return [_tail(levels, side, column, threshold) for side, column in named]


def _tail(levels: Levels, side: str, counts: Counts, threshold: float | None) -> Tail:
    """The tail of some rows. threshold: above which the top 1 % of all rows are."""
    n = int(counts.sum())
    values = levels.values.astype(np.float64)
    above = float(counts[levels.values > threshold].sum() / n) if threshold is not None and n else None
    q90, q99, q999, largest = (quantile(levels, counts, part) for part in (0.9, 0.99, 0.999, 1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.dot(values, counts)) / n if n else math.nan
    index = hill(values, counts, size_of_tail(n)) if n >= FEWEST_ROWS and np.isfinite(values).all() else None
    return Tail(
        column=levels.name,
        side=side,
        mean=mean if math.isfinite(mean) else None,
        median=median(levels, counts),
        q90=q90,
        q99=q99,
        q999=q999,
        largest=largest,
        top_share=above,
        tail_index=index,
        n_top=size_of_tail(n) if index is not None else 0,
    )


def measure_histogram(data: TableData | ListData, column: str = "", bins: int = 60) -> ColumnHistogram:
    """A numeric column of a table, or the lengths of a list's items: its histogram, its tail, and that of each side.

    Without a column it is the one with the heaviest tail; where none is heavy, the most skewed.
    """
    levels = choose_levels(data, column)
    is_finite = np.isfinite(levels.values.astype(np.float64))
    sides = np.zeros(len(data), np.int8) if data.sides is None else data.sides
    counts = levels.counts(sides, len(SIDES))[: len(levels.values)][is_finite]
    levels = Levels(levels.name, True, levels.values[is_finite], levels.codes, levels.has_missing)
    total = counts.sum(axis=1)
    n = int(total.sum())
    if not n:
        raise PellucidError(
            f"{quoted(levels.name)} holds no number",
            where=f"in {data.name}",
            fix="Name another {column}",
            options={"column": None},
        )
    values = levels.values.astype(np.float64)
    if np.abs(values).max() > LARGEST_VALUE:
        raise PellucidError(
            f"{quoted(levels.name)} holds {values[np.abs(values).argmax()]:g}, too large for a mean and a deviation",
            where=f"in {data.name}",
            fix="Scale it first",
        )
    is_divided = data.sides is not None
    there = [side for number, side in enumerate(SIDES) if is_divided and (sides == number).any()]
    found = tails(levels, counts, there)
    mean = float(np.dot(values, total)) / n
    named = [("all", total), *[(side, counts[:, SIDES.index(side)]) for side in there]]
    return ColumnHistogram(
        source=data.name,
        column=levels.name,
        n=n,
        n_missing=len(data) - n,
        smallest=float(values[total > 0][0]),
        deviation=math.sqrt(max(0.0, float(np.dot((values - mean) ** 2, total)) / n)),
        skewness=_skewness(values, total),
        below_mean=float(total[values < mean].sum()) / n,
        top_sum=_share_of_sum(values, total),
        n_not_positive=int(total[values <= 0].sum()),
        tails=tuple(found),
        bars=tuple(_bars(values, total, _equal_edges(values, total, bins))),
        bars_by_powers=tuple(_bars(values, total, _power_edges(values, total, bins))),
        survivals=tuple(_survival(side, values, some) for side, some in named if some.sum()),
    )


def choose_levels(data: TableData | ListData, column: str) -> Levels:
    """A numeric column, or the lengths of a list; without a column that with the heaviest tail."""
    if isinstance(data, ListData):
        if column not in ("", LENGTH):
            raise PellucidError(
                f"{data.name} is a list, and of its items only their {LENGTH} is a number",
                fix="Leave {column} out",
                options={"column": None},
            )
        lengths = np.array([len(item) for item in data.items])
        return Levels(LENGTH, True, np.arange(int(lengths.max(initial=0)) + 1), lengths, False)
    if column and column not in data.frame.columns:
        raise unknown_column(column, data.frame.columns, data.name)
    numeric = [one.name for one in data.columns if data.frame[one.name].dtype.is_numeric()]
    if column and column not in numeric:
        raise PellucidError(
            f"{quoted(column)} holds no numbers",
            where=f"in {data.name}",
            fix=f"Those that do are {', '.join(map(quoted, numeric[:6]))}" if numeric else "Give a table with numbers",
        )
    if not numeric:
        raise PellucidError(f"{data.name} has no column of numbers", fix="Name another table")
    if column:
        return levels_of(data.frame[column])
    # Row numbers have no tail to look at, unless there is nothing else.
    kinds = {one.name: one.kind for one in data.columns}
    levels = {name: levels_of(data.frame[name]) for name in numeric if kinds[name] != "order"} or {
        name: levels_of(data.frame[name]) for name in numeric
    }
    telling = most_telling([tail for one in levels.values() if (tail := heavy_tail(one))])
    return levels[telling.column] if telling else next(iter(levels.values()))


def _share_of_sum(values: NDArray[np.float64], counts: Counts) -> float | None:
    """The part of the sum that the greatest hundredth of the rows holds; None where some are negative, or all 0."""
    total = float(np.dot(values, counts))
    if values[counts > 0][0] < 0 or total <= 0:
        return None
    n_top = math.ceil(int(counts.sum()) / 100)
    from_top = np.cumsum(counts[::-1])
    taken = np.diff(np.minimum(from_top, n_top), prepend=0)
    return float(np.dot(values[::-1], taken)) / total


def _equal_edges(values: NDArray[np.float64], counts: Counts, bins: int) -> NDArray[np.float64]:
    """Edges of equal steps. Whole numbers stand in the middle, and each bar holds as many of them as any other."""
    present = values[counts > 0]
    low, high = float(present[0]), float(present[-1])
    if _is_whole(present):
        width = math.ceil((high - low + 1) / bins)
        n_bars = math.ceil((high - low + 1) / width)
        return low - 0.5 + width * np.arange(n_bars + 1, dtype=np.float64)
    if low == high:
        return np.array([low - abs(low or 1) / 2, low + abs(low or 1) / 2])
    return np.linspace(low, high, bins + 1)


def _power_edges(values: NDArray[np.float64], counts: Counts, bins: int) -> NDArray[np.float64]:
    """Edges that grow by one factor, of the positive values; none where these are not at least two."""
    present = values[(counts > 0) & (values > 0)]
    if len(present) < 2:
        return np.zeros(0)
    low, high = float(present[0]), float(present[-1])
    if not _is_whole(present):
        edges = np.geomspace(low, high, bins + 1)
        edges[0], edges[-1] = low, high
        return edges
    # Where a step is below 1, a bar holds one whole number.
    halves: NDArray[np.float64] = np.unique(np.floor(np.geomspace(low - 0.5, high + 0.5, bins + 1) + 1e-9) + 0.5)
    return np.concatenate([[low - 0.5], halves[(halves > low) & (halves < high)], [high + 0.5]])


def _is_whole(values: NDArray[np.float64]) -> bool:
    return bool((np.abs(values) < 2**51).all() and (values == np.floor(values)).all())


def _bars(values: NDArray[np.float64], counts: Counts, edges: NDArray[np.float64]) -> Iterator[HistogramBar]:
    """How many rows stand between each edge and the next; the last edge belongs to the last bar."""
    if not len(edges):
        return
    heights, _ = np.histogram(values, edges, weights=counts)
    for low, high, height in zip(edges[:-1].tolist(), edges[1:].tolist(), heights.tolist(), strict=True):
        yield HistogramBar(low, high, int(height))


def _survival(side: str, values: NDArray[np.float64], counts: Counts) -> Survival:
    """The part of the rows that is at least as great as each value; of many values those that a picture can show."""
    values, counts = values[counts > 0], counts[counts > 0]
    n = int(counts.sum())
    at_least = np.cumsum(counts[::-1])[::-1]
    if len(values) > MOST_STEPS:
        # Every step of a factor in the part of the rows, and every stretch of the values.
        by_share = np.searchsorted(-at_least, -np.geomspace(n, 1, MOST_STEPS // 2))
        by_rank = np.linspace(0, len(values) - 1, MOST_STEPS // 2).astype(np.int64)
        first = np.arange(min(len(values), MOST_STEPS // 4))
        places = np.unique(np.minimum(np.concatenate([first, by_share, by_rank]), len(values) - 1))
        values, at_least = values[places], at_least[places]
    return Survival(side, tuple(values.tolist()), tuple((at_least / n).tolist()))
