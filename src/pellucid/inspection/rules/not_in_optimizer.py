"""An optimizer moves the tensors that it was given, and no others: what was added or replaced later stays as it was.

Layers in a plain Python list are not in `parameters()`; a head that was replaced after the optimizer was made is
trained by nobody, while the optimizer goes on moving the old one.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.real_run import real_run
from pellucid.inspection.instrument.recording import first_few, owner_name
from pellucid.inspection.instrument.short_run import copy_in_training, objective_gradients, trainable_parameters
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen


def check(specimen: Specimen) -> Findings:
    yield from _unregistered_weights(specimen)
    if specimen.optimizer is not None:
        yield from _not_held(specimen, specimen.optimizer)


def _not_held(specimen: Specimen, optimizer: torch.optim.Optimizer) -> Findings:
    model, run = specimen.model, real_run(specimen)
    held = [one for group in optimizer.param_groups for one in group["params"]]
    ids = {id(one) for one in held}
    ours = {id(one) for one in model.parameters()} | {id(one) for _, one in unregistered_tensors(model)}
    parameters = trainable_parameters(model)
    missing = [path for path, one in parameters.items() if id(one) not in ids]
    if run is not None and run.n_updates and not run.raised:
        # Other optimizers that make steps count as well, and what no gradient comes to is not to be trained here.
        others = {path for inside in run.groups.values() for path in inside}
        missing = [path for path in missing if path not in others and run.n_passes[path]]
    strange = [one for one in held if id(one) not in ours]
    stale = Counter(tuple(one.shape) for one in strange) & Counter(tuple(parameters[path].shape) for path in missing)
    counts = Counter(id(one) for one in held)
    twice = [path for path, one in parameters.items() if counts[id(one)] > 1]
    if twice:
        yield Finding.broken(
            owner_name(twice[0]),
            f"{len(twice)} of {len(parameters)} parameters are in the optimizer more than once: {first_few(twice)}",
            "each step moves them several times",
            "put each parameter into one group",
            again="print(len(list(model.parameters())), sum(len(group['params']) for group in optimizer.param_groups))",
        )
    if not missing and not twice:
        rates = sorted({float(group["lr"]) for group in optimizer.param_groups if "lr" in group})
        if rates and rates[-1] == 0:
            yield Finding.suspicious(
                "optimizer",
                f"all {len(optimizer.param_groups)} groups have a learning rate of 0",
                "no step changes anything",
                "set lr, or look at the schedule",
                again="print([group['lr'] for group in optimizer.param_groups])",
            )
            return
        n_held = sum(id(one) in ids for one in parameters.values())
        seen = f"the optimizer holds {n_held} of {len(parameters)} parameters that ask for a gradient"
        rest = "every step reaches all of them"
        if n_held < len(parameters):
            rest = "the others get no gradient in real steps, or are moved by another optimizer"
        yield Finding.sound("optimizer", seen, rest)
    if not missing:
        return
    n_weights = sum(parameters[path].numel() for path in missing)
    is_proven = bool(stale) or len(missing) == len(parameters)
    yield Finding(
        "broken" if is_proven else "suspicious",
        owner_name(missing[0]),
        f"{len(missing)} of {len(parameters)} parameters ({n_weights} weights) are not in the optimizer: "
        f"{first_few(missing)}"
        + (f"; it holds {sum(stale.values())} others of the same shapes that are not the model's" if stale else ""),
        "the optimizer was made for parameters that have been replaced since, and trains those"
        if stale
        else "no step moves them, although they get a gradient",
        "make the optimizer after the last layer is in place and on its device, from model.parameters()",
        again="held = {id(p) for g in optimizer.param_groups for p in g['params']}; "
        "print([n for n, p in model.named_parameters() if id(p) not in held])",
    )


def _unregistered_weights(specimen: Specimen) -> Findings:
    """Weights in lists and dictionaries: they work, and are neither trained, nor saved, nor moved to a device."""
    copied = copy_in_training(specimen)
    found = {path: one for path, one in unregistered_tensors(copied.model) if one.requires_grad and one.numel()}
    slopes = objective_gradients(copied, found) if found else None
    used = [path for path, slope in (slopes or {}).items() if bool(slope.any())]
    if not used:
        return
    ids = {id(one) for _, one in unregistered_tensors(specimen.model)}
    is_held = bool(ids & specimen.held_by_optimizer)
    yield Finding(
        "suspicious" if is_held else "broken",
        used[0],
        f"{len(used)} tensors ({sum(found[path].numel() for path in used)} weights) get a gradient and are not in "
        f"model.parameters(): {first_few(used)}",
        "they are not saved with the model and not moved to a device"
        + ("" if is_held else ", and an optimizer made from model.parameters() does not train them"),
        "put modules into nn.ModuleList or nn.ModuleDict, and tensors into nn.Parameter",
        again="print(sum(p.numel() for p in model.parameters()))",
    )


def unregistered_tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Weights that a module keeps in plain attributes, lists or dictionaries, and that it is not known to have."""
    known = {id(one) for one in model.parameters()}
    found: dict[int, tuple[str, Tensor]] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name in ("_parameters", "_modules", "_buffers") or "hook" in name:
                continue
            for inner, tensor in _weights(value, f"{path}.{name}" if path else name, depth=3):
                if id(tensor) not in known:
                    found.setdefault(id(tensor), (inner, tensor))
    return list(found.values())


def _weights(value: Any, path: str, depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, nn.Module):
        yield from ((f"{path}.{name}", one) for name, one in value.named_parameters())
    elif isinstance(value, Tensor):
        if value.requires_grad and value.is_leaf:
            yield path, value
    elif depth and isinstance(value, list | tuple):
        for place, one in enumerate(value):
            yield from _weights(one, f"{path}[{place}]", depth - 1)
    elif depth and isinstance(value, dict):
        for key, one in value.items():
            yield from _weights(one, f"{path}[{key!r}]", depth - 1)


RULE = DoctorRule(
    name="not-in-optimizer",
    proves="parameters of the model are moved by no step of the optimizer",
    how="compares the tensors that the optimizer holds with the model's, and looks for weights in plain lists",
    check=check,
    cannot_see="a second optimizer that was not given, unless the step that uses it is",
)
