"""What was seen of a division into train, dev and test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pellucid.records.statements import Statement

# Judgements. The numbers they judge are always shown, so that the reader can judge too.
DRIFT_MATTERS = 0.05
HEAVY_SKEWNESS = 2.0
HEAVY_TAIL_INDEX = 4.0  # a normal tail has about 9 at this depth, an exponential one 5.5


class Agreement(NamedTuple):
    """How far one column's distribution on one side is from that on the training side."""

    column: str
    kind: str  # numeric or category
    measure: str  # KS: the Kolmogorov-Smirnov distance; TV: half the summed difference of shares
    side: str
    distance: float
    by_chance: float  # what at most 1 random split in 100 of these sizes exceeds, in any column on any side


class Tail(NamedTuple):
    """The upper end of a numeric column on one side. None: not known, as on an empty side."""

    column: str
    side: str  # "all" is the whole table
    mean: float | None
    median: float | None
    q90: float | None
    q99: float | None
    q999: float | None
    largest: float | None
    top_share: float | None  # the part of this side's rows that is among the top 1 % of all rows
    tail_index: float | None  # Hill's
    n_top: int = 0  # greatest values that it is taken from


class HistogramBar(NamedTuple):
    """How many rows have a value from low to below high."""

    low: float
    high: float
    n: int


class Survival(NamedTuple):
    """The part of the rows that is at least as great as each value. Of many values some are left out."""

    side: str  # "all" is the whole table
    values: tuple[float, ...]  # rising
    shares: tuple[float, ...]


class ColumnHistogram(NamedTuple):
    """How the numbers of one column are distributed, and how heavy their upper end is."""

    source: str
    column: str
    n: int  # rows with a number
    n_missing: int
    smallest: float
    deviation: float
    skewness: float
    below_mean: float  # the part of the rows below the mean
    top_sum: float | None  # the part of the sum that the greatest 1 % of the rows hold; None where some are negative
    n_not_positive: int  # rows that have no place among the powers of ten
    tails: tuple[Tail, ...]  # of all rows, and of each side where the data were divided before
    bars: tuple[HistogramBar, ...]  # by equal steps
    bars_by_powers: tuple[HistogramBar, ...]  # by equal factors; none where fewer than two values are positive
    survivals: tuple[Survival, ...]  # as of tails


class Straddle(NamedTuple):
    """Things that stand on the training side and on another one too."""

    what: str  # such as "equal rows" or "rows equal without seq_no"
    side: str
    n_shared: int  # rows of this side that have such a twin in train
    n_rows: int  # of this side
    is_leak: bool
    examples: tuple[str, ...] = ()


class Drift(NamedTuple):
    """How far one column's distribution moves from the first fifth of the order to the last."""

    order: str
    column: str
    measure: str
    distance: float
    by_chance: float

    @property
    def matters(self) -> bool:
        """Whether it is too large to come by chance, and large enough to change what a model learns."""
        return self.distance >= DRIFT_MATTERS and self.distance > self.by_chance


def worst_drift(drifts: Sequence[Drift]) -> Drift | None:
    """The drift that matters most, if any does; else the greatest."""
    return max(drifts, key=lambda one: (one.matters, one.distance), default=None)


class OrderColumn(NamedTuple):
    """The column that tells the order of the rows, and how that is known."""

    name: str
    is_named: bool  # by the user, so that nothing was measured
    rising: float = 0.0  # the part of its steps that do not fall
    n_distinct: int = 0
    ends: tuple[int, int] | None = None  # of whole numbers each of which stands there once
    is_date: bool = False
    sorted_by: str = ""  # of row numbers: the column that the rows were sorted by, so that they tell no time


class GroupColumn(NamedTuple):
    """The column that names what several rows are about, and how that is known."""

    name: str
    n_groups: int
    n_rows: int
    shared_target: float  # intraclass correlation of the target: 1 where all rows of a group share it
    same: tuple[str, ...] = ()  # columns that never change within a group
    n_alike: int = 0  # columns that are alike within a group, beyond chance
    n_columns: int = 0  # that were looked at for that
    is_named: bool = False  # it is called as identifiers are
    is_together: bool = False  # the rows of a group stand together in the file


class HeavyTail(NamedTuple):
    """Skewness and Hill's tail index, from the top 1 %, of a numeric column."""

    column: str
    skewness: float
    tail_index: float

    @property
    def is_heavy(self) -> bool:
        return self.skewness >= HEAVY_SKEWNESS and self.tail_index <= HEAVY_TAIL_INDEX


class Wander(NamedTuple):
    """How far one number about the test side's tail moves over repeated splits that differ by the seed alone."""

    column: str
    statistic: str
    is_share: bool
    whole: float | None  # the same number for all rows
    at_random: tuple[float, ...]  # one for each random split
    stratified: tuple[float, ...]  # one for each stratified split


class Leak(NamedTuple):
    """A column from which alone the target can be told, or nearly."""

    column: str
    kind: str  # copy: it follows the target; foretells: its values tell the target; missing: that it is missing does
    foretold: float  # R², or the part of the errors of the commonest class that it avoids, each row left out once


class SplitChoice(NamedTuple):
    """How the rows of a training were divided, and why."""

    # One of the strategies, "given" where the rows were divided before, or "none" where there are too few to divide.
    strategy: str
    is_proposed: bool  # nobody asked for it
    column: str = ""  # whose values or order the sides follow
    group: GroupColumn | None = None
    order: OrderColumn | None = None
    drift: Drift | None = None  # the worst along the order
    n_twins: int = 0  # rows of dev and test that have an equal in train, but for the target
    n_held: int = 0  # rows of dev and test
    target: str = ""
    n_different: int = 0  # rows, or images, where they are too few to divide


@dataclass(frozen=True)
class SplitReport:
    """What was asked, what came out, and what is wrong with it."""

    name: str
    kind: str
    description: str
    is_file: bool  # and no set that comes with pellucid
    strategy: str
    asked: Mapping[str, str]  # the options that were given
    settings: Mapping[str, str]  # the options that give this split again
    is_proposed: bool
    is_stable: bool  # whether old rows keep their sides when rows are appended
    fractions: tuple[float, ...]
    sizes: Mapping[str, int]
    n_distinct: int
    agreements: Sequence[Agreement]
    straddles: Sequence[Straddle]
    notes: Sequence[Statement]
    has_found_something_wrong: bool
    # Of a table:
    tails: Sequence[Tail] = ()
    drifts: Sequence[Drift] = ()
    wanders: Sequence[Wander] = ()
    order: OrderColumn | None = None
    heavy_tail: HeavyTail | None = None  # of the heaviest column, or of the most skewed where none is heavy
    group: GroupColumn | None = None
    target: str = ""
    leaks: Sequence[Leak] = ()  # of the target
    n_values: Mapping[str, int] = field(default_factory=dict)  # of each column that divides the strata further
