"""Ways to leave something for what was never seen.

Every way here is of one form: a context's grams keep a share of the probability, and the rest is handed to a simpler
distribution. With c(g) the count of a gram and N the sum of the counts in its context,

    P(w | context) = kept(context, w) + rest(context) · P'(w)

    add-s          kept = c / (N + s|V|)          rest = s|V| / (N + s|V|)      P' is uniform
    Witten–Bell    kept = c / (N + T)             rest = T / (N + T)            P' is the next shorter context's
    Kneser–Ney     kept = max(c - D(c), 0) / N    rest = what D took away / N   the same

T is the number of different tokens seen after the context. Below the highest order Kneser–Ney counts a gram once for
each different token seen before it. A context that was never seen keeps nothing: the rest is 1.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from pellucid.errors import PellucidError
from pellucid.models.counting.count_model import FloatArray, IntArray
from pellucid.models.counting.counts import Grams

FALLBACK = (0.5, 1.0, 1.5)  # discounts where the data have no gram of some small count to estimate them from


class Shares(NamedTuple):
    """What each gram of one order keeps (as its counts stand), and what each context hands on."""

    kept: FloatArray
    rest: FloatArray


class Smoothing(Protocol):
    """One way to share out probability, order by order."""

    @property
    def leans_on_shorter(self) -> bool:
        """Whether the rest goes to the next shorter context; else it is spread evenly."""

    @property
    def description(self) -> str:
        """Its name, as a reader knows it."""

    def shares(self, grams: Grams, order: int) -> Shares: ...


@dataclass(frozen=True)
class AddS:
    """s more for every count. With s = 0 it is maximum likelihood: what was never seen is impossible.

    A context that was never seen answers evenly even then, which is where s → 0 leads.
    """

    s: float = 1.0
    leans_on_shorter: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.s) and self.s >= 0):
            raise PellucidError(f"s is {self.s}", fix="Choose a finite s of 0 or more, such as 0.1")

    @property
    def description(self) -> str:
        return f"add-{self.s:g}" if self.s else "maximum likelihood (s = 0)"

    def shares(self, grams: Grams, order: int) -> Shares:
        level = grams.levels[order - 1]
        added = self.s * grams.vocab_size
        totals = level.row_sums(level.counts)
        # An empty row of a dense table with s = 0 would be 0/0.
        weights = np.divide(1.0, totals + added, out=np.zeros_like(totals), where=totals + added > 0)
        return Shares(level.counts * level.by_row(weights), np.where(totals > 0, added * weights, 1.0))


@dataclass(frozen=True)
class WittenBell:
    """As much for the unseen as there were first times: each different token of a context was new once."""

    leans_on_shorter: bool = True
    description: str = "Witten–Bell"

    def shares(self, grams: Grams, order: int) -> Shares:
        level = grams.levels[order - 1]
        totals = level.row_sums(level.counts)
        kinds = level.row_sums(level.counts > 0)
        weights = np.divide(1.0, totals + kinds, out=np.zeros_like(totals), where=totals > 0)
        return Shares(level.counts * level.by_row(weights), np.where(totals > 0, kinds * weights, 1.0))


@dataclass(frozen=True)
class KneserNey:
    """Interpolated Kneser–Ney. Without a `discount`, the modified one of Chen and Goodman (1999): three for each order.

    The boundaries before an item are counted as any other token. To give what follows them its plain counts in every
    order, as some do, lets the same counts speak twice: 0.03 nats worse on names.
    """

    discount: float = 0.0  # one for every count; 0 means three, estimated from the counts of counts
    leans_on_shorter: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.discount <= 1:
            raise PellucidError(f"the discount is {self.discount}", fix="Choose one above 0, at most 1, such as 0.75")

    @property
    def description(self) -> str:
        return f"Kneser–Ney with discount {self.discount:g}" if self.discount else "modified Kneser–Ney"

    def shares(self, grams: Grams, order: int) -> Shares:
        level = grams.levels[order - 1]
        counts = level.counts if order == grams.order else continuations(grams, order)
        small, middle, large = (self.discount,) * 3 if self.discount else modified_discounts(counts)
        taken = np.array([0.0, small, middle, large])[np.minimum(counts, 3)]
        totals = level.row_sums(counts)
        weights = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
        rest = np.where(totals > 0, level.row_sums(taken) * weights, 1.0)
        return Shares((counts - taken) * level.by_row(weights), rest)


def modified_discounts(counts: IntArray) -> tuple[float, float, float]:
    """The discounts for counts of 1, 2 and 3 or more, from how many grams were seen once, twice, ... four times.

    Where every gram was seen once, the discount is 1: the whole of it goes to the shorter context.

    >>> modified_discounts(np.array([1, 1, 1, 1, 2, 2, 3, 4]))
    (0.5, 1.25, 1.0)
    >>> modified_discounts(np.array([1, 1, 1, 1]))
    (1.0, 1.0, 1.5)
    """
    n_seen = [int(np.count_nonzero(counts == c)) for c in (1, 2, 3, 4)]
    if not n_seen[0]:
        return FALLBACK
    ratio = n_seen[0] / (n_seen[0] + 2 * n_seen[1])
    found = list(FALLBACK)
    for c in (1, 2, 3):
        here, above = n_seen[c - 1 : c + 1]
        estimate = c - (c + 1) * ratio * above / here if here else 0.0
        # Outside this range a gram would gain, or owe more than it has: the counts are not of the kind assumed.
        if 0 < estimate <= c:
            found[c - 1] = estimate
    return found[0], found[1], found[2]


def continuations(grams: Grams, order: int) -> IntArray:
    """For each gram of this order, how many different tokens were seen before it; as its counts stand."""
    return np.bincount(grams.levels[order].suffixes, minlength=len(grams.levels[order - 1].counts))
