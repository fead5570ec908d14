"""Which update made a weight too large: what stands before the layer that first shows nan or infinity.

A layer that puts out nan seldom did anything wrong itself. Most often an update some steps before made a weight so
large that a product went past all numbers. How large every weight is after each update is cheap to know, and tells it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

Ends = tuple[Tensor, Tensor]  # the smallest and the largest number of a parameter
KEPT = 50  # updates that are looked back on
USUAL = 0.1  # a weight that begins at 0 is taken to be as large
GROWN = 100.0  # times as large as at first: past what training does to a weight


class WeightGrowth(NamedTuple):
    """A weight that became too large or no number, and the update that did it."""

    name: str  # of the parameter
    step: int | None  # whose update it was; None: it was so from the start
    before: float  # the largest of its numbers, whatever their signs, before that update and after it
    after: float
    largest: float  # and after the last update

    @property
    def description(self) -> str:
        """
        >>> WeightGrowth("head.weight", 11, 0.25, 1.3e19, 1.3e19).description
        'the update of step 11 took head.weight from 0.25 to 1.3e+19'
        """
        if self.step is None:
            return f"{self.name} held {self.after:.3g} from the start"
        if math.isnan(self.after):
            return f"the update of step {self.step:,} made {self.name} nan (it was {self.before:.3g} at most)"
        told = f"the update of step {self.step:,} took {self.name} from {self.before:.3g} to {self.after:.3g}"
        return told if self.after == self.largest else f"{told}, and those after it to {self.largest:.3g}"


class WeightSizes:
    """The largest number of each parameter, whatever its sign, after each update; of the last updates and the start.

    >>> weight = torch.ones(2)
    >>> sizes = WeightSizes({"weight": weight})
    >>> for step in range(1, 4):
    ...     weight *= 1.5 if step != 2 else 1e4
    ...     sizes.note(step)
    >>> sizes.find_growth().description
    'the update of step 2 took weight from 1.5 to 1.5e+04, and those after it to 2.25e+04'
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = {name: one for name, one in parameters.items() if one.numel() and one.is_floating_point()}
        self._first = self._measure()
        self._n_noted = 0
        self._noted: deque[tuple[int, list[Ends]]] = deque(maxlen=KEPT)

    def note(self, step: int) -> None:
        """How large everything is behind the update of this step. Nothing is waited for."""
        self._noted.append((step, self._measure()))
        self._n_noted += 1

    def find_growth(self, among: Collection[str] | None = None) -> WeightGrowth | None:
        """The weight that is no number, or that has grown most, and the update that did most of it; None: none has.

        Of several that became no number with one update the first is told. among: names of those asked; None is all.
        """
        asked = [(place, name) for place, name in enumerate(self._parameters) if among is None or name in among]
        steps = [None, *[step for step, _ in self._noted]]
        measured = [self._first, *[ends for _, ends in self._noted]]
        table = [[_size(ends) for ends in each] for each in measured]  # by update and parameter
        for row, (step, sizes) in enumerate(zip(steps, table, strict=True)):
            for place, name in asked:
                if not math.isfinite(sizes[place]):
                    before = table[row - 1][place] if row else sizes[place]
                    return WeightGrowth(name, step, before, sizes[place], sizes[place])
        growths = [(_ratio(table[0][place], table[-1][place]), place, name) for place, name in asked]
        most, place, name = max(growths, default=(0.0, 0, ""))
        if most < GROWN:
            return None
        sizes = [row[place] for row in table]
        # From the start to the first update that is kept lie those that were forgotten: that is no leap of one of them.
        known = range(1 if self._n_noted <= KEPT else 2, len(sizes))
        jump = max(known, key=lambda row: _ratio(sizes[row - 1], sizes[row]))
        return WeightGrowth(name, steps[jump], sizes[jump - 1], sizes[jump], sizes[-1])

    def largest(self) -> tuple[str, float]:
        """The parameter that has the largest number now, and that; the first that has one that is none, if any has."""
        sizes = [_size(ends) for ends in self._measure()]
        place = max(range(len(sizes)), key=lambda place: sizes[place] if math.isfinite(sizes[place]) else math.inf)
        return list(self._parameters)[place], sizes[place]

    def _measure(self) -> list[Ends]:
        # A thousandth of a step's time; the norm of infinite order takes twenty times as long.
        with torch.no_grad():
            return [torch.aminmax(one) for one in self._parameters.values()]


def _size(ends: Ends) -> float:
    """The largest number, whatever its sign; nan where one is none.

    >>> _size((torch.tensor(-3.0), torch.tensor(2.0)))
    3.0
    """
    low, high = float(ends[0]), float(ends[1])
    return math.nan if math.isnan(low) or math.isnan(high) else max(abs(low), abs(high))


def _ratio(before: float, after: float) -> float:
    return after / max(before, USUAL)
