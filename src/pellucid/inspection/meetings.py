"""Where in a module numbers meet that should not: the first part whose outputs move where they must stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.patient import tensor_of
from pellucid.inspection.probes import fresh, is_beyond_rounding, moved, probing


class Call(NamedTuple):
    """One call of a part: what it read and what it put out."""

    path: str
    module: nn.Module
    read: Tensor | None
    made: Tensor | None


class Meeting(NamedTuple):
    """Where it happened: a part, or what a part does before it calls another."""

    path: str  # "the model" for the whole
    kind: str
    module: nn.Module


def calls_of(model: nn.Module, inputs: tuple[Any, ...], seed: int = 0) -> list[Call]:
    """Every call of every part of a module, which must be a copy, in the order in which they end.

    >>> [call.path for call in calls_of(nn.Sequential(nn.Tanh(), nn.Tanh()), (torch.ones(2),))]
    ['0', '1', '']
    """
    calls: list[Call] = []

    def saw(path: str) -> Any:
        def hook(module: nn.Module, inputs: Any, outputs: Any) -> None:
            read, made = tensor_of(inputs), tensor_of(outputs)
            kept = [None if one is None else one.detach().clone() for one in (read, made)]
            calls.append(Call(path, module, kept[0], kept[1]))

        return hook

    hooks = [module.register_forward_hook(saw(path)) for path, module in model.named_modules()]
    with probing(seed), torch.no_grad():
        model(*fresh(inputs))
    for hook in hooks:
        hook.remove()
    return calls


def first_meeting(
    model: nn.Module,
    inputs: tuple[Any, ...],
    changed: tuple[Any, ...],
    kept: Callable[[Tensor], Tensor | None],
    seed: int = 0,
) -> Meeting | None:
    """The first part in which what must stay moves, for inputs and changed ones; None where it is not seen.

    kept: of a tensor the numbers that must stay, None where that cannot be told of its shape.
    """
    parts = dict(model.named_modules())
    for one, other in zip(calls_of(model, inputs, seed), calls_of(model, changed, seed), strict=False):
        if one.path != other.path:
            return None  # the change has led another way, and calls can no longer be compared
        if not _has_moved(one.made, other.made, kept):
            continue
        path, module = one.path, one.module
        if _has_moved(one.read, other.read, kept) and path:
            path = path.rpartition(".")[0]  # it only passes on what its parent did before it was called
            module = parts[path]
        return Meeting(path or "the model", type(module).__name__, module)
    return None


def _has_moved(one: Tensor | None, other: Tensor | None, kept: Callable[[Tensor], Tensor | None]) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return False
    before, after = kept(one), kept(other)
    if before is None or after is None:
        return False
    return is_beyond_rounding(moved(before, after), one)
