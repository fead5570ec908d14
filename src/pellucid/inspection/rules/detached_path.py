"""Where autograd says 0 and a nudge says otherwise, the path backward is cut: `detach`, `argmax`, `.data`, `no_grad`.

Such weights matter and are never corrected: attention that takes the argmax of its scores trains neither W_Q nor W_K.
All weights with a gradient of exactly 0 are nudged, and the loss must not move.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.perturbation import size_of
from pellucid.inspection.instrument.recording import first_few, owner_name
from pellucid.inspection.instrument.short_run import (
    copy_in_training,
    is_kept_from_learning,
    objective_gradients,
    objective_value,
    trainable_parameters,
)
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

NUDGE = 1e-6  # of a weight's size, in float64
KICK = 1.0  # so large that what is chosen changes
MOST = 60  # parameters that are nudged one by one


class NudgedWeights(NamedTuple):
    """A parameter, and those of its weights that are nudged: 1 where one is, 0 elsewhere."""

    parameter: Tensor
    mask: Tensor
    is_off: bool  # the graph does not lead to it at all


Parts = dict[str, NudgedWeights]


def check(specimen: Specimen) -> Findings:
    copied = copy_in_training(specimen).double()
    parameters = trainable_parameters(copied.model)
    told = objective_gradients(copied, parameters)
    if told is None or not parameters or not all(bool(slope.isfinite().all()) for slope in told.values()):
        return
    silent: Parts = {}
    for path, one in parameters.items():
        mask = (told[path] == 0).to(one) * _free(copied.model, path) if path in told else torch.ones_like(one)
        if bool(mask.any()):
            silent[path] = NudgedWeights(one, mask, path not in told)
    cut = list(_find_cut(copied, silent))
    meant = {path for path, _ in cut if is_kept_from_learning(specimen, path)}
    for is_meant in (False, True):
        chosen = [(path, slope) for path, slope in cut if (path in meant) == is_meant]
        if chosen:
            yield _cut_finding(chosen, silent, is_meant)
    others = [] if cut else list(_find_untrue(copied, parameters, told))
    if others:
        yield _untrue_finding(others)
    if not cut and not others:
        n_zero = sum(int(part.mask.sum()) for part in silent.values())
        n_all = sum(one.numel() for one in parameters.values())
        seen = (
            f"{n_zero} of {n_all} weights have a gradient of exactly 0, and nudging them all leaves the loss as it is"
        )
        yield Finding.sound("the model", seen, "what matters gets a gradient: no path is cut")


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


def _find_cut(specimen: Specimen, silent: Parts) -> Iterator[tuple[str, float]]:
    """Parameters that matter and are told nothing, with how steep the loss is along them; 0 where it only jumps."""
    if not silent or not (measured_slope(specimen, silent) or jumps_when_kicked(specimen, silent)):
        return
    for path, part in list(silent.items())[:MOST]:
        slope = measured_slope(specimen, {path: part})
        if slope or jumps_when_kicked(specimen, {path: part}):
            yield path, abs(slope)


def _find_untrue(
    specimen: Specimen, parameters: Mapping[str, Tensor], told: Mapping[str, Tensor]
) -> Iterator[tuple[str, str]]:
    """Parameters along which autograd says one slope and a nudge another, with both."""
    parts = {path: NudgedWeights(parameters[path], _free(specimen.model, path), False) for path in told}
    is_precise = all(part.parameter.dtype is torch.float64 for part in parts.values())
    if not is_precise or not _disagreement(specimen, parts, told):
        return
    for path in list(parts)[:MOST]:
        if both := _disagreement(specimen, {path: parts[path]}, told):
            yield path, both


def _disagreement(specimen: Specimen, parts: Parts, told: Mapping[str, Tensor]) -> str:
    """Both slopes where they differ; "" where autograd is right, or there is no slope to measure."""
    slope, said = measured_slope(specimen, parts), autograd_slope(parts, told)
    is_true = not slope or abs(slope - said) <= 0.05 * max(abs(slope), abs(said))
    return "" if is_true else f"{said:.3g} where a nudge shows {slope:.3g}"


def _cut_finding(cut: list[tuple[str, float]], silent: Parts, is_meant: bool) -> Finding:
    paths = [path for path, _ in cut]
    n_weights = sum(int(silent[path].mask.sum()) for path in paths)
    slope = max(slope for _, slope in cut)
    felt = f"its slope along them is {slope:.3g}" if slope else f"it jumps when they change by {KICK:g} of their size"
    return Finding(
        "note" if is_meant else "broken",
        owner_name(paths[0]),
        f"{n_weights} weights of {first_few(paths)} get a gradient of exactly 0 from the loss, but {felt}",
        "the loss depends on them, and no gradient reaches them: they are never trained",
        "look between them and the loss for detach(), argmax, round, .data or no_grad(); a softmax has a gradient",
        again=f"loss(model(x), y).backward(); print(dict(model.named_parameters())[{paths[0]!r}].grad)",
    )


def _untrue_finding(others: list[tuple[str, str]]) -> Finding:
    paths = [path for path, _ in others]
    return Finding.suspicious(
        owner_name(paths[0]),
        f"autograd's slope along {paths[0]} is {others[0][1]}; the same of {len(paths)} parameters: {first_few(paths)}",
        "what is followed is not the slope of the loss: part of a path is cut, or a backward is wrong",
        "look after them for detach() or a custom backward; stopped, straight-through and reversed gradients are so "
        "on purpose",
        again="torch.autograd.gradcheck(lambda x: model.double()(x), x.double().requires_grad_())",
    )


def _ways(parts: Parts) -> Iterator[tuple[NudgedWeights, Tensor]]:
    """Each parameter with one fixed direction in the size of its weights."""
    for number, part in enumerate(parts.values()):
        way = torch.randn(part.parameter.shape, generator=torch.Generator().manual_seed(number)).to(part.parameter)
        yield part, way * part.mask * (size_of(part.parameter) or 1.0)


def autograd_slope(parts: Parts, told: Mapping[str, Tensor]) -> float:
    """The slope along the same direction as autograd tells it."""
    ways = zip(parts, _ways(parts), strict=True)
    return sum(float((told[path] * way).sum()) for path, (_, way) in ways)


def _changed_by(specimen: Specimen, parts: Parts, share: float) -> float:
    """The objective with weights moved along their direction by a share of their size; then they are put back."""
    before = [part.parameter.detach().clone() for part in parts.values()]
    with torch.no_grad():
        for part, way in _ways(parts):
            part.parameter.add_(way * share)
        found = objective_value(specimen)
        for part, kept in zip(parts.values(), before, strict=True):
            part.parameter.copy_(kept)
    return found


def measured_slope(specimen: Specimen, parts: Parts) -> float:
    """How steeply the objective changes along the weights; 0 where it does not.

    A slope is one: half the nudge, half the change, there as back, and so for a far larger one. A kink or a jump is
    none, nor is rounding, as in a module that computes in float32 whatever it is given.
    """
    is_precise = next(iter(parts.values())).parameter.dtype is torch.float64
    nudge = NUDGE if is_precise else 100 * NUDGE
    here = objective_value(specimen)
    noise = (1e-11 if is_precise else 1e-5) * max(abs(here), 1e-3)
    slopes: list[float] = []
    for share in (0.25, 0.5, 1, 50):
        there, back = (_changed_by(specimen, parts, sign * nudge * share) for sign in (1, -1))
        slopes.append((there - back) / (2 * nudge * share))
        if not abs(there - back) > noise or abs(slopes[-1] / slopes[0] - 1) > 0.1:
            return 0.0
        if abs(there + back - 2 * here) > 0.1 * abs(there - back):
            return 0.0  # a kink, at which there is no one slope
    return slopes[2]


def jumps_when_kicked(specimen: Specimen, parts: Parts) -> bool:
    """Whether a large change is felt through weights that the graph does not lead to at all, as through an argmax.

    Only for those: a unit that is dead has a gradient, which is 0, and a large change may wake it.
    """
    off = {path: part for path, part in parts.items() if part.is_off}
    base = objective_value(specimen)
    kicked = [_changed_by(specimen, off, share) for share in (KICK, -KICK, 3 * KICK)] if off else []
    return any(abs(one - base) > 1e-5 * max(abs(base), 1e-3) for one in kicked)


RULE = DoctorRule(
    name="detached-path",
    proves="the loss depends on weights that get no gradient from it",
    how="nudges all weights whose gradient is exactly 0, and those that the graph does not lead to by much more, and "
    "looks whether the loss moves",
    check=check,
    cannot_see="cuts between weights that cancel each other, and losses with kinks at every weight",
)
