"""Where autograd says 0 and a nudge says otherwise, the path backward is cut: `detach`, `argmax`, `.data`, `no_grad`.

Such weights matter and are never corrected: attention that takes the argmax of its scores trains neither W_Q nor W_K.
All weights with a gradient of exactly 0 are nudged, and the loss must not move. All others are nudged too, and each
output, each term of the loss and the loss itself must move as autograd says. What a module puts out has one slope. A
loss may stop gradients on purpose, as for the target of a TD error, a teacher or an advantage: there it is a note.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.differences import (
    Differences,
    Quantity,
    Slopes,
    direction_of,
    ignore_cuts,
    quantities_of,
)
from pellucid.inspection.instrument.isolation import isolate, try_or_none
from pellucid.inspection.instrument.nests import map_tensors
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
GROUPS = 24  # in which parameters are nudged first; of a large model, whose passes take long, in a few
FEW_GROUPS = 5
LARGE = 100_000  # weights
WAYS = 4  # directions in which an untrue slope is looked at
_AGAIN = (
    "p = next(model.parameters()); l = loss(model(x), y); told = torch.autograd.grad(l, p)[0].sum(); p.data += 1e-3; "
    "print(told, (loss(model(x), y) - l) / 1e-3)"
)


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
    untaken = {path for path, _ in cut}
    compared = {
        path: one
        for path, one in parameters.items()
        if path in told and path not in untaken and bool(_free(copied.model, path).any())
    }
    is_precise = bool(compared) and all(one.dtype is torch.float64 for one in compared.values())
    free = {path: _free(copied.model, path) for path in compared}
    untrue = try_or_none(lambda: _find_untrue(Differences(copied, compared, free))) if is_precise else None
    judged = list(_of_untrue(copied, compared, untrue or []))
    if judged and all(one.severity == "note" for one in judged):
        # Gradients are stopped on purpose: then a nudge of single weights is felt by way of what was stopped, too.
        cut = [(path, slope) for path, slope in cut if bool(silent[path].mask.all())]
    meant = {path for path, _ in cut if is_kept_from_learning(specimen, path)}
    for is_meant in (False, True):
        chosen = [(path, slope) for path, slope in cut if (path in meant) == is_meant]
        if chosen:
            yield _cut_finding(chosen, silent, is_meant)
    yield from judged
    padding = list(_of_padding(copied, parameters))
    yield from padding
    is_ill = bool(untaken or padding) or any(one.severity in ("broken", "suspicious") for one in judged)
    # Over stairs a small nudge moves nothing, and says nothing of a parameter that has no gradient at all.
    mute = {path: part._replace(is_off=True) for path, part in silent.items() if bool(part.mask.all())}
    if not is_ill and not (mute and jumps_when_kicked(copied, mute)):
        n_zero = sum(int(part.mask.sum()) for part in silent.values())
        n_all = sum(one.numel() for one in parameters.values())
        seen = (
            f"{n_zero} of {n_all} weights have a gradient of exactly 0, and nudging them all leaves the loss as it is"
        )
        means = "what matters gets a gradient: no path is cut"
        if untrue is not None:
            seen += f"; along {len(compared)} parameters autograd and nudges tell the same slopes of the outputs"
            means += ", as far as slopes can be measured"
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


def _of_padding(specimen: Specimen, parameters: Mapping[str, Tensor]) -> Findings:
    """Rows of embeddings that torch gives no gradient, and that the loss depends on all the same."""
    for path, one in parameters.items():
        owner = specimen.model.get_submodule(path.rpartition(".")[0])
        if not isinstance(owner, nn.Embedding | nn.EmbeddingBag) or owner.padding_idx is None:
            continue
        kept = torch.zeros_like(one)
        kept[owner.padding_idx] = 1
        slope = measured_slope(specimen, {path: NudgedWeights(one, kept, is_off=True)})
        if slope:
            yield Finding.note(
                owner_name(path),
                f"the loss has a slope of {abs(slope):.3g} along row {owner.padding_idx} of {path}, which is padding "
                "and gets no gradient",
                "what stands for nothing has a part in the answer, and is never taught",
                "mask padding wherever positions are mixed or averaged",
                again=_AGAIN,
            )


def _find_cut(specimen: Specimen, silent: Parts) -> Iterator[tuple[str, float]]:
    """Parameters that matter and are told nothing, with how steep the loss is along them; 0 where it only jumps."""
    if not silent or not (measured_slope(specimen, silent) or jumps_when_kicked(specimen, silent)):
        return
    for path, part in list(silent.items())[:MOST]:
        slope = measured_slope(specimen, {path: part})
        if slope or jumps_when_kicked(specimen, {path: part}):
            yield path, abs(slope)


class Untrue(NamedTuple):
    """A parameter along which autograd tells another slope of a quantity than a nudge shows."""

    path: str
    quantity: Quantity
    told: float
    measured: float
    is_whole: bool  # the graph of the quantity does not lead to the parameter at all
    factor: float  # by which what is told is larger, where it is the same in every direction; nan where it is not


def _find_untrue(differences: Differences) -> list[Untrue]:
    """Which slopes are untrue: asked of all parameters in a few groups, then of each one in groups where one is."""
    paths = list(differences.parameters)
    found: list[Untrue] = []
    is_large = sum(one.numel() for one in differences.parameters.values()) > LARGE
    size = max(1, math.ceil(len(paths) / (FEW_GROUPS if is_large else GROUPS)))
    groups = [paths[at : at + size] for at in range(0, len(paths), size)]
    asked = 0
    for group in groups:
        slopes = differences.along(differences.direction(group))
        if not any(one.differ for one in slopes):
            continue
        for path in group if asked < MOST else ():
            asked += 1
            found += _of_parameter(differences, path)
    return found


def _of_parameter(differences: Differences, path: str) -> Iterator[Untrue]:
    ways = [differences.direction([path], seed) for seed in range(WAYS)]
    slopes = [differences.along(way, with_wide=True) for way in ways]
    for place, quantity in enumerate(differences.quantities):
        here = [each[place] for each in slopes if each[place].measured is not None]
        if sum(one.differ for one in here) < WAYS - 1:
            continue
        told, measured, wide = (torch.tensor([getattr(one, name) for one in here]) for name in Slopes._fields[:3])
        # Rounded forward and straight through backward: what is told is the slope over many stairs.
        if float((told - wide).norm()) < 0.5 * float((told - measured).norm()):
            continue
        ratios = told / measured
        is_scaled = float(ratios.std() / ratios.mean().abs().clamp(min=1e-9)) < 0.01
        is_whole = path not in differences.gradients[place]
        factor = float(ratios.mean()) if is_scaled and not is_whole else math.nan
        yield Untrue(path, quantity, float(told[0]), float(measured[0]), is_whole, factor)


def _of_untrue(specimen: Specimen, parameters: Mapping[str, Tensor], untrue: list[Untrue]) -> Findings:
    """What untrue slopes mean: those of outputs are of the model's making, those of the loss alone often meant."""
    of_outputs = [one for one in untrue if one.quantity.kind == "output" and one.quantity.value.requires_grad]
    climbing = [one for one in untrue if one.quantity.kind == "loss" and one.factor < 0]
    if climbing:
        yield _climbing_finding(climbing)
    scaled = [one for one in of_outputs if not math.isnan(one.factor) and not climbing]
    partial = [one for one in of_outputs if math.isnan(one.factor) and not one.is_whole]
    whole = [one for one in of_outputs if one.is_whole]
    if partial:
        yield _partial_finding(specimen, parameters, partial)
    elif whole:
        yield from _of_whole_cuts(specimen, parameters, whole)
    if scaled and not partial:
        yield Finding.note(
            owner_name(scaled[0].path),
            f"autograd's slope along {scaled[0].path} is {scaled[0].factor:.3g} times what a nudge shows, in each of "
            f"{WAYS} directions; the same of {len(scaled)} parameters",
            "gradients are scaled or reversed on their way back",
            "nothing, where a layer does so on purpose",
            again=_AGAIN,
        )
    constant = [one for one in untrue if one.quantity.kind == "term" and not one.quantity.value.requires_grad]
    if constant:
        yield _constant_finding(constant)
    inner = [one for one in untrue if one.quantity.kind != "output" and one.quantity.value.requires_grad]
    if inner and not of_outputs and not constant and not climbing:
        yield Finding.note(
            "loss",
            f"autograd's slope of the {inner[0].quantity.name} along {inner[0].path} is {inner[0].told:.3g} where a "
            f"nudge shows {inner[0].measured:.3g}; those of the outputs are true",
            "gradients are stopped inside the loss, as for targets that the model makes itself",
            "nothing, where what was detached is a target or a weight; otherwise take out detach() there",
            again=_AGAIN,
        )


