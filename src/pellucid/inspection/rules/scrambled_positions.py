"""What is put out for a place goes by that place, by its neighbours or by all; by others alone, it was mixed up.

Positions of sequences and pixels of images are changed one by one. Where most of them do not move the output of their
own place, and those that they move lie before some and behind others, an axis was turned, cut or interleaved.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from pellucid.inspection.instrument.influence import Influence, grid_influence, influence, time_axes
from pellucid.inspection.instrument.recording import first_few
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

FEWEST = 5  # places
OWN = 0.5  # of the places, that have to move the output of their own


def check(specimen: Specimen) -> Findings:
    for what, seen in _places(specimen):
        own = torch.tensor(seen.changed)
        felt = seen.felt
        is_felt = felt.any(1)
        at_home = felt[torch.arange(len(own)), own]
        n_felt, n_home = int(is_felt.sum()), int((at_home & is_felt).sum())
        if n_felt < FEWEST:
            continue
        moved = torch.arange(seen.moved.shape[1])[None, :]
        is_shifted = not bool(felt[moved < own[:, None]].any()) or not bool(felt[moved > own[:, None]].any())
        told = f"of {n_felt} {what} that move outputs {n_home} move the output of their own place"
        if n_home >= OWN * n_felt:
            yield Finding.sound("the model", told, "what is put out for a place goes by that place, too")
        elif not is_shifted:
            pairs = [
                f"{seen.changed[row]} moves {first_few([str(one) for one in felt[row].nonzero()[:, 0].tolist()], 2)}"
                for row in (is_felt & ~at_home).nonzero()[:, 0].tolist()
            ]
            yield Finding.suspicious(
                "the model",
                f"{told}: {first_few(pairs)}",
                "outputs stand at other places than what they are about: an axis was turned, or cut in another order",
                "look for a view or reshape where a transpose is meant, for axes in another order, and for what was "
                "flipped and not flipped back",
                again=_again(seen),
            )
        return


def _again(seen: Influence) -> str:
    at = seen.changed[len(seen.changed) // 2]
    if seen.moved.dim() == 2 and seen.axis == seen.out_axis == 1:
        return (
            f"y = model.eval()(x); x[:, {at}] = x[:, {at}].flip(0); print((model(x) - y).abs().flatten(2).amax((0, 2)))"
        )
    return "y = model.eval()(x); z = x.clone(); z[..., 0, 1] = -z[..., 0, 1]; print((model(z) - y)[0].abs())"


def _places(specimen: Specimen) -> Iterator[tuple[str, Influence]]:
    """Sequences that are read and put out along one axis, and images with as many pixels."""
    for time in time_axes(specimen):
        if time.axis == time.out_axis and specimen.inputs[time.place].shape[time.axis] >= FEWEST:
            seen = influence(specimen, time.place, time.axis).get(time.out_axis)
            if seen is not None:
                yield "positions", seen
                return
    for place, given in enumerate(specimen.inputs):
        if isinstance(given, Tensor) and given.dim() == 4 and given.is_floating_point() and min(given.shape[2:]) >= 3:
            seen = grid_influence(specimen, place)
            if seen is not None:
                yield "pixels", seen
                return


RULE = DoctorRule(
    name="scrambled-positions",
    proves="that outputs go by other places of the input than their own, before some of them and behind others",
    how="changes positions or pixels one by one and looks whether the output of the same place moves",
    check=check,
    cannot_see="mixing in models in which every place sees all others",
    follows=("crossed-view",),
)
