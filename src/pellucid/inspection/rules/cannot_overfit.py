"""What cannot learn one batch by heart cannot learn: the oldest test there is, and the one that needs no suspicion.

A copy is trained on the batch for a moment, at several rates. It must close most of the gap between the best answer
that ignores its input and the least loss there is. A model with fewer weights than there are answers need not.
"""

import math
from typing import NamedTuple

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.short_run import RATES, overfit_allowance, overfit_run, trainable_parameters
from pellucid.inspection.rules import ANY, DoctorRule, Finding, Findings, Specimen
from pellucid.inspection.rules.duplicated_inputs import several_answers

ENOUGH = 0.8  # of the gap
TOO_LITTLE = 0.3


class OverfitResult(NamedTuple):
    """What a copy reached at one learning rate."""

    rate: float
    steps: int
    first: float
    least: float


def check(specimen: Specimen) -> Findings:
    parameters = trainable_parameters(specimen.model)
    if not parameters or not specimen.n_rows:
        return
    allowed = overfit_allowance(specimen)
    view = loss_view(allowed.specimen) if allowed is not None else None
    if allowed is None or view is None:
        return
    specimen = allowed.specimen
    conflicts = several_answers(specimen)
    if conflicts:
        yield Finding.note(
            "inputs",
            f"{conflicts} inputs of {specimen.n_rows} rows have more than one target",
            "this batch cannot be learned by heart by anyone, so it is not tried",
            "look whether rows that differ only in what was left out are meant to be answered alike",
        )
        return
    floor, constant = _bounds(view)
    if not constant - floor > 1e-3 * max(abs(constant), 1e-3):
        return  # all answers are the same
    best: OverfitResult | None = None
    for rate in allowed.rates:
        run = overfit_run(specimen, rate, allowed.steps, enough=constant - ENOUGH * (constant - floor))
        finite = [loss for loss in run.losses if math.isfinite(loss)] if run is not None else []
        if finite and (best is None or min(finite) < best.least):
            best = OverfitResult(rate, len(finite) - 1, finite[0], min(finite))
        if best is not None and _share_closed(best, floor, constant) >= ENOUGH:
            break
    if best is not None:
        n_weights = sum(one.numel() for one in parameters.values())
        yield from _judge(view, best, floor, constant, n_weights, len(allowed.rates))


def _bounds(view: LossView) -> tuple[float, float]:
    """The least loss there is, and that of the best constant; where they are not found, 0 and the loss as it is."""
    floor, constant = view.floor(), view.best_constant()
    return (0.0 if math.isnan(floor) else floor), (view.loss_now if math.isnan(constant) else constant)


def _share_closed(best: OverfitResult, floor: float, constant: float) -> float:
    return (constant - best.least) / (constant - floor)


def _judge(
    view: LossView, best: OverfitResult, floor: float, constant: float, n_weights: int, n_rates: int
) -> Findings:
    closed, n_rows = _share_closed(best, floor, constant), view.specimen.n_rows
    seen = (
        f"on {n_rows} rows the loss went from {best.first:.4f} to {best.least:.4f} in {best.steps} steps of "
        f"Adam at {best.rate:g}, the best of {n_rates} rates; ignoring the input gives {constant:.4f}, and the "
        f"least is {floor:.4f}"
    )
    if closed >= ENOUGH:
        seen = (
            f"on {n_rows} rows the loss fell from {best.first:.4f} below {best.least:.4f} in {best.steps} "
            f"steps of Adam at {best.rate:g}; ignoring the input gives {constant:.4f}"
        )
        yield Finding.sound("the model", seen, "it can learn this batch by heart: gradients reach what they must")
        return
    n_answers = view.tensor.numel() // (view.n_classes if view.has_classes else 1)
    is_small = n_weights < n_answers
    yield Finding(
        # Of a large model few rates are tried, and that one did not do proves nothing.
        "suspicious" if closed < TOO_LITTLE and not is_small and n_rates == len(RATES) else "note",
        "the model",
        seen,
        f"its {n_weights} weights need not be enough for {n_answers} answers"
        if is_small
        else "it hardly learns even one batch by heart"
        if closed < TOO_LITTLE
        else "it learns this batch slowly",
        "give it less data or more width, and look again"
        if is_small
        else "follow one row through the model: does the input arrive, does the gradient, does the loss compare the "
        "right pair",
        again="opt = torch.optim.Adam(model.parameters(), 1e-2); "
        "[(opt.zero_grad(), loss(model(x), y).backward(), opt.step()) for _ in range(150)]; print(loss(model(x), y))",
    )


RULE = DoctorRule(
    name="cannot-overfit",
    proves="a copy of it does not learn this one batch by heart at any of several rates",
    how="trains a copy on the batch for up to 150 steps of Adam at three rates, without dropout",
    check=check,
    cannot_see="whether it will do well on other data, or with its own optimizer and rate",
    needs=("targets", "loss"),
    follows=ANY,
)
