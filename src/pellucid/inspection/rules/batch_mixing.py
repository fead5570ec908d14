"""What is said of one row must not depend on the others: alone, tomorrow, it would be answered otherwise.

A `view` where a `transpose` was meant, a softmax over the batch or batch_first forgotten all run without complaint. One
row is changed, and the outputs of the others must not move. In training batch norms let rows meet, and are meant to.
Where time is first, as is said or as targets show that are the inputs further on, rows lie along the second axis.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from pellucid.inspection.instrument.influence import batch_axis, target_shifts
from pellucid.inspection.instrument.isolation import try_or_none
from pellucid.inspection.instrument.perturbation import (
    batch_input,
    change_input,
    is_beyond_rounding,
    largest_change,
    size_of,
)
from pellucid.inspection.instrument.recording import Meeting, first_meeting
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

AGAIN = "y = model.eval()(x); x[0] = x[0].flip(0); print((model(x) - y)[1:].abs().max())"


def check(specimen: Specimen) -> Findings:
    place = batch_input(specimen)
    if place is None or _is_graph(specimen) or not any(_has_rows(one) for one in specimen.inputs):
        return
    n_rows = specimen.inputs[place].shape[batch_axis(specimen)]
    yield from _single(specimen, n_rows)
    if n_rows < 2:
        return
    for mode in ("eval", "training"):
        found = list(_in_mode(specimen, place, mode))
        yield from found
        if any(one.severity != "sound" for one in found):
            return


def _in_mode(specimen: Specimen, place: int, mode: str) -> Findings:
    is_training = mode == "training"
    axis = batch_axis(specimen)
    n_rows = specimen.inputs[place].shape[axis]
    before = specimen.copy(mode).main_output()
    if before is None or before.dim() <= axis or before.shape[axis] != n_rows:
        return
    worst = 0.0
    for row, changed in _change_rows(specimen, place):
        after = try_or_none(partial(specimen.copy(mode).main_output, changed))
        kept = _others(row, before, axis)
        change = largest_change(kept(before), kept(after)) if after is not None else 0.0  # type: ignore[arg-type]
        worst = max(worst, change)
        if not is_beyond_rounding(change, before):
            continue
        if not axis and after is not None and _are_linked(specimen, row, before, after):
            return  # rows are nodes of a graph, and what moved has a way to what was changed
        meeting = first_meeting(specimen.copy(mode).model, specimen.inputs, changed, kept)
        seen = (
            f"another row {row} moved the other {n_rows - 1} rows' outputs by up to {change:.3g}, outputs being of "
            f"size {size_of(before):.3g}, in {mode}" + (f"; first in {meeting.kind}" if meeting else "")
        )
        where = meeting.path if meeting else "the model"
        yield _in_training(where, seen, meeting) if is_training else _in_eval(specimen, place, where, seen, meeting)
        return
    if not is_training and not axis:
        by_place = _by_place(specimen, before)
        if by_place is not None:
            yield by_place
            return
    seen = f"other first and last rows moved the other {n_rows - 1} rows' outputs by {worst:.2g}, in {mode}"
    if axis:
        seen += f"; rows lie along axis {axis}"
    yield Finding.sound("the model", seen, "each row is answered by itself")


def _has_rows(one: object) -> bool:
    return isinstance(one, Tensor) and one.dim() >= 2 and one.numel() > 0 and one.dtype is not torch.bool


def _change_rows(specimen: Specimen, place: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """A row and the inputs with it changed: the first and the last, to numbers of the batch and to larger ones.

    Of further inputs only those whose first axis can be nothing but the batch: no mask that belongs to all rows.
    """
    axis = batch_axis(specimen)
    n_rows = specimen.inputs[place].shape[axis]
    tensors = [one for one in specimen.inputs if isinstance(one, Tensor)]
    is_clear = not axis and not any(n_rows in one.shape[1:] for one in tensors)
    for other, one in enumerate(specimen.inputs):
        is_batch = isinstance(one, Tensor) and one.dim() > axis and one.shape[axis] == n_rows and one.numel() > 0
        if other == place or (is_batch and is_clear and one.dtype is not torch.bool):
            yield from _change_rows_of(specimen, other, axis)


def _change_rows_of(specimen: Specimen, place: int, axis: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    given: Tensor = specimen.inputs[place]
    for row in (0, given.shape[axis] - 1):
        changed = change_input(specimen.inputs, place, (*[slice(None)] * axis, row), seed=row)
        if changed is not None:
            yield row, changed
        if not given.is_floating_point():
            # Columns may have numbers of their own, of which those of others are too large; another row is allowed.
            borrowed = given.detach().clone()
            borrowed.select(axis, row).copy_(given.select(axis, (row + 1) % given.shape[axis]))
            yield row, (*specimen.inputs[:place], borrowed, *specimen.inputs[place + 1 :])
    if given.is_floating_point():
        larger = given.detach().clone()
        larger.select(axis, 0).mul_(10)
        yield 0, (*specimen.inputs[:place], larger, *specimen.inputs[place + 1 :])


def _by_place(specimen: Specimen, before: Tensor) -> Finding | None:
    """Whether a row is answered otherwise at another place: all rows move on by one, and so must the outputs."""
    n_rows = len(before)
    noisy = specimen.copy("eval").main_output(seed=1)
    if noisy is None or largest_change(before, noisy) or before.shape[1:2] == (n_rows,):
        return None  # what draws at random draws for places, and scores between rows move in both ways
    rolled = tuple(
        one.roll(1, 0) if isinstance(one, Tensor) and one.dim() and len(one) == n_rows else one
        for one in specimen.inputs
    )
    after = specimen.copy("eval").main_output(rolled)
    change = largest_change(before.roll(1, 0), after) if after is not None else 0.0
    if not is_beyond_rounding(change, before):
        return None
    return Finding.suspicious(
        "the model",
        f"with all {n_rows} rows moved on by one place, outputs differ by up to {change:.3g} from those moved on, "
        f"outputs being of size {size_of(before):.3g}",
        "what is said of a row depends on where it stands in the batch, as if that were its position",
        "look for positions or weights that are added along dimension 0, where dimension 1 is meant",
        again="print((model.eval()(x.roll(1, 0)) - model(x).roll(1, 0)).abs().max())",
    )


def _single(specimen: Specimen, n_rows: int) -> Findings:
    """A batch norm that is trained on one row has no batch to take its statistics over."""
    norms = [path for path, one in specimen.model.named_modules() if "BatchNorm" in type(one).__name__ and one.training]
    if n_rows == 1 and norms:
        yield Finding.suspicious(
            norms[0],
            f"{len(norms)} batch norms are in training, and the batch has 1 row",
            "each row is normed by itself in training, and by the average of all in eval: two different functions",
            "use larger batches, or a norm over features (LayerNorm, GroupNorm)",
            again="print(x.shape)",
        )


def _others(row: int, outputs: Tensor, axis: int) -> Callable[[Tensor], Tensor | None]:
    """Of a tensor all rows but one; of scores between rows, as for contrast, also all columns but that one."""
    n_rows = outputs.shape[axis]
    rest = torch.tensor([other for other in range(n_rows) if other != row])
    is_between_rows = outputs.shape == (n_rows, n_rows)

    def select_kept(tensor: Tensor) -> Tensor | None:
        if tensor.dim() <= axis or tensor.shape[axis] != n_rows:
            return None
        others = tensor.index_select(axis, rest)
        return others[:, rest] if is_between_rows and tensor.shape == outputs.shape else others

    return select_kept


def _is_graph(specimen: Specimen) -> bool:
    """Whether rows are nodes of a graph, which are meant to meet: a matrix between rows, or a list of edges."""
    n_rows = specimen.n_rows
    given = [one for one in specimen.inputs[1:] if isinstance(one, Tensor)] + list(specimen.model.buffers())
    return any(one.shape == (n_rows, n_rows) for one in given) or any(
        one.dim() == 2 and one.shape[0] == 2 and not one.is_floating_point() and n_rows != 2 for one in given
    )


def _are_linked(specimen: Specimen, row: int, before: Tensor, after: Tensor) -> bool:
    """Whether two inputs tell links between rows, and all rows that moved have a way along them to the changed one."""
    n_rows = specimen.n_rows
    lists = [
        one
        for one in specimen.inputs[1:]
        if isinstance(one, Tensor) and one.dim() == 1 and one.numel() and not one.is_floating_point()
    ]
    pairs = [
        (one, other)
        for one, other in pairwise(lists)
        if len(one) == len(other) and int(one.min()) >= 0 and max(int(one.max()), int(other.max())) < n_rows
    ]
    if not pairs:
        return False
    reached = torch.zeros(n_rows, dtype=torch.bool)
    reached[row] = True
    for _ in range(n_rows):
        grown = reached.clone()
        for one, other in pairs:
            grown[other[reached[one]]] = True
            grown[one[reached[other]]] = True
        if torch.equal(grown, reached):
            break
        reached = grown
    moved = (after - before).flatten(1).abs().amax(1) if before.dim() > 1 else (after - before).abs()
    far = [is_beyond_rounding(float(one), before) for one in moved[~reached]]
    return not any(far)


def _in_training(where: str, seen: str, meeting: Meeting | None) -> Finding:
    if meeting is not None and "Norm" in meeting.kind:
        return Finding.note(
            where,
            seen,
            "in training this norm takes its statistics over the batch, so rows meet there, as is meant",
            "shuffle what goes into a batch, so that it is a fair sample",
        )
    return Finding.suspicious(
        where,
        seen,
        "in training rows meet where no batch norm is, and in eval they do not: two different functions",
        "look for what takes a mean, a maximum or a choice over the first dimension",
        again=AGAIN.replace("eval", "train"),
    )


def _in_eval(specimen: Specimen, place: int, where: str, seen: str, meeting: Meeting | None) -> Finding:
    module = meeting.module if meeting is not None else specimen.model
    if "quantized" in type(module).__module__:
        means = "it is rounded by the range of the whole batch, as dynamic quantisation does"
        return Finding.note(where, seen, means, "quantise with ranges that are fixed")
    is_norm = "Norm" in type(module).__name__
    is_time_first = any(getattr(one, "batch_first", True) is False for one in module.modules())
    targets = specimen.target
    is_one_each = targets is not None and targets.shape == specimen.inputs[place].shape[:1]
    # Targets that are the inputs further along the second axis say that this one is time, and the first is not.
    is_time_second = any(shift.axis == 1 and shift.by for shift in target_shifts(specimen))
    is_doubtful = is_norm or (is_time_first and not is_one_each and not is_time_second)
    fix = "look there for a view or reshape where a transpose is meant, or a softmax, mean or norm over dimension 0"
    if is_norm:
        fix = "keep running statistics (track_running_stats=True), or use a norm over features"
    elif is_time_first:
        fix = "say batch_first=True, or put time first on purpose and transpose back"
    return Finding(
        "suspicious" if is_doubtful else "broken",
        where,
        seen,
        "what is said of one row depends on which others are in its batch"
        + (", unless the first dimension is time" if is_doubtful and not is_norm else ""),
        fix,
        again=AGAIN,
    )


RULE = DoctorRule(
    name="batch-mixing",
    proves="the outputs of one row move when only another row of its batch changes",
    how="changes one row and compares the outputs of the others, in eval and in training, where batch norms may meet; "
    "and moves all rows on by one",
    check=check,
    cannot_see="mixing that only shows for other batch sizes, or that is too small beside rounding",
)
