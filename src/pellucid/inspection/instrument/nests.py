"""Nests of tensors: what modules are given and put out, as tuples, lists, dictionaries and records in one another."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

MAIN_KEYS = ("logits", "scores", "output", "last_hidden_state")


def main_tensor(outputs: Any) -> Tensor | None:
    """The main tensor of what a module puts out: itself, the first of a tuple, or `logits` of a record or dictionary.

    >>> import torch
    >>> main_tensor({"logits": torch.zeros(2), "past": None}).shape
    torch.Size([2])
    """
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, dict):
        named = [outputs[key] for key in MAIN_KEYS if key in outputs]
        return main_tensor((named or list(outputs.values()))[0]) if outputs else None
    if isinstance(outputs, tuple | list):
        return main_tensor(outputs[0]) if outputs else None
    return None


def with_main_tensor(outputs: Any, tensor: Tensor) -> Any:
    """The same outputs with another main tensor; `main_tensor` gives it back.

    >>> import torch
    >>> with_main_tensor((torch.zeros(1), "state"), torch.ones(1))
    (tensor([1.]), 'state')
    """
    if isinstance(outputs, dict):
        key = next((key for key in MAIN_KEYS if key in outputs), None)
        key = next(iter(outputs)) if key is None else key
        changed = copy.copy(outputs)
        changed[key] = with_main_tensor(outputs[key], tensor)
        return changed
    if isinstance(outputs, tuple | list):
        parts = [with_main_tensor(outputs[0], tensor), *outputs[1:]]
        return type(outputs)(*parts) if hasattr(outputs, "_fields") else type(outputs)(parts)
    return tensor


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor of a value, in order: of tuples, lists, dictionaries and records, also inside one another.

    >>> import torch
    >>> [tuple(one.shape) for one in tensors_in({"a": torch.zeros(2), "b": (None, [torch.zeros(3)])})]
    [(2,), (3,)]
    """
    found: list[Tensor] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[Tensor]) -> None:
    if isinstance(value, Tensor):
        found.append(value)
    elif value is None or isinstance(value, int | float | str):
        return  # most of what operations are given; asked first, since this runs for each of them
    elif isinstance(value, tuple | list):
        for one in value:
            if isinstance(one, Tensor):
                found.append(one)
            elif one is not None:
                _gather(one, found)
    elif isinstance(value, Mapping):
        for one in value.values():
            _gather(one, found)
    elif is_dataclass(value) and not isinstance(value, type):
        for part in fields(value):
            _gather(getattr(value, part.name, None), found)


def map_tensors(change: Callable[[Tensor], Any], value: Any) -> Any:
    """The same nest of tuples, lists, dictionaries and records, with every tensor of it changed.

    >>> import torch
    >>> map_tensors(lambda one: one + 1, {"x": [torch.zeros(1)], "name": "a"})
    {'x': [tensor([1.])], 'name': 'a'}
    """
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        parts = [map_tensors(change, each) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        changed = copy.copy(value)  # of its own kind, as a record of a library that is a dictionary
        for key, each in value.items():
            changed[key] = map_tensors(change, each)
        return changed
    if is_dataclass(value) and not isinstance(value, type):
        record = copy.copy(value)
        for part in fields(value):
            object.__setattr__(record, part.name, map_tensors(change, getattr(value, part.name)))
        return record
    return value
