"""A term of the loss of someone's own step that has no graph is counted and never trained.

A gradient penalty without `create_graph`, a number taken with `.item()` and added again. The step is run as it is in a
forked process up to its `backward`; the terms of what is sent back are told apart, and those without a gradient are
looked at again with weights that were moved a little: one that changes with them should have had one.
"""

from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.differences import direction_of
from pellucid.inspection.instrument.forking import measure_in_fork
from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.loss_terms import record_terms
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

NUDGE = 0.01  # of the weights' size, in the precision that they have
FELT = 1e-4  # of a term


class _StoppedAtBackward(Exception):
    """The step came to the backward of its loss."""


class TermOfStep(NamedTuple):
    """One of the terms of the first loss that a step sends back."""

    value: float
    has_graph: bool
    made_by: str


def check(specimen: Specimen) -> Findings:
    runs = [_terms_of_step(specimen, by) for by in (0.0, NUDGE, 0.0)]
    if not all(runs) or len({len(run) for run in runs}) > 1:
        return
    here, moved, again = runs
    for place, (one, other, repeated) in enumerate(zip(here, moved, again, strict=True)):
        change = abs(other.value - one.value)
        is_felt = change > FELT * abs(one.value) and change > 10 * abs(repeated.value - one.value)
        if one.has_graph or not is_felt:
            continue
        yield Finding.suspicious(
            "the step",
            f"term {place + 1} of the {len(here)} that the step adds up, made by {one.made_by}, is {one.value:.4g} and "
            f"has no gradient; with weights moved by {NUDGE:.0%} it is {other.value:.4g}",
            "it depends on the weights, is counted in the loss, and nothing is learned from it",
            "keep it in the graph: torch.autograd.grad(..., create_graph=True), and no .item(), .detach() or .data",
            again="from unittest.mock import patch\n"
            "def show(loss, *_, **__): print(loss.grad_fn, loss.grad_fn.next_functions)\n"
            "with patch.object(torch.Tensor, 'backward', show): step()",
        )
        return
    n_graph = sum(one.has_graph for one in here)
    seen = f"{n_graph} of the {len(here)} terms that the step adds up have a gradient"
    yield Finding.sound("the step", seen, "no term that depends on the weights is left out of backward()")


def _terms_of_step(specimen: Specimen, by: float) -> list[TermOfStep]:
    """The terms of the first loss that one step sends back, with the weights moved; none where it sends none."""
    found: Any = measure_in_fork(specimen.model, lambda: _in_child(specimen, by))
    return [TermOfStep(*one) for one in found or []]


def _in_child(specimen: Specimen, by: float) -> list[list[Any]]:
    """In the forked process: what is changed here is changed for nobody."""
    assert specimen.step is not None
    sent: list[Tensor] = []

    def stop(tensor: Tensor, *_: object, **__: object) -> None:
        sent.append(tensor)
        raise _StoppedAtBackward

    torch.Tensor.backward = stop  # type: ignore[method-assign,assignment]
    with torch.no_grad():
        for one in specimen.model.parameters():
            one.add_(direction_of(one), alpha=by)

    def run() -> Tensor:
        with suppress(_StoppedAtBackward):
            specimen.step()  # type: ignore[misc]
        return sent[0]

    with fixed_rng():
        _, terms = record_terms(run)
    return [[float(one.value.detach()), one.value.requires_grad, one.made_by] for one in terms]


RULE = DoctorRule(
    name="untrained-term",
    proves="a term of the loss in a training step depends on the weights and has no gradient",
    how="runs the step up to backward() in a forked process, tells its terms apart, and again with weights moved",
    check=check,
    cannot_see="later losses of the same step, and terms that keep a part of their gradient",
    needs=("step",),
)
