"""Labels that do not belong to their inputs can be learned by nobody: shuffle them, and the loss is as it was.

Two files sorted differently, a loader that shuffles one of two lists, classes numbered in another order. A trained
model is asked for the loss of its labels, of shuffled ones, of the neighbours', and of labels under other names.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.specimen import was_trained
from pellucid.inspection.rules import ANY, DoctorRule, Finding, Findings, Specimen

SHUFFLES = 20
FEWEST_ROWS = 8
FAR = 3.0  # spreads of shuffled losses by which the right one must be better


def check(specimen: Specimen) -> Findings:
    view, targets = loss_view(specimen), specimen.target
    if view is None or targets is None or not targets.dim() or len(targets) < FEWEST_ROWS or not was_trained(specimen):
        return
    if len(view.tensor) != len(targets) or not math.isfinite(view.loss_now):
        return
    rng = torch.Generator().manual_seed(0)
    shuffled = torch.tensor(
        [view.with_targets(targets[torch.randperm(len(targets), generator=rng)]).loss_now for _ in range(SHUFFLES)]
    )
    middle, spread = float(shuffled.mean()), float(shuffled.std())
    if spread < 1e-6 * max(abs(middle), 1.0):
        return  # every row gets the same answer, which is another illness
    seen = f"the loss is {view.loss_now:.4f}, and {middle:.4f} ± {spread:.4f} over {SHUFFLES} shuffles of the labels"
    better = _better_order(view, targets, middle)
    if better is not None:
        how, loss = better
        yield Finding.suspicious(
            "targets",
            f"{seen}; {how} it is {loss:.4f}",
            "the model knows these labels under another order",
            "use the order of classes and rows that the model was trained with",
            again="print(loss(model(x), y), loss(model(x), y.roll(1)), loss(model(x), y[torch.randperm(len(y))]))",
        )
    elif middle - view.loss_now > FAR * spread:
        yield Finding.sound("targets", seen, "the labels belong to their inputs, as far as the model knows them")
    else:
        yield Finding.suspicious(
            "targets",
            seen,
            "the model's answers fit these labels no better than any others: it learned nothing, or they were mixed up",
            "look at a few inputs with their labels, just as they enter the loss",
            again="print(loss(model(x), y), loss(model(x), y[torch.randperm(len(y))]))",
        )


def _better_order(view: LossView, targets: Tensor, middle: float) -> tuple[str, float] | None:
    """An order of the labels that fits far better than theirs and than chance, and its loss; None without one."""
    tried = [(f"with the labels moved by {by} row", view.with_targets(targets.roll(by, 0)).loss_now) for by in (1, -1)]
    has_classes = view.kind == "cross-entropy" and view.tensor.dim() == 2
    if has_classes and targets.dim() == 1 and not targets.is_floating_point():
        labels, said = (functional.one_hot(one, view.n_classes).float() for one in (targets, view.tensor.argmax(-1)))
        counts = labels.T @ said
        names = counts.argmax(1)  # what the model says most often for each label
        if len(set(names[targets].tolist())) > 1:
            tried.append(("with the classes renamed as the model has them", view.with_targets(names[targets]).loss_now))
    how, loss = min(tried, key=lambda one: one[1])
    return (how, loss) if loss < 0.5 * min(view.loss_now, middle) else None


RULE = DoctorRule(
    name="labels-ignored",
    proves="a trained model's answers fit the labels no better than shuffled ones, or fit them in another order",
    how="compares the loss with those of shuffled, moved and renamed labels",
    check=check,
    cannot_see="labels that are wrong for a few rows alone",
    needs=("targets", "loss"),
    follows=ANY,
)
