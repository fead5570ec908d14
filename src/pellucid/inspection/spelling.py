"""How a module of torch.nn is written, and the same module with another number in it."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from pellucid.inspection.expressions import constructors, signature_of

_NEVER_WRITTEN = ("device", "dtype", "_weight", "_freeze")


def is_of_torch(module: nn.Module) -> bool:
    """Whether it is a class of torch.nn itself, so that its constructor is known."""
    return constructors().get(type(module).__name__) is type(module)


def spelled(module: nn.Module) -> str:
    """The call that makes such a module; of classes that are not torch's only the name.

    >>> spelled(nn.Conv2d(1, 8, 5, padding=2, bias=False)), spelled(nn.LayerNorm(4))
    ('nn.Conv2d(1, 8, 5, padding=2, bias=False)', 'nn.LayerNorm(4)')
    """
    if not is_of_torch(module):
        return type(module).__name__
    words = []
    for name, parameter in signature_of(type(module)).parameters.items():
        if name in _NEVER_WRITTEN or not _is_known(module, name):
            continue
        value, usual = _argument(module, name), parameter.default
        if usual is inspect.Parameter.empty:
            words.append(_short(value))
        elif _short(value) != _short(usual) and not _follows(module, name, value):
            words.append(f"{name}={_short(value)}")
    return f"nn.{type(module).__name__}({', '.join(words)})"


def rebuilt(module: nn.Module, **changes: Any) -> nn.Module:
    """A new module of the same kind, with other arguments where they are given; for kinds of torch.nn.

    >>> rebuilt(nn.Linear(120, 10), in_features=144)
    Linear(in_features=144, out_features=10, bias=True)
    """
    arguments = {
        name: _argument(module, name)
        for name in signature_of(type(module)).parameters
        if name not in _NEVER_WRITTEN and _is_known(module, name)
    }
    made = type(module)(**{**arguments, **changes})
    first = next(module.parameters(), None)
    if first is not None:
        made.to(first.device, first.dtype)
    return made.train(module.training)


def _is_known(module: nn.Module, name: str) -> bool:
    return hasattr(module, name) or name in ("bias", "add_bias_kv")


def _argument(module: nn.Module, name: str) -> Any:
    """What the constructor was given under that name, as the module keeps it."""
    if name == "bias" and isinstance(module, nn.MultiheadAttention):
        return module.in_proj_bias is not None
    if name == "add_bias_kv":
        return getattr(module, "bias_k", None) is not None
    value = getattr(module, name, None)
    return value if name != "bias" or isinstance(value, bool) else value is not None


def _follows(module: nn.Module, name: str, value: Any) -> bool:
    """Whether a value is what it becomes when it is not given, as the stride of a pool is its window."""
    leaders = {"kdim": "embed_dim", "vdim": "embed_dim", "stride": "kernel_size", "bias": "affine"}
    leader = getattr(module, leaders.get(name, ""), None)
    is_of_conv = hasattr(module, "in_channels")
    return leader is not None and not is_of_conv and value == leader


def _short(value: Any) -> str:
    """The value as people write it: one number for several that are equal."""
    if isinstance(value, tuple) and value and all(one == value[0] for one in value):
        return repr(value[0])
    return repr(value)
