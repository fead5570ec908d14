"""What a copy in training makes smaller, and its gradients as autograd tells them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
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


def objective_value(specimen: Specimen) -> float:
    """The loss of a copy as a number, with the random numbers of every other run; nan where there is none."""
    with isolate(), torch.no_grad():
        found = objective(specimen)
    return float("nan") if found is None else float(found)
