"""Which places of the inputs move which places of the outputs, measured along any axis.

Inputs are whole numbers, yes and no, or floats. One slice of an input is changed at a time, and what moves is written
down along every axis of the outputs. Where an axis is time, and which one the batch is, follows from what the loss asks
for, from the sizes, and from what was said.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.isolation import is_small, isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.loss_view import sequence_inputs, wanted_classes
from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.instrument.perturbation import change_input, draw_zero_matrices, perturb, size_of
from pellucid.inspection.instrument.specimen import Specimen

MOST_CHANGES = 24  # slices of an axis that are changed one by one; of longer ones as many, evenly spread
SHIFTS = (1, 0, -1, 2, -2)  # between what is read and what is asked for, that are told apart
AGREE = 0.99  # of what is asked for, that a shift has to explain


class Influence(NamedTuple):
    """How far each slice of the outputs along one axis moves for each slice of an input along one of its own."""

    place: int  # of the input
    axis: int  # of the input
    out_axis: int
    changed: tuple[int, ...]  # slices of the input, one for each row of `moved`
    moved: Tensor  # (changed, outputs): the largest change of a number, by the size of the outputs
    rounding: float  # up to which nothing has moved

    @property
    def felt(self) -> Tensor:
        """(changed, outputs): yes where an output moved by more than rounding."""
        return self.moved > self.rounding


class TimeAxis(NamedTuple):
    """An input that is a sequence, along which of its axes, and along which of the outputs'."""

    place: int
    axis: int
    out_axis: int
    by: int | None = None  # the loss asks for what stands so many places further on; None: it is not that
    is_said: bool = False  # by who showed the model


class TargetShift(NamedTuple):
    """That the loss asks, at each place of an axis, for what an input holds so many places further on."""

    place: int
    axis: int  # of the input and of what is asked for
    by: int
    share: float  # of what is asked for that agrees


def precise_copy(specimen: Specimen) -> Specimen:
    """A copy in eval, in float64 where it runs in it, without matrices that are all zeros and let nothing through."""
    if "precise copy" in specimen.known:
        known: Specimen = specimen.known["precise copy"]
        return known
    copied = perturb(specimen, draw_zero_matrices, "eval").double()
    if is_small(specimen.model):  # a large one is not kept a second time until all rules are done
        specimen.known["precise copy"] = copied
    return copied


def rounding_of(outputs: Tensor) -> float:
    """The share of their size by which two ways to the same outputs may differ.

    >>> rounding_of(torch.zeros(1, dtype=torch.float64)) < rounding_of(torch.zeros(1))
    True
    """
    return 1e-7 if outputs.dtype is torch.float64 else 1e-4


def repeatable_output(copied: Specimen) -> Tensor | None:
    """What a copy puts out, where it puts out the same for any seed, and finite numbers alone; None elsewhere."""
    first, second = copied.main_output(seed=0), copied.main_output(seed=1)
    if first is None or second is None or not first.is_floating_point() or not first.numel():
        return None
    is_same = torch.equal(first, second) and bool(first.isfinite().all())
    return first if is_same else None


def all_outputs(copied: Specimen, inputs: tuple[Any, ...] | None = None, seed: int = 0) -> Tensor | None:
    """Every number of every tensor that a copy puts out, in one row, each tensor by its own size; None without one."""
    with isolate(seed), torch.no_grad():
        outputs = copied.model(*own_inputs(copied.inputs if inputs is None else inputs))
    found = [one.detach().double().flatten() for one in tensors_in(outputs) if not one.is_complex() and one.numel()]
    return torch.cat([one / max(size_of(one), 1e-12) for one in found]) if found else None


def influence(specimen: Specimen, place: int, axis: int, most: int = MOST_CHANGES) -> dict[int, Influence]:
    """How an input's slices along one axis move the outputs, for each axis of the outputs; none where it is not told.

    >>> model = torch.nn.Conv1d(1, 1, 2)  # what it puts out at t goes by t and t + 1
    >>> sums = Specimen(model, (torch.tensor([[[1.0, 2.0, 4.0]]]),))
    >>> influence(sums, place=0, axis=2)[2].felt.int()
    tensor([[1, 0],
            [1, 1],
            [0, 1]], dtype=torch.int32)
    """
    copied = precise_copy(specimen)
    base = repeatable_output(copied)
    if base is None or not base.dim():
        return {}
    changed = chosen_slices(copied.inputs[place].shape[axis], most)
    rows: list[Tensor] = []
    for index in changed:
        inputs = change_slice(copied.inputs, place, axis, index)
        after = None if inputs is None else copied.main_output(inputs)
        if after is None or after.shape != base.shape or not bool(after.isfinite().all()):
            return {}
        rows.append((after - base).abs() / max(size_of(base), 1e-12))
    moved = torch.stack(rows)  # (changed, *outputs)
    return {
        out_axis: Influence(
            place,
            axis,
            out_axis,
            changed,
            moved.movedim(out_axis + 1, 1).flatten(2).amax(2) if base.dim() > 1 else moved,
            rounding_of(base),
        )
        for out_axis in range(base.dim())
    }


