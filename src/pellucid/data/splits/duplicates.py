"""Equal rows, and whether they stand on two sides."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pellucid.data.splits.hashing import Words
from pellucid.data.splits.request import SIDES
from pellucid.data.splits.sides import Sides
from pellucid.records import Straddle

MOST_EXAMPLES = 3


@dataclass(frozen=True)
class Twins:
    """How many different things there are, and how many rows of each side have an equal one in train."""

    n_distinct: int
    n_shared: tuple[int, ...]  # of dev, of test
    examples: tuple[int, ...]  # rows of dev or test


def twins(hashes: Words, sides: Sides) -> Twins:
    """Rows with equal hashes on different sides, found by one sort of 62 bits of hash with the side behind them."""
    if not len(hashes):
        return Twins(0, (0, 0), ())
    keys = (hashes & ~np.uint64(3)) | sides.astype(np.uint64)
    keys.sort()
    things = keys >> np.uint64(2)
    is_new = np.concatenate([[True], things[1:] != things[:-1]])
    n_distinct = int(is_new.sum())
    if n_distinct == len(keys) or not ((keys[1:] != keys[:-1]) & ~is_new[1:]).any():
        return Twins(n_distinct, (0, 0), ())
    sides_sorted = (keys & np.uint64(3)).astype(np.int8)
    # Inside a run of equal things train stands first.
    begins_in_train = (sides_sorted == 0)[is_new][np.cumsum(is_new) - 1]
    shared = [begins_in_train & (sides_sorted == side) for side in range(1, len(SIDES))]
    rows = []
    for thing in np.unique(things[shared[0] | shared[1]])[:MOST_EXAMPLES]:
        rows.append(int(np.flatnonzero(((hashes >> np.uint64(2)) == thing) & (sides > 0))[0]))
    return Twins(n_distinct, tuple(int(one.sum()) for one in shared), tuple(rows))


def straddles(found: Twins, sides: Sides, what: str, *, is_leak: bool, show: Callable[[int], str]) -> list[Straddle]:
    """One record for dev and one for test. `show` writes a row as words."""
    examples = tuple(show(row) for row in found.examples)
    return [
        Straddle(what, side, found.n_shared[number - 1], int(np.count_nonzero(sides == number)), is_leak, examples)
        for number, side in enumerate(SIDES[1:], 1)
    ]


def is_in_train(hashes: Words, sides: Sides) -> NDArray[np.bool_]:
    """(row,): whether it stands in dev or test and has an equal in train."""
    found = np.zeros(len(hashes), dtype=bool)
    is_held = sides > 0
    found[is_held] = np.isin(hashes[is_held], hashes[~is_held])
    return found
