"""How steep a loss is along some of the weights, felt by nudging them: what autograd says is held against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.patient import Patient
from pellucid.inspection.probes import probing, size_of
from pellucid.inspection.slopes import goal_of

NUDGE = 1e-6  # of a weight's size, in float64
KICK = 1.0  # so large that what is chosen changes


class Part(NamedTuple):
    """A parameter, and those of its weights that are nudged: 1 where one is, 0 elsewhere."""

    parameter: Tensor
    mask: Tensor
    is_off: bool  # the graph does not lead to it at all


Parts = dict[str, Part]


def precise(patient: Patient) -> Patient:
    """In float64, where a small nudge shows; as it is where it does not run so."""
    try:
        inputs = tuple(
            one.double() if isinstance(one, Tensor) and one.is_floating_point() else one for one in patient.inputs
        )
        targets = patient.targets
        if targets is not None and targets.is_floating_point():
            targets = targets.double()
        copied = replace(patient.copied(), inputs=inputs, targets=targets)
        copied.model.double()
        goal(copied)
    except Exception:  # whatever a stranger's module says to another type
        return patient
    return copied


def goal(patient: Patient) -> float:
    """The loss of a copy as a number, with the dice of every other run; nan where there is none."""
    with probing(), torch.no_grad():
        found = goal_of(patient)
    return float("nan") if found is None else float(found)


def _ways(parts: Parts) -> Iterator[tuple[Part, Tensor]]:
    """Each parameter with one fixed direction in the size of its weights."""
    for number, part in enumerate(parts.values()):
        way = torch.randn(part.parameter.shape, generator=torch.Generator().manual_seed(number)).to(part.parameter)
        yield part, way * part.mask * (size_of(part.parameter) or 1.0)


def slope_said(parts: Parts, told: Mapping[str, Tensor]) -> float:
    """The slope along the same direction as autograd tells it."""
    ways = zip(parts, _ways(parts), strict=True)
    return sum(float((told[path] * way).sum()) for path, (_, way) in ways)


def _changed_by(patient: Patient, parts: Parts, share: float) -> float:
    """The goal with weights moved along their direction by a share of their size; then they are put back."""
    before = [part.parameter.detach().clone() for part in parts.values()]
    with torch.no_grad():
        for part, way in _ways(parts):
            part.parameter.add_(way * share)
        found = goal(patient)
        for part, kept in zip(parts.values(), before, strict=True):
            part.parameter.copy_(kept)
    return found


def slope_felt(patient: Patient, parts: Parts) -> float:
    """How steeply the goal changes along the weights; 0 where it does not.

    A slope is one: half the nudge, half the change, there as back, and so for a far larger one. A kink or a jump is
    none, nor is rounding, as in a module that computes in float32 whatever it is given.
    """
    is_precise = next(iter(parts.values())).parameter.dtype is torch.float64
    nudge = NUDGE if is_precise else 100 * NUDGE
    here = goal(patient)
    noise = (1e-11 if is_precise else 1e-5) * max(abs(here), 1e-3)
    slopes: list[float] = []
    for share in (0.25, 0.5, 1, 50):
        there, back = (_changed_by(patient, parts, sign * nudge * share) for sign in (1, -1))
        slopes.append((there - back) / (2 * nudge * share))
        if not abs(there - back) > noise or abs(slopes[-1] / slopes[0] - 1) > 0.1:
            return 0.0
        if abs(there + back - 2 * here) > 0.1 * abs(there - back):
            return 0.0  # a kink, at which there is no one slope
    return slopes[2]


def jumps(patient: Patient, parts: Parts) -> bool:
    """Whether a large change is felt through weights that the graph does not lead to at all, as through an argmax.

    Only for those: a unit that is dead has a gradient, which is 0, and a large change may wake it.
    """
    off = {path: part for path, part in parts.items() if part.is_off}
    base = goal(patient)
    kicked = [_changed_by(patient, off, share) for share in (KICK, -KICK, 3 * KICK)] if off else []
    return any(abs(one - base) > 1e-5 * max(abs(base), 1e-3) for one in kicked)
