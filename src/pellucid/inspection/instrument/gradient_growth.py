"""Where a gradient grows past all measure on its way back, or what is put out on its way forward.

Each call of a part is looked at in the order of its calls, so that a cell that is called once for each time step shows
how much every one of them adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.perturbation import size_of
from pellucid.inspection.instrument.recording import ModuleCall, part_name, record
from pellucid.inspection.instrument.specimen import Specimen

ABSURD = 1e7  # times: how much farther the loss goes than the weights, both by their own sizes
LARGE = 10.0  # times, in one call


class GradientGrowth(NamedTuple):
    """The place with the largest growth from one call to the next, and how large gradients are in all."""

    path: str
    description: str
    factor: float
    sensitivity: float  # the gradient's norm, times that of the weights, by the loss


def loss_sensitivity(loss: float, weights: Sequence[Tensor], gradients: Sequence[Tensor]) -> float:
    """How many times farther a loss goes than all weights, each by its own size: 1 for a product of a weight.

    >>> weight = torch.tensor([3.0, 4.0])
    >>> loss_sensitivity(25.0, [weight], [2 * weight])
    2.0
    """
    norms = (math.hypot(*[float(one.detach().double().norm()) for one in many]) for many in (weights, gradients))
    return math.prod(norms) / max(abs(loss), 1e-30)


def gradient_growth(specimen: Specimen) -> GradientGrowth | None:
    """Where it grows most in one pass of a copy; None where nothing is called, or nothing grows."""
    seen = record(specimen.copy(), with_loss=specimen.has_loss)
    if seen is None:
        return None
    calls = [call for call in seen.modules if call.is_leaf and call.made is not None]
    backward = [call for call in calls if call.gradient is not None and bool(call.gradient.any())]
    parameters = dict(specimen.model.named_parameters())
    sensitivity = (
        loss_sensitivity(
            float(seen.loss.detach()), [parameters[path] for path in seen.gradients], list(seen.gradients.values())
        )
        if seen.loss is not None
        else math.nan
    )
    ways = [
        ("gradients", _steepest(list(reversed(backward)), _gradient_size)),
        ("outputs", _steepest(calls, _made_size)),
    ]
    found = [(what, step) for what, step in ways if step is not None]
    if not found:
        return None
    what, (call, before, after, n_calls) = max(found, key=lambda pair: pair[1][2] / pair[1][1])
    where = part_name(call.path) + (f", called {n_calls} times" if n_calls > 1 else "")
    description = f"{what} grow most at {where}: from {before:.2g} to {after:.2g} in one call"
    return GradientGrowth(call.path or "the model", description, after / before, sensitivity)


def _steepest(calls: Sequence[ModuleCall], size: object) -> tuple[ModuleCall, float, float, int] | None:
    """The call before which and at which sizes differ by the largest factor."""
    assert callable(size)
    sized = [(call, float(size(call))) for call in calls]
    steps = [
        (one, before, after)
        for (_, before), (one, after) in pairwise(sized)
        if before > 0 and math.isfinite(before) and math.isfinite(after) and after > before
    ]
    if not steps:
        return None
    call, before, after = max(steps, key=lambda step: step[2] / step[1])
    return call, before, after, sum(other.path == call.path for other in calls)


def _gradient_size(call: ModuleCall) -> float:
    return 0.0 if call.gradient is None else float(torch.linalg.vector_norm(call.gradient.double()))


def _made_size(call: ModuleCall) -> float:
    return 0.0 if call.made is None or not call.made.is_floating_point() else size_of(call.made)
