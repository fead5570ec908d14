"""Splits and tails: what dividing rows by chance, by strata and by time does to rare extremes.

The rows are those of the sets `transactions` and `incomes`, new ones for each seed, or a user's own. Four fifths train
and one fifth is tested on.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.claims.claim import Claim, ClaimFamily, Numbers, Search, closeness
from pellucid.errors import PellucidError
from pellucid.lessons.lesson import seed_knob
from pellucid.options import check_options, option

if TYPE_CHECKING:
    import numpy
    import polars

    from pellucid.data.kinds import ListData, TableData
    from pellucid.data.splits.distributions import Levels

    Array = numpy.ndarray[Any, Any]

FOUR_FIFTHS = (0.8, 0.2)
PROGRAMME_STARTS = 1_000_000 / 1_700_000  # of the rows
SPLITS = 100


FEWEST_ROWS = 100


class ColumnRows(NamedTuple):
    """The rows that have a number in the column that is looked at; frame: (row,), None of a list."""

    levels: Levels
    frame: polars.DataFrame | None
    data: TableData | ListData  # all rows

    @property
    def values(self) -> Array:
        found: Array = self.levels.values[self.levels.codes]
        return found


@functools.cache
def open_column(data: str, column: str, rows: int, seed: int) -> ColumnRows:
    """A set that is generated has new rows for each seed; a user's own stay what they are."""
    from pellucid.data import open_data
    from pellucid.data.kinds import ListData, TableData, require_kind
    from pellucid.data.sets import incomes, transactions
    from pellucid.data.splits.distributions import levels_of
    from pellucid.data.splits.tails import choose_levels

    loaders = {"transactions": transactions.load, "incomes": incomes.load}
    opened = loaders[data](seed=seed, n=rows) if data in loaders else open_data(data)
    require_kind(opened, "table", "list")
    assert isinstance(opened, TableData | ListData)
    levels = choose_levels(opened, column)
    if len(levels.codes) < FEWEST_ROWS:
        raise PellucidError(f"{opened.name} has {len(levels.codes)} rows", fix=f"Give it {FEWEST_ROWS} or more")
    if isinstance(opened, ListData):
        return ColumnRows(levels, None, opened)
    frame = opened.frame.filter(levels.codes < len(levels.values))
    return ColumnRows(levels_of(frame[levels.name]), frame, opened)


@dataclass(frozen=True)
class SplitCountKnobs:
    rows: int = option(1_700_000, "Rows that are divided.", minimum=10, maximum=10_000_000)
    part: float = option(0.8, "Part of them that trains.", minimum=0.1, maximum=0.9)

    def __post_init__(self) -> None:
        check_options(self)


def divide_by_chance(knobs: SplitCountKnobs) -> Numbers:
    """Rows on each side of a random split."""
    from pellucid.data.splits.assignment import at_random

    n_train = int((at_random(knobs.rows, (knobs.part, 1 - knobs.part), "") == 0).sum())
    return {"train": float(n_train), "test": float(knobs.rows - n_train)}


# Strata


