"""Where a gradient grows past all measure on its way back, or what is put out on its way forward.

Each call of a part is looked at in the order of its calls, so that a cell that is called once for each time step shows
how much every one of them adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.perturbation import size_of
from pellucid.inspection.instrument.recording import ModuleCall, part_name, record
from pellucid.inspection.instrument.specimen import Specimen

ABSURD = 1e7  # times: how much farther the loss goes than the weights, both by their own sizes
ABSURD_SLOPE = 1e8  # times the norm of the weights: a rate of 0.001 would throw them away a hundred thousand times over
SEVERAL = 3  # calls of one part, as of a cell for each time step


class GradientGrowth(NamedTuple):
    """The place with the largest growth from one call to the next, and how large gradients are in all."""

    path: str
    description: str
    factor: float
    sensitivity: float  # the gradient's norm, times that of the weights, by the loss
    slope: float  # the gradient's norm, by that of the weights

    @property
    def is_absurd(self) -> bool:
        return self.sensitivity > ABSURD or self.slope > ABSURD_SLOPE


def loss_sensitivity(loss: float, weights: Sequence[Tensor], gradients: Sequence[Tensor]) -> float:
    """How many times farther a loss goes than all weights, each by its own size: 1 for a product of a weight.

    >>> weight = torch.tensor([3.0, 4.0])
    >>> loss_sensitivity(25.0, [weight], [2 * weight])
    2.0
    """
    return _norm_of_all(weights) * _norm_of_all(gradients) / max(abs(loss), 1e-30)


def gradient_growth(specimen: Specimen) -> GradientGrowth | None:
    """Where it grows most in one pass of a copy; None where nothing is called, or nothing grows."""
    seen = record(specimen.copy(), with_loss=specimen.has_loss)
    if seen is None:
        return None
    calls = [call for call in seen.modules if call.is_leaf and call.made is not None]
    backward = [call for call in reversed(calls) if call.gradient is not None and bool(call.gradient.any())]
    growths = [*_growths("gradients", backward, _gradient_size), *_growths("outputs", calls, _made_size)]
    if not growths:
        return None
    factor, path, description = max(growths, key=lambda each: each[0])
    parameters = dict(specimen.model.named_parameters())
    weights, gradients = [parameters[name] for name in seen.gradients], list(seen.gradients.values())
    sensitivity = slope = math.nan
    if seen.loss is not None and weights:
        sensitivity = loss_sensitivity(float(seen.loss.detach()), weights, gradients)
        slope = _norm_of_all(gradients) / max(_norm_of_all(weights), 1e-30)
    return GradientGrowth(path or "the model", description, factor, sensitivity, slope)


def _growths(
    what: str, calls: Sequence[ModuleCall], size: Callable[[ModuleCall], float]
) -> list[tuple[float, str, str]]:
    """By how much sizes grow: of a part that is called again and again over all its calls, of others at each."""
    by_path: dict[str, list[float]] = {}
    for call in calls:
        by_path.setdefault(call.path, []).append(size(call))
    found = []
    for path, sizes in by_path.items():
        first, last = next((one for one in sizes if one > 0), 0.0), sizes[-1]
        if len(sizes) >= SEVERAL and 0 < first < last < math.inf:
            each = (last / first) ** (1 / (len(sizes) - 1))
            told = f"{what} of {part_name(path)} grow from {first:.2g} to {last:.2g} over {len(sizes)} calls"
            found.append((last / first, path, f"{told}, {each:.2g} times with each"))
    single = [call for call in calls if len(by_path[call.path]) < SEVERAL]
    for one, other in pairwise(single):
        before, after = size(one), size(other)
        if 0 < before < after < math.inf:
            told = f"{what} grow most at {part_name(other.path)}: from {before:.2g} to {after:.2g} in one call"
            found.append((after / before, other.path, told))
    return found


def _norm_of_all(tensors: Sequence[Tensor]) -> float:
    return math.hypot(*[float(one.detach().to_dense().double().norm()) for one in tensors])


def _gradient_size(call: ModuleCall) -> float:
    return 0.0 if call.gradient is None else float(torch.linalg.vector_norm(call.gradient.double()))


def _made_size(call: ModuleCall) -> float:
    return 0.0 if call.made is None or not call.made.is_floating_point() else size_of(call.made)
