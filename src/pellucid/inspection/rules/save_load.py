"""What is not in the state_dict is lost with the program: two fresh modules that load the same file must do the same.

They are built anew where that takes no argument, or only the module's own config, each from another seed, so whatever
was drawn and not saved shows. In any case a copy whose numbers were all changed must get them back from its own
file, and its ties with them. Frozen weights may be left out on purpose, as those under an adapter.
"""

import copy
import inspect
from collections import defaultdict
from functools import partial

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng, try_or_none
from pellucid.inspection.instrument.specimen import run_module
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

MOST = 5_000_000  # parameters of what is built twice


def check(specimen: Specimen) -> Findings:
    copied = specimen.copy()
    if (before := try_or_none(lambda: run_module(copied.model.eval(), copied.inputs))) is None:
        return
    if not bool(before.isfinite().all()) or not bool(before.any()):
        return
    if (again := copied.main_output()) is None or not torch.equal(before, again):
        return  # what differs from itself has a rule of its own
    lost = try_or_none(lambda: _ties(copied.model) - _ties(_round_trip(copied.model)))
    if lost:
        first, second = sorted(next(iter(lost)))[:2]
        seen = f"{first} and {second} are one parameter, and after loading its own state_dict they are two"
        means = "whoever trains on from a file trains another model"
        fix = "tie again after loading, and load without assign=True"
        yield Finding.broken(f"{first} and {second}", seen, means, fix)
        return
    fresh = [try_or_none(partial(_answer_of_fresh, copied, seed)) for seed in (1, 2)]
    if fresh[0] is not None and fresh[1] is not None:
        yield _compare(fresh[0], fresh[1], "two that were built anew and loaded its state_dict", copied.model)
        return
    after = try_or_none(lambda: run_module(_round_trip(copied.model), copied.inputs))
    if after is not None:
        yield _compare(before, after, "a copy with other weights that loaded its state_dict, and itself,", copied.model)


def _compare(one: Tensor, other: Tensor, who: str, model: nn.Module) -> Finding:
    apart = (one - other).abs().max().item() if one.shape == other.shape else float("inf")
    size = one.abs().max().item()
    seen = f"{who} differ by {apart:.2g} in outputs of size {size:.2g}"
    if apart <= 1e-5 * max(size, 1e-30):
        return Finding.sound("the model", seen, "all that it has learned is in the file")
    outside = _outside(model)
    is_frozen = bool(outside) and all(_is_frozen(model, path) for path in outside)
    named = f"; {', '.join(outside)} {'is' if len(outside) == 1 else 'are'} in no file" if outside else ""
    return Finding(
        "note" if is_frozen else "broken",
        outside[0] if outside else "the model",
        seen + named,
        "something that the outputs need is not saved, and is another after loading",
        "make it a parameter or a persistent buffer (register_buffer), and leave nothing out of state_dict",
    )


def _answer_of_fresh(copied: Specimen, seed: int) -> Tensor | None:
    """What another module of this class, drawn from this seed, puts out with the model's file loaded."""
    model = copied.model
    assert sum(parameter.numel() for parameter in model.parameters()) <= MOST
    needed = [
        one.name
        for one in inspect.signature(type(model)).parameters.values()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    assert needed in ([], ["config"]), "it cannot be built without knowing its arguments"
    with fixed_rng(seed):
        built = type(model)() if not needed else type(model)(copy.deepcopy(model.config))
        built.load_state_dict(copy.deepcopy(model.state_dict()))
    return run_module(built.eval(), copied.inputs)


def _round_trip(model: nn.Module) -> nn.Module:
    """A copy whose numbers were changed and then loaded from the model's own file."""
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for one in (*changed.parameters(), *changed.buffers()):
            if one.is_floating_point():
                one.add_(1.0)
        persistent = set(model.state_dict(keep_vars=True))
        # What is not meant to be saved was made when the module was, and a copy has it as it is.
        for (path, mine), (_, its) in zip(changed.named_buffers(), model.named_buffers(), strict=True):
            if path not in persistent:
                mine.copy_(its)
    changed.load_state_dict(copy.deepcopy(model.state_dict()))
    return changed


def _ties(model: nn.Module) -> set[frozenset[str]]:
    """Names that share a parameter."""
    names: dict[int, set[str]] = defaultdict(set)
    for path, parameter in model.named_parameters(remove_duplicate=False):
        names[id(parameter)].add(path)
    return {frozenset(found) for found in names.values() if len(found) > 1}


def _outside(model: nn.Module) -> list[str]:
    """Tensors of the module that its file does not have."""
    saved = set(model.state_dict())
    found = [path for path, _ in (*model.named_parameters(), *model.named_buffers()) if path not in saved]
    for path, module in model.named_modules():
        found += [f"{path}.{name}".lstrip(".") for name, one in vars(module).items() if isinstance(one, Tensor)]
    return found[:4]


def _is_frozen(model: nn.Module, path: str) -> bool:
    parameter = dict(model.named_parameters()).get(path)
    return parameter is not None and not parameter.requires_grad


RULE = DoctorRule(
    name="save-load",
    proves="that a file of the weights does not give the same module back, or loses a tie",
    how="builds it anew twice where it can, else changes a copy, loads the state_dict and compares outputs and ties",
    check=check,
    cannot_see="what is kept outside of the state_dict and does not change outputs of this batch",
    again="fresh = type(model)(); fresh.load_state_dict(model.state_dict()); fresh.eval()(*inputs)[0]",
)
