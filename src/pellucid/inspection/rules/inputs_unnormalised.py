"""Weights are drawn for inputs of mean 0 and deviation 1; far from it, the first steps go into finding the scale.

Judged is what the first layer with weights reads, not what was handed in: a module may normalise by itself.
"""

from collections.abc import Sequence

from torch import Tensor

from pellucid.inspection.instrument.recording import ModuleCall, is_norm, part_name, record
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FAR = 10.0  # of the mean from 0, and of the deviation from 1
TINY = 0.01  # deviation
UNLIKE = 1000.0  # times, between columns
FEWEST = 16


def check(specimen: Specimen) -> Findings:
    if not any(_is_float(one) for one in specimen.inputs):
        return
    if (seen := record(specimen.copy())) is None or (reader := _first(seen.modules)) is None:
        return
    assert reader.given is not None
    x = reader.given.detach().double()
    if not bool(x.isfinite().all()) or x.numel() < FEWEST or not x.std():
        return  # what is not finite, or constant, has rules of its own
    mean, deviation = x.mean().item(), x.std(correction=0).item()
    where = f"what {part_name(reader.path)} reads"
    numbers = f"its mean is {mean:.3g} and its deviation {deviation:.3g}"
    # Of each column of a table, mean and deviation together; of other shapes none are told apart.
    scales = x.square().mean(0).sqrt() if x.dim() == 2 else x.new_zeros(0)
    if abs(mean) > FAR or deviation > FAR or deviation < TINY:
        means = "what the first layer puts out is as far off, and its rate fits no other layer"
        yield _finding(where, f"{numbers}, where 0 and 1 are usual", means)
    elif len(scales) > 1 and scales.max() > UNLIKE * scales.median():
        worst = int(scales.argmax())
        numbers = f"column {worst} is of size {scales[worst]:.3g}, the middle of all {scales.median():.3g}"
        yield _finding(where, numbers, "next to it all other columns are noise to the first layer")
    else:
        yield Finding.sound(where, numbers, "the first weights are drawn for such inputs")


def _finding(where: str, seen: str, means: str) -> Finding:
    fix = "take the mean off and divide by the deviation, both of the training side, or put a norm first"
    return Finding.suspicious(where, seen, means, fix)


def _is_float(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.dim() >= 2


def _first(calls: Sequence[ModuleCall]) -> ModuleCall | None:
    """The first part that has weights and reads numbers; a norm in front of all others needs no scale."""
    for call in calls:
        has_weights = call.is_leaf and any(True for _ in call.module.parameters(recurse=False))
        if has_weights and call.given is not None and _is_float(call.given):
            return None if is_norm(call.module) else call
    return None


RULE = DoctorRule(
    name="inputs-unnormalised",
    proves="that the first layer reads numbers far from mean 0 and deviation 1, or columns of unlike scales",
    how="measures mean, deviation and columns of what the first layer with weights reads",
    check=check,
    cannot_see="whether other batches look alike",
    again="x = inputs[0]; print(x.mean(), x.std(), x.std(0))",
)
