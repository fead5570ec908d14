"""A decoder that sees ahead scores far too well in training, and has nothing to look at when it writes.

All from position t on is changed, for every t, and outputs before t must not move: tokens and numbers, time first,
second or last. A mask can be right in one way of running and forgotten in another, so it is tried in all: with and
without dropout, with fused and with plain attention, and with scores so large that a mask made of a large number is
beaten by them. Of a module that is not said to be causal, and whose loss does not ask for what follows, it is measured
whether it sees the past nearly alone: then the few places that see ahead are not meant.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from pellucid.inspection.instrument.influence import (
    TimeAxis,
    change_slice,
    chosen_slices,
    influence,
    is_measured_causal,
    time_axes,
)
from pellucid.inspection.instrument.isolation import without_fused_attention
from pellucid.inspection.instrument.loss_view import causal_input, wanted_classes
from pellucid.inspection.instrument.perturbation import is_beyond_rounding, largest_change, size_of
from pellucid.inspection.instrument.recording import first_meeting
from pellucid.inspection.instrument.specimen import run_module
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

MOST_POSITIONS = 32  # that are tried as it runs fastest, and
FEW_POSITIONS = 3  # in every other way
FULL = 0.8  # of all earlier positions, that are seen by a module that is taken for causal
RARE = 0.3  # of all later positions, that it may see by mistake
FEWEST = 5  # positions, to tell a few from many
LARGE = 200.0  # by which weights grow for large scores: queries and keys both do, so scores grow by its square


class FutureLeak(NamedTuple):
    """The largest movement that was seen before a changed position."""

    position: int
    change: float
    size: float  # of the outputs, to compare


def check(specimen: Specimen) -> Findings:
    time = _causal_time(specimen)
    if time is None:
        if specimen.is_causal is None:
            yield from _nearly_causal(specimen)
        return
    length = specimen.inputs[time.place].shape[time.axis]
    if length < 2:
        return
    tried: list[str] = []
    asked = _asked_places(specimen, time)
    for way, model, with_gradients, around in _ways(specimen):
        most = FEW_POSITIONS if tried else MOST_POSITIONS
        with around:
            leak = _leak(model, specimen.inputs, time, with_gradients, asked, _positions(length, most))
        if leak is None:
            continue
        if leak.change and is_beyond_rounding(leak.change, torch.tensor(leak.size)):
            yield _finding(specimen, time, model, way, leak)
            return
        tried.append(way)
    if tried:
        first, *others = tried
        yield Finding.sound(
            "the model",
            f"inputs changed from each of {len(_positions(length, MOST_POSITIONS))} of {length} positions on moved no "
            f"output before them by more than rounding, {first}"
            + (
                f"; nor from {len(_positions(length, FEW_POSITIONS))} of them on, {', '.join(others)}" if others else ""
            ),
            "no output sees what comes after it",
        )


def _causal_time(specimen: Specimen) -> TimeAxis | None:
    """The sequence of which no output may see ahead, and its axes; None where there is none, or it is not known.

    Of a module that is said to be causal it is the only one; of others the one of which the loss asks for what follows.
    """
    if specimen.is_causal is False:
        return None
    axes = time_axes(specimen)
    following = [time for time in axes if time.by == 1]
    if following:
        return following[0]
    place = causal_input(specimen)
    fitting = [time for time in axes if time.place == place] if place is not None else []
    if specimen.is_causal and not fitting:
        said = [time for time in axes if time.is_said]
        fitting = said if len({time.place for time in said}) == 1 else []
    if len(fitting) > 1 and not fitting[0].is_said:
        # Of (batch, channels, time) both may be as long in the outputs; what sees the past alone is time.
        fitting = [time for time in fitting if is_measured_causal(specimen, time)] or fitting
    return min(fitting, key=lambda time: (time.axis != time.out_axis, time.axis), default=None)


def _is_doubtful(specimen: Specimen, time: TimeAxis) -> bool:
    """Whether another axis could as well be time: nobody said which, and nothing that is asked for tells."""
    others = [other for other in time_axes(specimen) if other.place == time.place and other.axis != time.axis]
    return bool(others) and not time.is_said and time.by is None


def _nearly_causal(specimen: Specimen) -> Findings:
    """Nothing is said; but where all of the past is seen, and of the future a little, that little is a mistake."""
    for time in time_axes(specimen):
        length = specimen.inputs[time.place].shape[time.axis]
        if time.axis != time.out_axis or length < FEWEST:
            continue
        seen = influence(specimen, time.place, time.axis).get(time.out_axis)
        if seen is None:
            continue
        changed = torch.tensor(seen.changed)[:, None]
        places = torch.arange(length)[None, :]
        earlier, later = seen.felt[places > changed], seen.felt & (places < changed)
        n_later = int((places < changed).sum())
        if float(earlier.float().mean()) < FULL:
            continue
        n_leaks = int(later.sum())
        told = (
            f"of {len(earlier)} outputs behind a changed position {int(earlier.sum())} moved, and of {n_later} before "
            f"it {n_leaks}"
        )
        if not n_leaks:
            yield Finding.sound("the model", told, "it sees the past alone, along axis " + str(time.axis))
        elif n_leaks <= RARE * n_later and bool(_asked_moved(specimen, later)):
            row, column = later.nonzero()[0].tolist()
            yield Finding.suspicious(
                "the model",
                f"{told}: position {seen.changed[row]} moves output {column} by {seen.moved[row, column]:.2g} of the "
                "outputs' size",
                "it sees all of the past and a little of the future: a mask that ends too late, or wraps around",
                "compare the mask's diagonal and its edges with what each position may see, or say --not-causal",
                again=_again(time, length, seen.changed[row]),
            )
        return


def _asked_moved(specimen: Specimen, later: Tensor) -> Tensor:
    """Whether the loss asks for any output that saw ahead: a prefix of which nothing is asked may see itself."""
    wanted = wanted_classes(specimen)
    if wanted is None or wanted.dim() != 2 or wanted.shape[1] != later.shape[1]:
        return later.any()
    return (later.any(0) & (wanted >= 0).any(0)).any()


def _ways(specimen: Specimen) -> Iterator[tuple[str, nn.Module, bool, AbstractContextManager[object]]]:
    """Each way of running: its name, a module of its own, whether gradients are on, and what is switched around it."""
    yield "in eval, as it runs fastest", specimen.copy("eval").model, False, nullcontext()
    yield "in eval with gradients", specimen.copy("eval").model, True, nullcontext()
    yield "in eval with plain attention", specimen.copy("eval").model, False, _plain_attention()
    yield "in training, with its dropout", _training(specimen.copy().model), True, nullcontext()
    large = _with_large_scores(specimen.copy("eval").model)
    yield f"with weights {LARGE:g} times as large", large, False, nullcontext()


@contextmanager
def _plain_attention() -> Iterator[None]:
    with without_fused_attention(), sdpa_kernel(SDPBackend.MATH):
        yield


def _training(model: nn.Module) -> nn.Module:
    """In training but for batch norms: their statistics are of all positions, and that is meant."""
    model.train()
    for module in model.modules():
        if "BatchNorm" in type(module).__name__:
            module.eval()
    return model


def _with_large_scores(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_embedding = isinstance(model.get_submodule(name.rpartition(".")[0]), nn.Embedding)
            if parameter.dim() == 2 and "emb" not in name and not is_embedding:
                parameter.mul_(LARGE)
    return model


def _positions(length: int, most: int) -> list[int]:
    """Positions from which on all is changed: never from the first, for nothing stands before it."""
    if most >= length - 1:
        return list(range(1, length))
    if most == FEW_POSITIONS:
        return sorted({1, length // 2, length - 1})
    return [1 + index for index in chosen_slices(length - 1, most)]


def _asked_places(specimen: Specimen, time: TimeAxis) -> Tensor | None:
    """Of a module that is not said to be causal, the places (batch, time) that the loss asks for; None: all are held.

    A prefix that may see itself, and of which nothing is asked, leaks nothing.
    """
    wanted = None if specimen.is_causal or time.out_axis != 1 else wanted_classes(specimen)
    return None if wanted is None else wanted >= 0


def _leak(
    model: nn.Module,
    inputs: tuple[Any, ...],
    time: TimeAxis,
    with_gradients: bool,
    asked: Tensor | None,
    positions: list[int],
) -> FutureLeak | None:
    """The largest movement before a changed position; None where nothing could be told."""
    base = run_module(model, inputs, with_gradients=with_gradients)
    if base is None or not base.isfinite().all():
        return None
    worst = None
    for position in positions:
        changed = change_slice(inputs, time.place, time.axis, slice(position, None))
        after = None if changed is None else run_module(model, changed, with_gradients=with_gradients)
        if after is None or not after.isfinite().all():
            return None
        before, behind = (one.narrow(time.out_axis, 0, position) for one in (base, after))
        if asked is not None:
            before, behind = (one[asked[:, :position]] for one in (before, behind))
        leak = FutureLeak(position, largest_change(before, behind), size_of(before))
        worst = leak if worst is None or leak.change > worst.change else worst
    return worst


def _finding(specimen: Specimen, time: TimeAxis, model: nn.Module, way: str, leak: FutureLeak) -> Finding:
    changed = change_slice(specimen.inputs, time.place, time.axis, slice(leak.position, None))
    length = specimen.inputs[time.place].shape[time.axis]
    assert changed is not None

    def select_kept(tensor: Tensor) -> Tensor | None:
        fits = tensor.dim() > time.axis and tensor.shape[time.axis] == length
        return tensor.narrow(time.axis, 0, leak.position) if fits else None

    meeting = first_meeting(model, specimen.inputs, changed, select_kept)
    is_beaten = way.startswith("with weights")
    return Finding(
        "suspicious" if is_beaten or _is_doubtful(specimen, time) else "broken",
        meeting.path if meeting else "the model",
        f"other inputs from position {leak.position} on moved outputs before it by up to {leak.change:.3g}, "
        f"outputs being of size {leak.size:.3g}, {way}"
        + (f", along axis {time.axis}" if time.axis != 1 else "")
        + (f"; first in {meeting.kind}" if meeting else ""),
        "a large score beats the mask, so that the future is seen as soon as scores grow"
        if is_beaten
        else "outputs see what comes after them: what they are trained to tell, and will not have when it writes",
        "mask with -inf instead of a large number"
        if is_beaten
        else f"let this part see the past alone, {way}: attention with is_causal=True or scores.masked_fill(mask, "
        "-inf) before the softmax, convolutions padded on the left alone, recurrences in one direction",
        again=_again(time, length, leak.position),
    )


def _again(time: TimeAxis, length: int, position: int) -> str:
    if time.axis == time.out_axis == 1:
        return (
            f"y = model(x); x[:, {position}:] = x[:, {position}:].flip(1); "
            f"print((model(x) - y)[:, :{position}].abs().max())"
        )
    later = f"{time.axis}, {position}, {length - position}"
    return (
        f"y = model(x); z = x.clone(); z.narrow({later}).copy_(x.narrow({later}).flip({time.axis})); "
        f"print((model(z) - y).narrow({time.out_axis}, 0, {position}).abs().max())"
    )


RULE = DoctorRule(
    name="future-leak",
    proves="outputs of a causal module move when only later inputs change",
    how="changes inputs from position t on and compares outputs before t, in eval and training, with fused and plain "
    "attention, and with large scores",
    check=check,
    cannot_see="leaks at positions that were not changed, and by way of a length or of the whole batch",
)
