"""A module to look at in place of the user's own: a copy of it, or where that cannot be had itself, put back after.

A copy is the surest: whatever a forward writes (statistics of a batch norm, a counter, a cache) is written on it. Some
modules cannot be copied, and very many or very large ones should not be.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pellucid.errors import PellucidError

MOST_COPIED_MODULES = 10_000  # copying one takes 0.1 ms, longer than its call
MOST_COPIED_BYTES = 1 << 30


@contextmanager
def borrowed(model: nn.Module) -> Iterator[nn.Module]:
    """Inside, a module that computes what `model` does, and may be hooked, run and moved; `model` stays what it was.

    Its weights may be the user's own: whoever trains takes a copy.

    >>> model = nn.BatchNorm1d(2)
    >>> with borrowed(model) as ours:
    ...     _ = ours(torch.randn(3, 2))
    >>> model.num_batches_tracked
    tensor(0)
    """
    require_seeable(model)
    ours = _copied(model)
    with _unchanged_dice():
        if ours is not None:
            yield ours
        else:
            with _put_back(model):
                yield model


@contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    """Afterwards the module itself is as it was: what a forward writes on, and its modes."""
    kept = [(one, one._version, one.detach().clone()) for one in _written_by_forward(model)]
    modes = [(module, module.training) for module in nn.Module.modules(model)]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for one, version, before in kept:
                if one._version != version:
                    one.copy_(before)


@contextmanager
def _unchanged_dice() -> Iterator[None]:
    """A forward may also draw from Python's dice or numpy's; torch's are the business of those who run it."""
    numpy = sys.modules.get("numpy")
    python_dice, numpy_dice = random.getstate(), numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(python_dice)
        if numpy is not None:
            numpy.random.set_state(numpy_dice)


def uncompiled(model: nn.Module) -> nn.Module:
    """The module that `torch.compile` was given, where one was; its parts are the same, and can be seen."""
    if type(model).__name__ != "OptimizedModule":
        return model
    return model._modules["_orig_mod"] or model


def require_seeable(model: nn.Module) -> None:
    """Refuse a module whose parts cannot be seen, or that does not know its own shapes yet."""
    for path, module in nn.Module.named_modules(model):
        where = f"{type(module).__name__} {path or 'itself'}"
        if isinstance(module, torch.jit.ScriptModule):
            raise PellucidError(
                f"{where} is TorchScript, which hides its parts", fix="Give the module it was made from"
            )
        tensors = {**module._parameters, **module._buffers}
        if any(is_lazy(one) for one in tensors.values() if one is not None):
            raise PellucidError(
                f"{where} is lazy and needs an input shape",
                fix="Call the model once with a batch, so that its parameters get their shapes",
            )


def own_inputs(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same inputs in memory of their own, for a forward may write on what it is given."""
    return tuple(_owned(one) for one in inputs)


def _owned(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _owned(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_owned(one) for one in value)
    return value


def _copied(model: nn.Module) -> nn.Module | None:
    """A copy; None where it would be large, or cannot be made."""
    n_bytes = sum(one.numel() * one.element_size() for one in nn.Module.parameters(model))
    if n_bytes > MOST_COPIED_BYTES or sum(1 for _ in nn.Module.modules(model)) > MOST_COPIED_MODULES:
        return None
    try:
        ours = copy.deepcopy(model)
    except Exception:  # a lock, a generator, a tensor with a history, a __getattr__ that answers to every name
        return None
    return ours if isinstance(ours, type(model)) else None


def _written_by_forward(model: nn.Module) -> list[Tensor]:
    """The buffers, and the weights of lookups with a largest norm, which shorten what they look up."""
    lookups = [one for one in nn.Module.modules(model) if isinstance(one, nn.Embedding | nn.EmbeddingBag)]
    return _unique(chain(nn.Module.buffers(model), (one.weight for one in lookups if one.max_norm is not None)))


def _unique(tensors: Iterator[Tensor]) -> list[Tensor]:
    return list({id(one): one for one in tensors}.values())
