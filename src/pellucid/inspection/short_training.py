"""A copy trained on its one batch for a moment: whether it can learn at all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from pellucid.inspection.patient import Patient
from pellucid.inspection.probes import fresh, probing
from pellucid.inspection.slopes import goal_of, learning, runs_in_training

RATES = (1e-2, 1e-3, 1e-1)
MOST_STEPS = 150
FEWEST_STEPS = 40  # with fewer, one that did not learn says nothing
WORK = 2e10  # operations for all rates together, which is a second or two; counted, since a clock is no two times alike
FEWEST_ROWS = 4


class Trial(NamedTuple):
    """What a copy reached at one rate."""

    rate: float
    steps: int
    first: float
    least: float


def small_enough(patient: Patient) -> tuple[Patient, int]:
    """The patient with as few rows as are needed for enough steps, and how many steps; 0 where it is too large."""
    n_rows = patient.n_rows
    cost = _operations(patient)
    steps = _steps(cost)
    while steps < FEWEST_STEPS and n_rows > FEWEST_ROWS:
        n_rows = max(FEWEST_ROWS, n_rows // 2)
        fewer = _first_rows(patient, n_rows)
        if fewer is None:
            return patient, 0
        steps = _steps(cost * n_rows / max(patient.n_rows, 1))
    if steps < FEWEST_STEPS:
        return patient, 0
    return (_first_rows(patient, n_rows) or patient) if n_rows < patient.n_rows else patient, steps


def trial(patient: Patient, rate: float, steps: int, enough: float) -> Trial | None:
    """A copy trained with Adam until its loss is below `enough`; None where the loss is no number from the start.

    Without dropout, which would keep it from knowing the batch by heart.
    """
    is_training = runs_in_training(patient)
    copied = patient.copied()
    copied.model.train(is_training)
    for module in copied.model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.eval()
    optimizer = torch.optim.Adam(learning(copied.model).values(), lr=rate)
    first = least = math.inf
    with probing():
        for step in range(steps):
            loss = goal_of(copied)
            value = math.nan if loss is None else float(loss.detach())
            if loss is None or not math.isfinite(value) or not loss.requires_grad:
                return None if step == 0 else Trial(rate, step, first, least)
            first = value if step == 0 else first
            least = min(least, value)
            if least < enough:
                return Trial(rate, step, first, least)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return Trial(rate, steps, first, least)


def _steps(cost: float) -> int:
    return int(min(MOST_STEPS, WORK / (3 * len(RATES) * max(cost, 1.0))))


def _operations(patient: Patient) -> float:
    """Of one forward."""
    counter = FlopCounterMode(display=False)
    with probing(), torch.no_grad(), counter:
        patient.copied().model.eval()(*fresh(patient.inputs))
    return float(counter.get_total_flops())


def _first_rows(patient: Patient, n_rows: int) -> Patient | None:
    """The same with the first rows alone; None where it does not go through so."""
    whole = patient.n_rows

    def cut(one: object) -> object:
        return one[:n_rows] if isinstance(one, Tensor) and one.dim() and len(one) == whole else one

    targets = None if patient.targets is None else patient.targets[: len(patient.targets) * n_rows // whole]
    fewer = replace(patient, inputs=tuple(map(cut, patient.inputs)), targets=targets)
    copied = fewer.copied()
    copied.model.eval()
    try:
        with probing(), torch.no_grad():
            goal = goal_of(copied)
    except Exception:  # a stranger's module or loss that does not take fewer rows
        return None
    return fewer if goal is not None else None
