"""The gradients of a copy in training: as autograd tells them, and as nudging its weights shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.perturbation import size_of
from pellucid.inspection.instrument.specimen import Specimen, tensors_in

# Networks that are meant to follow another, and not to be trained, are usually called so.
_FOLLOWING = re.compile(r"(^|[._])(target|teacher|ema|momentum|slow|frozen)", re.IGNORECASE)


def runs_in_training(specimen: Specimen) -> bool:
    """Whether the batch goes through in training mode: a single row does not go through a batch norm."""

    def run() -> bool:
        with isolate(), torch.no_grad():
            specimen.copy("training").outputs()
        return True

    return try_or_none(run) is not None


def copy_in_training(specimen: Specimen) -> Specimen:
    """A copy in training mode; in eval where the batch only goes through there."""
    return specimen.copy("training" if runs_in_training(specimen) else "eval")


def objective(specimen: Specimen) -> Tensor | None:
    """The number that is made smaller: the loss, or where there is none a mixture of all outputs; None without either.

    The specimen must be a copy, and this must run inside `isolate`.
    """
    outputs = specimen.model(*own_inputs(specimen.inputs))
    if specimen.has_loss:
        loss = specimen.loss_of(outputs)
        return loss if isinstance(loss, Tensor) and loss.numel() == 1 else None
    rng = torch.Generator().manual_seed(0)
    floats = [one for one in tensors_in(outputs) if one.is_floating_point()]
    parts = [(one * torch.randn(one.shape, generator=rng).to(one)).sum() for one in floats]
    return torch.stack(parts).sum() if parts else None


def objective_gradients(specimen: Specimen, parameters: Sequence[Tensor]) -> list[Tensor | None] | None:
    """The gradient for each parameter of a copy, None for one that the objective does not lead to; None without one."""
    with isolate():
        loss = objective(specimen)
        if loss is None or not loss.isfinite():
            return None
        if not loss.requires_grad or not parameters:
            return [None] * len(parameters)
        found = torch.autograd.grad(loss, list(parameters), allow_unused=True)
    return [one.to_dense() if one is not None and one.is_sparse else one for one in found]


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that ask for a gradient."""
    return {path: one for path, one in model.named_parameters() if one.requires_grad and one.numel()}


def is_kept_from_learning(specimen: Specimen, path: str) -> bool:
    """Whether a parameter is likely kept from learning on purpose: by its name, or since the optimizer has it not."""
    if _FOLLOWING.search(path):
        return True
    return specimen.optimizer is not None and id(specimen.model.get_parameter(path)) not in specimen.held_by_optimizer


NUDGE = 1e-6  # of a weight's size, in float64
KICK = 1.0  # so large that what is chosen changes


class NudgedWeights(NamedTuple):
    """A parameter, and those of its weights that are nudged: 1 where one is, 0 elsewhere."""

    parameter: Tensor
    mask: Tensor
    is_off: bool  # the graph does not lead to it at all


Parts = dict[str, NudgedWeights]


def objective_value(specimen: Specimen) -> float:
    """The loss of a copy as a number, with the random numbers of every other run; nan where there is none."""
    with isolate(), torch.no_grad():
        found = objective(specimen)
    return float("nan") if found is None else float(found)


def _ways(parts: Parts) -> Iterator[tuple[NudgedWeights, Tensor]]:
    """Each parameter with one fixed direction in the size of its weights."""
    for number, part in enumerate(parts.values()):
        way = torch.randn(part.parameter.shape, generator=torch.Generator().manual_seed(number)).to(part.parameter)
        yield part, way * part.mask * (size_of(part.parameter) or 1.0)


def autograd_slope(parts: Parts, told: Mapping[str, Tensor]) -> float:
    """The slope along the same direction as autograd tells it."""
    ways = zip(parts, _ways(parts), strict=True)
    return sum(float((told[path] * way).sum()) for path, (_, way) in ways)


def _changed_by(specimen: Specimen, parts: Parts, share: float) -> float:
    """The objective with weights moved along their direction by a share of their size; then they are put back."""
    before = [part.parameter.detach().clone() for part in parts.values()]
    with torch.no_grad():
        for part, way in _ways(parts):
            part.parameter.add_(way * share)
        found = objective_value(specimen)
        for part, kept in zip(parts.values(), before, strict=True):
            part.parameter.copy_(kept)
    return found


def measured_slope(specimen: Specimen, parts: Parts) -> float:
    """How steeply the objective changes along the weights; 0 where it does not.

    A slope is one: half the nudge, half the change, there as back, and so for a far larger one. A kink or a jump is
    none, nor is rounding, as in a module that computes in float32 whatever it is given.
    """
    is_precise = next(iter(parts.values())).parameter.dtype is torch.float64
    nudge = NUDGE if is_precise else 100 * NUDGE
    here = objective_value(specimen)
    noise = (1e-11 if is_precise else 1e-5) * max(abs(here), 1e-3)
    slopes: list[float] = []
    for share in (0.25, 0.5, 1, 50):
        there, back = (_changed_by(specimen, parts, sign * nudge * share) for sign in (1, -1))
        slopes.append((there - back) / (2 * nudge * share))
        if not abs(there - back) > noise or abs(slopes[-1] / slopes[0] - 1) > 0.1:
            return 0.0
        if abs(there + back - 2 * here) > 0.1 * abs(there - back):
            return 0.0  # a kink, at which there is no one slope
    return slopes[2]


def jumps_when_kicked(specimen: Specimen, parts: Parts) -> bool:
    """Whether a large change is felt through weights that the graph does not lead to at all, as through an argmax.

    Only for those: a unit that is dead has a gradient, which is 0, and a large change may wake it.
    """
    off = {path: part for path, part in parts.items() if part.is_off}
    base = objective_value(specimen)
    kicked = [_changed_by(specimen, off, share) for share in (KICK, -KICK, 3 * KICK)] if off else []
    return any(abs(one - base) > 1e-5 * max(abs(base), 1e-3) for one in kicked)
