"""What a copy of a module does while it runs: which parts are called with what, and what comes back from the loss.

Activations are watched as functions of torch, not as modules, so that `F.relu(x)` in someone's forward is seen as well
as `nn.ReLU`. Gradients are asked for, never gathered by `backward`: a loss that reads the patient's own weights (as a
penalty may) would leave gradients on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from pellucid.inspection.copies import attempt
from pellucid.inspection.patient import Patient, tensor_of, unchanged_randomness

NORMS = ("BatchNorm", "InstanceNorm", "LayerNorm", "GroupNorm", "RMSNorm", "SyncBatchNorm")
_CHANNELS_FIRST = ("Conv", "BatchNorm", "InstanceNorm", "GroupNorm")


@dataclass
class ModuleCall:
    """One time that a part was called. The tensors are the very ones, to know them again where they come next."""

    path: str
    module: nn.Module
    given: Tensor | None
    made: Tensor | None
    given_version: int  # how often it had been changed in place
    made_version: int
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    gradient: Tensor | None = None  # of the loss by what was made; None: it does not come back to it

    @property
    def is_leaf(self) -> bool:
        return next(self.module.children(), None) is None

    def feeds(self, other: ModuleCall) -> bool:
        """Whether the other reads just what this one made, perhaps reshaped, and nothing came between.

        What is made in one memory with as many numbers and the same last dimension is what was made before.
        """
        if self.made is None or other.given is None or self.made_version != other.given_version:
            return False
        made, given = self.made, other.given
        is_same_memory = made.data_ptr() == given.data_ptr() and made.numel() == given.numel() > 0
        return made is given or (is_same_memory and made.shape[-1] == given.shape[-1])


@dataclass
class FunctionCall:
    """One call of a function of torch; path: of the part that called it, "" for the whole."""

    path: str
    name: str  # without underscores: relu_ is relu, __matmul__ is matmul
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    given: Tensor | None  # a copy of the first tensor as it was before
    made: Any

    def value_of(self, name: str, place: int, default: Any) -> Any:
        """An argument, whether it came by its name or by its place."""
        return self.named.get(name, self.arguments[place] if len(self.arguments) > place else default)


@dataclass
class Watch(TorchFunctionMode):
    """While it is entered, writes down the calls of a module's parts, and those of functions with these names.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> with Watch(model, frozenset({"relu"})) as watch:
    ...     _ = model(torch.ones(4, 2))
    >>> [call.path for call in watch.modules], [(call.path, call.name) for call in watch.functions]
    (['0', '1', ''], [('1', 'relu')])
    """

    model: nn.Module
    names: frozenset[str] = frozenset()
    modules: list[ModuleCall] = field(default_factory=list)
    functions: list[FunctionCall] = field(default_factory=list)
    _inside: list[str] = field(default_factory=list)
    _begun: list[tuple[Tensor | None, int]] = field(default_factory=list)
    _handles: list[RemovableHandle] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __enter__(self) -> Watch:
        for path, module in self.model.named_modules():
            self._handles.append(module.register_forward_pre_hook(self._begins(path), with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._ends(path), with_kwargs=True))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        super().__exit__(kind, raised, at)  # type: ignore[no-untyped-call]
        for handle in self._handles:
            handle.remove()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        if name not in self.names:
            return func(*args, **named)
        first = next((each for each in (*args, *named.values()) if isinstance(each, Tensor)), None)
        given = None if first is None else first.detach().clone()
        made = func(*args, **named)
        self.functions.append(FunctionCall(self.here, name, func, args, named, given, made))
        return made

    @property
    def here(self) -> str:
        """The path of the part that runs now."""
        return self._inside[-1] if self._inside else ""

    def _begins(self, path: str) -> Callable[..., None]:
        def begins(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = next((each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), None)
            self._inside.append(path)
            self._begun.append((given, _version(given)))

        return begins

    def _ends(self, path: str) -> Callable[..., None]:
        def ends(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            self._inside.pop()
            given, version = self._begun.pop()
            made = tensor_of(output)
            call = ModuleCall(path, module, given, made, version, _version(made), (args, kwargs))
            self.modules.append(call)
            if made is not None and made.requires_grad and made.is_floating_point():
                made.register_hook(lambda gradient: setattr(call, "gradient", gradient.detach()))  # type: ignore[no-untyped-call]

        return ends


def _version(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor._version


@dataclass(frozen=True)
class Seen:
    """One run of a copy, with what its loss gave back where it was asked."""

    outputs: Any
    modules: tuple[ModuleCall, ...]  # in the order in which they ended
    functions: tuple[FunctionCall, ...]
    loss: Tensor | None = None
    gradients: dict[str, Tensor] = field(default_factory=dict)  # without parameters that the loss does not reach

    def maker_of(self, tensor: object) -> ModuleCall | None:
        """The last call of the innermost part that made this very tensor."""
        return next((call for call in reversed(self.modules) if call.is_leaf and call.made is tensor), None)


def look(copied: Patient, names: frozenset[str] = frozenset(), with_loss: bool = False, seed: int = 0) -> Seen | None:
    """Runs a copy once as it stands, and watches; None where it does not run. It is hooked meanwhile.

    >>> seen = look(Patient(nn.Linear(2, 1), (torch.ones(4, 2),), torch.ones(4, 1), nn.MSELoss()), with_loss=True)
    >>> sorted(seen.gradients)
    ['bias', 'weight']
    """
    return attempt(lambda: _look(copied, names, with_loss, seed))


def _look(copied: Patient, names: frozenset[str], with_loss: bool, seed: int) -> Seen:
    with unchanged_randomness(seed), torch.enable_grad():
        with Watch(copied.model, names) as watch:
            outputs = copied.outputs()
        loss = copied.loss_of(outputs) if with_loss else None
        gradients = {} if loss is None else gradients_of(copied.model, loss)
    return Seen(outputs, tuple(watch.modules), tuple(watch.functions), loss, gradients)


def gradients_of(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """The loss's gradients by the path of each parameter that it reaches; none is written on the parameters."""
    named = {path: parameter for path, parameter in model.named_parameters() if parameter.requires_grad}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {path: gradient for path, gradient in zip(named, found, strict=True) if gradient is not None}


