"""What a copy of a module does while it runs: which parts are called with what, and what comes back from the loss.

Activations are recorded as functions of torch, not as modules, so that `F.relu(x)` in someone's forward is seen as well
as `nn.ReLU`. Gradients are asked for, never gathered by `backward`: a loss that reads the specimen's own weights (as a
penalty may) would leave gradients on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.inspection.instrument.isolation import isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.perturbation import is_beyond_rounding, largest_change
from pellucid.inspection.instrument.specimen import Specimen

NORMS = ("BatchNorm", "InstanceNorm", "LayerNorm", "GroupNorm", "RMSNorm", "SyncBatchNorm")
_CHANNELS_FIRST = ("Conv", "BatchNorm", "InstanceNorm", "GroupNorm")


class InterceptFunctions(TorchFunctionMode):
    """While it is entered, every call of a function of torch goes to `handle`, and what that gives takes its place.

    handle: of the function, its arguments and its named arguments.

    >>> two = torch.tensor(2.0)
    >>> with InterceptFunctions(lambda function, args, named: function(*args, **named) + 1):
    ...     five = two.square()
    >>> five
    tensor(5.)
    """

    def __init__(self, handle: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]) -> None:
        super().__init__()
        self._handle = handle

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return self._handle(func, args, dict(kwargs or {}))


class InterceptOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, every operator that torch runs is shown to `see`, below all functions and modules.

    see: of the operator, its arguments, its named arguments and what it made.

    >>> names = []
    >>> with InterceptOperators(lambda operator, args, named, made: names.append(operator_name(operator))):
    ...     _ = nn.Linear(2, 3)(torch.ones(1, 2))
    >>> "addmm" in names
    True
    """

    def __init__(self, see: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._see = see

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would load its whole compiler, for a second and a half, to tell it to leave this alone.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        made = func(*args, **named)
        self._see(func, args, named, made)
        return made


def function_name(function: Callable[..., Any]) -> str:
    """The name of a function of torch without underscores: relu_ is relu, __matmul__ is matmul."""
    return getattr(function, "__name__", "").strip("_")


def operator_name(operator: Any) -> str:
    """The name of an operator without its overload: add.Tensor is add."""
    return str(operator.__name__).split(".")[0]


Key = TypeVar("Key")


@contextmanager
def hook_modules(
    modules: Iterable[tuple[Key, nn.Module]],
    begins: Callable[[Key, nn.Module, tuple[Any, ...], dict[str, Any]], None],
    ends: Callable[[Key, nn.Module, tuple[Any, ...], dict[str, Any], Any], None],
    *,
    is_outermost: bool = False,
    hears_errors: bool = False,
) -> Iterator[None]:
    """While it is entered, every call of these modules is told to `begins` and `ends`, with the key that it has here.

    is_outermost: before the hooks of the user's on the way in, so that theirs are part of the call; without it, what
    `begins` is given is what forward really gets. hears_errors: `ends` is told also where a call raised.

    >>> with hook_modules([("it", layer := nn.Linear(2, 3))], lambda *_: None, lambda key, *_: print(key, "ended")):
    ...     _ = layer(torch.ones(1, 2))
    it ended
    """
    with ExitStack() as hooks:
        for key, module in modules:
            before, after, add = partial(begins, key), partial(ends, key), hooks.enter_context
            add(nn.Module.register_forward_pre_hook(module, before, prepend=is_outermost, with_kwargs=True))
            add(nn.Module.register_forward_hook(module, after, with_kwargs=True, always_call=hears_errors))
        yield


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
    name: str  # by `function_name`
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    given: Tensor | None  # a copy of the first tensor as it was before
    made: Any

    def value_of(self, name: str, place: int, default: Any) -> Any:
        """An argument, whether it came by its name or by its place."""
        return self.named.get(name, self.arguments[place] if len(self.arguments) > place else default)


class Recorder(InterceptFunctions):
    """While it is entered, writes down the calls of a module's parts, and those of functions with these names.

    keeps_copies: tensors of module calls are copied as they are at the call, since one may be changed in place later.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> with Recorder(model, frozenset({"relu"})) as recorder:
    ...     _ = model(torch.ones(4, 2))
    >>> [call.path for call in recorder.modules], [(call.path, call.name) for call in recorder.functions]
    (['0', '1', ''], [('1', 'relu')])
    """

    def __init__(self, model: nn.Module, names: frozenset[str] = frozenset(), keeps_copies: bool = False) -> None:
        super().__init__(self._function_called)
        self.model, self.names, self.keeps_copies = model, names, keeps_copies
        self.modules: list[ModuleCall] = []
        self.functions: list[FunctionCall] = []
        self._running: list[tuple[str, Tensor | None, int]] = []  # path, what was given, and its version
        self._hooks = hook_modules(model.named_modules(), self._begins, self._ends)

    def __enter__(self) -> Recorder:
        self._hooks.__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        super().__exit__(kind, raised, at)  # type: ignore[no-untyped-call]
        self._hooks.__exit__(None, None, None)

    @property
    def running(self) -> str:
        """The path of the part that runs now."""
        return self._running[-1][0] if self._running else ""

    def _function_called(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        name = function_name(function)
        if name not in self.names:
            return function(*args, **named)
        first = next((each for each in (*args, *named.values()) if isinstance(each, Tensor)), None)
        given = None if first is None else first.detach().clone()
        made = function(*args, **named)
        self.functions.append(FunctionCall(self.running, name, function, args, named, given, made))
        return made

    def _begins(self, path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = next((each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), None)
        self._running.append((path, self._copy_if_kept(given), _version(given)))

    def _ends(self, path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        _, given, version = self._running.pop()
        made = main_tensor(output)
        call = ModuleCall(path, module, given, self._copy_if_kept(made), version, _version(made), (args, kwargs))
        self.modules.append(call)
        if made is not None and made.requires_grad and made.is_floating_point():
            made.register_hook(lambda gradient: setattr(call, "gradient", gradient.detach()))  # type: ignore[no-untyped-call]

    def _copy_if_kept(self, tensor: Tensor | None) -> Tensor | None:
        return tensor.detach().clone() if self.keeps_copies and tensor is not None else tensor


def _version(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor._version


@dataclass(frozen=True)
class Recording:
    """One run of a copy, with what its loss gave back where it was asked."""

    outputs: Any
    modules: tuple[ModuleCall, ...]  # in the order in which they ended
    functions: tuple[FunctionCall, ...]
    loss: Tensor | None = None
    gradients: dict[str, Tensor] = field(default_factory=dict)  # without parameters that the loss does not reach

    def maker_of(self, tensor: object) -> nn.Module | None:
        """The innermost part whose last call made this very tensor."""
        return next((call.module for call in reversed(self.modules) if call.is_leaf and call.made is tensor), None)


def record(
    copied: Specimen, names: frozenset[str] = frozenset(), with_loss: bool = False, seed: int = 0
) -> Recording | None:
    """Runs a copy once as it stands, and writes down its calls; None where it does not run. It is hooked meanwhile.

    >>> model, batch = nn.Linear(2, 1), torch.ones(4, 2)
    >>> recording = record(Specimen(model, (batch,), torch.ones(4, 1), nn.MSELoss()), with_loss=True)
    >>> sorted(recording.gradients)
    ['bias', 'weight']
    """

    def run() -> Recording:
        with isolate(seed):
            with Recorder(copied.model, names) as recorder:
                outputs = copied.outputs()
            loss = copied.loss_of(outputs) if with_loss else None
            gradients = {} if loss is None else gradients_of(copied.model, loss)
        return Recording(outputs, tuple(recorder.modules), tuple(recorder.functions), loss, gradients)

    return try_or_none(run)


def gradients_of(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """The loss's gradients by the path of each parameter that it reaches; none is written on the parameters."""
    named = {path: parameter for path, parameter in model.named_parameters() if parameter.requires_grad}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {path: gradient for path, gradient in zip(named, found, strict=True) if gradient is not None}


def activation_slopes(call: FunctionCall) -> Tensor | None:
    """How steep an elementwise function was at each number it was given, by autograd.

    >>> with Recorder(nn.Identity(), frozenset({"relu"})) as recorder:
    ...     _ = torch.tensor([-1.0, 2.0]).relu()
    >>> activation_slopes(recorder.functions[0])
    tensor([0., 1.])
    """
    given = call.given
    if given is None or not given.is_floating_point() or not given.numel() or not call.arguments:
        return None

    def measure() -> Tensor:
        with torch.enable_grad():
            into = given.clone().requires_grad_()
            made = call.function(into.clone(), *call.arguments[1:], **call.named)
            return torch.autograd.grad(made.sum(), into)[0]

    return try_or_none(measure)


def by_unit(values: Tensor, maker: nn.Module | None) -> Tensor:
    """The same numbers as (examples, units): channels where images or convolutions have them, else the last dimension.

    Those of half precision come in single, in which all can be reckoned.

    >>> by_unit(torch.zeros(2, 3, 4, 4), None).shape, by_unit(torch.zeros(2, 5, 3), None).shape
    (torch.Size([32, 3]), torch.Size([10, 3]))
    """
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    if values.dim() < 2:
        return values.reshape(-1, 1)
    return (values.movedim(1, -1) if has_channels_first(values, maker) else values).flatten(0, -2)


def has_channels_first(values: Tensor, maker: nn.Module | None) -> bool:
    """Whether dimension 1 of what a part put out are its units, as of images and convolutions."""
    of_channels = maker is not None and type(maker).__name__.startswith(_CHANNELS_FIRST)
    return values.dim() >= 4 or (values.dim() == 3 and of_channels)


def is_norm(module: nn.Module) -> bool:
    """Whether it is a norm of torch or is called like one."""
    return type(module).__name__.startswith(NORMS) and next(module.children(), None) is None


def parameter_role(owner: nn.Module, parameter: Tensor) -> str:
    """What a parameter of this part is: norm, embedding, matrix or bias."""
    if isinstance(owner, nn.Embedding | nn.EmbeddingBag):
        return "embedding"
    if is_norm(owner):
        return "norm"
    return "matrix" if parameter.dim() >= 2 else "bias"


def part_name(path: str) -> str:
    """How a part is called in a sentence; the whole has no path."""
    return path or "the model"


def owner_name(path: str) -> str:
    """The part that holds a parameter; itself where the whole does."""
    return path.rpartition(".")[0] or path


def first_few(paths: Sequence[str], most: int = 3) -> str:
    """The first few of many, and how many more.

    >>> first_few(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    shown = ", ".join(paths[:most])
    return shown if len(paths) <= most else f"{shown} and {len(paths) - most} more"


def output_part(specimen: Specimen) -> str:
    """The path of the module that makes the main output; "the model" where that is made between modules."""
    recording = record(specimen.copy())
    final = None if recording is None else main_tensor(recording.outputs)
    calls = () if recording is None or final is None else recording.modules
    return next((call.path for call in calls if call.made is final and call.path), "the model")


class Meeting(NamedTuple):
    """Where numbers meet that should not: a part, or what a part does before it calls another."""

    path: str  # "the model" for the whole
    kind: str
    module: nn.Module


def first_meeting(
    model: nn.Module,
    inputs: tuple[Any, ...],
    changed: tuple[Any, ...],
    kept: Callable[[Tensor], Tensor | None],
) -> Meeting | None:
    """The first part in which what must stay moves, for inputs and changed ones; None where it is not seen.

    kept: of a tensor the numbers that must stay, None where that cannot be told of its shape.
    """
    parts = dict(model.named_modules())
    for one, other in zip(_calls_with(model, inputs), _calls_with(model, changed), strict=False):
        if one.path != other.path:
            return None  # the change has led another way, and calls can no longer be compared
        if not _has_moved(one.made, other.made, kept):
            continue
        path, module = one.path, one.module
        if _has_moved(one.given, other.given, kept) and path:
            path = path.rpartition(".")[0]  # it only passes on what its parent did before it was called
            module = parts[path]
        return Meeting(part_name(path), type(module).__name__, module)
    return None


def _calls_with(model: nn.Module, inputs: tuple[Any, ...]) -> list[ModuleCall]:
    with isolate(), torch.no_grad(), Recorder(model, keeps_copies=True) as recorder:
        model(*own_inputs(inputs))
    return recorder.modules


def _has_moved(one: Tensor | None, other: Tensor | None, kept: Callable[[Tensor], Tensor | None]) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return False
    before, after = kept(one), kept(other)
    if before is None or after is None:
        return False
    return is_beyond_rounding(largest_change(before, after), one)
