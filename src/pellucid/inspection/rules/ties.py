"""One weight under two names learns for both. Meant for an embedding and its head, it is elsewhere mostly an accident.

`[layer] * 4` makes one layer with four names, and one norm handed to every block is one norm. The other way round, a
copy is no tie: equal at the start, the two drift apart.
"""

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng, try_or_none
from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.recording import parameter_role
from pellucid.inspection.instrument.specimen import stated
from pellucid.inspection.rules import DoctorRule, Finding, Findings, Specimen

_STACKS = (nn.TransformerEncoder, nn.TransformerDecoder)  # torch's own begin with copies of one layer
_PROMISES = ("tie_word_embeddings", "tie_weights", "tied", "tie_embeddings", "weight_tying", "is_tied")


class Name(NamedTuple):
    """A parameter by one of its names."""

    path: str
    parent: nn.Module
    parameter: nn.Parameter

    @property
    def role(self) -> str:
        return parameter_role(self.parent, self.parameter)


def check(specimen: Specimen) -> Findings:
    names = [
        Name(f"{path}.{key}".lstrip("."), module, parameter)
        for path, module in specimen.model.named_modules(remove_duplicate=False)
        for key, parameter in module._parameters.items()
        if parameter is not None and not nn.parameter.is_lazy(parameter)
    ]
    found = [*_shared_modules(specimen.model), *_shared_weights(names), *_copies(names)]
    found += _stacked_copies(specimen.model)
    with fixed_rng():
        found += _broken_promise(specimen, names)
    yield from found
    if not found and len(names) > 1:
        usual = [group for group in _groups(names) if len(group) > 1]
        seen = f"{len(names)} names for {len({id(name.parameter) for name in names})} parameters"
        seen += "".join(f"; {group[0].path} = {group[1].path}" for group in usual[:2])
        means = "what is tied is tied as is usual" if usual else "every name has weights of its own"
        yield Finding.sound("the model", seen, means)


def _groups(names: list[Name]) -> list[list[Name]]:
    """Names of one parameter together."""
    groups: dict[int, list[Name]] = defaultdict(list)
    for name in names:
        groups[id(name.parameter)].append(name)
    return list(groups.values())


def _shared_modules(model: nn.Module) -> Findings:
    """One object with weights under several names; of objects within one another only the outermost."""
    paths: dict[int, list[str]] = defaultdict(list)
    modules: dict[int, nn.Module] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        if any(True for _ in module.parameters()):
            paths[id(module)].append(path)
            modules[id(module)] = module
    several = {key: found for key, found in paths.items() if len(found) > 1}
    inner = {id(part) for key in several for part in modules[key].modules() if part is not modules[key]}
    for key, found in several.items():
        module = modules[key]
        if key in inner or isinstance(module, nn.Embedding):
            continue  # one embedding for two readers is as usual as one for the head
        n = sum(parameter.numel() for parameter in module.parameters())
        yield Finding.suspicious(
            " and ".join(found[:3]),
            f"{len(found)} names of one {type(module).__name__} with {n} weights",
            "it looks like several layers and is one: all of them learn, and are used, as the same",
            "make a new one for each, as in [make() for _ in range(n)], if they were to be several",
            again=f"model.get_submodule({found[0]!r}) is model.get_submodule({found[1]!r})",
        )


def _shared_weights(names: list[Name]) -> Findings:
    """One parameter in two unlike modules."""
    for group in _groups(names):
        parents = {id(name.parent): name for name in group}
        roles = {name.role for name in parents.values()}
        if len(parents) < 2 or roles in ({"embedding"}, {"embedding", "matrix"}):
            continue
        first, second = list(parents.values())[:2]
        yield Finding(
            "note" if roles == {"matrix"} else "suspicious",
            f"{first.path} and {second.path}",
            f"one parameter of shape {tuple(first.parameter.shape)} is {first.role} here and {second.role} there",
            "what one of them learns the other has to do with, too",
            "give each a parameter of its own, if the tie is not meant",
            again=f"model.get_parameter({first.path!r}) is model.get_parameter({second.path!r})",
        )


