"""A decoder that sees ahead scores far too well in training, and has nothing to look at when it writes.

Position t is changed, and outputs before t must not move. A mask can be right in one way of running and forgotten in
another, so it is tried in all: with and without dropout, with fused and with plain attention, and with scores so large
that a mask made of a large number is beaten by them.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from pellucid.inspection.instrument.isolation import without_fused_attention
from pellucid.inspection.instrument.loss_view import causal_input, wanted_classes
from pellucid.inspection.instrument.perturbation import change_input, is_beyond_rounding, largest_change, size_of
from pellucid.inspection.instrument.recording import first_meeting
from pellucid.inspection.instrument.specimen import run_module
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

LARGE = 200.0  # by which weights grow for large scores: queries and keys both do, so scores grow by its square


class FutureLeak(NamedTuple):
    """The largest movement that was seen before a changed position."""

    position: int
    change: float
    size: float  # of the outputs, to compare


def check(specimen: Specimen) -> Findings:
    place = causal_input(specimen)
    if place is None:
        return
    tried: list[str] = []
    outputs = specimen.copy("eval").main_output()
    length = specimen.inputs[place].shape[1]
    if outputs is None or outputs.dim() < 2 or outputs.shape[1] != length or length < 2:
        return
    asked = _asked_places(specimen)
    for way, model, with_gradients, around in _ways(specimen):
        with around:
            leak = _leak(model, specimen.inputs, place, with_gradients, asked)
        if leak is None:
            continue
        if leak.change and is_beyond_rounding(leak.change, torch.tensor(leak.size)):
            yield _finding(specimen, place, model, way, leak)
            return
        tried.append(way)
    if tried:
        yield Finding.sound(
            "the model",
            f"inputs changed from each of {len(_positions(length))} of {length} positions on moved no output before "
            f"them by more than rounding, {', '.join(tried)}",
            "no output sees what comes after it",
        )


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


def _positions(length: int) -> list[int]:
    return sorted({1, length // 2, length - 1})


def _asked_places(specimen: Specimen) -> Tensor | None:
    """Of a module that is not said to be causal, the places (batch, time) that the loss asks for; None: all are held.

    A prefix that may see itself, and of which nothing is asked, leaks nothing.
    """
    wanted = None if specimen.is_causal else wanted_classes(specimen)
    return None if wanted is None else wanted >= 0


def _leak(
    model: nn.Module, inputs: tuple[Any, ...], place: int, with_gradients: bool, asked: Tensor | None
) -> FutureLeak | None:
    """The largest movement before a changed position; None where nothing could be told."""
    base = run_module(model, inputs, with_gradients=with_gradients)
    if base is None or not base.isfinite().all():
        return None
    worst = None
    for position in _positions(inputs[place].shape[1]):
        changed = change_input(inputs, place, (slice(None), slice(position, None)), seed=position)
        after = None if changed is None else run_module(model, changed, with_gradients=with_gradients)
        if after is None or not after.isfinite().all():
            return None
        before, behind = (one[:, :position] for one in (base, after))
        if asked is not None:
            before, behind = (one[asked[:, :position]] for one in (before, behind))
        leak = FutureLeak(position, largest_change(before, behind), size_of(before))
        worst = leak if worst is None or leak.change > worst.change else worst
    return worst


def _finding(specimen: Specimen, place: int, model: nn.Module, way: str, leak: FutureLeak) -> Finding:
    changed = change_input(specimen.inputs, place, (slice(None), slice(leak.position, None)), seed=leak.position)
    length = specimen.inputs[place].shape[1]
    assert changed is not None

    def select_kept(tensor: Tensor) -> Tensor | None:
        return tensor[:, : leak.position] if tensor.dim() >= 2 and tensor.shape[1] == length else None

    meeting = first_meeting(model, specimen.inputs, changed, select_kept)
    is_beaten = way.startswith("with weights")
    return Finding(
        "suspicious" if is_beaten else "broken",
        meeting.path if meeting else "the model",
        f"other inputs from position {leak.position} on moved outputs before it by up to {leak.change:.3g}, "
        f"outputs being of size {leak.size:.3g}, {way}" + (f"; first in {meeting.kind}" if meeting else ""),
        "a large score beats the mask, so that the future is seen as soon as scores grow"
        if is_beaten
        else "outputs see what comes after them: what they are trained to tell, and will not have when it writes",
        "mask with -inf instead of a large number"
        if is_beaten
        else f"give this part a causal mask that also holds {way}: is_causal=True, or scores.masked_fill(mask, -inf) "
        "before the softmax",
        again=f"y = model(x); x[:, {leak.position}:] = x[:, {leak.position}:].flip(1); "
        f"print((model(x) - y)[:, :{leak.position}].abs().max())",
    )


RULE = DoctorRule(
    name="future-leak",
    proves="outputs of a causal module move when only later inputs change",
    how="changes inputs from position t on and compares outputs before t, in eval and training, with fused and plain "
    "attention, and with large scores",
    check=check,
    cannot_see="leaks at positions that were not changed, and by way of a length or of the whole batch",
)
