"""A `view` where a transpose is meant gives each place the scores of others, and nothing complains: the shape is right.

Cross-entropy wants (batch, classes, time), models make (batch, time, classes). Added to all scores of one place, a
number changes nothing, for a softmax takes it away; if instead it changes nothing when it is added in the order of the
other shape, that is the order in which the loss reads them.
"""

import math

import torch
from torch import Tensor

from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen


def check(specimen: Specimen) -> Findings:
    view = loss_view(specimen)
    if view is None or view.tensor.dim() != 3 or len(set(view.tensor.shape[1:])) < 2:
        return
    shape = tuple(view.tensor.shape)
    batch, length, width = shape
    rng = torch.Generator().manual_seed(0)
    drawn = torch.randn(shape, generator=rng).to(view.tensor)
    if view.kind == "cross-entropy":
        by_place = torch.rand([1 if axis == 3 + view.axis else size for axis, size in enumerate(shape)], generator=rng)
        change = abs(view.value(drawn + by_place.to(drawn)) - view.value(drawn))
        seen = f"a number added to all {view.n_classes} scores of a place changes the loss by {change:.1g}"
        yield Finding.sound("loss", seen, "each place is judged by its own scores")
        return
    for classes, others in ((width, length), (length, width)):
        added = torch.rand(batch, 1, others, generator=rng).expand(batch, classes, others).reshape(shape).to(drawn)
        if _is_unmoved(view, drawn, added) and abs(view.value(torch.zeros_like(drawn)) / math.log(classes) - 1) < 1e-3:
            yield Finding.broken(
                "loss",
                f"the loss reads scores {shape} as if they lay as ({batch}, {classes}, {others}): added in that "
                "order, numbers change it by nothing, and added to the scores of a place they do",
                "each target meets scores of several other places",
                "use scores.transpose(1, 2), or scores.flatten(0, 1) against targets.flatten()",
                again="print(loss(model(x), y), torch.nn.functional.cross_entropy(model(x).transpose(1, 2), y))",
            )
            return


def _is_unmoved(view: LossView, drawn: Tensor, added: Tensor) -> bool:
    base = view.value(drawn)
    return abs(view.value(drawn + added) - base) < 1e-4 * (1 + abs(base))


RULE = DoctorRule(
    name="scrambled-scores",
    proves="the loss reads the scores in another order than the model lays them",
    how="adds numbers to the scores place by place, in the order of their shape and in that of the transposed one",
    check=check,
    cannot_see="orders that the transposed one does not explain",
    needs=("targets", "loss"),
)