def _copies(names: list[Name]) -> Findings:
    """An embedding and a head with the same numbers that are not the same parameter."""
    embeddings = [name for name in names if name.role == "embedding" and name.parameter.requires_grad]
    heads = [name for name in names if isinstance(name.parent, nn.Linear) and name.parameter.requires_grad]
    for one in embeddings:
        for other in heads:
            if one.parameter is not other.parameter and _is_copy(one.parameter, other.parameter):
                yield Finding.suspicious(
                    f"{one.path} and {other.path}",
                    f"all {one.parameter.numel()} numbers are equal, in two parameters",
                    "a copy is no tie: from the first step on they drift apart",
                    f"write {other.path} = {one.path}, and take no copy",
                    again=f"torch.equal(model.get_parameter({one.path!r}), model.get_parameter({other.path!r}))",
                )


def _is_copy(one: Tensor, other: Tensor) -> bool:
    """Drawn once: the same numbers, and not all alike as where they were filled in."""
    is_equal = one.shape == other.shape and one.numel() > 1 and torch.equal(one, other)
    return is_equal and bool((one != one.flatten()[0]).any())


def _stacked_copies(model: nn.Module) -> Findings:
    """Layers of one list that begin with the same draw."""
    own = {id(part) for stack in model.modules() if isinstance(stack, _STACKS) for part in stack.modules()}
    for path, stack in model.named_modules():
        if not isinstance(stack, nn.ModuleList | nn.Sequential) or id(stack) in own:
            continue
        layers = [(key, list(layer.parameters())) for key, layer in stack.named_children()]
        for (key, mine), (other, its) in pairwise(layers):
            trained = [pair for pair in zip(mine, its, strict=False) if all(one.requires_grad for one in pair)]
            matrices = [pair for pair in trained if pair[0].dim() >= 2]
            are_copies = all(_is_copy(one, twin) and one is not twin for one, twin in matrices)
            if len(mine) == len(its) and matrices and are_copies:
                place = f"{path}.{key} and {path}.{other}".replace(" .", " ").lstrip(".")
                seen = f"all {len(matrices)} matrices of both have the same numbers"
                means = "layers that were copied begin as one, and start to differ only by where they stand"
                fix = "draw each anew (reset_parameters), as in [make() for _ in range(n)]"
                yield Finding.suspicious(place, seen, means, fix, again="torch.equal(a.weight, b.weight)")
                return


def _broken_promise(specimen: Specimen, names: list[Name]) -> Findings:
    """A configuration that says the embedding and the head are tied, where the head has a weight of its own."""
    promise = next((name for name, value in stated(specimen.model, _PROMISES) if value is True), None)
    embeddings = [name for name in names if name.role == "embedding"]
    copied = specimen.copy() if promise and embeddings else None
    outputs = None if copied is None else try_or_none(lambda: main_tensor(copied.outputs()))
    if outputs is None or specimen.tokens is None or outputs.shape[:-1] != specimen.tokens.shape:
        return
    # Only what puts out one score for each row of the table, at each token, has a head that could be tied to it.
    pairs = [
        (one, head)
        for one in embeddings
        for head in names
        if isinstance(head.parent, nn.Linear)
        and head.parameter.shape == one.parameter.shape
        and len(one.parameter) == outputs.shape[-1]
    ]
    if pairs and not any(one.parameter is head.parameter for one, head in pairs):
        one, head = pairs[-1]
        seen = f"{promise} is True, and the {head.parameter.numel()} numbers of {head.path} are its own"
        means = "what should be one weight is two: the tie was undone, as by drawing one of them anew"
        yield Finding.suspicious(head.path, seen, means, f"write {head.path} = {one.path} after all weights are drawn")


RULE = DoctorRule(
    name="ties",
    proves="that weights are one where they look like several, or several where they should be one",
    how="compares all parameters under all their names, as objects and number by number",
    check=check,
    cannot_see="weights that are one by a function and not by memory",
    again="set(dict(model.named_parameters(remove_duplicate=False))) - set(dict(model.named_parameters()))",
)