def _climbing_finding(climbing: list[Untrue]) -> Finding:
    """Of a layer that reverses gradients on purpose another branch is left, and so is another factor."""
    first, paths = climbing[0], [one.path for one in climbing]
    return Finding.suspicious(
        owner_name(first.path),
        f"autograd's slope of the loss along {first.path} is {first.told:.3g} where a nudge shows "
        f"{first.measured:.3g}, {first.factor:.3g} times, in each of {WAYS} directions; the same of {len(paths)} "
        f"parameters: {first_few(paths)}",
        "gradients are reversed on their way back, and every update of these makes the whole loss larger",
        "look for a hook that negates them, a custom backward with a minus, or a reversal that has the loss to itself",
        again=_AGAIN,
    )


def _partial_finding(specimen: Specimen, parameters: Mapping[str, Tensor], partial: list[Untrue]) -> Finding:
    first, paths = partial[0], list(dict.fromkeys(one.path for one in partial))
    mended = _mended_slope(specimen, parameters, first)
    is_cut = mended is not None and abs(mended - first.measured) <= 0.02 * abs(first.measured)
    tried = f"{mended:.3g} where detach(), .data and no_grad() are taken out" if mended is not None else ""
    return Finding.suspicious(
        owner_name(first.path),
        f"autograd's slope of {first.quantity.name} along {first.path} is {first.told:.3g} where a nudge shows "
        f"{first.measured:.3g}{f', and {tried}' if tried else ''}; the same of {len(paths)} parameters: "
        f"{first_few(paths)}",
        "part of the path back to them is cut by detach(), .data or no_grad()"
        if is_cut
        else "what is followed is not the slope of the model: a backward is wrong, or runs with other numbers",
        "take out the detach() between them and the output: it was tried, and makes both slopes the same"
        if is_cut
        else "look after them for a custom backward, values changed in place, and parts that are computed twice",
        again=_AGAIN,
    )


