"""Grocery transactions: 1.7 million rows in the order of time, with a heavy right tail that random splits tear."""

from typing import TYPE_CHECKING, Any

from pellucid.data.kinds import TableData
from pellucid.data.sets import DatasetCard, dataset_table, fingerprint_of, require_count

if TYPE_CHECKING:
    import numpy
    import polars

ROWS = 1_700_000
REGIME_CHANGE = 1_000_000  # the loyalty programme starts at this transaction
TIERS = ("none", "bronze", "silver", "gold")
BEFORE = (0.55, 0.25, 0.14, 0.06)
AFTER = (0.25, 0.33, 0.26, 0.16)
BASKET = {"none": 6.0, "bronze": 9.0, "silver": 13.0, "gold": 18.0}  # the median basket of each tier
SPREAD = 0.75
SHARE_OF_BUSINESSES = 0.002
SMALLEST_BUSINESS = 120.0  # a business buying 500 items is rare, but it comes
TAIL_INDEX = 1.8  # below 2 the variance of the tail has no limit
LARGEST_BASKET = 50_000
LIFT_AFTER = 1.35  # with the drift on, the programme makes baskets larger as well


def load(seed: int = 0, n: int = ROWS, drift: bool = False) -> TableData:
    """n transactions. With drift=True tiers and baskets change at transaction 1,000,000 and stay changed.

    Most baskets are log-normal around the median of their tier; two in a thousand are businesses, whose baskets have
    a Pareto tail of index 1.8. The same seed gives the same rows, and the first rows do not depend on n.
    """
    require_count(n, "transactions", most=100_000_000)
    frame, arrays = _frame(seed, n, drift)
    drifts = f", regime change at {REGIME_CHANGE:,}" if drift else ""
    kinds = {"seq_no": "order", "loyalty_tier": "category", "items_scanned": "numeric"}
    return dataset_table("transactions", frame, kinds, f"generated, seed {seed}{drifts}", fingerprint_of(*arrays))


def _frame(seed: int, n: int, drift: bool) -> "tuple[polars.DataFrame, tuple[numpy.ndarray[Any, Any], ...]]":
    import numpy
    import polars

    seq_no = numpy.arange(1, n + 1, dtype=numpy.int64)

    # One stream for each purpose, so that a longer table begins with the shorter one.
    def draws(purpose: int) -> "numpy.random.Generator":
        return numpy.random.default_rng([seed, purpose])

    uniform = draws(0).random(n)
    tier = numpy.searchsorted(numpy.cumsum(BEFORE)[:-1], uniform, side="right").astype(numpy.uint8)
    scale = numpy.log([BASKET[name] for name in TIERS])[tier]
    if drift:
        changed = slice(REGIME_CHANGE - 1, n)
        tier[changed] = numpy.searchsorted(numpy.cumsum(AFTER)[:-1], uniform[changed], side="right")
        scale[changed] = numpy.log([BASKET[name] * LIFT_AFTER for name in TIERS])[tier[changed]]
    basket = numpy.exp(scale + SPREAD * draws(1).standard_normal(n))
    business = numpy.flatnonzero(draws(2).random(n) < SHARE_OF_BUSINESSES)
    basket[business] = SMALLEST_BUSINESS * (1.0 - draws(3).random(n)[business]) ** (-1.0 / TAIL_INDEX)
    items = numpy.clip(numpy.ceil(basket), 1, LARGEST_BASKET).astype(numpy.int64)
    names = polars.Series(TIERS).gather(polars.Series(tier))
    frame = polars.DataFrame({"seq_no": seq_no, "loyalty_tier": names, "items_scanned": items})
    return frame, (seq_no, tier, items)


DATASET = DatasetCard(
    name="transactions",
    kind="table",
    summary="1.7 million grocery transactions with seq_no, loyalty_tier and items_scanned, whose right tail is heavy",
    source="made up by pellucid after the exercise it illustrates: a grocery chain's 1.7 million transactions, with "
    "businesses that buy 500 items at once and a loyalty programme that starts at transaction 1,000,000",
    licence="generated; free for any use",
    is_generated=True,
    load=load,
)
