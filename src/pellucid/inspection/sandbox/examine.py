"""The doctor over someone's file, in the child of `process`. The file gives a module, a class, a patient, or a function
that makes one of them.

The simplest is a function that returns (model, inputs, targets, loss) and, if there is one, the optimizer. What it does
not give can come from a file of tensors and the name of a loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError, quoted
from pellucid.inspection.batch_file import read_batch
from pellucid.inspection.doctor import diagnose
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.losses import find_loss
from pellucid.inspection.sandbox.their_code import load_name, translate_errors
from pellucid.records import as_plain

CONTRACT = "Return (model, inputs, targets, loss) from a function without arguments"


def patient_from(given: object, name: str, batch: str = "", loss: str = "") -> Specimen:
    """The patient that is given. batch: a file of tensors and loss: the name of a loss, in place of its own.

    >>> def patient():
    ...     return nn.Linear(2, 3), torch.ones(4, 2), torch.zeros(4, dtype=torch.long)
    >>> found = patient_from(patient, "patient", loss="cross-entropy")
    >>> found.n_rows, round(found.loss_of(torch.zeros(4, 3)).item(), 4)
    (4, 1.0986)
    """
    if not isinstance(given, nn.Module | Specimen) and callable(given):
        given = _call_maker(given, name)
    patient = _patient(given, name)
    if batch:
        inputs, targets = read_batch(Path(batch), needs_names=True)
        patient = replace(patient, inputs=inputs, targets=targets)
    if not patient.inputs:
        raise PellucidError(
            f"there is no batch for {quoted(name)}", fix="Give {batch}, or return it", options={"batch": None}
        )
    if loss:
        patient = replace(patient, loss=find_loss(loss))
    return patient


def _call_maker(make: Any, name: str) -> object:
    try:
        return make()
    except TypeError as error:
        if "argument" in str(error):
            raise PellucidError(f"{quoted(name)} wants arguments", fix=CONTRACT) from error
        raise


def _patient(given: object, name: str) -> Specimen:
    if isinstance(given, Specimen):
        return given
    if isinstance(given, nn.Module):
        return Specimen(given, (), name=name)
    if not isinstance(given, tuple) or not given or len(given) > 5 or not isinstance(given[0], nn.Module):
        raise PellucidError(f"{quoted(name)} gives a {type(given).__name__}, which is no patient", fix=CONTRACT)
    parts: list[Any] = [*given, *[None] * (5 - len(given))]
    model, inputs, targets, loss, optimizer = parts
    if targets is not None and not isinstance(targets, Tensor):
        raise PellucidError(f"the targets of {quoted(name)} are a {type(targets).__name__}", fix="Make them a tensor")
    if isinstance(inputs, dict):
        raise PellucidError(
            f"the inputs of {quoted(name)} are a dictionary", fix="Make them a tuple, as forward has it"
        )
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise PellucidError(
            f"the optimizer of {quoted(name)} is a {type(optimizer).__name__}", fix="Make it a torch.optim.Optimizer"
        )
    if isinstance(loss, str):
        loss = find_loss(loss)
    as_tuple = () if inputs is None else tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    return Specimen(model, as_tuple, targets, loss, optimizer, name=name)


def examine_file(job: Mapping[str, Any]) -> object:
    """The diagnosis of what a file has under a name, as plain values.

    job: file, name, batch (a file of tensors, or ""), loss (the name of one, or ""), rules and seed.
    """
    path, name = Path(job["file"]), str(job["name"])
    found = load_name(path, name)
    with translate_errors(path):
        patient = patient_from(found.value, name, str(job["batch"]), str(job["loss"]))
        diagnosis = diagnose(patient, list(job["rules"]), int(job["seed"]))
    mended = [f"{path.name} was read as if mended: {mistake}" for mistake in found.mistakes]
    return as_plain(diagnosis._replace(notes=(*mended, *diagnosis.notes)))