def _mended_slope(specimen: Specimen, parameters: Mapping[str, Tensor], untrue: Untrue) -> float | None:
    """The slope that autograd tells where nothing is cut; None where it does not run so."""

    def measure() -> float:
        kept = [(one, one.detach().clone()) for one in specimen.model.buffers()]
        with isolate(), ignore_cuts():
            quantities = {one.name: one.value for one in quantities_of(specimen)}
            slope = torch.autograd.grad(quantities[untrue.quantity.name], parameters[untrue.path])[0]
        with torch.no_grad():
            for one, before in kept:
                one.copy_(before)
        return float((slope * direction_of(parameters[untrue.path])).sum())

    return try_or_none(measure)


def _of_whole_cuts(specimen: Specimen, parameters: Mapping[str, Tensor], whole: list[Untrue]) -> Findings:
    """An output from which no gradient reaches weights that it depends on, though others may teach them."""
    paths = list(dict.fromkeys(one.path for one in whole))
    first = whole[0]
    is_asked = specimen.has_loss and not _goes_straight_through(specimen, parameters, first.quantity.name)
    untaught = [path for path in paths if is_asked and _is_untaught(specimen, parameters, path)]
    seen = (
        f"no gradient of {first.quantity.name} reaches {first_few(paths)}, though its slope along {first.path} "
        f"is {first.measured:.3g}"
    )
    if untaught:
        yield Finding.broken(
            owner_name(untaught[0]),
            f"{seen}; the gradients of {len(untaught)} parameters are the same whatever the targets are",
            "nothing that is asked of the model reaches them: they learn from the rest of the loss alone",
            "look for a sample that cannot be followed back (rsample() can, sample() cannot), detach() or .data",
            again=_AGAIN,
        )
    else:
        yield Finding.note(
            owner_name(paths[0]), seen, "another output teaches them", "nothing, if so on purpose", again=_AGAIN
        )


