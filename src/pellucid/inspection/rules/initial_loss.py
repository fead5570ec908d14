"""A network that has learned nothing should be equally unsure of everything: its first loss is ln K.

One that starts far above it is sure and wrong, and spends its first steps on shrinking scores instead of learning. One
that starts below the entropy of the labels knows more than how often each occurs: it sees what it should predict. The
layer to blame is found by trial: each that is larger than usual is brought to the usual size, and the loss measured.
"""

import math

import torch
from torch import Tensor

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.perturbation import size_of
from pellucid.inspection.instrument.recording import first_few, output_part
from pellucid.inspection.instrument.specimen import is_fresh
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

LARGE = 1.5  # times 1/√fan-in; torch draws 0.58 of it, Kaiming 1.41
MOST = 40  # layers that are tried
MOST_OF = 0.8  # of the excess, that the layer to blame must explain


def check(specimen: Specimen) -> Findings:
    view = loss_view(specimen)
    if view is None or not view.has_classes or not is_fresh(specimen):
        return
    measured, uniform, entropy = view.loss_now / view.per, math.log(view.n_classes), view.best_constant() / view.per
    # Rows that are scored against each other, as for contrast, have scores that are scaled on purpose.
    is_between_rows = view.tensor.dim() == 2 and view.tensor.shape[0] == view.tensor.shape[1]
    if not math.isfinite(measured) or not math.isfinite(entropy) or is_between_rows:
        return
    # The last layer as torch draws it, behind a norm, costs a sixth of a nat: its scores differ by 0.58. Three times as
    # much is lost again within a few steps.
    slack = max(0.5, 0.25 * uniform)
    # A small batch may be guessed by chance: its mean is off by about the spread of a row's loss over the root of rows.
    luck = 4 * float(view.tensor.std(view.axis).mean()) / math.sqrt(max(view.tensor.numel() / view.n_classes, 1))
    yield from _sum_over_batch(view)
    seen = f"{measured:.4f} nats, where ln {view.n_classes} = {uniform:.4f} and the labels' entropy is {entropy:.4f}"
    if measured > uniform + slack + luck:
        yield _too_high(specimen, view, seen)
    elif measured < entropy - slack - luck:
        yield Finding.suspicious(
            "loss",
            seen,
            "weights that have learned nothing know more than how often each label occurs: the inputs hold the answer",
            "look for the target among the inputs, or for a path around the network",
            again="print(loss(model.eval()(x), y), y.unique(return_counts=True))",
        )
    else:
        yield Finding.sound("loss", seen, "it starts without opinions")


def _sum_over_batch(view: LossView) -> Findings:
    """A sum over the batch where a mean is usual."""
    if view.per > 1.5:
        yield Finding.suspicious(
            "loss",
            f"equal scores cost {view.per * math.log(view.n_classes):.4f} = {view.per:.0f}·ln {view.n_classes}: a "
            f"sum over {view.per:.0f} targets",
            "gradients and the rate that suits them grow with the batch",
            "take the mean (reduction='mean'), or divide the rate by the number of targets",
            again="print(loss(model(x), y), loss(model(x[:1]), y[:1]))",
        )


def _too_high(specimen: Specimen, view: LossView, seen: str) -> Finding:
    before, uniform = view.loss_now / view.per, math.log(view.n_classes)
    large = _large(specimen)
    # One layer alone, the largest first; if none will do, all of them at once.
    for chosen in [*([one] for one in large), large] if large else []:
        after = _made_usual(specimen, chosen)
        if before - after < MOST_OF * (before - uniform):
            continue
        first, factor = chosen[0]
        which = first if len(chosen) == 1 else f"{len(chosen)} layers ({first_few([path for path, _ in chosen])})"
        return Finding.suspicious(
            first,
            f"{seen}; with {which} made up to {factor:.3g} times smaller it is {after:.4f}",
            "it starts sure and wrong, because first weights are too large there",
            "draw them with a spread of 1/√fan-in, or 0.02 as GPT does",
            again="print(loss(model.eval()(x), y))",
        )
    largest = max(
        (size_of(one) for one in specimen.inputs if isinstance(one, Tensor) and one.is_floating_point()), default=0
    )
    is_input = largest > 3
    return Finding.suspicious(
        "inputs" if is_input else output_part(specimen),
        f"{seen}; scores are of size {size_of(view.tensor):.3g}"
        + (f", inputs of size {largest:.3g}" if is_input else ""),
        "it starts sure and wrong" + (", because the inputs are large" if is_input else ""),
        "bring inputs to mean 0 and spread 1" if is_input else "shrink the last layer's first weights",
        again="print(loss(model.eval()(x), y))",
    )


def _large(specimen: Specimen) -> list[tuple[str, float]]:
    """Layers that are larger than usual and how many times, the largest first."""
    found: list[tuple[str, float]] = []
    for path, module in specimen.model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() >= 2 and weight.is_floating_point():
            # Of an embedding one row is taken at a time; it makes scores where the last layer is tied to it.
            size = size_of(weight) * math.sqrt(weight[0].numel())
            found += [(path, size)] if size > LARGE else []
    return sorted(found, key=lambda one: -one[1])[:MOST]


def _made_usual(specimen: Specimen, layers: list[tuple[str, float]]) -> float:
    """The loss with these layers brought to the usual size; infinite where there is none."""
    copied = specimen.copy()
    with torch.no_grad():
        for path, size in layers:
            copied.model.get_submodule(path).weight.div_(size)  # type: ignore[operator]
    view = loss_view(copied)
    return view.loss_now / view.per if view is not None and math.isfinite(view.loss_now) else math.inf


RULE = DoctorRule(
    name="initial-loss",
    proves="untrained weights start sure and wrong, or know more than the labels' frequencies tell",
    how="compares the loss of weights as they were drawn with ln K and the labels' entropy, and shrinks large layers",
    check=check,
    cannot_see="weights that were trained already, and losses that are not of classes",
    needs=("targets", "loss"),
    follows=(
        "double-softmax",
        "sigmoid-before-logits",
        "missing-log-softmax",
        "inputs-unnormalised",
        "future-leak",
        "shifted-targets",
    ),
)
