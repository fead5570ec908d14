"""What the doctor is given, checked and made a specimen: by a call in Python, or by a name in someone's file.

In a file the simplest is a function that returns (model, inputs, targets, loss) and, if there is one, the optimizer.
What it does not give can come from a file of tensors and the name of a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError, quoted
from pellucid.inspection.batch_file import StoredBatch, read_batch
from pellucid.inspection.doctor import diagnose
from pellucid.inspection.instrument.specimen import LossFunction, Specimen
from pellucid.inspection.losses import find_loss_function
from pellucid.inspection.sandbox.their_code import load_name, translate_errors
from pellucid.records import as_plain

CONTRACT = "Return (model, inputs, targets, loss) from a function without arguments"


def build_specimen(
    model: nn.Module,
    batch: Any,
    loss: LossFunction | str | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    more: Sequence[Any] = (),
    is_causal: bool | None = None,
    name: str = "",
    whose: str = "",
) -> Specimen:
    """What the doctor is shown; what cannot be one is refused. whose: " of 'net'", for messages."""
    if not isinstance(model, nn.Module):
        fix = "Call the class first" if isinstance(model, type) else "Give an instance of torch.nn.Module"
        raise PellucidError(f"the model is a {type(model).__name__}, not a module", fix=fix)
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise PellucidError(
            f"the optimizer{whose} is a {type(optimizer).__name__}",
            fix="Give one torch.optim.Optimizer, or leave it out",
        )
    function = (find_loss_function(loss) if loss else None) if isinstance(loss, str) else loss
    if function is not None and not callable(function):
        raise PellucidError(
            f"the loss is a {type(loss).__name__}", fix="Give a function of outputs and targets, or a name"
        )
    inputs, targets = split_batch(batch, whose)
    further = tuple(split_batch(one, whose) for one in more)
    return Specimen(model, inputs, targets, function, optimizer, further, is_causal, name or type(model).__name__)


def split_batch(batch: Any, whose: str = "") -> StoredBatch:
    """A batch as what forward takes, and the targets: a tensor, (inputs, targets), or a file of them.

    >>> inputs, targets = split_batch([torch.zeros(4, 2), torch.zeros(4)])  # as a DataLoader gives it
    >>> len(inputs), targets.shape
    (1, torch.Size([4]))
    """
    if isinstance(batch, str | Path):
        return read_batch(Path(batch), needs_names=True)
    if isinstance(batch, Tensor):
        return StoredBatch((batch,))
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        came = f"of {len(batch)}" if isinstance(batch, tuple | list) else f"that is a {type(batch).__name__}"
        raise PellucidError(
            f"a batch {came} came where (inputs, targets) is wanted",
            fix="Give ((first, second), targets) where forward takes several inputs",
        )
    inputs, targets = batch
    if targets is not None and not isinstance(targets, Tensor):
        raise PellucidError(f"the targets{whose} are a {type(targets).__name__}", fix="Give them as one tensor")
    if isinstance(inputs, dict):
        raise PellucidError(
            f"the inputs{whose} are a dictionary, and names cannot be told to forward",
            fix="Give them as a tuple in the order of forward",
        )
    return StoredBatch(tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), targets)


def specimen_from(given: object, name: str, batch: str = "", loss: str = "") -> Specimen:
    """What a file has under a name, as a specimen. batch: a file of tensors, loss: a name, in place of its own.

    >>> def patient():
    ...     return nn.Linear(2, 3), torch.ones(4, 2), torch.zeros(4, dtype=torch.long)
    >>> found = specimen_from(patient, "patient", loss="cross-entropy")
    >>> found.n_rows, round(found.loss_of(torch.zeros(4, 3)).item(), 4)
    (4, 1.0986)
    """
    if not isinstance(given, nn.Module | Specimen) and callable(given):
        given = _call_maker(given, name)
    if isinstance(given, nn.Module):
        given = (given,)
    if isinstance(given, Specimen):
        specimen = given
    elif isinstance(given, tuple) and 0 < len(given) <= 5 and isinstance(given[0], nn.Module):
        parts: list[Any] = [*given, *[None] * (5 - len(given))]
        model, inputs, targets, function, optimizer = parts
        own = (() if inputs is None else inputs, targets)
        specimen = build_specimen(model, own, function, optimizer, name=name, whose=f" of {quoted(name)}")
    else:
        raise PellucidError(f"{quoted(name)} gives a {type(given).__name__}, which is no patient", fix=CONTRACT)
    if batch:
        stored = read_batch(Path(batch), needs_names=True)
        specimen = replace(specimen, inputs=stored.inputs, targets=stored.targets)
    if not specimen.inputs:
        raise PellucidError(
            f"there is no batch for {quoted(name)}", fix="Give {batch}, or return it", options={"batch": None}
        )
    return replace(specimen, loss=find_loss_function(loss)) if loss else specimen


def _call_maker(make: Any, name: str) -> object:
    try:
        return make()
    except TypeError as error:
        if "argument" in str(error):
            raise PellucidError(f"{quoted(name)} wants arguments", fix=CONTRACT) from error
        raise


def examine_file(job: Mapping[str, Any]) -> object:
    """The diagnosis of what a file has under a name, as plain values; the job of a child of `sandbox.process`.

    job: file, name, batch (a file of tensors, or ""), loss (the name of one, or ""), rules and seed.
    """
    path, name = Path(job["file"]), str(job["name"])
    found = load_name(path, name)
    with translate_errors(path):
        specimen = specimen_from(found.value, name, str(job["batch"]), str(job["loss"]))
        diagnosis = diagnose(specimen, list(job["rules"]), int(job["seed"]))
    mended = [f"{path.name} was read as if mended: {mistake}" for mistake in found.mistakes]
    return as_plain(diagnosis._replace(notes=(*mended, *diagnosis.notes)))
