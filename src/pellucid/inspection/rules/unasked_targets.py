"""Targets that are given and that the loss does not ask for are learned by nobody.

`ignore_index=0` where 0 is a class like others; a loss of the last position only. What the loss asks for at each place
is read off its slope. Padding is left out on purpose, and is known by lying at the ends of rows.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.nests import map_tensors, tensors_in
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

INSIDE = 0.1  # of the places of a class that is never asked for
FAR = (0.0, 0.3, 1.0, 3.0)  # from the outputs, where it is asked again: a hinge has no slope where it is content


def check(specimen: Specimen) -> Findings:
    view, targets = loss_view(specimen), specimen.target
    unasked = _unasked_rows(specimen)
    if unasked is not None and sum(unasked) > len(unasked) / 2:
        yield Finding.suspicious(
            "loss",
            f"of {len(unasked)} rows {sum(unasked)} have no part in it: whatever is put out for them, its slope there "
            "is exactly 0",
            "most of the batch is run and nothing is learned from it",
            "look in the loss for an index, a slice or a mask that leaves rows out",
            again="outputs = model(x).detach().requires_grad_()\n"
            "loss(outputs, y).backward()\n"
            "print(outputs.grad.flatten(1).abs().sum(1))",
        )
        return
    wanted = view.wanted_classes() if view is not None else None
    if view is None or wanted is None or targets is None or targets.is_floating_point():
        return
    if wanted.shape != targets.shape:
        return
    asked = wanted >= 0
    seen = f"the loss asks for {int(asked.sum())} of {targets.numel()} targets"
    classes = _never_asked(view, targets, asked)
    columns = int(asked.any(dim=0).sum()) if targets.dim() == 2 else 0
    if classes and (targets.dim() == 1 or _is_inside(targets, classes, asked)):
        counted = int(sum((targets == one).sum() for one in classes))
        yield Finding.suspicious(
            "loss",
            f"{seen}: never for class {classes[0]}, which {counted} of them are",
            "one of the classes is never learned",
            "set ignore_index to a number that is no class, as -100",
            again="print([(k, loss(model(x), y.new_full(y.shape, k)).item()) for k in y.unique().tolist()])",
        )
    elif columns == 1 and targets.shape[1] > 2 and bool((targets >= 0).all()):
        column = int(asked.any(dim=0).nonzero())
        yield Finding.suspicious(
            "loss",
            f"{seen}: of {targets.shape[1]} positions only {column}",
            "all other positions are given targets, and none of them is trained",
            "take the loss over all positions: scores.flatten(0, 1) against targets.flatten()",
            again="print(loss(model(x), y), scores.shape, y.shape)",
        )
    elif bool(asked.all()):
        yield Finding.sound("loss", seen, "every target is asked for")


def _unasked_rows(specimen: Specimen) -> list[bool] | None:
    """Of each row whether the loss has no slope there, at the outputs and at others; None where rows are not known."""

    def measure() -> list[bool] | None:
        copied = specimen.copy()
        with isolate():
            outputs = copied.model(*own_inputs(copied.inputs))
            floats = [one.detach() for one in tensors_in(outputs) if one.is_floating_point()]
            if not floats or any(not one.dim() or len(one) != specimen.n_rows for one in floats):
                return None
            felt = torch.zeros(specimen.n_rows, dtype=torch.bool)
            rng = torch.Generator().manual_seed(0)
            for far in FAR:
                free = [one + far * torch.randn(one.shape, generator=rng).to(one) for one in floats]
                for one in free:
                    one.requires_grad_()
                told = specimen.loss_of(map_tensors(partial(_next_of, iter(free)), outputs))
                for slope in torch.autograd.grad(told, free, allow_unused=True):
                    if slope is not None:
                        felt |= (slope != 0).flatten(1).any(1) if slope.dim() > 1 else slope != 0
        return (~felt).tolist()

    return try_or_none(measure) if specimen.has_loss and specimen.n_rows > 1 else None


def _next_of(free: Iterator[Tensor], one: Tensor) -> Tensor:
    return next(free) if one.is_floating_point() else one


def _is_inside(targets: Tensor, classes: list[int], asked: Tensor) -> bool:
    """Whether places of these classes stand between others that are asked for: padding stands at the ends of rows."""
    if targets.dim() != 2:
        return False
    left_out = torch.isin(targets, torch.tensor(classes))
    behind = asked.flip(1).cumsum(1).flip(1) > 0
    before = asked.cumsum(1) > 0
    return float((left_out & behind & before).sum()) > INSIDE * float(left_out.sum())


def _never_asked(view: LossView, targets: Tensor, asked: Tensor) -> list[int]:
    """Classes that occur among the targets and are never asked for."""
    within = (targets >= 0) & (targets < view.n_classes)
    there = set(targets[within].tolist())
    return sorted(there - set(targets[asked & within].tolist()))


RULE = DoctorRule(
    name="unasked-targets",
    proves="the loss leaves out most rows, a class, or all positions but one, of the targets that it is given",
    how="reads off the loss's slope which rows and targets it asks for, and compares with those that are there",
    check=check,
    cannot_see="targets that have a wrong weight and not none",
    needs=("targets", "loss"),
)
