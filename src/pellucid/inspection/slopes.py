"""Gradients as autograd tells them, of a copy, with the modes and the dice of training."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.inspection.patient import Patient
from pellucid.inspection.probes import fresh, probing, size_of

# Networks that are meant to follow another, and not to be trained, are usually called so.
_FOLLOWING = re.compile(r"(^|[._])(target|teacher|ema|momentum|slow|frozen)", re.IGNORECASE)


def runs_in_training(patient: Patient) -> bool:
    """Whether the batch goes through in training mode: a single row does not go through a batch norm."""
    try:
        with probing(), torch.no_grad():
            patient.copied().model.train()(*fresh(patient.inputs))
    except Exception:  # whatever a stranger's module raises, it does not run
        return False
    return True


def in_training(patient: Patient) -> Patient:
    """A copy in training mode; in eval where the batch only goes through there."""
    copied = patient.copied()
    copied.model.train(runs_in_training(patient))
    return copied


def floats_of(outputs: Any) -> Iterator[Tensor]:
    """Every tensor of real numbers in what a module puts out, however deep.

    >>> [one.shape for one in floats_of({"a": [torch.ones(2), None], "b": torch.ones(3)})]
    [torch.Size([2]), torch.Size([3])]
    """
    if isinstance(outputs, Tensor):
        if outputs.is_floating_point():
            yield outputs
    elif isinstance(outputs, dict):
        for one in outputs.values():
            yield from floats_of(one)
    elif isinstance(outputs, tuple | list):
        for one in outputs:
            yield from floats_of(one)


def goal_of(patient: Patient) -> Tensor | None:
    """The number that is made smaller: the loss, or where there is none a mixture of all outputs; None without either.

    The patient must be a copy, and this must run inside `probing`.
    """
    outputs = patient.model(*fresh(patient.inputs))
    if patient.loss is not None and patient.targets is not None:
        loss = patient.loss_of(outputs)
        return loss if isinstance(loss, Tensor) and loss.numel() == 1 else None
    dice = torch.Generator().manual_seed(0)
    parts = [(one * torch.randn(one.shape, generator=dice).to(one)).sum() for one in floats_of(outputs)]
    return torch.stack(parts).sum() if parts else None


def slopes_of(patient: Patient, parameters: Sequence[Tensor]) -> list[Tensor | None] | None:
    """The gradient for each parameter of a copy, None for one that the goal does not lead to; None without a goal."""
    with probing():
        goal = goal_of(patient)
        if goal is None or not goal.isfinite():
            return None
        if not goal.requires_grad or not parameters:
            return [None] * len(parameters)
        found = torch.autograd.grad(goal, list(parameters), allow_unused=True)
    return [one.to_dense() if one is not None and one.is_sparse else one for one in found]


def learning(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that ask for a gradient."""
    return {path: one for path, one in model.named_parameters() if one.requires_grad and one.numel()}


def is_left_alone(patient: Patient, path: str) -> bool:
    """Whether a parameter is likely kept from learning on purpose: by its name, or since the optimizer has it not."""
    if _FOLLOWING.search(path):
        return True
    if patient.optimizer is None:
        return False
    held = {id(one) for group in patient.optimizer.param_groups for one in group["params"]}
    return id(dict(patient.model.named_parameters())[path]) not in held


def jittered(model: nn.Module, seed: int) -> nn.Module:
    """A copy with each weight nudged by about a tenth: what was 0 only because weights begin at 0, no longer is."""
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                nudge = torch.randn(parameter.shape, generator=dice).to(parameter)
                parameter.add_(nudge * (0.1 * size_of(parameter) + 0.01))
    return model


def some_of(paths: Sequence[str], most: int = 3) -> str:
    """The first few of many, and how many more.

    >>> some_of(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    shown = ", ".join(paths[:most])
    return shown if len(paths) <= most else f"{shown} and {len(paths) - most} more"
