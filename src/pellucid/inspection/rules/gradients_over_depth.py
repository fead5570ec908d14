"""A gradient that shrinks or grows by a factor in every layer is lost, or bursts, before it is at the first one.

Compared are the sizes of the loss's gradient by what the first and by what the last layers with weights put out, a few
of each and by their middle. Matrices that begin at zero on purpose are drawn for it, or nothing would come through.
Behind a norm only the share by which an output is changed counts, so that where a layer puts out much its gradient is
small for that reason alone. In a model with norms it vanishes only where it is also small by that share.
"""

import math
import statistics
from collections.abc import Sequence

import torch

from pellucid.inspection.instrument.gradient_growth import gradient_growth
from pellucid.inspection.instrument.perturbation import draw_zero_matrices, perturb
from pellucid.inspection.instrument.recording import ModuleCall, is_norm, part_name, record
from pellucid.inspection.judgements import FADES, judge_gradient_ratio
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST = 4  # layers with weights; in fewer there is no depth

AGAIN = (
    "loss(model(x), y).backward()\n"
    "print([(n, p.grad.norm()) for n, p in model.named_parameters() if p.grad is not None])"
)


def check(specimen: Specimen) -> Findings:
    seen = record(perturb(specimen, draw_zero_matrices), with_loss=True)
    if seen is None or seen.loss is None or not bool(seen.loss.isfinite()):
        return  # what is not finite has a rule of its own
    absurd = list(_of_absurd_sizes(specimen))
    yield from absurd
    if absurd:
        return
    layers = _layers(seen.modules)
    if len(layers) < FEWEST:
        return
    few = max(1, len(layers) // 4)
    first, last = layers[:few], layers[-few:]
    at_first, at_last = _middle(first), _middle(last)
    if at_last == 0:
        return
    ratio = at_first / at_last
    sizes = (
        f"the gradient's norm is {at_first:.2g} at {part_name(first[0].path)} and {at_last:.2g} at "
        f"{part_name(last[-1].path)}, {ratio:.2g} times, over {len(layers)} layers"
    )
    has_norms = any(is_norm(call.module) for call in seen.modules)
    share_at_last = _middle(last, times_output=True)
    if ratio < 1 / FADES and has_norms and share_at_last:
        by_share = _middle(first, times_output=True) / share_at_last
        ratio, sizes = max(ratio, by_share), f"{sizes}; times the norms of their outputs {by_share:.2g} times"
    yield judge_gradient_ratio(part_name(first[0].path), sizes, ratio, len(layers) - few)


def _of_absurd_sizes(specimen: Specimen) -> Findings:
    """Gradients that are finite, and so large that any step of a usual size would throw the weights away."""
    grown = gradient_growth(specimen)
    if grown is None or not grown.is_absurd:
        return
    yield Finding.suspicious(
        grown.path,
        f"the gradient is {grown.slope:.2g} times as large as the weights, and would change the loss by "
        f"{grown.sensitivity:.2g} times the share by which it changes them; {grown.description}",
        "the gradient explodes: it points nowhere that a step could go",
        "tame what grows there: smaller first weights, a norm, fewer time steps, or clipping",
        again=AGAIN,
    )


def _layers(calls: Sequence[ModuleCall]) -> list[ModuleCall]:
    """Each innermost part with a matrix of weights that gradient could come back to, at its first call."""
    found: dict[str, ModuleCall] = {}
    for call in calls:
        has_matrix = any(parameter.dim() >= 2 for parameter in call.module.parameters(recurse=False))
        if call.is_leaf and has_matrix and call.made is not None and call.made.requires_grad:
            found.setdefault(call.path, call)
    return list(found.values())


def _middle(calls: Sequence[ModuleCall], *, times_output: bool = False) -> float:
    """The median of the norms that are not 0; 0 where all are. times_output: each by that of what the layer put out."""
    norms = []
    for call in calls:
        if call.gradient is not None and call.made is not None:
            size = torch.linalg.vector_norm(call.made.detach().double()).item() if times_output else 1.0
            norms.append(torch.linalg.vector_norm(call.gradient).item() * size)
    moving = [norm for norm in norms if norm > 0 and math.isfinite(norm)]
    return statistics.median(moving) if moving else 0.0


RULE = DoctorRule(
    name="gradients-over-depth",
    proves="that the gradient is absurdly large, or multiplied by a steady factor from the last layers to the first",
    how="asks the loss for its gradient by what each layer with weights puts out",
    check=check,
    cannot_see="layers that are not called one after another",
    again=AGAIN,
    needs=("targets", "loss"),
    follows=("saturated", "dead-units", "nan-origin", "post-norm-depth"),
)