def grid_influence(specimen: Specimen, place: int, n_axes: int = 2, most: int = MOST_CHANGES) -> Influence | None:
    """How the places of a grid, the last axes of an input, move those of the outputs, both counted row by row.

    None where the outputs have no such grid, or nothing is told.
    """
    copied = precise_copy(specimen)
    base = repeatable_output(copied)
    given: Tensor = copied.inputs[place]
    if base is None or base.dim() < n_axes or given.shape[-n_axes:] != base.shape[-n_axes:]:
        return None
    changed = chosen_slices(given.flatten(-n_axes).shape[-1], most)
    rows: list[Tensor] = []
    for index in changed:
        where = torch.unravel_index(torch.tensor(index), given.shape[-n_axes:])
        inputs = change_input(copied.inputs, place, (..., *(int(one) for one in where)), seed=index)
        after = None if inputs is None else copied.main_output(inputs)
        if after is None or after.shape != base.shape or not bool(after.isfinite().all()):
            return None
        rows.append((after - base).abs().flatten(-n_axes).flatten(0, -2).amax(0) / max(size_of(base), 1e-12))
    return Influence(place, given.dim() - n_axes, base.dim() - n_axes, changed, torch.stack(rows), rounding_of(base))


def chosen_slices(size: int, most: int = MOST_CHANGES) -> tuple[int, ...]:
    """All of an axis, or as many as are changed, evenly spread, with the first and the last.

    >>> chosen_slices(3), chosen_slices(100, most=3)
    ((0, 1, 2), (0, 50, 99))
    """
    if size <= most:
        return tuple(range(size))
    return tuple(sorted({round(step * (size - 1) / (most - 1)) for step in range(most)}))


def change_slice(inputs: tuple[Any, ...], place: int, axis: int, index: int | slice) -> tuple[Any, ...] | None:
    """The inputs with other numbers in one slice, or in several, of one axis of an input; None where none are known."""
    where = (*[slice(None)] * axis, index)
    return change_input(inputs, place, where, seed=index if isinstance(index, int) else index.start or 0)


def target_shifts(specimen: Specimen) -> list[TargetShift]:
    """By how much, and along which axis, what the loss asks for is what the inputs hold; the surest first.

    Classes are read off the loss's slope, so that it does not matter where they are shifted. Numbers are the targets.

    >>> x = torch.randn(7, 3, 1, generator=torch.Generator().manual_seed(0))  # (time, batch, width)
    >>> told = Specimen(torch.nn.Linear(1, 1), (x[:-1],), x[1:], torch.nn.MSELoss())
    >>> [(shift.axis, shift.by) for shift in target_shifts(told)]
    [(0, 1)]
    """
    if "target shifts" not in specimen.known:
        specimen.known["target shifts"] = sorted(_find_shifts(specimen), key=lambda shift: -shift.share)
    found: list[TargetShift] = specimen.known["target shifts"]
    return found


def _find_shifts(specimen: Specimen) -> Iterator[TargetShift]:
    targets = specimen.target
    if targets is None or not specimen.has_loss:
        return
    asked = targets if targets.is_floating_point() else wanted_classes(specimen)
    for place, given in enumerate(specimen.inputs):
        if asked is None or not isinstance(given, Tensor) or given.is_floating_point() != asked.is_floating_point():
            continue
        if given.dtype is torch.bool or not given.numel():
            continue
        for axis in range(min(given.dim(), asked.dim())):
            shares = {by: _agreement(given, asked, axis, by) for by in SHIFTS}
            best = max(shares, key=lambda by: shares[by])
            # Tokens that repeat so much that several shifts explain them tell nothing.
            if shares[best] >= AGREE and sum(share > 0.5 for share in shares.values()) == 1:
                yield TargetShift(place, axis, best, shares[best])


def _agreement(given: Tensor, asked: Tensor, axis: int, by: int) -> float:
    """The share of what is asked for that stands in the input so many places further on; 0 where it cannot be told."""
    given, asked = _alike_shaped(given, asked)
    if given.shape != asked.shape or axis >= given.dim() or given.shape[axis] < 4:
        return 0.0
    size = given.shape[axis]
    start, n_both = max(0, -by), size - abs(by)
    wanted, there = asked.narrow(axis, start, n_both), given.narrow(axis, start + by, n_both)
    counted = torch.ones_like(wanted, dtype=torch.bool) if wanted.is_floating_point() else wanted >= 0
    if not bool(counted.any()) or not bool((there[counted] != there[counted][0]).any()):
        return 0.0
    return float((wanted == there.to(wanted.dtype))[counted].float().mean())


