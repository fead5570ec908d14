"""(N, 1) minus (N) is (N, N): every output is compared with every target, and the best answer is their mean.

Nothing fails, and the loss falls, down to the variance of the targets. It does not change when the targets are
shuffled, which no loss that compares each with its own can say of itself.
"""

from typing import Any

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import isolate
from pellucid.inspection.instrument.loss_view import LossView, loss_view
from pellucid.inspection.instrument.recording import InterceptOperators, operator_name
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

SLACK = 1e-3  # of what a shuffle of the targets changes
_PAIRWISE = ("add", "sub", "mul", "div", "pow", "minimum", "maximum")


def check(specimen: Specimen) -> Findings:
    view, targets = loss_view(specimen), specimen.target
    if view is None:
        return
    if targets is None or view.has_classes:
        yield from _within(view)
        return
    found = list(_of_targets(view, targets))
    yield from [] if found and found[0].severity != "sound" else _within(view)
    yield from found


def _of_targets(view: LossView, targets: Tensor) -> Findings:
    """Outputs against targets of another shape."""
    made, given = tuple(view.tensor.shape), tuple(targets.shape)
    if targets.numel() != view.tensor.numel():
        yield from _one_for_many(view, targets)
        return
    drawn = _unlike_outputs(view, targets)
    apart = view.value(drawn)
    paired = view.with_targets(targets.reshape(made)).value(drawn)
    shuffled = view.with_targets(_shuffle(targets)).value(drawn)
    paired_shuffled = view.with_targets(_shuffle(targets).reshape(made)).value(drawn)
    # By what a shuffle changes: beside large targets that is little of the whole loss, and all that is asked here.
    slack = SLACK * abs(paired - paired_shuffled)
    if not slack > 0:
        return  # no order of the targets can be told from another
    if abs(apart - paired) <= slack:
        seen = f"outputs {made} and targets {given}: the loss is {view.loss_now:.4g}, as row by row"
        yield Finding.sound("loss", seen, "each output is compared with its own target")
    elif abs(apart - shuffled) <= slack:
        own = view.with_targets(targets.reshape(made)).loss_now
        yield Finding.broken(
            "loss",
            f"outputs {made} against targets {given}: the loss is {view.loss_now:.4g}, row by row it is {own:.4g}; "
            f"shuffled targets change it by {abs(apart - shuffled):.1g} instead of {abs(paired - paired_shuffled):.3g}",
            f"every output is compared with all {targets.numel()} targets, so the best it can learn is their mean",
            f"give both one shape: {'outputs.squeeze(-1)' if len(made) > len(given) else 'targets.squeeze(-1)'}",
            again="print(model(x).shape, y.shape, loss(model(x), y), loss(model(x), y.view_as(model(x))))",
        )


def _unlike_outputs(view: LossView, targets: Tensor) -> Tensor:
    """Outputs that all differ, where the targets lie: so that a shuffle changes the right loss by as much as it can."""
    drawn = torch.randn(view.tensor.shape, generator=torch.Generator().manual_seed(0)).to(view.tensor)
    if view.kind == "probabilities" or not targets.is_floating_point():
        return drawn.sigmoid()
    values = targets.to(view.tensor)
    return values.mean() + drawn * (values.std(correction=0) + 1e-3)


def _one_for_many(view: LossView, targets: Tensor) -> Findings:
    """One target for several outputs, each of which then learns the same."""
    made, given = tuple(view.tensor.shape), tuple(targets.shape)
    if len(made) != len(given) or any(few not in (1, many) for few, many in zip(given, made, strict=True)):
        return
    best = view.value(targets.to(view.tensor).expand(made))
    if abs(best) > 1e-6 or not view.loss_now > best or not _pulls_alike(view, targets):
        return
    yield Finding.suspicious(
        "loss",
        f"outputs {made} against targets {given}: the loss is {best:.3g} when all outputs of a row are the same number",
        f"one target is compared with {view.tensor.numel() // targets.numel()} outputs, and all of them learn the same",
        "let the last layer put out as many numbers as there are targets",
        again="print(model(x).shape, y.shape, loss(y.expand_as(model(x)), y))",
    )


def _pulls_alike(view: LossView, targets: Tensor) -> bool:
    """Whether outputs that are as far from their one target are pulled as hard; several quantiles of it are not."""
    wanted = targets.to(view.tensor).expand(view.tensor.shape)
    for away in (-1.0, 1.0):
        slope = view.slope_at(wanted + away * (1 + wanted.abs().max()))
        if slope is None or not bool(slope.any()):
            return False
        together = slope.mean(dim=[at for at, size in enumerate(targets.shape) if size == 1], keepdim=True)
        if float((slope - together).abs().max()) > 1e-3 * float(slope.abs().max()):
            return False
    return True


def _within(view: LossView) -> Findings:
    """A loss in which weights or other numbers are laid across the rows."""
    length = len(view.tensor) if view.tensor.dim() else 0
    crossed: list[str] = []

    def see(operator: Any, args: tuple[Any, ...], named: object, made: object) -> None:
        read = [one for one in args if isinstance(one, Tensor) and one.numel() == length]
        # (N, 1) with (1, N) was written so on purpose; (N, 1) with (N) was not.
        is_crossed = len(read) == 2 and {one.dim() for one in read} == {1, 2} and length > 1
        is_table = isinstance(made, Tensor) and made.shape == (length, length)
        if is_crossed and is_table and operator_name(operator) in _PAIRWISE:
            crossed.append(" and ".join(str(tuple(one.shape)) for one in read))

    with isolate(), torch.no_grad(), InterceptOperators(see):
        view.at(view.tensor)
    if crossed:
        yield Finding.suspicious(
            "loss",
            f"in the loss, {crossed[0]} make ({length}, {length})",
            "every row meets the numbers of all other rows",
            "give both one shape, with unsqueeze(-1) or squeeze(-1)",
            again="print(model(x).shape, y.shape)",
        )


def _shuffle(targets: Tensor) -> Tensor:
    flat = targets.reshape(-1)
    return flat[torch.randperm(len(flat), generator=torch.Generator().manual_seed(1))].reshape(targets.shape)


RULE = DoctorRule(
    name="target-broadcast",
    proves="the loss compares every output with every target instead of its own",
    how="compares the loss with that of targets in the outputs' shape, and shuffles the targets",
    check=check,
    cannot_see="broadcasts inside the model, and targets that are all the same",
    needs=("targets", "loss"),
)
