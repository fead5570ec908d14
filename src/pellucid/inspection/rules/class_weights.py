"""Classes are weighted so that rare ones are heard: weights that grow with a class's count do the opposite.

What each class counts is read off the loss's slope at equal scores, whatever the loss is called and wherever its
weights come from, and compared with how often each class occurs in the batch.
"""

import torch
from torch import Tensor

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

RARER = 3.0  # times: a difference of counts that is no chance of the batch
LIGHTER = 4.0  # times; a focal loss weighs rare ones by a third on purpose


def check(specimen: Specimen) -> Findings:
    view, target = loss_view(specimen), specimen.target
    if view is None or target is None:
        return
    places = _classes_and_pulls(view, target)
    if places is None:
        return
    classes, pulls = places
    known, counts = classes.unique(return_counts=True)  # type: ignore[no-untyped-call]
    if len(known) < 2:
        return
    weights = torch.stack([pulls[classes == one].median() for one in known])
    rare, common = int(counts.argmin()), int(counts.argmax())
    if not bool((weights > 0).all()) or counts[common] < RARER * counts[rare]:
        return
    lighter = float(weights[common] / weights[rare])
    seen = (
        f"class {int(known[rare])}, the rarest with {int(counts[rare])} of {len(classes)}, counts {1 / lighter:.3g} "
        f"times as much in the loss as class {int(known[common])}, which has {int(counts[common])}"
    )
    again = "print([(k, (y == k).sum(), loss(0 * model(x)[y == k], y[y == k])) for k in y.unique()])"
    together = torch.corrcoef(torch.stack([counts.float(), weights.float()]))[0, 1]
    if lighter >= LIGHTER and float(together) > 0.5:
        yield Finding.suspicious(
            "loss",
            seen,
            "the weights grow with how often a class occurs: rare classes are heard even less",
            "give each class the inverse of its count as weight; pos_weight is negatives / positives",
            again=again,
        )
    elif lighter <= 1.01:
        yield Finding.sound("loss", seen, "rare classes count no less than common ones", again=again)


def _classes_and_pulls(view: LossView, target: Tensor) -> tuple[Tensor, Tensor] | None:
    """The class at each place that is asked for, and how hard the loss pulls there at equal scores."""
    if view.has_classes:
        wanted, slope = view.wanted_classes(), view.slope_at(torch.zeros_like(view.tensor))
        if wanted is None or slope is None:
            return None
        asked = wanted >= 0
        pulls = slope.abs().amax(dim=view.axis)
        return wanted[asked], pulls[asked]
    is_yes_or_no = bool(((target == 0) | (target == 1)).all()) and target.numel() == view.tensor.numel()
    if not is_yes_or_no or target.squeeze().dim() != 1:
        return None
    slope = view.slope_at(torch.full_like(view.tensor, 0.5 if view.kind == "probabilities" else 0.0))
    return None if slope is None else (target.reshape(-1).long(), slope.abs().reshape(-1))


RULE = DoctorRule(
    name="class-weights",
    proves="the loss weighs classes the more, the more often they occur",
    how="reads the weight of each class off the loss's slope at equal scores, and compares it with its count",
    check=check,
    cannot_see="weights of classes that are about as frequent in this batch, and samplers that change the counts",
    needs=("targets", "loss"),
)
