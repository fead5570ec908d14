"""A loss without a least value is never satisfied: outputs grow, it falls, and nothing is learned by it.

A sign that was forgotten, class numbers given to a loss of yes and no. The outputs are moved straight downhill, ten
times as far each time, and the loss falls ten times as deep.
"""

import itertools
import math

import torch
from torch import Tensor

from pellucid.inspection.instrument.loss_terms import WholeLoss, whole_loss
from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.nests import main_tensor, tensors_in
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FAR = (1e2, 1e3, 1e4)


def check(specimen: Specimen) -> Findings:
    yield from _of_main(specimen)
    whole = whole_loss(specimen)
    main = main_tensor(whole.outputs) if whole is not None else None
    for place, one in enumerate(whole.tensors if whole is not None else ()):
        if whole is not None and one is not main and one.dim():
            yield from _of_other(whole, place)


def _of_other(whole: WholeLoss, place: int) -> Findings:
    """An output beside the main one. Some are meant to be raised or lowered, as a log-determinant or a critic's score,
    and then the loss falls in proportion; where it falls faster the further they are, that is no likelihood or penalty.
    """
    tensor = whole.tensors[place]
    # Not from 0, where the slope of a square is none.
    start = tensor + 0.1 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor)
    before, after = list(whole.tensors[:place]), list(whole.tensors[place + 1 :])
    slope = whole.slopes([*before, start, *after])[place]
    if slope is None or not slope.isfinite().all() or not slope.any():
        return
    downhill = -slope / slope.abs().max()
    losses = [whole.value([*before, start + far * downhill, *after]) for far in FAR]
    if any(map(math.isnan, losses)) or not losses[-1] < -1:
        return
    pairs = itertools.pairwise(losses)
    is_faster = all(deeper < 50 * loss if math.isfinite(loss) else deeper == loss for loss, deeper in pairs)
    if losses[0] < 0 and is_faster:
        reached = ", ".join(f"{loss:.4g}" for loss in losses)
        yield Finding.suspicious(
            "loss",
            f"with output {whole.places[place]} moved downhill by {', '.join(f'{far:g}' for far in FAR)} the loss is "
            f"{reached}",
            "the further this output goes, the faster the loss falls: a term has the wrong sign",
            "look at the signs of the terms: a divergence and a penalty are added, an entropy is taken away",
            again="print([loss((o[0], k * o[1]), y).item() for o in [model(x)] for k in (1, 1e2, 1e4)])",
        )


def _is_of_rewards(specimen: Specimen) -> bool:
    """Whether a number of either sign comes with each row, as a return: what it weighs may well fall without end."""
    given = tensors_in(specimen.targets)
    signed = [one for one in given if one.is_floating_point() and bool((one < 0).any()) and bool((one > 0).any())]
    return len(given) > 1 and bool(signed)


def _of_main(specimen: Specimen) -> Findings:
    view = loss_view(specimen)
    if view is None or not view.tensor.dim():
        return
    sums = [view.tensor.exp().sum(axis) for axis in range(1, view.tensor.dim())]
    if view.kind == "log-likelihood" or any(bool(((one - 1).abs() < 1e-2).all()) for one in sums):
        return  # log-probabilities cannot be moved freely: they add up to 1
    downhill = _downhill(view)
    if downhill is None:
        return
    losses = [view.value(far * downhill) for far in FAR]
    if not all(map(math.isfinite, losses)):
        return
    reached = ", ".join(f"{loss:.4g}" for loss in losses)
    seen = f"with outputs moved downhill by {', '.join(f'{far:g}' for far in FAR)} the loss is {reached}"
    ratios = [deeper / loss if loss else 0.0 for loss, deeper in itertools.pairwise(losses)]
    if losses[-1] < -1 and all(5 < ratio < 20 for ratio in ratios):
        targets = specimen.target
        largest = f"; targets reach from {targets.min():.3g} to {targets.max():.3g}" if targets is not None else ""
        yield Finding(
            "note" if _is_of_rewards(specimen) else "suspicious",
            "loss",
            seen + largest,
            "the loss has no least value: it rewards outputs for growing, not for being right",
            "look for a sign that was forgotten, or for targets that this loss does not take",
            again="print([loss(k * model(x), y).item() for k in (-1e4, -1e2, 1, 1e2, 1e4)])",
        )
    elif losses[-1] > -1:
        yield Finding.sound("loss", seen, "the loss has a floor")


def _downhill(view: LossView) -> Tensor | None:
    """The direction in which the loss falls from equal outputs, the largest number of it being 1."""
    slope = view.slope_at(torch.zeros_like(view.tensor))
    if slope is None or not slope.isfinite().all() or not slope.any():
        return None
    return -slope / slope.abs().max()


RULE = DoctorRule(
    name="bottomless-loss",
    proves="the loss falls without end when outputs grow",
    how="moves the main output downhill by 100, 1000 and 10000 and looks whether the loss falls in proportion; for any "
    "other output, whether it falls faster than that",
    check=check,
    cannot_see="a loss that falls without end along other ways than straight down its slope",
    needs=("targets", "loss"),
)
