"""The squared error of a probability has no slope where the model is sure and wrong, which is where it should learn.

Behind a sigmoid the slope is 2(p - y)·p·(1 - p): at p = 0.001 and y = 1 it is 0.002, where cross-entropy has 0.999. It
is a proper score, so this is a bad start and not a wrong answer.
"""

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate
from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.recording import output_part
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen
from pellucid.inspection.rules.sigmoid_before_logits import is_within_0_and_1, yes_or_no

WRONG = 0.001  # the probability given to what is true, where slopes are compared


def check(specimen: Specimen) -> Findings:
    view = loss_view(specimen)
    targets = specimen.target
    if view is None or targets is None or targets.shape != view.tensor.shape or not _is_squared_error(view, targets):
        return
    if yes_or_no(specimen, view) is None or not is_within_0_and_1(specimen, view.tensor):
        different = len(set(targets.reshape(-1)[:10_000].tolist()))
        yield Finding.sound(
            "loss",
            f"a squared error of outputs from {view.tensor.min():.3g} to {view.tensor.max():.3g} for targets with "
            f"{different} different values",
            "what is compared are numbers, not probabilities of yes and no",
        )
        return
    slope = _slope(view, targets.to(view.tensor))
    yield Finding(
        "note" if specimen.is_rebuilding else "suspicious",
        output_part(specimen),
        f"targets are 0 and 1, and outputs stay between them with any weights; where {WRONG} is given to what is true, "
        f"the slope of the loss by the score is {slope:.4f}, and that of cross-entropy {1 - WRONG:.4f}",
        f"what is surely wrong is corrected {(1 - WRONG) / max(slope, 1e-12):.0f} times more slowly than it could be",
        "take the sigmoid or softmax out and use binary_cross_entropy_with_logits or cross_entropy",
        again="z = torch.tensor([-7.0], requires_grad=True); ((z.sigmoid() - 1) ** 2).backward(); print(z.grad)",
    )


def _is_squared_error(view: LossView, targets: Tensor) -> bool:
    """Whether the loss is 0 at the targets and four times as large at twice the distance."""
    shaped = targets.to(view.tensor)
    away = torch.randn(shaped.shape, generator=torch.Generator().manual_seed(0)).to(shaped)
    at, near, far = (view.value(shaped + by * away) for by in (0, 1, 2))
    return abs(at) < 1e-6 < near and abs(far / near - 4) < 1e-2


def _slope(view: LossView, targets: Tensor) -> float:
    """Of the loss by the score of one output that is surely wrong, as if each output had a loss of its own."""
    wrong = (targets * WRONG + (1 - targets) * (1 - WRONG)).requires_grad_()
    with isolate():
        loss = view.at(wrong)
        assert loss is not None, "it took such outputs a moment ago"
        (slope,) = torch.autograd.grad(loss, wrong)
    # A mean, which is at most 1 here, shares the slope out among all; a sum gives each its own.
    n_shared = targets.numel() if float(loss.detach()) < 1.5 else 1
    return float(slope.abs().mean()) * n_shared * WRONG * (1 - WRONG)


RULE = DoctorRule(
    name="squared-error-on-probabilities",
    proves="a squared error compares probabilities with yes and no, and hardly corrects what is surely wrong",
    how="tries whether the loss grows as the square of the distance, whether outputs leave 0 to 1 with other weights, "
    "and measures the slope of what is surely wrong",
    check=check,
    cannot_see="losses that are nearly a squared error",
    needs=("targets", "loss"),
)
