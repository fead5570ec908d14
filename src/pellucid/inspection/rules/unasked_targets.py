"""Targets that are given and that the loss does not ask for are learned by nobody.

`ignore_index=0` where 0 is a class like others; a loss of the last position only. What the loss asks for at each place
is read off its slope. Padding is left out on purpose, and is known by lying at the ends of rows.
"""

from torch import Tensor

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen


def check(specimen: Specimen) -> Findings:
    view, targets = loss_view(specimen), specimen.target
    wanted = view.wanted_classes() if view is not None else None
    if view is None or wanted is None or targets is None or targets.is_floating_point():
        return
    if wanted.shape != targets.shape:
        return
    asked = wanted >= 0
    seen = f"the loss asks for {int(asked.sum())} of {targets.numel()} targets"
    classes = _never_asked(view, targets, asked)
    columns = int(asked.any(dim=0).sum()) if targets.dim() == 2 else 0
    if classes and targets.dim() == 1:
        counted = int(sum((targets == one).sum() for one in classes))
        yield Finding.suspicious(
            "loss",
            f"{seen}: never for class {classes[0]}, which {counted} rows have",
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


def _never_asked(view: LossView, targets: Tensor, asked: Tensor) -> list[int]:
    """Classes that occur among the targets and are never asked for."""
    within = (targets >= 0) & (targets < view.n_classes)
    there = set(targets[within].tolist())
    return sorted(there - set(targets[asked & within].tolist()))


RULE = DoctorRule(
    name="unasked-targets",
    proves="the loss leaves out a class, or all positions but one, of the targets that it is given",
    how="reads off the loss's slope which targets it asks for, and compares with those that are there",
    check=check,
    cannot_see="targets that have a wrong weight and not none",
    needs=("targets", "loss"),
)