def _alike_shaped(given: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
    """Both without a last axis of one, and the input with those of its columns alone that are asked for."""
    if asked.dim() == given.dim() + 1 and asked.shape[-1] == 1:
        asked = asked[..., 0]
    if given.dim() == asked.dim() + 1:
        asked = asked.unsqueeze(-1)
    is_wider = given.dim() == asked.dim() >= 3 and given.shape[:-1] == asked.shape[:-1]
    if is_wider and asked.shape[-1] < given.shape[-1] <= 64:
        columns = [_column_like(given, asked[..., one]) for one in range(asked.shape[-1])]
        if all(column is not None for column in columns):
            given = given[..., [column for column in columns if column is not None]]
    return given, asked


def _column_like(given: Tensor, asked: Tensor) -> int | None:
    """The column of an input in which most numbers of what is asked for stand somewhere."""
    for column in range(given.shape[-1]):
        if torch.isin(asked.flatten(), given[..., column].flatten()).float().mean() > 0.5:
            return column
    return None


def time_axes(specimen: Specimen) -> list[TimeAxis]:
    """The sequences that are read, the surest first: as is said, as the loss asks for them, or by their sizes."""
    if "time axes" not in specimen.known:
        outputs = try_or_none(lambda: specimen.copy("eval").main_output())
        found = [] if outputs is None else list(dict.fromkeys(_find_time_axes(specimen, outputs)))
        specimen.known["time axes"] = found
    axes: list[TimeAxis] = specimen.known["time axes"]
    return axes


def _find_time_axes(specimen: Specimen, outputs: Tensor) -> Iterator[TimeAxis]:
    tensors = [(place, one) for place, one in enumerate(specimen.inputs) if isinstance(one, Tensor)]
    shifts = target_shifts(specimen)
    if specimen.time_axis is not None:
        for place, one in tensors:
            if one.dim() > specimen.time_axis and one.dtype is not torch.bool:
                by = next((s.by for s in shifts if (s.place, s.axis) == (place, specimen.time_axis)), None)
                for out_axis in _fitting_axes(one, specimen.time_axis, outputs):
                    yield TimeAxis(place, specimen.time_axis, out_axis, by, is_said=True)
        return
    for shift in shifts:
        for out_axis in _fitting_axes(specimen.inputs[shift.place], shift.axis, outputs)[:1]:
            yield TimeAxis(shift.place, shift.axis, out_axis, shift.by)
    if shifts:
        return
    for place in sequence_inputs(specimen):
        for axis, out_axis in itertools.product(range(1, specimen.inputs[place].dim()), range(1, outputs.dim())):
            if specimen.inputs[place].shape[axis] == outputs.shape[out_axis] > 1:
                yield TimeAxis(place, axis, out_axis)


def _fitting_axes(given: Tensor, axis: int, outputs: Tensor) -> list[int]:
    """The axes of the outputs that are as long, the one of the same number first."""
    fitting = [one for one in range(outputs.dim()) if outputs.shape[one] == given.shape[axis]]
    return sorted(fitting, key=lambda one: one != axis)


def batch_axis(specimen: Specimen) -> int:
    """Along which axis rows of the batch lie: the second where the first is time, as is said or as targets show."""
    if specimen.time_axis is not None:
        return 1 if specimen.time_axis == 0 else 0
    shifts = target_shifts(specimen)
    return 1 if shifts and shifts[0].axis == 0 and shifts[0].by else 0


def sees_past_alone(seen: Influence) -> bool | None:
    """Whether outputs move with what stands before them and never with what comes after; None where nothing is told.

    A module that reads each place by itself sees no past, and is not told.
    """
    changed = torch.tensor(seen.changed)[:, None]
    places = torch.arange(seen.moved.shape[1])[None, :]
    felt = seen.felt
    if not bool(felt[places > changed].any()):
        return None
    return not bool(felt[places < changed].any())


def is_measured_causal(specimen: Specimen, time: TimeAxis) -> bool | None:
    """Whether no output sees ahead along this axis, and some see back; None where it cannot be told."""
    key = f"causal along {time.place}, {time.axis}, {time.out_axis}"
    if key not in specimen.known:
        seen = influence(specimen, time.place, time.axis).get(time.out_axis)
        specimen.known[key] = None if seen is None else sees_past_alone(seen)
    found: bool | None = specimen.known[key]
    return found
