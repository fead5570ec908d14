"""`pellucid.doctor`: what can be proven of your module on your batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.api.shown import Shown
from pellucid.errors import PellucidError, quoted
from pellucid.runs import open_run

if TYPE_CHECKING:
    import torch
    from torch import nn

    from pellucid.inspection.instrument.specimen import LossFunction, Specimen
    from pellucid.records import Diagnosis

CHILD = "pellucid.inspection.sandbox.examine:examine_file"
LONGEST = 120.0  # seconds that code of someone's own may take


def doctor(
    model: nn.Module,
    batch: Any,
    loss: LossFunction | str = "",
    optimizer: torch.optim.Optimizer | None = None,
    *,
    more: Sequence[Any] = (),
    is_causal: bool | None = None,
    rules: Sequence[str] = (),
    seed: int = 0,
    name: str = "",
) -> Shown[Diagnosis]:
    """Everything that can be proven of a module on a batch, the gravest first. The module is left as it was.

    batch: (inputs, targets), where inputs is a tensor or a tuple of what forward takes; a tensor alone has no targets.
    loss: a function of outputs and targets, or a name such as "cross-entropy"; without it what needs it is passed over.
    more: further batches of the same form. is_causal: whether position t must not see what comes after it, if you know.
    rules: the names of those to run; all where none is named.

    >>> import torch
    >>> found = doctor(torch.nn.Linear(2, 3), (torch.randn(8, 2), torch.arange(8) % 3), "cross-entropy")
    >>> found.is_ill
    False
    """
    from pellucid.inspection.doctor import diagnose

    patient = as_patient(model, batch, loss, optimizer, more=more, is_causal=is_causal, name=name)
    return Shown(diagnose(patient, rules, seed))


def as_patient(
    model: nn.Module,
    batch: Any,
    loss: LossFunction | str = "",
    optimizer: torch.optim.Optimizer | None = None,
    *,
    more: Sequence[Any] = (),
    is_causal: bool | None = None,
    name: str = "",
) -> Specimen:
    """What the doctor is shown; what cannot be one is refused."""
    import torch
    from torch import nn

    from pellucid.inspection.instrument.specimen import Specimen
    from pellucid.inspection.losses import find_loss

    if not isinstance(model, nn.Module):
        fix = "Call the class first" if isinstance(model, type) else "Give an instance of torch.nn.Module"
        raise PellucidError(f"the model is a {type(model).__name__}, not a module", fix=fix)
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise PellucidError(
            f"the optimizer is a {type(optimizer).__name__}", fix="Give one torch.optim.Optimizer, or leave it out"
        )
    function = (find_loss(loss) if loss else None) if isinstance(loss, str) else loss
    if function is not None and not callable(function):
        raise PellucidError(
            f"the loss is a {type(loss).__name__}", fix="Give a function of outputs and targets, or a name"
        )
    inputs, targets = parted(batch)
    return Specimen(
        model=model,
        inputs=inputs,
        targets=targets,
        loss=function,
        optimizer=optimizer,
        more=tuple(parted(one) for one in more),
        is_causal=is_causal,
        name=name or type(model).__name__,
    )


def parted(batch: Any) -> tuple[tuple[Any, ...], torch.Tensor | None]:
    """A batch as what forward takes, and the targets.

    >>> import torch
    >>> inputs, targets = parted([torch.zeros(4, 2), torch.zeros(4)])  # as a DataLoader gives it
    >>> len(inputs), targets.shape
    (1, torch.Size([4]))
    """
    from torch import Tensor

    if isinstance(batch, Tensor):
        return (batch,), None
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        came = f"of {len(batch)}" if isinstance(batch, tuple | list) else f"that is a {type(batch).__name__}"
        raise PellucidError(
            f"a batch {came} came where (inputs, targets) is wanted",
            fix="Give ((first, second), targets) where forward takes several inputs",
        )
    inputs, targets = batch
    if targets is not None and not isinstance(targets, Tensor):
        raise PellucidError(f"the targets are a {type(targets).__name__}", fix="Give them as one tensor")
    if isinstance(inputs, dict):
        raise PellucidError(
            "the inputs are a dictionary, and names cannot be told to forward",
            fix="Give them as a tuple in the order of forward",
        )
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), targets


def doctor_run(word: str | Path, *, data: str = "", rules: Sequence[str] = (), seed: int = 0) -> Diagnosis:
    """The best network of a run on its own dev data, and what the looks at it while it was trained mean.

    data: where its data are, if they moved.
    """
    run = open_run(word)

    from pellucid.inspection.doctor import diagnose, with_findings
    from pellucid.inspection.judgements import PICTURED, judge_health
    from pellucid.training.run import make_specimen

    seen = [
        finding._replace(again=f"pellucid draw {PICTURED[finding.rule]} {word}")
        for finding in judge_health(run.health)
        if not rules or finding.rule in rules
    ]
    return with_findings(diagnose(make_specimen(run, data), rules, seed), seen)


def doctor_file(
    word: str, *, batch: str = "", loss: str = "", rules: Sequence[str] = (), seed: int = 0, timeout: float = LONGEST
) -> Diagnosis:
    """What a file has under a name, as "model.py:patient", examined in a process of its own.

    batch: a file of inputs and targets, and loss: the name of a loss, in place of its own.
    """
    from pellucid.inspection.batch_file import require_batch_file
    from pellucid.inspection.sandbox.process import run_in_child
    from pellucid.records import Diagnosis
    from pellucid.records.plain import from_plain

    file, _, name = word.rpartition(":")
    if not file or not name:
        raise PellucidError(f"{quoted(word)} does not say which name", fix=f"Write {word.rstrip(':')}:patient")
    path = Path(file).resolve()
    if not path.is_file():
        raise PellucidError(f"there is no file called {quoted(file)}", fix="Give file.py:name, or the name of a run")
    if not 0 < timeout < math.inf:
        raise PellucidError(f"{{timeout}} is {timeout:g}", fix="Give seconds above 0", options={"timeout": None})
    job = {
        "file": str(path),
        "name": name,
        "batch": str(require_batch_file(Path(batch)).resolve()) if batch else "",
        "loss": loss,
        "rules": tuple(rules),
        "seed": seed,
    }
    return from_plain(Diagnosis, run_in_child(CHILD, job, seconds=timeout, folder=path.parent, whose=word).plain)