@dataclass(frozen=True)
class StrataKnobs:
    data: str = option("transactions", "Data that it is asked of.")
    column: str = option("", "Column that is binned; by default the one with the heaviest tail.")
    bins: int = option(10, "Quantile bins.", minimum=2, maximum=5000)
    strata: str = option("bins", "What is divided evenly", choices=("bins", "tail", "tier", "nothing"))
    tier: str = option("", "Column that divides bins further; by default the one of words with the fewest kinds.")
    values: str = option("own", "As they are, or spread over what rounds to them", choices=("own", "spread"))
    rows: int = option(20_000, "Rows that are drawn.", minimum=1000, maximum=2_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


@functools.cache
def column_of(knobs: StrataKnobs) -> Levels:
    import numpy as np
    import polars

    from pellucid.data.splits.distributions import levels_of

    rows = open_column(knobs.data, knobs.column, knobs.rows, knobs.seed)
    if knobs.values == "own":
        return rows.levels
    spread = np.random.default_rng(knobs.seed).random(len(rows.values)) - 0.5
    return levels_of(polars.Series(rows.levels.name, rows.values + spread))


@functools.cache
def bin_rows(knobs: StrataKnobs) -> Array:
    """(row,): its quantile bin."""
    import numpy as np

    from pellucid.data.splits.assignment import quantile_bins

    return quantile_bins(column_of(knobs), [at / knobs.bins for at in range(1, knobs.bins)])[0].astype(np.int64)


def choose_tier(frame: polars.DataFrame, name: str) -> str:
    """The column of words with the fewest kinds, two or more."""
    import polars

    kinds = {column: frame[column].n_unique() for column in frame.columns if frame[column].dtype == polars.String}
    several = {column: n for column, n in kinds.items() if 1 < n <= len(frame) / 10}
    if not several:
        raise PellucidError(f"no column of {name} divides its rows into kinds", fix="Name a table that has one")
    return min(several, key=lambda column: several[column])


@functools.cache
def bin_rows_of_tiers(knobs: StrataKnobs) -> Array:
    """(row,): its quantile bin within its tier."""
    from pellucid.data.kinds import unknown_column
    from pellucid.data.splits.distributions import levels_of

    rows = open_column(knobs.data, knobs.column, knobs.rows, knobs.seed)
    if rows.frame is None:
        raise PellucidError(f"{rows.data.name} is a list, and has no second column", fix="Give it a table")
    tier = knobs.tier or choose_tier(rows.frame, rows.data.name)
    if tier not in rows.frame.columns:
        raise unknown_column(tier, rows.frame.columns, rows.data.name)
    tiers = levels_of(rows.frame[tier])
    found: Array = bin_rows(knobs) * tiers.n_levels + tiers.codes
    return found


def draw_test_side(knobs: StrataKnobs, number: int = 0) -> Array:
    """(row,): whether it is tested on."""
    from pellucid.data.splits.assignment import at_random, by_strata, strata_of
    from pellucid.data.splits.hashing import numbered_hashes

    column, again = column_of(knobs), f"{knobs.seed}#{number}"
    n = len(column.codes)
    if knobs.strata == "nothing":
        return at_random(n, FOUR_FIFTHS, again) > 0
    if knobs.strata == "tail":
        codes = strata_of(column, [], FOUR_FIFTHS).codes
    else:
        codes = bin_rows_of_tiers(knobs) if knobs.strata == "tier" else bin_rows(knobs)
    return by_strata(codes, numbered_hashes(n, again), FOUR_FIFTHS) > 0


def measure_bins(knobs: StrataKnobs) -> Numbers:
    """How equal the bins are, and who is in the highest: Tukey's far-out rows lie three box lengths above the box."""
    import numpy as np

    column, bins = column_of(knobs), bin_rows(knobs)
    values = column.values[column.codes]
    low, high = np.quantile(values, [0.25, 0.75])
    is_far_out = values > high + 3 * (high - low)
    shares = np.bincount(bins) / len(bins)
    is_highest = bins == bins.max()
    return {
        "bins": float(len(shares)),
        "largest bin": float(shares.max()),
        "smallest bin": float(shares.min()),
        "different values": float((column.totals > 0).sum()),
        "far-out part of the highest bin": float(is_far_out[is_highest].mean()),
        "part of the far-out in the highest bin": float(is_highest[is_far_out].mean()) if is_far_out.any() else 0.0,
        "far-out part of all rows": float(is_far_out.mean()),
    }


def measure_bins_by_numpy(knobs: StrataKnobs) -> Numbers:
    """Bins between NumPy's quantiles."""
    import numpy as np

    column = column_of(knobs)
    values = column.values[column.codes]
    edges = np.unique(np.quantile(values, np.arange(1, knobs.bins) / knobs.bins, method="inverted_cdf"))
    counts = np.bincount(np.searchsorted(edges, values, "left"))
    shares = counts[counts > 0] / len(values)
    return {"bins": float(len(shares)), "largest bin": float(shares.max()), "smallest bin": float(shares.min())}


def are_equal_tenths(seen: Numbers) -> float:
    off = max([abs(seen[name] - 0.1) for name in ("largest bin", "smallest bin")])
    return 0.005 - off if seen["bins"] == 10 else -1.0


def rows_off(codes: Array, is_test: Array) -> float:
    """How many rows the test side of a stratum is away from its part, at the most."""
    import numpy as np

    sizes = np.bincount(codes)
    return float(np.abs(np.bincount(codes[is_test], minlength=len(sizes)) - is_test.mean() * sizes).max())


def measure_strata(knobs: StrataKnobs) -> Numbers:
    """By how many rows a stratified test side is off its share of a bin, at the most."""
    return {"rows off in a bin": rows_off(bin_rows(knobs), draw_test_side(knobs))}


def measure_joint_strata(knobs: StrataKnobs) -> Numbers:
    """With both columns as strata, unless the bins alone are asked for."""
    is_test = draw_test_side(replace(knobs, strata="tier") if knobs.strata == "bins" else knobs)
    return {
        "rows off in a bin": rows_off(bin_rows(knobs), is_test),
        "rows off in a bin of a tier": rows_off(bin_rows_of_tiers(knobs), is_test),
    }


def measure_extremes(knobs: StrataKnobs) -> Numbers:
    """Over many splits: the part of the top 1 % that is tested on."""
    import numpy as np

    column = column_of(knobs)
    extremes = np.argsort(-column.codes.astype(np.int64), kind="stable")[: max(1, len(column.codes) // 100)]
    shares = np.array([draw_test_side(knobs, number)[extremes].mean() for number in range(SPLITS)])
    return {
        "extremes": float(len(extremes)),
        "least part in test": float(shares.min()),
        "greatest part in test": float(shares.max()),
        "splits off by a tenth": float((np.abs(shares - 0.2) > 0.02 + 1e-9).mean()),
    }


def chance_of_being_off(knobs: StrataKnobs) -> Numbers:
    """By the hypergeometric distribution: the extremes all lie in the highest bin, of which a fifth is drawn."""
    bins = bin_rows(knobs)
    n_extremes, n_bin = max(1, len(bins) // 100), int((bins == bins.max()).sum())
    chances = draw_chances(n_bin, n_extremes, round(0.2 * n_bin))
    off = [chance for count, chance in enumerate(chances) if abs(count / n_extremes - 0.2) > 0.02 + 1e-9]
    return {"splits off by a tenth": math.fsum(off)}


@dataclass(frozen=True)
class StrandKnobs:
    extremes: int = option(1_700, "Extreme rows.", minimum=1, maximum=100_000)
    rows: int = option(1_700_000, "Rows in all.", minimum=10, maximum=100_000_000)

    def __post_init__(self) -> None:
        check_options(self)


def draw_chances(n: int, n_extremes: int, n_test: int) -> list[float]:
    """The chance that a random test side holds 0, 1, ... of the extremes: hypergeometric, by logarithms of factorials.

    >>> [round(chance, 3) for chance in draw_chances(10, 2, 2)]
    [0.622, 0.356, 0.022]
    """

    def log_choices(of: int, taken: int) -> float:
        return math.lgamma(of + 1) - math.lgamma(taken + 1) - math.lgamma(of - taken + 1)

    every = log_choices(n, n_test)
    return [
        math.exp(log_choices(n_extremes, count) + log_choices(n - n_extremes, n_test - count) - every)
        if max(0, n_test - n + n_extremes) <= count <= n_test
        else 0.0
        for count in range(n_extremes + 1)
    ]


def is_disproportionate(count: int, n_extremes: int) -> bool:
    """Whether the test side holds less than half, or more than one and a half, of its fifth."""
    return not 0.1 <= count / n_extremes <= 0.3


def measure_stranding(knobs: StrandKnobs) -> Numbers:
    """How likely a random split gives one side a poor share of the extreme rows, by exact counting."""
    chances = draw_chances(knobs.rows, knobs.extremes, round(0.2 * knobs.rows))
    off = [chance for count, chance in enumerate(chances) if is_disproportionate(count, knobs.extremes)]
    return {"chance of a poor share": math.fsum(off), "chance of none on one side": chances[0] + chances[-1]}


def draw_in_turn(knobs: StrandKnobs) -> Numbers:
    """The extremes take their sides one after the other: the chance of each count, by dynamic programming."""
    n_test = round(0.2 * knobs.rows)
    chances = {0: 1.0}
    for placed in range(knobs.extremes):
        after: dict[int, float] = {}
        for count, chance in chances.items():
            in_test = (n_test - count) / (knobs.rows - placed)
            after[count + 1] = after.get(count + 1, 0.0) + chance * in_test
            after[count] = after.get(count, 0.0) + chance * (1 - in_test)
        # What is too unlikely to show in a sum is left out.
        chances = {count: chance for count, chance in after.items() if chance > 1e-18}
    off = [chance for count, chance in chances.items() if is_disproportionate(count, knobs.extremes)]
    return {"chance of a poor share": math.fsum(off)}


# Tails


@dataclass(frozen=True)
class TailKnobs:
    data: str = option("incomes", "Data that it is asked of.")
    column: str = option("", "Column that is looked at; by default the one with the heaviest tail.")
    shape: str = option(
        "own", "Of the values: a bell has their mean and deviation", choices=("own", "bell", "mirrored")
    )
    rows: int = option(1_000, "Rows that are drawn.", minimum=100, maximum=1_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_tail(knobs: TailKnobs) -> Numbers:
    """Mean, median, skewness and what lies far above, of a column, its bell curve or its mirror image."""
    import numpy as np

    own = open_column(knobs.data, knobs.column, knobs.rows, knobs.seed).values.astype(float)
    bell = np.random.default_rng([knobs.seed, 7]).normal(own.mean(), own.std(), len(own))
    values: Array = {"own": own, "bell": bell, "mirrored": -own}[knobs.shape]
    mean, deviation, median = float(values.mean()), float(values.std()), float(np.median(values))
    return {
        "mean": mean,
        "median": median,
        "mean over median": mean / median if median else math.inf,
        "part below the mean": float((values < mean).mean()),
        "skewness": float((((values - mean) / deviation) ** 3).mean()),
        "part above 3 deviations": float((values > mean + 3 * deviation).mean()),
        "that of a bell curve": math.erfc(3 / math.sqrt(2)) / 2,
    }


def measure_tail_by_levels(knobs: TailKnobs) -> Numbers:
    """By the histogram that `pellucid draw histogram` counts, from levels and how many rows stand on each."""
    from statistics import NormalDist, fmean, pstdev

    from pellucid.data.splits.tails import measure_histogram

    rows = open_column(knobs.data, knobs.column, knobs.rows, knobs.seed)
    found = measure_histogram(rows.data, rows.levels.name)
    values = [float(value) for value in rows.values]
    limit = fmean(values) + 3 * pstdev(values)
    whole = found.tails[0]
    assert whole.mean is not None
    assert whole.median is not None
    return {
        "mean": whole.mean,
        "median": whole.median,
        "part below the mean": found.below_mean,
        "skewness": found.skewness,
        "part above 3 deviations": sum([value > limit for value in values]) / len(values),
        "that of a bell curve": 1 - NormalDist().cdf(3),
    }


# Time


@dataclass(frozen=True)
class TimeOrderKnobs:
    data: str = option("transactions", "Data that it is asked of.")
    column: str = option("", "Column that is compared; by default the one with the heaviest tail.")
    lift: float = option(1.35, "By what the baskets of transactions grow at row 1,000,000 of 1.7 million.", minimum=0.1)
    rows: int = option(20_000, "Rows that are drawn.", minimum=1000, maximum=2_000_000)
    seed: int = seed_knob()

    def __post_init__(self) -> None:
        check_options(self)


def measure_time_split(knobs: TimeOrderKnobs) -> Numbers:
    """Train beside test after dividing by time: how far apart, and how far chance alone gets once in 100."""
    import numpy as np
    import polars

    from pellucid.data.kinds import TableData
    from pellucid.data.splits.assignment import at_random, by_order
    from pellucid.data.splits.distributions import distance_between, find_order, levels_of
    from pellucid.errors import PellucidError

    rows = open_column(knobs.data, knobs.column, knobs.rows, knobs.seed)
    table, column = rows.data, rows.levels
    names = table.frame.columns if isinstance(table, TableData) else []
    levels = {name: levels_of(table.frame[name]) for name in names} if isinstance(table, TableData) else {}
    order = find_order(table, levels) if isinstance(table, TableData) else None
    if order is None or rows.frame is None:
        raise PellucidError(f"no column of {table.name} tells the order of its rows", fix="Name a table that has one")
    if knobs.data == "transactions":
        grown = np.arange(len(rows.values)) >= PROGRAMME_STARTS * len(rows.values)
        column = levels_of(polars.Series(column.name, np.ceil(rows.values * np.where(grown, knobs.lift, 1.0))))
    by_time = by_order(levels_of(rows.frame[order.name]).codes, FOUR_FIFTHS, order.name)
    by_chance = at_random(len(column.codes), FOUR_FIFTHS, str(knobs.seed))
    apart = [distance_between(column, *column.counts(sides > 0, 2).T)[1:] for sides in (by_time, by_chance)]
    return {
        "distance by time": apart[0][0],
        "distance by chance": apart[1][0],
        "chance exceeds it once in 100": apart[0][1],
    }


FAMILY = ClaimFamily(
    name="splits-and-tails",
    title="Splits and tails",
    picture="histogram",
    claims=(
        Claim(
            id="split-80-20-counts",
            says="four fifths of 1.7 million rows are about 1.36 million, the rest about 0.34 million",
            where="log Q1",
            kind="arithmetic",
            measure=divide_by_chance,
            decides="train",
            margin=lambda seen: min(closeness(seen["train"] / 1e6, 1.36, 2), closeness(seen["test"] / 1e6, 0.34, 2)),
            rule="both sides have the stated size to two decimals of a million",
            knobs=SplitCountKnobs,
            control={"part": 0.75},
            second=lambda knobs: {"train": knobs.part * knobs.rows, "test": knobs.rows - knobs.part * knobs.rows},
        ),
        Claim(
            id="items-continuous-ten-equal-deciles",
            says="the number of items is continuous, and deciles make ten bins with equally many rows",
            where="log Q1",
            kind="draws",
            measure=measure_bins,
            decides="largest bin",
            margin=are_equal_tenths,
            rule="there are ten bins, and each has 9.5 to 10.5 % of the rows",
            knobs=StrataKnobs,
            control={"values": "spread"},
            second=measure_bins_by_numpy,
            seeds=8,
            other_reading="of a number without ties it is true: that is the control",
        ),
        Claim(
            id="decile-puts-tail-in-own-bin",
            says="quantile bins give the long tail a bin of its own",
            where="log Q1",
            kind="draws",
            measure=measure_bins,
            decides="far-out part of the highest bin",
            margin=lambda seen: seen["far-out part of the highest bin"] - 0.5,
            rule="most rows of the highest bin are far out, three box lengths above the upper quartile (Tukey)",
            knobs=StrataKnobs,
            control={"bins": 500},
            search=Search("bins", 4, 1000, is_log=True),
            seeds=8,
            other_reading="that the tail is in no other bin, which it is not",
        ),
        Claim(
            id="stratified-guarantees-extremes",
            says="strata by decile guarantee that both sides represent even the most extreme rows",
            where="log Q1/Q3",
            kind="draws",
            measure=measure_extremes,
            decides="splits off by a tenth",
            margin=lambda seen: 0.02 - max(0.2 - seen["least part in test"], seen["greatest part in test"] - 0.2),
            rule="in each of 100 splits test holds 18 to 22 % of the top 1 %",
            knobs=StrataKnobs,
            control={"strata": "tail"},
            second=chance_of_being_off,
            tolerance=0.15,
            seeds=5,
        ),
        Claim(
            id="stratified-preserves-bin-shares",
            says="a stratified split keeps the share of every bin",
            where="log Q1/Q3",
            kind="draws",
            measure=measure_strata,
            decides="rows off in a bin",
            margin=lambda seen: 1.0 - seen["rows off in a bin"],
            rule="in every bin the test side is less than one row away from its fifth",
            knobs=StrataKnobs,
            control={"strata": "nothing"},
            seeds=8,
        ),
        Claim(
            id="joint-strata-loyalty-tier",
            says="rows can be stratified by another column, such as the tier, at the same time",
            where="log Q1",
            kind="draws",
            measure=measure_joint_strata,
            decides="rows off in a bin of a tier",
            margin=lambda seen: 1.0 - seen["rows off in a bin of a tier"],
            rule="in every bin of every tier the test side is less than one row away from its fifth",
            knobs=StrataKnobs,
            control={"strata": "tail"},
            seeds=8,
        ),
        Claim(
            id="random-split-strands-outliers",
            says="a random split very likely puts the rare extremes mostly or only on one side",
            where="log Q1/Q3",
            kind="proof",
            measure=measure_stranding,
            decides="chance of a poor share",
            margin=lambda seen: seen["chance of a poor share"] - 0.5,
            rule="it is more likely than not that test gets less than 10 % or more than 30 % of the extremes",
            knobs=StrandKnobs,
            control={"extremes": 5},
            search=Search("extremes", 1, 1_700, is_log=True),
            second=draw_in_turn,
        ),
        Claim(
            id="heavy-tail-more-than-bell",
            says="a heavy tail has more rows far out than a bell curve would have",
            where="log Q2",
            kind="draws",
            measure=measure_tail,
            decides="part above 3 deviations",
            margin=lambda seen: seen["part above 3 deviations"] - 2 * seen["that of a bell curve"],
            rule="more than twice as many lie 3 standard deviations above the mean as of a bell curve",
            knobs=TailKnobs,
            control={"shape": "bell"},
            second=measure_tail_by_levels,
            seeds=30,
        ),
        Claim(
            id="right-tail-is-right-skew",
            says="a tail to the right means skewed to the right",
            where="log Q2",
            kind="draws",
            measure=measure_tail,
            decides="skewness",
            margin=lambda seen: seen["skewness"],
            rule="the skewness is above 0",
            knobs=TailKnobs,
            control={"shape": "mirrored"},
            second=measure_tail_by_levels,
            seeds=30,
            other_reading="where both tails are heavy, the right one is too, and nothing is skewed",
        ),
        Claim(
            id="mean-far-above-median",
            says="the mean income is far above what most people earn, so the median tells more",
            where="log Q2",
            kind="draws",
            measure=measure_tail,
            decides="part below the mean",
            margin=lambda seen: min(1 - 1.2 / seen["mean over median"], seen["part below the mean"] - 0.6),
            rule="the mean is a fifth above the median at least, and 60 % or more earn less than it",
            knobs=TailKnobs,
            control={"shape": "bell"},
            second=measure_tail_by_levels,
            seeds=30,
        ),
        Claim(
            id="time-split-loses-balance",
            says="a split by time does not guarantee that both sides are distributed alike",
            where="log Q1",
            kind="draws",
            measure=measure_time_split,
            decides="distance by time",
            margin=lambda seen: seen["distance by time"] - seen["chance exceeds it once in 100"],
            rule="where baskets grow with time, its sides are further apart than chance gets once in 100",
            knobs=TimeOrderKnobs,
            control={"lift": 1.0},
            seeds=8,
        ),
    ),
)
