"""If a loss of embeddings is least where all of them are one point, training may end there, and tell nothing apart.

Pairs that are to be alike and no pairs that are to differ, labels that the loss takes for another thing, a missing
stop-gradient. Free outputs are moved downhill, all of them and one for all rows; where one for all is as good as any, a
copy is trained to see whether it goes there, since some losses of that kind are kept from it by how they are trained.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate, try_or_none
from pellucid.inspection.instrument.loss_terms import WholeLoss, whole_loss
from pellucid.inspection.instrument.loss_view import loss_view
from pellucid.inspection.instrument.nests import map_tensors, tensors_in
from pellucid.inspection.instrument.short_run import copy_in_training, objective, trainable_parameters
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST_ROWS = 8
SEARCH_STEPS = 60
TRAINED_STEPS = 120
MOST_WEIGHTS = 300_000
ONE_POINT = 0.9  # mean cosine between rows, to which a trial of a few steps comes
CLOSER = 4.0  # times, by which rows came nearer to each other
AGAIN = (
    "from torch.utils._pytree import tree_map\n"
    "outputs = model(x)\n"
    "print(loss(outputs, y), loss(tree_map(lambda one: one[:1].expand_as(one), outputs), y))"
)


def check(specimen: Specimen) -> Findings:
    whole = whole_loss(specimen)
    if whole is None or not _are_embeddings(specimen, whole):
        return
    now, free = whole.value(whole.tensors), _search(whole, whole.tensors)
    equal = _search(whole, [one.mean(0, keepdim=True) for one in whole.tensors])
    if free is None or equal is None or not now - free > 1e-3 * abs(now):
        return
    seen = f"the loss is {now:.4g}, at best {free:.4g}, and {equal:.4g} where the outputs of all rows are the same"
    if equal - free > 0.02 * (now - free):
        yield Finding.sound("loss", seen, "outputs that tell rows apart are better than one for all", again=AGAIN)
        return
    if _asks_for_targets(whole):
        yield Finding.suspicious(
            "loss",
            seen,
            "the same output for every row is as good as any, whatever the labels say: nothing need be told apart",
            "look at which labels the loss takes (1 and -1, or 1 and 0), and whether unlike pairs cost something",
            again=AGAIN,
        )
        return
    alike = try_or_none(lambda: _trained_likeness(specimen))
    if alike is None:
        return
    before, after = alike
    seen += f"; in {TRAINED_STEPS} steps the mean cosine between rows went from {before:.3f} to {after:.3f}"
    if after > ONE_POINT and CLOSER * (1 - after) < 1 - before:
        yield Finding.suspicious(
            "loss",
            seen,
            "all outputs go to one point, where this loss is least: nothing is told apart",
            "stop the gradient of one branch (detach()), or add pairs or a term that keeps outputs apart",
            again=AGAIN,
        )
    else:
        means = "one point for all would be best, and how it is trained keeps it away from there"
        yield Finding.note("loss", seen, means, "watch the spread of the outputs", again=AGAIN)


def _are_embeddings(specimen: Specimen, whole: WholeLoss) -> bool:
    """Whether all outputs are rows of the same width, and nothing among the targets has that shape."""
    shapes = {tuple(one.shape) for one in whole.tensors}
    shape = next(iter(shapes))
    if len(shapes) > 1 or len(shape) != 2 or shape[0] < FEWEST_ROWS or shape[1] < 2:
        return False
    if any(one.numel() == math.prod(shape) for one in tensors_in(specimen.targets)):
        return False
    view = loss_view(specimen)
    return view is None or not view.has_classes


def _asks_for_targets(whole: WholeLoss) -> bool:
    """Whether targets that differ from row to row are of any account to the loss."""
    now = whole.value(whole.tensors)
    targets = tensors_in(whole.specimen.targets)
    differ = any(bool((one != one.reshape(-1)[0]).any()) for one in targets if one.numel())

    def shuffle(one: Tensor) -> Tensor:
        return one[torch.randperm(len(one), generator=torch.Generator().manual_seed(0))] if one.dim() else one

    shuffled = whole.with_targets(map_tensors(shuffle, whole.specimen.targets))
    return differ and not abs(shuffled.value(whole.tensors) - now) <= 1e-6 * abs(now)


def _search(whole: WholeLoss, start: Sequence[Tensor]) -> float | None:
    """The least loss that is found from these outputs on, each stretched to all rows; None where there is no way."""
    free = [one.detach().clone().requires_grad_() for one in start]
    search = torch.optim.LBFGS(free, max_iter=SEARCH_STEPS, line_search_fn="strong_wolfe")

    def stretched() -> list[Tensor]:
        return [one.expand_as(other) for one, other in zip(free, whole.tensors, strict=True)]

    def closure() -> Tensor:
        search.zero_grad()
        loss = whole.at(stretched())
        if loss is None or not loss.requires_grad:
            return torch.tensor(math.nan)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    with isolate():
        try:
            search.step(closure)  # type: ignore[no-untyped-call]
        except (RuntimeError, OverflowError, IndexError):  # torch's search meets what is not finite
            return None
    found = whole.value([one.detach() for one in stretched()])
    return found if math.isfinite(found) else None


def _trained_likeness(specimen: Specimen) -> tuple[float, float] | None:
    """The mean cosine between different rows of the first output, before and after a training of a copy."""
    if sum(one.numel() for one in specimen.model.parameters()) > MOST_WEIGHTS:
        return None
    trained = specimen.copy_with_optimizer() if specimen.optimizer is not None else copy_in_training(specimen)
    trained.model.train()
    optimizer = trained.optimizer or torch.optim.Adam(trainable_parameters(trained.model).values(), lr=3e-3)
    before = _likeness(trained)
    for _ in range(TRAINED_STEPS):
        with isolate():
            loss = objective(trained)
            assert loss is not None, "there is nothing to make smaller"
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return before, _likeness(trained)


def _likeness(specimen: Specimen) -> float:
    with isolate(), torch.no_grad():
        outputs = tensors_in(specimen.model(*specimen.inputs))
    likest = []
    for one in outputs:
        rows = torch.nn.functional.normalize(one.double(), dim=1)
        n_rows = len(rows)
        likest.append(float((rows @ rows.T).sum() - n_rows) / (n_rows * (n_rows - 1)))
    return max(likest)


RULE = DoctorRule(
    name="collapse",
    proves="a loss of embeddings is least where all of them are the same, and training goes there",
    how="searches the least loss of free outputs and of one output for all rows, and trains a copy where both are one",
    check=check,
    cannot_see="a collapse onto a few points or a line, and one that takes longer than the trial",
    needs=("targets", "loss"),
)
