"""Cross-entropy takes the softmax itself. Given probabilities, it takes a second one, and can no longer be satisfied.

Scores between 0 and 1 are at most 1 apart: even a perfect answer costs ln(1 + (K - 1)/e), 1.46 nats for ten classes,
and gradients are small everywhere. Training runs, learns slowly and stops early.
"""

import math

from torch import Tensor
from torch.nn import functional

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.perturbation import outputs_under_other_weights
from pellucid.inspection.instrument.recording import output_part
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

NEARLY = 0.5  # apart, from which on it is no accident that scores never are more than 1
SLACK = 1e-3  # by which sums of probabilities may differ from 1, in any precision


def check(specimen: Specimen) -> Findings:
    view = loss_view(specimen)
    if view is None or not view.has_classes or not view.tensor.isfinite().all():
        return
    if _is_log_of_second(view.tensor, view.axis):
        others = outputs_under_other_weights(specimen)
        if others and all(_is_log_of_second(one, view.axis) for one in others) and _apart(others, view.axis) > NEARLY:
            yield _within_the_model(specimen, view, _apart(others, view.axis))
            return
    if view.kind != "cross-entropy":
        return  # whether it is given log-probabilities is another rule's question
    axes = [axis for axis in range(-view.tensor.dim(), 0) if _is_probability(view.tensor, axis)]
    others = outputs_under_other_weights(specimen) if axes else []
    axes = [axis for axis in axes if others and all(_is_probability(one, axis) for one in others)]
    if axes:
        yield _finding(specimen, view, axes)
        return
    sums = view.tensor.sum(view.axis)
    yield Finding.sound(
        "loss",
        f"outputs of {view.n_classes} classes reach from {view.tensor.min():.3g} to {view.tensor.max():.3g}, and their "
        f"sums from {sums.min():.3g} to {sums.max():.3g}",
        "the softmax is taken once, by the loss"
        if (view.tensor.logsumexp(view.axis).abs() > SLACK).any()
        else "they are log-probabilities, which a second softmax leaves as they are",
    )


def _is_probability(tensor: Tensor, axis: int) -> bool:
    """Whether numbers are at least 0 and add up to 1 along an axis; a single one that is 1 says nothing."""
    if tensor.shape[axis] < 2 or bool((tensor < -SLACK).any()):
        return False
    return bool(((tensor.sum(axis) - 1).abs() < SLACK).all())


def _is_log_of_second(tensor: Tensor, axis: int) -> bool:
    """Whether numbers are the logarithm of a softmax of probabilities: log-probabilities that are those, but shifted.

    >>> import torch
    >>> scores = torch.tensor([[2.0, -3.0, 1.0]])
    >>> _is_log_of_second(scores.softmax(-1).log_softmax(-1), -1), _is_log_of_second(scores.log_softmax(-1), -1)
    (True, False)
    """
    if tensor.shape[axis] < 2 or bool((tensor.logsumexp(axis).abs() > SLACK).any()):
        return False
    shifted = tensor - (tensor.sum(axis, keepdim=True) - 1) / tensor.shape[axis]
    return bool((shifted > -SLACK).all())


def _apart(tensors: list[Tensor], axis: int) -> float:
    """How far the scores of one place lie apart at most; probabilities never by more than 1."""
    return max(float((one.amax(axis) - one.amin(axis)).max()) for one in tensors)


def _within_the_model(specimen: Specimen, view: LossView, apart: float) -> Finding:
    floor = math.log(1 + (view.n_classes - 1) / math.e)
    return Finding.broken(
        output_part(specimen),
        f"outputs are log-probabilities of a softmax of probabilities: {apart:.4f} apart at most, with these weights "
        f"and others; {floor:.4f} = ln(1 + {view.n_classes - 1}/e) is the least loss, {view.loss_now:.4f} that of now",
        f"the loss cannot fall below {floor:.4f}, and its gradient is small wherever the model is sure",
        "take the first softmax out of the model: log_softmax takes one of the scores themselves",
        again="print(model(x).amax(-1) - model(x).amin(-1))",
    )


def _finding(specimen: Specimen, view: LossView, axes: list[int]) -> Finding:
    where = output_part(specimen)
    if view.axis not in axes:
        axis = view.tensor.dim() + axes[0]
        return Finding.broken(
            where,
            f"outputs of shape {tuple(view.tensor.shape)} add up to 1 along dimension {axis}, with these weights and "
            f"others; the loss takes its softmax along dimension {view.tensor.dim() + view.axis}",
            "probabilities are shared out between what does not compete, and the loss takes another softmax of them",
            "take the softmax out, and give the loss the scores before it",
            again=f"print(model(x).sum({axis}))",
        )
    floor = math.log(1 + (view.n_classes - 1) / math.e)
    perfect = view.value(_perfect(view)) / view.per
    return Finding.broken(
        where,
        f"outputs add up to 1, with these weights and others, and the loss takes a softmax of them: "
        f"{perfect:.4f} for perfect answers, {floor:.4f} = ln(1 + {view.n_classes - 1}/e) by formula, and "
        f"{view.loss_now / view.per:.4f} now",
        f"the loss cannot fall below {perfect:.4f}, and its gradient is small wherever the model is sure",
        "take the softmax out of the model, and use it only where probabilities are read",
        again="print(model(x).sum(-1), loss(model(x).log(), y), loss(model(x), y))",
    )


def _perfect(view: LossView) -> Tensor:
    """All probability on the classes that are wanted."""
    wanted = view.wanted_classes()
    assert wanted is not None, "a cross-entropy has classes that it wants"
    classes = functional.one_hot(wanted.clamp(min=0), view.n_classes).to(view.tensor)
    return classes.movedim(-1, view.axis)


RULE = DoctorRule(
    name="double-softmax",
    proves="the loss takes a softmax of outputs that are probabilities already",
    how="adds a number to all scores, which only a loss with a softmax ignores, sums the outputs under these weights "
    "and others, and measures the loss of perfect ones",
    check=check,
    cannot_see="a softmax that is taken in the loss along another axis than the classes",
    needs=("targets", "loss"),
)
