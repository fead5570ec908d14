"""What moves no output was read for nothing: an argument that forward ignores, a column, positions, tokens.

Each input is changed as a whole, and in slices: the columns of its features, its positions, and its tokens one for
another. What then leaves every output as it was, to the last digits of float64 and also with other weights, is not
used. Columns that may change places with one another are used as a whole alone, as by a mean over them.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.inspection.instrument.influence import (
    all_outputs,
    batch_axis,
    change_slice,
    chosen_slices,
    precise_copy,
    repeatable_output,
    rounding_of,
    target_shifts,
)
from pellucid.inspection.instrument.isolation import try_or_none
from pellucid.inspection.instrument.perturbation import change_input, jitter_weights, largest_change, perturb, size_of
from pellucid.inspection.instrument.recording import first_few
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

MOST_COLUMNS = 32
MOST_TOKENS = 32
FEWEST_POSITIONS = 4
SILENT = 0.5  # of all positions; fewer may be what a stride or an edge leaves out
UNLIKE = 1.3  # times, by which the largest numbers of two columns differ that are no tokens
ALIKE = 0.25  # of the tokens that may be treated as one, as padding and the unknown are


class Probe(NamedTuple):
    """A copy with other weights, all that it puts out, and up to which share of it nothing has moved."""

    copied: Specimen
    base: Tensor
    rounding: float

    def moves(self, inputs: tuple[Any, ...] | None) -> bool | None:
        """Whether other inputs give other outputs; None where they give none to compare."""
        after = None if inputs is None else self.outputs(inputs)
        return None if after is None else not self.are_same(self.base, after)

    def outputs(self, inputs: tuple[Any, ...]) -> Tensor | None:
        """All that is put out for other inputs; None where these are not taken."""
        return try_or_none(partial(all_outputs, self.copied, inputs))

    def are_same(self, one: Tensor, other: Tensor) -> bool:
        """Whether two outputs differ by rounding alone."""
        return largest_change(one, other) <= self.rounding


def check(specimen: Specimen) -> Findings:
    probe = _probe(specimen)
    if probe is None:
        return
    told: list[str] = []
    for place, given in enumerate(specimen.inputs):
        if not isinstance(given, Tensor) or not given.dim() or given.numel() < 2 or not _can_change(given):
            continue
        found = list(_of_input(specimen, probe, place, given, told))
        yield from found
        if found:
            return
    if told:
        yield Finding.sound("inputs", "; ".join(told), "what is read is used")


def _probe(specimen: Specimen) -> Probe | None:
    """Weights are nudged: what begins at zero, as a gate or the last layer of a branch, would let nothing through."""
    try:
        nudged = perturb(specimen, partial(jitter_weights, seed=0), "eval")
        copied = precise_copy(replace(nudged, optimizer=None))
        main, base = repeatable_output(copied), all_outputs(copied)
    except Exception:  # it does not run: that has rules of its own
        return None
    return None if main is None or base is None or not size_of(main) else Probe(copied, base, rounding_of(main))


def _can_change(given: Tensor) -> bool:
    return given.dtype is torch.bool or bool((given != given.reshape(-1)[0]).any())


def _of_input(specimen: Specimen, probe: Probe, place: int, given: Tensor, told: list[str]) -> Findings:
    name = "the input" if len(specimen.inputs) == 1 else f"input {place}"
    moved = [probe.moves(inputs) for inputs in _whole_changes(probe.copied.inputs, place)]
    if moved and not any(one is None or one for one in moved):
        # What a decoder would read holds what is asked for, and a model without a decoder does well to leave it alone.
        holds_targets = any(shift.place == place for shift in target_shifts(specimen))
        yield Finding(
            "note" if holds_targets else "suspicious",
            name,
            f"{name} {tuple(given.shape)} was changed {len(moved)} times as a whole, and no output moved",
            "forward takes it and does not use it: what it should do, as to mask or to condition, is not done",
            "use it in forward, or take it out of the arguments",
            again=_again(specimen, place),
        )
        return
    told.append(f"{name} moves outputs as a whole")
    if given.is_floating_point() or _are_fields(given):
        found = list(_of_columns(specimen, probe, place, given, name, told))
        yield from found
        if found:
            return
    elif given.dtype is not torch.bool and len(given.unique()) > 2:  # type: ignore[no-untyped-call]
        yield from _of_tokens(probe, place, given, name, told)
    yield from _of_positions(specimen, probe, place, given, name, told)


def _again(specimen: Specimen, place: int) -> str:
    if len(specimen.inputs) == 1:
        return "y = model.eval()(x); print((model(x.flip(0)) - y).abs().max())"
    return (
        f"y = model.eval()(*inputs); inputs = list(inputs); inputs[{place}] = inputs[{place}].flip(-1).roll(1, 0); "
        "print((model(*inputs) - y).abs().max())"
    )


def _whole_changes(inputs: tuple[Any, ...], place: int) -> Iterator[tuple[Any, ...]]:
    """An input changed everywhere: to other numbers of its own, and with its rows and its places in another order."""
    changed = change_input(inputs, place, (slice(None),), seed=0)
    if changed is not None:
        yield changed
    given: Tensor = inputs[place]
    for other in (given.roll(1, 0), given.flip(-1)):
        if not torch.equal(other, given):
            yield (*inputs[:place], other, *inputs[place + 1 :])


def _of_columns(specimen: Specimen, probe: Probe, place: int, given: Tensor, name: str, told: list[str]) -> Findings:
    """Features: the last axis of tables and of sequences, the second of images."""
    axis = {2: 1, 3: 2, 4: 1, 5: 1}.get(given.dim())
    if axis is None or axis == specimen.time_axis or given.shape[axis] < 2 or batch_axis(specimen) == axis:
        return
    size = given.shape[axis]
    changed = [index for index in chosen_slices(size, MOST_COLUMNS) if _varies(given.select(axis, index))]
    silent = [i for i in changed if probe.moves(change_slice(probe.copied.inputs, place, axis, i)) is False]
    if (silent and given.dim() != 3) or len(silent) > SILENT * len(changed):
        yield Finding.suspicious(
            name,
            f"{len(silent)} of {len(changed)} columns that were changed along axis {axis} moved no output: "
            f"{first_few([str(index) for index in silent])}",
            "these columns are read and not used",
            "look for a slice or an index that leaves them out, or leave them out yourself",
            again=f"y = model.eval()(x); x.select({axis}, {silent[0]}).mul_(-1); print((model(x) - y).abs().max())",
        )
        return
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
    permuted = given.index_select(axis, order).to(probe.copied.inputs[place])
    if size > 2 and len(changed) > 2 and not torch.equal(permuted, probe.copied.inputs[place]):
        inputs = (*probe.copied.inputs[:place], permuted, *probe.copied.inputs[place + 1 :])
        if probe.moves(inputs) is False:
            yield Finding.suspicious(
                name,
                f"with its {size} columns (axis {axis}) in another order no output moved",
                "columns are used as a whole alone, as by a mean or a maximum over them: which is which is lost",
                f"look for a mean, maximum or sum over axis {axis} where another axis is meant",
                again=f"order = torch.randperm({size}); "
                f"print((model.eval()(x.index_select({axis}, order)) - model(x)).abs().max())",
            )
            return
    told.append(f"each of {len(changed)} columns does")


def _are_fields(given: Tensor) -> bool:
    """Whether whole numbers (rows, columns) are categories of several kinds: each column has a range of its own.

    Tokens have the same one at every position.
    """
    if given.dim() != 2 or given.dtype is torch.bool or given.shape[1] < 2:
        return False
    if bool((given == given[:1]).all(0).any()):
        return False
    largest = given.amax(0).double()
    return len(given) >= 2 * int(largest.max()) and bool(largest.max() >= UNLIKE * largest.min().clamp(min=1))


def _varies(given: Tensor) -> bool:
    return bool((given != given.reshape(-1)[0]).any())


def _of_positions(specimen: Specimen, probe: Probe, place: int, given: Tensor, name: str, told: list[str]) -> Findings:
    """Positions of a sequence that is read: which of them matter to anything that is put out."""
    is_sequence = given.dim() == (3 if given.is_floating_point() else 2) and given.dtype is not torch.bool
    axis = specimen.time_axis if specimen.time_axis is not None else 1 - batch_axis(specimen)
    if not is_sequence or given.shape[axis] < FEWEST_POSITIONS:
        return
    changed = chosen_slices(given.shape[axis])
    silent = [i for i in changed if probe.moves(change_slice(probe.copied.inputs, place, axis, i)) is False]
    if len(silent) > SILENT * len(changed):
        used = [index for index in changed if index not in silent]
        yield Finding.suspicious(
            name,
            f"{len(silent)} of {len(changed)} positions that were changed moved no output; those that did: "
            f"{first_few([str(index) for index in used])}",
            "answers are made of a few positions alone: a mask that hides the rest, or the output of a position that "
            "has not seen them",
            "look at which position's output is taken, at the mask, and at how far each position sees",
            again=f"y = model.eval()(x); x.select({axis}, {silent[0]}).copy_(x.select({axis}, {silent[0]}).flip(0)); "
            "print((model(x) - y).abs().max())",
        )
        return
    told.append(f"{len(changed) - len(silent)} of {len(changed)} positions do")


def _of_tokens(probe: Probe, place: int, given: Tensor, name: str, told: list[str]) -> Findings:
    """Tokens that may stand for one another: what is put out with each of them in one place that matters."""
    tokens = given.unique()  # type: ignore[no-untyped-call]
    if given.dim() != 2 or len(tokens) < 4:
        return
    tokens = tokens[list(chosen_slices(len(tokens), MOST_TOKENS))]
    groups: list[tuple[int, list[int]]] = []
    alike: dict[int, list[int]] = {}
    made: dict[int, Tensor] = {}
    at = given.shape[1] // 2 if given.shape[1] < 3 else 1
    for token in tokens.tolist():
        changed = given.clone()
        changed[:, at] = token
        inputs = (*probe.copied.inputs[:place], changed, *probe.copied.inputs[place + 1 :])
        outputs = probe.outputs(inputs)
        if outputs is None or outputs.shape != probe.base.shape:
            return
        twin = next((other for other, seen in made.items() if probe.are_same(seen, outputs)), None)
        if twin is None:
            made[token] = outputs
            alike[token] = [token]
        else:
            alike[twin].append(token)
    groups = [(token, members) for token, members in alike.items() if len(members) > 1]
    n_lost = sum(len(members) for _, members in groups)
    if len(made) == 1:
        return  # the place itself does not matter
    if n_lost > max(2, ALIKE * len(tokens)):
        members = max((members for _, members in groups), key=len)
        yield Finding.suspicious(
            name,
            f"{n_lost} of {len(tokens)} tokens that were tried give the same outputs as another: "
            f"{first_few([str(one) for one in members])} are one",
            "tokens that differ are read as the same: a number that is clamped, wrapped around or cut",
            "look at what is done to the tokens before the embedding, and at the size of its table",
            again=f"z = x.clone(); z[x == {members[0]}] = {members[1]}; print((model(z) - model(x)).abs().max())",
        )
        return
    told.append(f"{len(made)} of {len(tokens)} tokens give outputs of their own")


RULE = DoctorRule(
    name="inert-inputs",
    proves="an input, most of its positions, a column or a difference between tokens moves no output",
    how="changes each input as a whole, its columns and positions one by one and in another order, and one token for "
    "another, in a float64 copy with nudged weights",
    check=check,
    cannot_see="inputs that move outputs by less than they should, and columns or tokens that were not tried",
    follows=("dead-units", "saturated", "gradients-over-depth", "no-gradient", "detached-path", "mask-polarity"),
)