def _goes_straight_through(specimen: Specimen, parameters: Mapping[str, Tensor], name: str) -> bool:
    """Whether some weights get a gradient of an output that moves over stairs with them, as an encoder before codes.

    What the gradient is led around, as the codes, learns in its own way.
    """
    differences = Differences(specimen, parameters)
    place = [one.name for one in differences.quantities].index(name)
    slopes = [differences.along(differences.direction([path]))[place] for path in list(parameters)[:MOST]]
    return any(one.told and one.measured == 0 for one in slopes)


def _is_untaught(specimen: Specimen, parameters: Mapping[str, Tensor], path: str) -> bool:
    """Whether other targets leave what the loss tells a parameter as it is, though they change its true slope."""

    def measure() -> bool:
        other = replace(
            specimen, targets=map_tensors(lambda one: one.roll(1, 0) if one.dim() else one, specimen.targets)
        )
        both = [Differences(each, {path: parameters[path]}) for each in (specimen, other)]
        told = [each.gradients[-1].get(path, torch.zeros(1)) for each in both]
        slopes = [each.along(each.direction([path]))[-1].measured for each in both]
        if not torch.equal(*told) or None in slopes:
            return False
        one, second = (float(slope or 0) for slope in slopes)
        return abs(one - second) > 1e-3 * max(abs(one), abs(second))

    return bool(try_or_none(measure))


def _constant_finding(constant: list[Untrue]) -> Finding:
    first, paths = constant[0], list(dict.fromkeys(one.path for one in constant))
    return Finding.suspicious(
        "loss",
        f"{first.quantity.name} is {float(first.quantity.value):.4g} and has no gradient at all, but its slope along "
        f"{first.path} is {first.measured:.3g}; it depends on {len(paths)} parameters or more",
        "this term is counted in the loss, and nothing is learned from it",
        "keep it in the graph: no torch.tensor(...), .item(), .detach() or numpy on its way; torch.stack() keeps it, "
        "and torch.autograd.grad() needs create_graph=True",
        again=_AGAIN,
    )


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


def directions_of(parts: Parts) -> Iterator[tuple[NudgedWeights, Tensor]]:
    """Each parameter with one fixed direction in the size of its weights."""
    for number, part in enumerate(parts.values()):
        way = torch.randn(part.parameter.shape, generator=torch.Generator().manual_seed(number)).to(part.parameter)
        yield part, way * part.mask * (size_of(part.parameter) or 1.0)


def _changed_by(specimen: Specimen, parts: Parts, share: float) -> float:
    """The objective with weights moved along their direction by a share of their size; then they are put back."""
    before = [part.parameter.detach().clone() for part in parts.values()]
    with torch.no_grad():
        for part, way in directions_of(parts):
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
    proves="the loss depends on weights that get no gradient from it, or another one than its slope",
    how="nudges weights with a gradient of 0 and looks whether the loss moves, then all others, and compares slopes "
    "of each output and each term of the loss with autograd's",
    check=check,
    cannot_see="slopes of what moves in stairs, as after rounding; cuts inside the loss, which are only noted; weights "
    "of models that do not run in float64",
)
