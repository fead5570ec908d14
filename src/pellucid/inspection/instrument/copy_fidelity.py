"""Whether a copy is the patient: it loses hooks, closures over weights, compiled and scripted parts."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pellucid.inspection.instrument.forking import measure_in_fork
from pellucid.inspection.instrument.isolation import isolate, own_inputs
from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.instrument.perturbation import largest_change, size_of
from pellucid.inspection.instrument.specimen import Specimen

SAME = 1e-4  # of their size, by which two ways to the same sum may differ


def copy_differs(specimen: Specimen) -> str:
    """How a copy differs from the patient, in a line; "" where it gives the same outputs and the same gradients.

    >>> from dataclasses import replace
    >>> from torch import nn
    >>> model = nn.Linear(2, 1)
    >>> _ = model.register_forward_hook(lambda module, given, out: 2 * out)
    >>> specimen = Specimen(model, (torch.ones(1, 2),))
    >>> copy_differs(specimen).startswith("outputs"), copy_differs(replace(specimen, keeps_hooks=True))
    (True, '')
    """
    return str(measure_in_fork(specimen.model, lambda: _difference(specimen)) or "")


def _difference(specimen: Specimen) -> str:
    """In the child: the patient itself twice, to know what it does not repeat, and a copy."""
    copied, again = specimen.copy(), specimen.copy()
    own, mirrored = _measured(specimen), _measured(copied)
    repeated = _measured(again)
    for what in ("outputs", "gradients"):
        apart, noise = (_farthest(one[what], mirrored[what]) for one in (own, repeated))
        if apart > max(SAME, 10 * noise):
            return f"{what} of a copy are {apart:.2g} of their size apart from those of the model itself"
    return ""


def _measured(specimen: Specimen) -> dict[str, list[Tensor]]:
    """What it puts out for the batch, and the gradients that backward leaves, with the same random numbers."""
    parameters = [one for one in specimen.model.parameters() if one.requires_grad]
    for one in parameters:
        one.grad = None
    with isolate():
        outputs = specimen.model(*own_inputs(specimen.inputs))
        floats = [one for one in tensors_in(outputs) if one.is_floating_point()]
        loss = specimen.loss_of(outputs) if specimen.has_loss else sum([one.double().square().sum() for one in floats])
        if isinstance(loss, Tensor) and loss.requires_grad:
            loss.sum().backward()  # type: ignore[no-untyped-call]  # torch gives it no types
    gradients = [torch.zeros_like(one) if one.grad is None else one.grad.to_dense() for one in parameters]
    return {"outputs": [one.detach() for one in floats], "gradients": gradients}


def _farthest(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest distance of two tensors of the same place, by their size; infinite where their shapes differ."""
    if [one.shape for one in ours] != [one.shape for one in theirs]:
        return math.inf
    return max(
        [largest_change(one, other) / (size_of(one) + 1e-12) for one, other in zip(ours, theirs, strict=True)],
        default=0.0,
    )
