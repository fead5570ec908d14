"""Copies of a patient for probes, each with what it needs: inputs of its own, its optimizer, float64, or no zeros."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from pellucid.inspection.patient import Patient, unchanged_randomness, without_hooks

T = TypeVar("T")


def attempt(run: Callable[[], T]) -> T | None:
    """What someone's code gives; None where it raises, for a probe may ask a module for what it was not made for.

    >>> from torch import nn
    >>> attempt(lambda: nn.Linear(2, 3)(torch.ones(5))) is None
    True
    """
    try:
        return run()
    except Exception:
        return None


def own(value: Any) -> Any:
    """The same inputs with tensors of their own, so that what a module does to them in place is not done to ours.

    >>> mine = torch.ones(2)
    >>> own({"x": [mine]})["x"][0] is mine
    False
    """
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: own(each) for key, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(own(each) for each in value)
    return value


def copy_of(patient: Patient) -> Patient | None:
    """The patient with a module and inputs of its own; None where its module cannot be copied."""
    copied = attempt(patient.copied)
    return None if copied is None else replace(copied, inputs=own(patient.inputs))


def copy_with_optimizer(patient: Patient) -> Patient | None:
    """As `copy_of`, with a copy of the optimizer too, that moves the copy's parameters with the state it has.

    >>> from torch import nn
    >>> linear = nn.Linear(1, 1)
    >>> both = copy_with_optimizer(Patient(linear, (), optimizer=torch.optim.SGD(linear.parameters(), lr=0.1)))
    >>> both.optimizer.param_groups[0]["params"][0] is both.model.weight
    True
    """
    if (pair := attempt(lambda: copy.deepcopy((patient.model, patient.optimizer)))) is None:
        return None
    return replace(patient, model=without_hooks(pair[0]), optimizer=pair[1], inputs=own(patient.inputs))


def with_drawn_zeros(copied: Patient) -> Patient:
    """The copy with small numbers in every matrix that is all zeros, as heads and branches that begin at zero are.

    Behind such a matrix nothing shows: all outputs are the same, and no gradient comes through.

    >>> from torch import nn
    >>> zero = nn.Linear(2, 2)
    >>> _ = nn.init.zeros_(zero.weight)
    >>> bool(with_drawn_zeros(Patient(zero, ())).model.weight.any())
    True
    """
    dice = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in copied.model.parameters():
            if is_lazy(parameter) or parameter.is_meta or not parameter.is_floating_point():
                continue
            if parameter.dim() >= 2 and not bool(parameter.any()):
                drawn = torch.randn(parameter.shape, generator=dice, dtype=torch.float32)
                parameter.copy_(drawn / max(1, parameter[0].numel()) ** 0.5)
    return copied


def in_double(patient: Patient) -> Patient:
    """A copy of a copy in float64, where rounding can be told from a difference; itself where it runs in no other."""

    def converted() -> Patient:
        inputs = tuple(_doubled(own(each)) for each in patient.inputs)
        targets = None if patient.targets is None else _doubled(patient.targets)
        double = replace(patient, model=copy.deepcopy(patient.model).double(), inputs=inputs, targets=targets)
        with unchanged_randomness():
            outputs = replace(double, model=copy.deepcopy(double.model), inputs=own(inputs)).outputs()
            if double.loss is not None and double.targets is not None:
                double.loss_of(outputs)
        return double

    return attempt(converted) or patient


def _doubled(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def batches(patient: Patient, most: int = 4) -> Iterator[Patient]:
    """The patient with its batch, then with each of its further ones."""
    yield patient
    for inputs, targets in patient.more[: most - 1]:
        yield replace(patient, inputs=inputs, targets=targets)
