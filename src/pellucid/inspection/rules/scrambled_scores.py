"""A `view` where a transpose is meant gives each place the scores of others, and nothing complains: the shape is right.

Cross-entropy wants (batch, classes, time), models make (batch, time, classes). Added to all scores of one place, a
number changes nothing, for a softmax takes it away; if instead it changes nothing when it is added in the order of the
other shape, that is the order in which the loss reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.instrument.isolation import fixed_rng
from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules import Rule
from pellucid.records import Finding


def check(specimen: Specimen) -> Iterator[Finding]:
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
        means = "each place is judged by its own scores"
        yield Finding.sound("loss", seen, means)
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
                again="print(loss(model(x), y), F.cross_entropy(model(x).transpose(1, 2), y))",
            )
            return


def _is_unmoved(view: LossView, drawn: Tensor, added: Tensor) -> bool:
    base = view.value(drawn)
    return abs(view.value(drawn + added) - base) < 1e-4 * (1 + abs(base))


def _patient(is_viewed: bool) -> Specimen:
    with fixed_rng(0):
        tokens = torch.randint(0, 7, (4, 6))
        model = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))

    def loss(scores: Tensor, targets: Tensor) -> Tensor:
        batch, length, width = scores.shape
        laid = scores.view(batch, width, length) if is_viewed else scores.transpose(1, 2)
        return functional.cross_entropy(laid, targets)

    return Specimen(model, (tokens[:, :-1],), tokens[:, 1:], loss, is_causal=True)


RULE = Rule(
    name="scrambled-scores",
    proves="the loss reads the scores in another order than the model lays them",
    how="adds numbers to the scores place by place, in the order of their shape and in that of the transposed one",
    check=check,
    sick=lambda: _patient(is_viewed=True),
    well=lambda: _patient(is_viewed=False),
    needs=("targets", "loss"),
)