def slopes(call: FunctionCall) -> Tensor | None:
    """How steep an elementwise function was at each number it was given, by autograd.

    >>> with Watch(nn.Identity(), frozenset({"relu"})) as watch:
    ...     _ = torch.tensor([-1.0, 2.0]).relu()
    >>> slopes(watch.functions[0])
    tensor([0., 1.])
    """
    given = call.given
    if given is None or not given.is_floating_point() or not given.numel() or not call.arguments:
        return None

    def measured() -> Tensor:
        with torch.enable_grad():
            into = given.clone().requires_grad_()
            made = call.function(into.clone(), *call.arguments[1:], **call.named)
            return torch.autograd.grad(made.sum(), into)[0]

    return attempt(measured)


def by_unit(values: Tensor, maker: ModuleCall | None) -> Tensor:
    """The same numbers as (examples, units): channels where images or convolutions have them, else the last dimension.

    >>> by_unit(torch.zeros(2, 3, 4, 4), None).shape, by_unit(torch.zeros(2, 5, 3), None).shape
    (torch.Size([32, 3]), torch.Size([10, 3]))
    """
    if values.dim() < 2:
        return values.reshape(-1, 1)
    of_channels = maker is not None and type(maker.module).__name__.startswith(_CHANNELS_FIRST)
    is_first = values.dim() >= 4 or (values.dim() == 3 and of_channels)
    return (values.movedim(1, -1) if is_first else values).flatten(0, -2)


def is_norm(module: nn.Module) -> bool:
    """Whether it is a norm of torch or is called like one."""
    return type(module).__name__.startswith(NORMS) and next(module.children(), None) is None


def place(path: str) -> str:
    """How a part is called in a sentence; the whole has no path."""
    return path or "the model"
