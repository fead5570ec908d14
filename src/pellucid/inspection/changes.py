"""Small changes to a module or to what it is given, to be tried on a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pellucid.inspection.spelling import rebuilt, spelled


@dataclass
class Trial:
    """A copy of a module and its inputs, on which changes are made."""

    model: nn.Module
    inputs: tuple[Any, ...]
    replacing: list[tuple[str, Callable[..., Any]]] = field(default_factory=list)  # operations, and what stands in


class Change(NamedTuple):
    """One change: what is said of it, and how it is made."""

    says: str
    path: str
    writes: str  # what stands in an expression in place of the module; "" where it cannot be written there
    make: Callable[[Trial], None]
    reason: str = ""
    group: str = ""  # of changes that are the same but for a number, the first that works is enough


def replaced(path: str, module: nn.Module, **arguments: Any) -> Change:
    """Another module of the same kind, with other arguments."""
    return exchanged(path, module, rebuilt(module, **arguments))


def exchanged(path: str, module: nn.Module, other: nn.Module) -> Change:
    """Another module in its place."""

    def make(trial: Trial) -> None:
        set_module(trial, path, other)

    return Change(f"{spelled(other)} in place of {spelled(module)}", path, spelled(other), make)


def before(path: str, says: str, change: Callable[[Any], Any], *, writes: str = "", reason: str = "") -> Change:
    """Something done to what a module is given, before it is."""

    def make(trial: Trial) -> None:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (change(args[0]), *args[1:]) if args else args

        trial.model.get_submodule(path).register_forward_pre_hook(hook)

    return Change(says, path, writes, make, reason)


def flattened(path: str, module: nn.Module, **arguments: Any) -> Change:
    """nn.Flatten() before a module, which may need other arguments then."""
    other = rebuilt(module, **arguments)

    def make(trial: Trial) -> None:
        set_module(trial, path, other)
        before(path, "", lambda x: x.flatten(1)).make(trial)

    says = f"nn.Flatten() before {spelled(module)}" + f", and {spelled(other)} in its place" * bool(arguments)
    return Change(says, path, f"nn.Flatten(), {spelled(other)}", make)


def of_inputs(says: str, change: Callable[[Tensor], Tensor], *, reason: str = "", group: str = "") -> Change:
    """Something done to every tensor that the model is given."""

    def make(trial: Trial) -> None:
        trial.inputs = tuple(change(one) if isinstance(one, Tensor) else one for one in trial.inputs)

    return Change(says, "", "", make, reason, group)


def of_operation(says: str, path: str, name: str, instead: Callable[..., Any]) -> Change:
    """Another operation wherever torch's own of that name raises."""

    def make(trial: Trial) -> None:
        trial.replacing.append((name, instead))

    return Change(says, path, "", make)


class Replacing(TorchFunctionMode):
    """Where an operation raises, what is to stand in its place is asked."""

    def __init__(self, replacing: list[tuple[str, Callable[..., Any]]]) -> None:
        super().__init__()
        self.replacing = dict(replacing)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            instead = self.replacing.get(getattr(func, "__name__", ""))
            if instead is None:
                raise
            return instead(*args, **(kwargs or {}))


def set_module(trial: Trial, path: str, module: nn.Module) -> None:
    """Put a module in the place of the one at that path, and wherever else the same one is held."""
    if not path:
        trial.model = module
        return
    old = trial.model.get_submodule(path)
    for holder in trial.model.modules():
        for name, child in holder._modules.items():
            if child is old:
                holder._modules[name] = module
