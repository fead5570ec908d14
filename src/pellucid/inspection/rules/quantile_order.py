"""Outputs that are asked for quantiles in falling order: the one meant for 90 % learns the 10 % one.

A quantile loss is linear on both sides of its target, and its two slopes tell which quantile it asks for: with outputs
far below all targets it pulls up by q, and far above it pulls down by 1 − q. A sign turned round, or the two sides in
each other's place, asks for 1 − q.
"""

from itertools import pairwise

import torch

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

LINEAR = 1e-4  # of a slope, by which it may change farther out
APART = 0.05  # between two quantiles
AGAIN = (
    "far = y.abs().max() + 1\n"
    "for edge in (-far, far):\n"
    "    outputs = torch.full_like(model(x), edge.item()).requires_grad_()\n"
    "    loss(outputs, y).backward()\n"
    "    print(outputs.grad.sum(0))"
)


def check(specimen: Specimen) -> Findings:
    view, targets = loss_view(specimen), specimen.target
    if view is None or targets is None or view.has_classes or not targets.is_floating_point():
        return
    if view.tensor.dim() != 2 or view.tensor.shape[1] < 2 or targets.numel() != len(view.tensor):
        return
    levels = _levels(view, float(targets.min()), float(targets.max()))
    if levels is None or max(levels) - min(levels) < APART:
        return
    seen = f"of {len(levels)} outputs the loss asks for the quantiles {', '.join(f'{one:.3g}' for one in levels)}"
    if all(before - after > APART for before, after in pairwise(levels)):
        yield Finding.suspicious(
            "loss",
            f"{seen}, from the highest to the lowest",
            "outputs are usually in rising order: the sign of the error, or its two sides, are likely turned round",
            "take max(q · (target − output), (q − 1) · (target − output))",
            again=AGAIN,
        )
    else:
        yield Finding.sound("loss", seen, "they are not in falling order", again=AGAIN)


def _levels(view: LossView, least: float, most: float) -> list[float] | None:
    """Which quantile each output is asked for; None of a loss that is not linear on both sides."""
    reach = max(most - least, 1e-3)
    slopes = []
    for side, edge in ((-1, least), (1, most)):
        near, far = (view.slope_at(torch.full_like(view.tensor, edge + side * by * reach)) for by in (1, 3))
        if near is None or far is None:
            return None
        sums = near.sum(0).double(), far.sum(0).double()
        if float((sums[0] - sums[1]).abs().max()) > LINEAR * float(sums[0].abs().max()):
            return None
        slopes.append(sums[0])
    below, above = slopes
    if not bool((below < 0).all()) or not bool((above > 0).all()):
        return None
    levels: list[float] = (-below / (above - below)).tolist()
    return levels


RULE = DoctorRule(
    name="quantile-order",
    proves="which quantile each output is asked for, and that they are in falling order",
    how="reads the loss's slopes at outputs far below and far above all targets",
    check=check,
    cannot_see="outputs that are meant in falling order, and a single quantile",
    needs=("targets", "loss"),
)
