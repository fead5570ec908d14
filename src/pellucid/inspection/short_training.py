"""A copy trained on its one batch for a moment: whether it can learn at all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from pellucid.inspection.patient import Patient
from pellucid.inspection.probes import fresh, probing
from pellucid.inspection.slopes import goal_of, learning, runs_in_training

RATES = (1e-2, 1e-3, 1e-1)
MOST_STEPS = 150
FEWEST_STEPS = 40  # with fewer, one that did not learn says nothing
WORK = 2e10  # operations for all rates together, which is a second or two; counted, since a clock is no two times alike
CALL = 1e5  # what calling one operation costs, in operations of arithmetic
FEWEST_ROWS = 4


class Trial(NamedTuple):
    """What a copy reached at one rate."""

    rate: float
    steps: int
    first: float
    least: float


class Allowance(NamedTuple):
    """What there is time for: a patient with perhaps fewer rows, steps at each rate, and rates."""

    patient: Patient
    steps: int
    rates: tuple[float, ...]


def allowance(patient: Patient) -> Allowance | None:
    """As many rates and steps as the work allows, on as many rows; None where it is too large for even a few."""
    n_rows, chosen = patient.n_rows, patient
    total = _steps(patient)
    while total < FEWEST_STEPS and n_rows > FEWEST_ROWS:
        n_rows = max(FEWEST_ROWS, n_rows // 2)
        fewer = _first_rows(patient, n_rows)
        if fewer is None:
            return None
        chosen, total = fewer, _steps(fewer)
    if total < FEWEST_STEPS:
        return None
    steps = min(MOST_STEPS, max(FEWEST_STEPS, total // len(RATES)))
    return Allowance(chosen, steps, RATES[: max(1, total // steps)])


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
            loss = _goal_or_none(copied)
            value = math.nan if loss is None else float(loss.detach())
            if loss is None or not math.isfinite(value) or loss.grad_fn is None:
                return None if step == 0 else Trial(rate, step, first, least)
            first = value if step == 0 else first
            least = min(least, value)
            if least < enough:
                return Trial(rate, step, first, least)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            for parameter in learning(copied.model).values():
                if parameter.grad is not None and parameter.grad.is_sparse:  # which Adam does not take
                    parameter.grad = parameter.grad.to_dense()
            optimizer.step()
    return Trial(rate, steps, first, least)


def _goal_or_none(patient: Patient) -> Tensor | None:
    try:
        return goal_of(patient)
    except (RuntimeError, ValueError):  # outputs have left what the loss takes
        return None


def _steps(patient: Patient) -> int:
    """How many steps of training the work is enough for; backward costs twice what forward does."""
    counter, calls = FlopCounterMode(display=False), _Calls()
    with probing(), torch.no_grad(), counter, calls:
        patient.copied().model.eval()(*fresh(patient.inputs))
    return int(WORK / (3 * (counter.get_total_flops() + CALL * calls.seen)))


class _Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that are called, of which each costs time however small it is."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


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
