"""Gradients add up until they are cleared, and a loss that is a sum grows with the batch: both change a step's size.

Seen are gradients that lie on the model now, beside those of this batch; and what the loss makes of the same rows
twice, and of their halves. A mean gives the same for both, a sum twice as much, a mean over what is no padding neither.
"""

from typing import Any

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import own_inputs, try_or_none
from pellucid.inspection.instrument.recording import record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

SEVERAL = 1.5  # times the gradient of this batch
ALIKE = 0.9  # the cosine of both
SLACK = 1e-3
_ADAPTIVE = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Adadelta", "Lion", "Rprop")


def check(specimen: Specimen) -> Findings:
    if (seen := record(specimen.copy(), with_loss=True)) is None:
        return
    yield from _of_gradients(specimen, seen.gradients)
    with torch.no_grad():
        measured = try_or_none(lambda: _reductions(specimen, own_inputs(seen.outputs)))
    if measured is not None:
        yield from _of_reduction(specimen, *measured)


def _of_gradients(specimen: Specimen, of_batch: dict[str, Tensor]) -> Findings:
    present = {path: one.grad for path, one in specimen.model.named_parameters() if one.grad is not None}
    shared = [path for path in of_batch if path in present and bool(present[path].to_dense().any())]
    if not shared:
        return
    now = torch.cat([of_batch[path].to_dense().flatten().double() for path in shared])
    there = torch.cat([present[path].to_dense().flatten().double() for path in shared])
    times = (there.norm() / now.norm().clamp(min=1e-30)).item()
    cosine = (there @ now / (there.norm() * now.norm()).clamp(min=1e-30)).item()
    seen = f"gradients lie on the model: {times:.3g} times those of this batch, with a cosine of {cosine:.3f}"
    again = "[p.grad.norm() for p in model.parameters() if p.grad is not None]"
    if cosine > ALIKE and times > SEVERAL:
        yield Finding.suspicious(
            "the gradients",
            seen,
            f"about {times:.0f} batches were added up and not divided: a step goes that many times too far",
            "call optimizer.zero_grad() before every backward, or divide the loss by the number of batches",
            again=again,
        )
    elif cosine > ALIKE:
        yield Finding.sound("the gradients", seen, "they are of one batch", again=again)
    else:
        means = "they are of other batches, and the next backward adds to them"
        fix = "call optimizer.zero_grad() before the next backward"
        yield Finding.note("the gradients", seen, means, fix, again=again)


def _reductions(specimen: Specimen, outputs: Any) -> tuple[float, float, float]:
    """The loss of the batch, of the batch twice over, and the mean of that of its halves."""
    assert specimen.loss is not None
    assert specimen.target is not None
    assert len(specimen.target) >= 2
    rows, half = torch.arange(len(specimen.target)), len(specimen.target) // 2
    whole, twice, one, other = (
        specimen.loss(_select_rows(outputs, which, len(rows)), specimen.target[which]).item()
        for which in (rows, torch.cat([rows, rows]), rows[:half], rows[half : 2 * half])
    )
    return whole, twice, (one + other) / 2 if len(rows) == 2 * half else whole


def _select_rows(outputs: Any, which: Tensor, n_rows: int) -> Any:
    """These rows of whatever a module put out."""
    if isinstance(outputs, Tensor):
        return outputs[which] if outputs.dim() and len(outputs) == n_rows else outputs
    if isinstance(outputs, dict):
        return type(outputs)((key, _select_rows(each, which, n_rows)) for key, each in outputs.items())
    return type(outputs)(_select_rows(each, which, n_rows) for each in outputs)


def _of_reduction(specimen: Specimen, whole: float, twice: float, halves: float) -> Findings:
    if not abs(whole) > 1e-12:
        return
    seen = f"the loss is {whole:.4g}, of the same rows twice {twice:.4g}, and {halves:.4g} in the mean of its halves"
    again = "loss(torch.cat([outputs, outputs]), torch.cat([targets, targets])) / loss(outputs, targets)"
    if abs(twice / whole - 2) < SLACK:
        is_adaptive = type(specimen.optimizer).__name__.startswith(_ADAPTIVE)
        yield Finding(
            "note" if is_adaptive or specimen.optimizer is None else "suspicious",
            "loss",
            seen,
            "it is a sum over the rows: twice the batch is twice the gradient"
            + (", of which this optimizer takes out the size" if is_adaptive else ", and twice the step"),
            "take the mean (reduction='mean'), or know that the rate belongs to this batch size",
            again=again,
        )
    elif abs(twice / whole - 1) > SLACK:
        means = "it is neither a mean nor a sum over rows, so small batches do not add up to a large one"
        yield Finding.note("loss", seen, means, "do not accumulate over batches", again=again)
    elif abs(halves / whole - 1) > SLACK:
        means = "the mean over small batches is not that over the large one: each has another number of things to count"
        fix = "where batches are accumulated, sum the losses and divide by all that was counted"
        yield Finding.note("loss", seen, means, fix, again=again)
    else:
        means = "it is a mean over rows, and small batches add up to a large one"
        yield Finding.sound("loss", seen, means, again=again)


RULE = DoctorRule(
    name="accumulation",
    proves="that gradients of several batches were added up, or that the loss is no mean over rows",
    how="compares gradients that are there with those of this batch, and the loss of rows with that of them twice",
    check=check,
    cannot_see="a loop that clears gradients at the wrong moment, unless its own step is given",
    needs=("targets", "loss"),
)
