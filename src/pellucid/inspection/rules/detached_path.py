"""Where autograd says 0 and a nudge says otherwise, the path backward is cut: `detach`, `argmax`, `.data`, `no_grad`.

Such weights matter and are never corrected: attention that takes the argmax of its scores trains neither W_Q nor W_K.
All weights with a gradient of exactly 0 are nudged, and the loss must not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.gradients import (
    KICK,
    NudgedWeights,
    Parts,
    autograd_slope,
    copy_in_training,
    is_kept_from_learning,
    jumps_when_kicked,
    measured_slope,
    objective_gradients,
    trainable_parameters,
)
from pellucid.inspection.instrument.recording import first_few
from pellucid.inspection.instrument.specimen import Specimen
from pellucid.inspection.rules import Rule
from pellucid.records import Finding

MOST = 60  # parameters that are nudged one by one


def check(specimen: Specimen) -> Iterator[Finding]:
    copied = copy_in_training(specimen).double()
    parameters = trainable_parameters(copied.model)
    slopes = objective_gradients(copied, list(parameters.values()))
    if slopes is None or not parameters or any(one is not None and not one.isfinite().all() for one in slopes):
        return
    told = {path: slope for path, slope in zip(parameters, slopes, strict=True) if slope is not None}
    silent: Parts = {}
    for path, one in parameters.items():
        mask = (told[path] == 0).to(one) * _free(copied.model, path) if path in told else torch.ones_like(one)
        if bool(mask.any()):
            silent[path] = NudgedWeights(one, mask, path not in told)
    cut = list(_cut(copied, silent))
    meant = {path for path, _ in cut if is_kept_from_learning(specimen, path)}
    for is_meant in (False, True):
        chosen = [(path, slope) for path, slope in cut if (path in meant) == is_meant]
        if chosen:
            yield _broken(chosen, silent, is_meant)
    others = [] if cut else list(_untrue(copied, parameters, told))
    if others:
        yield _suspicious(others)
    if not cut and not others:
        n_zero = sum(int(part.mask.sum()) for part in silent.values())
        n_all = sum(one.numel() for one in parameters.values())
        seen = (
            f"{n_zero} of {n_all} weights have a gradient of exactly 0, and nudging them all leaves the loss as it is"
        )
        means = "what matters gets a gradient: no path is cut"
        yield Finding.sound("the model", seen, means)


def _free(model: nn.Module, path: str) -> Tensor:
    """1 for each weight of a parameter, and 0 for those that torch keeps from learning on purpose, or scales."""
    owner = model.get_submodule(path.rpartition(".")[0])
    free = torch.ones_like(model.get_parameter(path))
    if isinstance(owner, nn.Embedding | nn.EmbeddingBag):
        if owner.padding_idx is not None:
            free[owner.padding_idx] = 0
        if owner.scale_grad_by_freq:
            free.zero_()
    return free


def _cut(specimen: Specimen, silent: Parts) -> Iterator[tuple[str, float]]:
    """Parameters that matter and are told nothing, with how steep the loss is along them; 0 where it only jumps."""
    if not silent or not (measured_slope(specimen, silent) or jumps_when_kicked(specimen, silent)):
        return
    for path, part in list(silent.items())[:MOST]:
        slope = measured_slope(specimen, {path: part})
        if slope or jumps_when_kicked(specimen, {path: part}):
            yield path, abs(slope)


def _untrue(
    specimen: Specimen, parameters: Mapping[str, Tensor], told: Mapping[str, Tensor]
) -> Iterator[tuple[str, str]]:
    """Parameters along which autograd says one slope and a nudge another, with both."""
    parts = {path: NudgedWeights(parameters[path], _free(specimen.model, path), False) for path in told}
    if any(part.parameter.dtype is not torch.float64 for part in parts.values()) or _is_true(specimen, parts, told):
        return
    for path in list(parts)[:MOST]:
        if not _is_true(specimen, {path: parts[path]}, told):
            slope, said = measured_slope(specimen, {path: parts[path]}), autograd_slope({path: parts[path]}, told)
            yield path, f"{said:.3g} where a nudge shows {slope:.3g}"


def _is_true(specimen: Specimen, parts: Parts, told: Mapping[str, Tensor]) -> bool:
    slope, said = measured_slope(specimen, parts), autograd_slope(parts, told)
    return not slope or abs(slope - said) <= 0.05 * max(abs(slope), abs(said))


def _broken(cut: list[tuple[str, float]], silent: Parts, is_meant: bool) -> Finding:
    paths = [path for path, _ in cut]
    n_weights = sum(int(silent[path].mask.sum()) for path in paths)
    slope = max(slope for _, slope in cut)
    felt = f"its slope along them is {slope:.3g}" if slope else f"it jumps when they change by {KICK:g} of their size"
    return Finding(
        "note" if is_meant else "broken",
        paths[0].rpartition(".")[0] or paths[0],
        f"{n_weights} weights of {first_few(paths)} get a gradient of exactly 0 from the loss, but {felt}",
        "the loss depends on them, and no gradient reaches them: they are never trained",
        "look between them and the loss for detach(), argmax, round, .data or no_grad(); a softmax has a gradient",
        again=f"loss(model(x), y).backward(); print(dict(model.named_parameters())[{paths[0]!r}].grad)",
    )


def _suspicious(others: list[tuple[str, str]]) -> Finding:
    paths = [path for path, _ in others]
    return Finding.suspicious(
        paths[0].rpartition(".")[0] or paths[0],
        f"autograd's slope along {paths[0]} is {others[0][1]}; the same of {len(paths)} parameters: {first_few(paths)}",
        "what is followed is not the slope of the loss: part of a path is cut, or a backward is wrong",
        "look after them for detach() or a custom backward; stopped, straight-through and reversed gradients are so "
        "on purpose",
        again="torch.autograd.gradcheck(lambda x: model.double()(x), x.double().requires_grad_())",
    )


RULE = Rule(
    name="detached-path",
    proves="the loss depends on weights that get no gradient from it",
    how="nudges all weights whose gradient is exactly 0, and those that the graph does not lead to by much more, and "
    "looks whether the loss moves",
    check=check,
)
