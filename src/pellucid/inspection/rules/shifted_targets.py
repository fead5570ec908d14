"""A language model learns to say the next token. Shifted by none, it learns to copy; by two, to leave one out.

What the loss asks for at each position is read off its slope, so that it does not matter whether the targets are
shifted before the loss, inside it, or in both places, which is the usual mistake. Of numbers the targets themselves are
compared with the inputs, along every axis. A model that is not said to be causal is measured: one that sees the past
alone and is asked for what it is reading has nothing to learn.
"""

import torch
from torch import Tensor

from pellucid.inspection.instrument.influence import (
    TargetShift,
    TimeAxis,
    grid_influence,
    is_measured_causal,
    sees_past_alone,
    target_shifts,
    time_axes,
)
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

MEANINGS = {
    0: "the answer is the token that it is reading: it learns to copy, and its loss says nothing",
    -1: "it is asked for the token before, which it has already read",
    -2: "it is asked for what stood two places before, which it has already read",
    2: "it is asked for the token after the next: the targets are shifted twice",
}


def check(specimen: Specimen) -> Findings:
    yield from _of_grids(specimen)
    for place in dict.fromkeys(shift.place for shift in target_shifts(specimen)):
        shifts = [shift for shift in target_shifts(specimen) if shift.place == place]
        if shift := _shift_in_time(specimen, shifts):
            yield from _of_shift(specimen, shift)


def _of_grids(specimen: Specimen) -> Findings:
    """Of an image that is to be told pixel by pixel: one that is told from those before it must not see itself."""
    targets = specimen.target
    for place, given in enumerate(specimen.inputs):
        is_image = isinstance(given, Tensor) and given.dim() == 4 and min(given.shape[2:]) >= 3
        if not is_image or targets is None or not _is_told(given, targets):
            continue
        seen = grid_influence(specimen, place)
        if seen is None or not sees_past_alone(seen):
            continue
        own = seen.moved[torch.arange(len(seen.changed)), torch.tensor(seen.changed)]
        n_own = int((own > seen.rounding).sum())
        told = (
            f"row by row, outputs were measured to see the pixels before them alone, and {n_own} of {len(own)} that "
            "were changed move the output of their own place, whose target they are"
        )
        if n_own:
            yield Finding.suspicious(
                "the model",
                told,
                "the answer is the pixel that it is reading: it learns to copy, and its loss says nothing",
                "let the first layer leave the pixel itself out (mask A of PixelCNN), and only later ones read it",
                again="h, w = x.shape[-2:]; y = model.eval()(x); x[..., h // 2, w // 2] = 1 - x[..., h // 2, w // 2]; "
                "print((model(x) - y)[..., h // 2, w // 2].abs().max())",
            )
        else:
            yield Finding.sound("the model", told, "each pixel is told from those before it")


def _is_told(given: Tensor, targets: Tensor) -> bool:
    """Whether the targets are the image itself, perhaps as classes and without its one channel."""
    if targets.numel() != given.numel() or not bool((given != given.flatten()[0]).any()):
        return False
    return torch.equal(given.reshape(targets.shape).to(targets.dtype), targets)


def _shift_in_time(specimen: Specimen, shifts: list[TargetShift]) -> TargetShift | None:
    """The shift along the axis that is time: the one that is said, the only one, or the second axis where all agree."""
    said = [shift for shift in shifts if shift.axis == specimen.time_axis]
    if specimen.time_axis is not None:
        return said[0] if said else None
    if len({shift.axis for shift in shifts}) == 1:
        return shifts[0]
    # What is not shifted at all agrees along every axis.
    return next((shift for shift in shifts if shift.axis == 1), shifts[0]) if shifts else None


def _of_shift(specimen: Specimen, shift: TargetShift) -> Findings:
    by, place = shift.by, shift.place
    is_tokens = not specimen.inputs[place].is_floating_point()
    what = "token" if is_tokens else "number"
    seen = f"at {shift.share:.0%} of positions the loss asks for the {what} {by:+d} from there"
    if shift.axis != 1:
        seen += f", along axis {shift.axis}"
    # What a second input holds was not to be copied from the first: it is given away.
    is_given = place > 0 and by == 0 and is_tokens
    is_causal = specimen.is_causal
    if is_causal is None and by != 1:
        time = next((time for time in time_axes(specimen) if _is_of(time, shift)), None)
        is_causal = None if time is None else is_measured_causal(specimen, time)
        if is_causal is not None:
            seen += f"; outputs were measured to see {'the past alone' if is_causal else 'both sides'}"
    if by == 1:
        yield Finding.sound("targets", seen, f"it is asked for the next {what}")
    elif is_causal or by == 2 or is_given or (by < 0 and is_causal is not False and is_tokens):
        yield Finding(
            "broken" if specimen.is_causal else "suspicious",
            "targets" if place == 0 else f"input {place}",
            seen,
            MEANINGS[by].replace("token", what),
            "shift once: scores[:, :-1] against tokens[:, 1:], either before the loss or in it",
            again="print(x[0], y[0])",
        )


def _is_of(time: TimeAxis, shift: TargetShift) -> bool:
    return (time.place, time.axis) == (shift.place, shift.axis)


RULE = DoctorRule(
    name="shifted-targets",
    proves="a causal model is asked for another token than the next",
    how="reads off the loss's slope which token it asks for at each position, compares with the tokens around it, and "
    "measures whether outputs see the past alone",
    check=check,
    cannot_see="models of which it cannot be told that each position asks for something that the input holds",
    needs=("targets", "loss"),
)
