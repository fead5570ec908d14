"""Targets that are the same for every row ask for one answer, and a model that ignores its inputs gives it best.

A loader that reads one label again and again does that, an index that was never moved on, a column that was cut away.
What is asked must be what the targets are: a loss that reads them only for their shape, or scores that hold the right
answer first in each row, as those of contrastive losses, have constant targets on purpose.
"""

from dataclasses import replace

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import try_or_none
from pellucid.inspection.instrument.nests import map_tensors, tensors_in
from pellucid.inspection.instrument.short_run import objective_value
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST_ROWS = 8
FEWEST_LONG_ROWS = 3  # of several different numbers each, which are hardly the same by chance
AGAIN = "print(y.unique(dim=0))"


def check(specimen: Specimen) -> Findings:
    n_rows = specimen.n_rows
    targets = [one for one in tensors_in(specimen.targets) if one.dim() and len(one) == n_rows]
    if not targets or not specimen.has_loss:
        return
    is_long = any(len(one[0].unique()) > 2 for one in targets if one.dim() > 1)  # type: ignore[no-untyped-call]
    if n_rows < (FEWEST_LONG_ROWS if is_long else FEWEST_ROWS):
        return
    n_kinds = max(
        len(one.flatten(1).unique(dim=0) if one.dim() > 1 else one.unique())  # type: ignore[no-untyped-call]
        for one in targets
    )
    seen = f"the targets of {n_rows} rows are {'all the same' if n_kinds == 1 else f'of {n_kinds} kinds'}"
    if n_kinds > 1:
        yield Finding.sound("targets", seen, "rows are asked for different things", again=AGAIN)
        return
    is_read = try_or_none(lambda: _is_read(specimen))
    if not is_read or _differ(specimen.more, targets):
        return
    yield Finding.suspicious(
        "targets",
        f"{seen}, though their inputs differ",
        "one constant answer is the best there is: nothing of the inputs has to be learned",
        "look at how targets are read and put together; where one of several scores is always the right one by "
        "construction, nothing",
        again=AGAIN,
    )


def _is_read(specimen: Specimen) -> bool:
    """Whether the loss would be another with other targets, and rows of the inputs differ."""
    given = [one for one in tensors_in(specimen.inputs) if one.dim() and len(one) == specimen.n_rows]
    if not any(bool((one != one[:1]).any()) for one in given):
        return False  # inputs that are all the same have a finding of their own

    def change(one: Tensor) -> Tensor:
        if one.is_floating_point():
            return one + one.abs().mean() + 1
        return torch.where(one > 0, one - 1, one + 1) if one.dtype is not torch.bool else ~one

    copied = specimen.copy()
    other = replace(copied, targets=map_tensors(change, specimen.targets))
    return objective_value(copied) != objective_value(other)


def _differ(more: tuple[tuple[tuple[object, ...], object], ...], targets: list[Tensor]) -> bool:
    """Whether further batches ask for something else, as where each batch is of one kind."""
    firsts = [[one[:1] for one in tensors_in(other) if one.dim()] for _, other in more]
    return any(
        len(first) == len(targets) and any(not torch.equal(a, b[:1]) for a, b in zip(first, targets, strict=True))
        for first in firsts
    )


RULE = DoctorRule(
    name="constant-targets",
    proves="that every row is asked for the same, so that a constant is the best answer",
    how="compares the targets of all rows, and asks whether the loss reads them",
    check=check,
    cannot_see="targets that are nearly all the same, and those of a step of training of one's own",
    needs=("targets", "loss"),
)
