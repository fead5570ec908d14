"""All that a look must leave as it was: weights, buffers, gradients, modes, hooks, the batch, the optimizer and chance.

Probes work on copies. That they did is not believed but compared, bit by bit, and what differs is put back.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pellucid.errors import PellucidError, quoted
from pellucid.inspection.patient import Patient

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class State:
    """A patient as it was when this was made.

    >>> patient = Patient(torch.nn.Linear(2, 3), (torch.ones(4, 2),))
    >>> state = State(patient)
    >>> _ = patient.model.eval()
    >>> state.restored()
    ['the mode of the model']
    >>> state.restored(), patient.model.training
    ([], True)
    """

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self._tensors = {name: (tensor, tensor.detach().clone()) for name, tensor in _tensors(patient)}
        self._gradients = {
            path: (parameter, parameter.grad, None if parameter.grad is None else parameter.grad.clone())
            for path, parameter in patient.model.named_parameters()
        }
        self._learning = {path: parameter.requires_grad for path, parameter in patient.model.named_parameters()}
        self._modes = [(path, module, module.training) for path, module in patient.model.named_modules()]
        self._hooks = [
            (path, getattr(module, kind), dict(getattr(module, kind)))
            for path, module in patient.model.named_modules()
            for kind in _HOOKS
        ]
        self._optimizer = copy.deepcopy(patient.optimizer.state_dict()) if patient.optimizer is not None else None
        self._chance = chance()

    def restored(self) -> list[str]:
        """Everything put back; the names of what differed, which should be none."""
        return [*self._numbers(), *self._switches(), *self._others()]

    def _numbers(self) -> Iterator[str]:
        for name, (tensor, before) in self._tensors.items():
            if not is_same(tensor, before):
                with torch.no_grad():
                    tensor.copy_(before)
                yield name
        for path, (parameter, gradient, bits) in self._gradients.items():
            if parameter.grad is not gradient or (bits is not None and not is_same(gradient, bits)):
                parameter.grad = gradient if bits is None or gradient is None else gradient.copy_(bits)
                yield f"the gradient of {path}"

    def _switches(self) -> Iterator[str]:
        for path, parameter in self.patient.model.named_parameters():
            if parameter.requires_grad != self._learning.get(path, parameter.requires_grad):
                parameter.requires_grad_(self._learning[path])
                yield f"whether {path} learns"
        for path, module, was_training in self._modes:
            if module.training != was_training:
                module.training = was_training
                yield f"the mode of {path or 'the model'}"
        for path, hooks, before in self._hooks:
            if dict(hooks) != before:
                hooks.clear()
                hooks.update(before)
                yield f"the hooks of {path or 'the model'}"

    def _others(self) -> Iterator[str]:
        optimizer = self.patient.optimizer
        if (
            optimizer is not None
            and self._optimizer is not None
            and not _alike(optimizer.state_dict(), self._optimizer)
        ):
            optimizer.load_state_dict(self._optimizer)
            yield "the optimizer"
        if not _alike(chance(), self._chance):
            set_chance(self._chance)
            yield "random numbers"


def require_shapes(model: nn.Module) -> None:
    """Refuse a module whose parameters wait for their first input; until then there is nothing to look at."""
    waiting = [path for path, parameter in model.named_parameters() if is_lazy(parameter)]
    if waiting:
        raise PellucidError(
            f"{len(waiting)} parameters have no shape yet, the first of them {quoted(waiting[0])}",
            fix="Call the model once on a batch, then look again",
        )


def chance() -> tuple[Any, ...]:
    """Where the random numbers of Python, numpy and torch stand."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def set_chance(state: tuple[Any, ...]) -> None:
    """Random numbers go on from there."""
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])


def is_same(one: object, other: object) -> bool:
    """Whether two tensors have the same bits; what is no number equals itself here.

    >>> is_same(torch.tensor(float("nan")), torch.tensor(float("nan")))
    True
    """
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or torch.equal(_bits(one), _bits(other))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _tensors(patient: Patient) -> Iterator[tuple[str, Tensor]]:
    """Each weight, buffer and tensor of the batches, with its name."""
    yield from patient.model.named_parameters()
    yield from patient.model.named_buffers()
    for number, (inputs, targets) in enumerate([(patient.inputs, patient.targets), *patient.more]):
        for place, one in enumerate([*inputs, targets]):
            if isinstance(one, Tensor):
                yield f"tensor {place} of batch {number}", one


def _alike(one: Any, other: Any) -> bool:
    """Whether two nests of dictionaries, lists and tensors hold the same."""
    if isinstance(one, Tensor):
        return is_same(one, other)
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)
