"""A few steps of training on a copy, with the settings and the state of the patient's own optimizer.

All steps see the same batch and the same dice, so that the loss differs by what was learned and by nothing else.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.copies import attempt, copy_with_optimizer, own
from pellucid.inspection.measurements import gradients_of
from pellucid.inspection.patient import Patient, unchanged_randomness


class Trial(NamedTuple):
    """What a few steps did."""

    losses: tuple[float, ...]  # before the first step, and after each
    moves: dict[str, tuple[float, ...]]  # of each matrix at each step: the update's deviation by its own


def trial(patient: Patient, factor: float = 1.0, steps: int = 5) -> Trial | None:
    """So many steps at so many times the rate; None where the copy cannot be trained.

    >>> from torch import nn
    >>> line = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(line.weight, 3.0)
    >>> optimizer = torch.optim.SGD(line.parameters(), lr=0.25)
    >>> patient = Patient(line, (torch.ones(2, 1),), torch.zeros(2, 1), nn.MSELoss(), optimizer)
    >>> trial(patient, steps=2).losses  # each step halves the weight
    (9.0, 2.25, 0.5625)
    """
    return attempt(lambda: _trial(patient, factor, steps))


def _trial(patient: Patient, factor: float, steps: int) -> Trial:
    copied = copy_with_optimizer(patient)
    assert copied is not None
    optimizer = copied.optimizer
    assert optimizer is not None
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * factor
    # A matrix that begins with one number everywhere has no size of its own yet to move by.
    matrices = {
        path: each for path, each in copied.model.named_parameters() if each.dim() >= 2 and bool(each.std(correction=0))
    }
    losses: list[float] = []
    moves: dict[str, list[float]] = {path: [] for path in matrices}

    def closure() -> Tensor:
        """The loss, with its gradients in place; called by the optimizer, by some several times."""
        with unchanged_randomness(), torch.enable_grad():
            loss = copied.loss_of(copied.model(*own(copied.inputs)))
            gradients = gradients_of(copied.model, loss)
        for path, parameter in copied.model.named_parameters():
            parameter.grad = gradients.get(path)
        return loss.detach()

    for _ in range(steps):
        losses.append(closure().item())
        before = {path: each.detach().clone() for path, each in matrices.items()}
        optimizer.step(closure)  # type: ignore[arg-type]  # torch's own give a tensor, too
        for path, each in matrices.items():
            size = before[path].double().std(correction=0)
            update = (each.detach() - before[path]).double().std(correction=0)
            moves[path].append((update / size).item() if size > 0 else 0.0)
    losses.append(closure().item())
    return Trial(tuple(losses), {path: tuple(each) for path, each in moves.items()})


def after_nothing(patient: Patient) -> dict[str, float] | None:
    """How much of each parameter's size is left after one step without any gradient: less than 1 is decay.

    >>> from torch import nn
    >>> line = nn.Linear(3, 1, bias=False)
    >>> decayed = torch.optim.SGD(line.parameters(), lr=0.1, weight_decay=0.5)
    >>> round(after_nothing(Patient(line, (), optimizer=decayed))["weight"], 6)
    0.95
    """
    return attempt(lambda: _after_nothing(patient))


def _after_nothing(patient: Patient) -> dict[str, float]:
    copied = copy_with_optimizer(patient)
    assert copied is not None
    optimizer = copied.optimizer
    assert optimizer is not None
    optimizer.state.clear()  # momentum of earlier steps is not decay
    before = {}
    for path, parameter in copied.model.named_parameters():
        with torch.no_grad():
            if not parameter.any():
                parameter.fill_(1.0)  # a bias of zeros shows no decay yet
        before[path] = copy.deepcopy(parameter.detach())
        parameter.grad = torch.zeros_like(parameter)
    with unchanged_randomness():
        optimizer.step()
    return {
        path: (torch.linalg.vector_norm(parameter.detach()) / torch.linalg.vector_norm(before[path])).item()
        for path, parameter in copied.model.named_parameters()
    }
