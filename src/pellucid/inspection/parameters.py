"""Parameters of a module, each counted once, and those that have two names told as tied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch import nn


class OwnParameters(NamedTuple):
    """Those of one module, its parts left out."""

    counted: int  # numbers in those that come here first
    tied: tuple[str, ...]  # the others: "weight = embedding.weight"


class ParameterTotals(NamedTuple):
    """Those of a whole module."""

    unique: int
    with_ties: int  # as many as there would be if each name had its own
    trainable: int
    buffers: int
    n_bytes: int


def own_parameters(modules: Iterable[tuple[str, nn.Module]]) -> list[OwnParameters]:
    """What each module, in this order, has that none before it had.

    >>> head = nn.Linear(2, 5, bias=False)
    >>> head.weight = (embedding := nn.Embedding(5, 2)).weight
    >>> own_parameters([("embedding", embedding), ("head", head)])
    [OwnParameters(counted=10, tied=()), OwnParameters(counted=0, tied=('weight = embedding.weight',))]
    """
    first: dict[int, str] = {}
    found = []
    for path, module in modules:
        counted, tied = 0, []
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            if id(parameter) in first:
                tied.append(f"{name} = {first[id(parameter)]}")
            else:
                first[id(parameter)] = f"{path}.{name}" if path else name
                counted += parameter.numel()
        found.append(OwnParameters(counted, tuple(tied)))
    return found


def parameter_totals(model: nn.Module) -> ParameterTotals:
    """All parameters and buffers of a module.

    >>> parameter_totals(nn.BatchNorm1d(3))
    ParameterTotals(unique=6, with_ties=6, trainable=6, buffers=7, n_bytes=24)
    """
    unique = list({id(one): one for one in nn.Module.parameters(model)}.values())
    named = nn.Module.named_parameters(model, remove_duplicate=False)
    buffers = {id(one): one for one in nn.Module.buffers(model)}.values()
    return ParameterTotals(
        unique=sum(one.numel() for one in unique),
        with_ties=sum(one.numel() for _, one in named),
        trainable=sum(one.numel() for one in unique if one.requires_grad),
        buffers=sum(one.numel() for one in buffers),
        n_bytes=sum(one.numel() * one.element_size() for one in unique),
    )
