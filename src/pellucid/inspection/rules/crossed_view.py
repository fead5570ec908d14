"""A `view` where a transpose is meant has the right shape and the wrong contents: heads, channels, time or rows mixed.

Every change of shape while the model and its loss run is looked at. One that splits axes, or joins neighbours, keeps
what belongs together. One whose sizes are those of axes that have changed places, while the numbers have not, has put
parts of several places into one. Sizes may agree by chance, so that it has to be seen with another batch size as well.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.influence import batch_axis
from pellucid.inspection.instrument.isolation import isolate, try_or_none
from pellucid.inspection.instrument.recording import Recorder, part_name
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

_RESHAPING = frozenset({"view", "reshape", "unflatten", "flatten", "view_as", "reshape_as", "unsafe_view"})
MOST_AXES = 6


class ShapeChange(NamedTuple):
    """One change of a tensor's shape that moved no number."""

    path: str
    before: tuple[int, ...]
    after: tuple[int, ...]


def check(specimen: Specimen) -> Findings:
    copied = specimen.copy("eval")
    changes = try_or_none(lambda: _shape_changes(copied))
    if not changes:
        return
    crossed = [(index, change) for index, change in enumerate(changes) if crosses_axes(change.before, change.after)]
    if crossed:
        other = try_or_none(lambda: _shape_changes(_with_another_row(copied)))
        for index, change in crossed:
            again = other[index] if other is not None and len(other) == len(changes) else change
            if again.path == change.path and crosses_axes(again.before, again.after):
                yield _finding(change)
                return
    n_seen = len(changes)
    seen = f"{n_seen} changes of shape split axes or joined neighbours, or matched no axes that changed places"
    yield Finding.sound("the model", seen, "no view stands where a transpose is meant")


def _finding(change: ShapeChange) -> Finding:
    order = _meant_order(change)
    meant = f".permute{order}" if order is not None else ".transpose(...)"
    return Finding.suspicious(
        part_name(change.path),
        f"numbers of shape {change.before} are read as {change.after}, in the order in which they lie",
        "the sizes are those of axes that have changed places, and the numbers have not: each place of the new shape "
        "holds parts of several of the old one",
        f"move the axes first, as x{meant}, and change the shape then",
        again=f"x = torch.arange({math.prod(change.before)}).view{change.before}; print(x.reshape{change.after})",
    )


def _meant_order(change: ShapeChange) -> tuple[int, ...] | None:
    """The order of the old axes after which the new shape splits, or joins neighbours; None where there is none."""
    for order in itertools.permutations(range(len(change.before))):
        if list(order) != sorted(order) and _is_clean([change.before[axis] for axis in order], change.after):
            return order
    return None


def _shape_changes(specimen: Specimen) -> list[ShapeChange]:
    with isolate(), torch.no_grad(), Recorder(specimen.model, _RESHAPING) as recorder:
        outputs = specimen.outputs()
        if specimen.has_loss:
            try_or_none(lambda: specimen.loss_of(outputs))
    return [
        ShapeChange(call.path, tuple(call.given.shape), tuple(call.made.shape))
        for call in recorder.functions
        if call.given is not None and isinstance(call.made, Tensor)
    ]


def _with_another_row(specimen: Specimen) -> Specimen:
    """The specimen with its first row twice."""
    axis = batch_axis(specimen)
    n_rows = next(one.shape[axis] for one in specimen.inputs if isinstance(one, Tensor) and one.dim() > axis)

    def extend(one: Any) -> Any:
        fits = isinstance(one, Tensor) and one.dim() > axis and one.shape[axis] == n_rows
        return torch.cat([one, one.narrow(axis, 0, 1)], axis) if fits else one

    inputs = tuple(extend(one) for one in specimen.inputs)
    return replace(specimen, inputs=inputs, targets=extend(specimen.targets))


def crosses_axes(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether a change of shape has the sizes of axes that changed places, though nothing was moved.

    >>> crosses_axes((8, 12, 16), (8, 4, 12, 4))  # heads cut off in front of time
    True
    >>> crosses_axes((8, 12, 16), (8, 12, 4, 4)), crosses_axes((8, 12, 16), (96, 16))
    (False, False)
    """
    old, new = ([size for size in sizes if size != 1] for sizes in (before, after))
    if _is_clean(old, new) or not 2 <= max(len(old), len(new)) <= MOST_AXES or math.prod(old) != math.prod(new):
        return False
    fewer, more = sorted((old, new), key=len)
    if _is_skew(old, new):
        return False
    return any(
        all(
            math.prod(size for size, group in zip(more, groups, strict=True) if group == index) == wanted
            for index, wanted in enumerate(fewer)
        )
        for groups in itertools.product(range(len(fewer)), repeat=len(more))
        if set(groups) == set(range(len(fewer)))
    )


def _is_clean(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether axes are only split, and only neighbours are joined.

    >>> _is_clean([2, 3, 4], [6, 2, 2]), _is_clean([2, 3], [3, 2])
    (True, False)
    """
    old, new = ([size for size in sizes if size != 1] for sizes in (before, after))
    while old and new:
        left, right = [old.pop(0)], [new.pop(0)]
        while math.prod(left) != math.prod(right):
            shorter, rest = (left, old) if math.prod(left) < math.prod(right) else (right, new)
            if not rest:
                return False
            shorter.append(rest.pop(0))
        if len(left) > 1 and len(right) > 1:
            return False
    return not old and not new


def _is_skew(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether (n, n + 1) is read as (n + 1, n), by which scores of distances are moved to their places on purpose."""
    moved = [(old, new) for old, new in zip(before, after, strict=False) if old != new]
    return len(before) == len(after) and len(moved) == 2 and abs(moved[0][0] - moved[0][1]) == 1


RULE = DoctorRule(
    name="crossed-view",
    proves="that numbers are read in a shape whose axes have changed places, without having been moved",
    how="watches every view and reshape of the model and its loss, with this batch size and with one row more",
    check=check,
    cannot_see="axes of equal sizes, and changes of shape inside compiled code",
    follows=("scrambled-scores",),
)
