"""What was seen while settings were searched for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class SweepRound(NamedTuple):
    """One training of a trial, from its first weights on, with so many steps."""

    steps: int
    dev: float  # the lowest loss on dev
    seconds: float


class SweepTrial(NamedTuple):
    """One choice of settings, and its trainings, each twice as long as the one before."""

    number: int  # the first is 1
    settings: Mapping[str, object]  # numbers and words
    parameters: int
    rounds: tuple[SweepRound, ...]

    @property
    def dev(self) -> float:
        """Of its longest training; inf where it has none."""
        return self.rounds[-1].dev if self.rounds else math.inf


@dataclass(frozen=True)
class SweepReport:
    """A search by successive halving: after each round the better half by dev is trained for twice as long."""

    source: str
    model: str
    over: Mapping[str, tuple[object, ...]]  # each setting with its values
    n_combinations: int  # of all values; more than there are trials where only some were drawn
    steps: tuple[int, ...]  # of each round
    trials: tuple[SweepTrial, ...]  # the best first: by how far each came, then by dev
    loss_unit: str  # of dev
    seconds: float
    best_run: str = ""  # trained with the best settings, and ready to use; test was read for it alone
    best_dev: float = math.nan  # of that run
    best_test: float | None = None
    command: tuple[str, ...] = ()  # that makes the best run again

    @property
    def best(self) -> SweepTrial:
        return self.trials[0]
