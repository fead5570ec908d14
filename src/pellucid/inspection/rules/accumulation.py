"""Gradients add up until they are cleared, and a loss that is a sum grows with the batch: both change a step's size.

Seen are gradients that lie on the model now, beside those of this batch; and what the loss makes of the same rows
twice, and of their halves. A mean gives the same for both, a sum twice as much, a mean over what is no padding neither.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.loss_terms import record_terms, select_rows
from pellucid.inspection.instrument.nests import main_tensor, map_tensors, tensors_in
from pellucid.inspection.instrument.recording import record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

SEVERAL = 1.5  # times the gradient of this batch
ALIKE = 0.9  # the cosine of both
SLACK = 1e-3
MOST_SINGLE = 16  # rows that are asked for alone
_ADAPTIVE = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Adadelta", "Lion", "Rprop")


def check(specimen: Specimen) -> Findings:
    if (seen := record(specimen.copy(), with_loss=True)) is None:
        return
    yield from _of_gradients(specimen, seen.gradients)
    with torch.no_grad():
        measured = try_or_none(lambda: _reductions(specimen, own_inputs(seen.outputs)))
        if measured is not None and not measured.tells_rows_apart:
            measured = try_or_none(lambda: _reductions(specimen, _made_unlike(own_inputs(seen.outputs)))) or measured
    yield from try_or_none(lambda: list(_of_terms(specimen, own_inputs(seen.outputs)))) or []
    if measured is not None:
        yield from _of_reduction(specimen, measured)


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


class Reductions(NamedTuple):
    """The loss of the batch, and of some of its rows."""

    whole: float
    twice: float  # of all rows two times
    halves: float  # the mean of those of both halves
    few: float  # of the first rows
    single: float  # the mean of those of each of them alone; nan where the loss does not take one
    least: float  # the least and the largest of these
    most: float

    @property
    def tells_rows_apart(self) -> bool:
        """Whether rows cost unequal amounts, without which a mean cannot be told from the first."""
        return self.most - self.least > SLACK * max(abs(self.few), abs(self.least), abs(self.most))


def _made_unlike(outputs: Any) -> Any:
    """Outputs whose rows differ, as those of a head of zeros do not."""
    rng = torch.Generator().manual_seed(0)

    def change(one: Tensor) -> Tensor:
        if not one.is_floating_point() or not one.dim():
            return one
        size = float(one.std()) if one.numel() > 1 else 0.0
        return one + torch.randn(one.shape, generator=rng).to(one) * (size or 1.0)

    return map_tensors(change, outputs)


def _reductions(specimen: Specimen, outputs: Any) -> Reductions:
    main = main_tensor(outputs)
    assert specimen.loss is not None
    assert main is not None
    assert len(main) >= 2

    def loss_of(which: Tensor) -> float:
        assert specimen.loss is not None
        assert main is not None
        chosen = select_rows((outputs, specimen.targets), which, len(main))
        return float(specimen.loss(*chosen))

    rows, half = torch.arange(len(main)), len(main) // 2
    whole, twice = loss_of(rows), loss_of(torch.cat([rows, rows]))
    halves = (loss_of(rows[:half]) + loss_of(rows[half:])) / 2 if len(rows) == 2 * half else whole
    few = rows[:MOST_SINGLE]
    alone = try_or_none(lambda: [loss_of(row[None]) for row in few]) or [math.nan]
    return Reductions(whole, twice, halves, loss_of(few), sum(alone) / len(alone), min(alone), max(alone))


def _of_terms(specimen: Specimen, outputs: Any) -> Findings:
    """Terms of which one is a sum over rows and another a mean: their weights change with the size of the batch."""
    main = main_tensor(outputs)
    if main is None or not main.dim() or len(main) < 2:
        return
    n_rows = len(main)
    rows = torch.arange(n_rows)

    def terms_of(which: Tensor) -> list[tuple[float, bool]]:
        assert specimen.loss is not None
        given, targets = select_rows((outputs, specimen.targets), which, n_rows)
        floats = [one for one in tensors_in(given) if one.is_floating_point() and one.dim() and len(one) == len(which)]
        free = {id(one): one.detach().clone().requires_grad_() for one in floats}
        given = map_tensors(lambda one: free.get(id(one), one), given)
        _, terms = record_terms(lambda: specimen.loss(given, targets))  # type: ignore[misc]
        return [(float(one.value.detach()), _leads_to(one.value, list(free.values()))) for one in terms]

    with isolate():
        once, twice = terms_of(rows), terms_of(torch.cat([rows, rows]))
    if len(once) != len(twice) or len(once) < 2:
        return
    ratios = {
        place: b / a
        for place, ((a, is_of_rows), (b, _)) in enumerate(zip(once, twice, strict=True))
        if is_of_rows and a
    }
    sums = [place for place, ratio in ratios.items() if abs(ratio - 2) < SLACK]
    means = [place for place, ratio in ratios.items() if abs(ratio - 1) < SLACK]
    if sums and means:
        yield Finding.suspicious(
            "loss",
            f"of the same rows twice, term {sums[0] + 1} of {len(once)} is {twice[sums[0]][0]:.4g} in place of "
            f"{once[sums[0]][0]:.4g}, and term {means[0] + 1} stays at {once[means[0]][0]:.4g}",
            f"one is a sum over the rows and the other a mean: with {n_rows} rows the first weighs {n_rows} times as "
            "much as it would for one",
            "give both terms the same reduction",
            again="outputs = model(x); print(loss(torch.cat([outputs, outputs]), torch.cat([y, y])), loss(outputs, y))",
        )


def _leads_to(value: Tensor, free: list[Tensor]) -> bool:
    if not value.requires_grad or not free:
        return False
    found = torch.autograd.grad(value, free, retain_graph=True, allow_unused=True)
    return any(one is not None and bool(one.any()) for one in found)


def _of_reduction(specimen: Specimen, seen_losses: Reductions) -> Findings:
    whole, twice, halves, few, single, least, most = seen_losses
    if not abs(whole) > 1e-12:
        return
    apart = SLACK * max(abs(few), abs(least), abs(most))
    seen = f"the loss is {whole:.4g}, of the same rows twice {twice:.4g}, and {halves:.4g} in the mean of its halves"
    again = "outputs = model(x); print(loss(torch.cat([outputs, outputs]), torch.cat([y, y])) / loss(outputs, y))"
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
    elif math.isfinite(single) and abs(single - few) > apart:
        seen += f"; of {MOST_SINGLE} rows or fewer it is {few:.4g}, and {single:.4g} in the mean of each row alone"
        means = "rows do not count alike: one that costs more, or has more to count, weighs more than another"
        fix = "where batches are accumulated, sum the losses and divide by all that was counted"
        yield Finding.note("loss", seen, means, fix, again=again)
    elif math.isfinite(single) and most - least > apart:
        seen += f", as in the mean of single rows, which cost from {least:.3g} to {most:.3g}"
        means = "it is a mean over rows, and small batches add up to a large one"
        yield Finding.sound("loss", seen, means, again=again)
    else:
        means = "it is a mean over equal halves; whether single rows count alike is not known"
        yield Finding.sound("loss", seen, means, again=again)


RULE = DoctorRule(
    name="accumulation",
    proves="that gradients of several batches were added up, or that the loss or a term of it is no mean over rows",
    how="compares gradients that are there with those of this batch, and the loss and its terms with those of the rows "
    "twice, of halves and of single rows",
    check=check,
    cannot_see="a loop that clears gradients at the wrong moment, unless its own step is given",
    needs=("targets", "loss"),
)
