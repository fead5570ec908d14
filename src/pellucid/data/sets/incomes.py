"""Incomes: a thousand people of whom most earn alike and a few earn twenty times as much."""

from pellucid.data.kinds import TableData
from pellucid.data.sets import DatasetCard, dataset_table, fingerprint_of, require_count

MEDIAN_INCOME = 36_000.0  # of employees, a year
SPREAD = 0.45
SHARE_OF_OWNERS = 0.02  # executives and investors
SMALLEST_OF_OWNERS = 120_000.0
TAIL_INDEX = 1.3  # below 2 the variance of the tail has no limit


def load(seed: int = 0, n: int = 1_000) -> TableData:
    """n people with their role and what they earn in a year.

    Employees are log-normal around a median of 36,000; two in a hundred are owners, whose incomes have a Pareto tail
    of index 1.3. The same seed gives the same rows, and the first rows do not depend on n.

    >>> load(n=3).frame.columns
    ['role', 'income']
    """
    import numpy
    import polars

    require_count(n, "people", most=100_000_000)
    is_owner = numpy.random.default_rng([seed, 0]).random(n) < SHARE_OF_OWNERS
    earned = MEDIAN_INCOME * numpy.exp(SPREAD * numpy.random.default_rng([seed, 1]).standard_normal(n))
    owned = SMALLEST_OF_OWNERS * (1 - numpy.random.default_rng([seed, 2]).random(n)) ** (-1 / TAIL_INDEX)
    income = numpy.rint(numpy.where(is_owner, owned, earned)).astype(numpy.int64)
    role = polars.Series(["employee", "owner"]).gather(polars.Series(is_owner.astype(numpy.uint8)))
    frame = polars.DataFrame({"role": role, "income": income})
    kinds = {"role": "category", "income": "numeric"}
    return dataset_table("incomes", frame, kinds, f"generated, seed {seed}", fingerprint_of(is_owner, income))


DATASET = DatasetCard(
    name="incomes",
    kind="table",
    summary="a thousand people's incomes, of which a few are twenty times the others, so that mean and median part",
    source="made up by pellucid after the usual example of a heavy tail: most people earn alike, a few own companies",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
