"""One forward, seen: which modules were called in which order, on what shapes, and what each made torch compute.

What each tensor was made from is followed through every operation that torch dispatches. From it come FLOPs by
operation, which parameters were read by whom, and how many modules had to wait for one another.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from types import FrameType, TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.inspection.instrument.isolation import first_line, fixed_rng, own_inputs, without_fused_attention
from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.instrument.recording import InterceptOperators, hook_modules
from pellucid.inspection.table.flops import RULES, flops_of, has_no_rule, named_arguments, short_name

Fact = TypeVar("Fact")


class TensorOrigin(NamedTuple):
    """How a tensor came to be."""

    depth: int = 0  # modules with parameters that it had to wait for
    stage: tuple[int, int] | None = None  # the last of these: whose parameter it was, and in which call
    owner: int | None = None  # for what is made of parameters alone, as a transposed weight: whose they are


UNKNOWN = TensorOrigin()


class TensorMemory(Generic[Fact]):
    """Something known of each living tensor; a tensor that is freed is forgotten."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Tensor], Fact]] = {}
        self.n_put = 0

    def get(self, tensor: Tensor) -> Fact | None:
        known = self._known.get(id(tensor))
        # An address is used again after its tensor was freed, so the address alone proves nothing.
        return known[1] if known is not None and known[0]() is tensor else None

    def put(self, tensor: Tensor, fact: Fact) -> None:
        self._known[id(tensor)] = (weakref.ref(tensor), fact)
        self.n_put += 1

    def __bool__(self) -> bool:
        return bool(self._known)


class DispatchedOp:
    """One operation as it was dispatched."""

    __slots__ = ("_args", "_func", "_kwargs", "made", "name", "out", "tensors")

    def __init__(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        self.name = name
        self.out = out
        self.tensors = tensors_in((args, kwargs)) if kwargs else tensors_in(args)
        self.made = [out] if isinstance(out, Tensor) else tensors_in(out)
        self._func, self._args, self._kwargs = func, args, kwargs

    @property
    def arguments(self) -> dict[str, Any]:
        """Its arguments by their names; made only for those who ask, since few do."""
        return named_arguments(self._func, self._args, self._kwargs)


OpObserver = Callable[[DispatchedOp], None]  # who looks at operations as they come


@dataclass
class Flow:
    """What is known of a forward from the operations that it is shown.

    owners: by the id of a parameter the number of its module.

    >>> import torch
    >>> from pellucid.inspection.instrument.recording import InterceptOperators
    >>> layer = torch.nn.Linear(3, 4)
    >>> flow = Flow(owners={id(layer.weight): 0, id(layer.bias): 0})
    >>> with torch.no_grad(), InterceptOperators(flow.see):
    ...     out = layer(layer(torch.ones(2, 3))[:, :3])
    >>> flow.flops
    96
    """

    owners: Mapping[int, int]
    observers: Sequence[OpObserver] = ()
    call: int = -1  # the call that runs now; set by whoever hooks the modules
    flops: int = 0
    in_calls: dict[int, int] = field(default_factory=dict)  # FLOPs of each call, those of calls inside it left out
    readers: dict[int, int] = field(default_factory=dict)  # by the id of a parameter the first call that read it
    deepest: int = 0
    uncounted: set[str] = field(default_factory=set)  # operations with products that no rule counts

    def __post_init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._origins: TensorMemory[TensorOrigin] = TensorMemory()

    def see(self, operator: Any, args: tuple[Any, ...], named: dict[str, Any], made: Any) -> None:
        """One operation, as torch dispatched it."""
        name = self._names.get(operator)
        if name is None:
            name = self._names[operator] = short_name(operator)
        operation = DispatchedOp(name, operator, args, named, made)
        if name in RULES:
            self._count(operation)
        elif has_no_rule(name):
            self.uncounted.add(name)
        self._follow(operation)
        for observer in self.observers:
            observer(operation)

    def _count(self, operation: DispatchedOp) -> None:
        try:
            flops = flops_of(operation.name, operation.arguments, operation.out)
        except RuntimeError:  # nested tensors have no shape
            self.uncounted.add(operation.name)
            return
        self.flops += flops
        self.in_calls[self.call] = self.in_calls.get(self.call, 0) + flops

    def _follow(self, operation: DispatchedOp) -> None:
        owner: int | None = None
        latest: TensorOrigin | None = None
        for tensor in operation.tensors:
            key = id(tensor)
            if key in self.owners:
                self.readers.setdefault(key, self.call)
                owner = self.owners[key]
                continue
            origin = self._origins.get(tensor) or UNKNOWN
            if origin.owner is not None:
                owner = origin.owner
            elif latest is None or origin.depth > latest.depth:
                latest = origin
        if owner is None and (latest is None or latest is UNKNOWN):
            return  # nothing is known of what it was made from, and so nothing of it
        if latest is None:
            made = TensorOrigin(owner=owner)
        elif owner is None or (owner, self.call) == latest.stage:
            made = latest
        else:
            made = TensorOrigin(latest.depth + 1, (owner, self.call))
        self.deepest = max(self.deepest, made.depth)
        for tensor in operation.made:
            self._origins.put(tensor, made)

    def wait(self, inputs: Iterable[Tensor], outputs: Iterable[Tensor], steps: int) -> None:
        """The outputs of this call waited for so many steps after the inputs, as those of a recurrent layer."""
        before = max(((self._origins.get(one) or UNKNOWN).depth for one in inputs), default=0)
        self.deepest = max(self.deepest, before + steps)
        for tensor in outputs:
            self._origins.put(tensor, TensorOrigin(before + steps))


class TensorFacts(NamedTuple):
    """A tensor that went in or out; two with one token are the same tensor."""

    shape: tuple[int, ...]
    token: int
    n_bytes: int
    is_whole: bool  # holds whole numbers, as tokens do
    is_new: bool = True  # False: it lies in the memory of something that came in


@dataclass
class TracedCall:
    """One time that a module was called."""

    module: int  # its number in the trace
    inputs: tuple[TensorFacts, ...]
    parent: int  # the call that it was made in; -1 for the first
    outputs: tuple[TensorFacts, ...] = ()
    own_flops: int = 0  # by operation, those of calls inside it left out
    flops: int = 0
    raised: BaseException | None = None


@dataclass
class Trace:
    """A whole forward, up to its end or to where it failed."""

    paths: list[str]
    modules: list[nn.Module]
    calls: list[TracedCall] = field(default_factory=list)  # in the order in which they began
    made: dict[int, int] = field(default_factory=dict)  # by the token of what came out, the bytes that are new
    readers: dict[str, str] = field(default_factory=dict)  # of each parameter that was read, the module that did
    depth: int = 0
    uncounted: set[str] = field(default_factory=set)
    outputs: Any = None
    failure: Exception | None = None
    failed_in: int = -1  # the call; -1: it did not fail, or in none
    failed_hook: str = ""  # the name of a hook of the user's that raised

    @classmethod
    def of(cls, model: nn.Module) -> Trace:
        """A forward of this module that has not begun."""
        named = list(nn.Module.named_modules(model))
        return cls([path for path, _ in named], [module for _, module in named])

    @property
    def flops(self) -> int:
        return sum(call.own_flops for call in self.calls)

    @property
    def failed_path(self) -> str:
        return self.paths[self.calls[self.failed_in].module] if self.failed_in >= 0 else ""


class ForwardFailed(PellucidError):
    """The module could not be run. `trace` has what was seen up to there, `__cause__` what was raised."""

    def __init__(self, trace: Trace) -> None:
        assert trace.failure is not None
        kind = type(trace.modules[trace.calls[trace.failed_in].module]).__name__ if trace.calls else "the model"
        hook = f"the hook {trace.failed_hook} of " if trace.failed_hook else ""
        raised = f"{type(trace.failure).__name__}: {first_line(trace.failure)}"
        super().__init__(
            f"{hook}{kind} {trace.failed_path or 'itself'} raised {raised}",
            fix="Take the hook off" if trace.failed_hook else "Give inputs that its forward can run on",
        )
        self.trace = trace


def trace_forward(
    model: nn.Module, inputs: tuple[Any, ...], observers: Sequence[OpObserver] = (), seed: int = 0
) -> Trace:
    """Run one forward without gradients and tell what happened in it; an error is kept in `failure`.

    The module is hooked while it runs, and afterwards is not. What its forward writes on it stays written: give a
    borrowed one.

    >>> trace = trace_forward(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), (torch.ones(4, 2),))
    >>> [(trace.paths[call.module], call.outputs[0].shape, call.flops) for call in trace.calls]
    [('', (4, 3), 48), ('0', (4, 3), 48), ('1', (4, 3), 0)]
    """
    trace = Trace.of(model)
    names: dict[int, str] = {}
    owners: dict[int, int] = {}
    for number, (path, module) in enumerate(zip(trace.paths, trace.modules, strict=True)):
        for name, parameter in module._parameters.items():
            if parameter is not None:
                owners.setdefault(id(parameter), number)
                names.setdefault(id(parameter), f"{path}.{name}" if path else name)
    flow = Flow(owners, observers)
    ours, counting = own_inputs(inputs), InterceptOperators(flow.see)
    with fixed_rng(seed), torch.no_grad(), without_fused_attention(), _listening(trace, flow), counting:
        try:
            trace.outputs = model(*ours)
        except Exception as raised:
            _keep_failure(trace, raised)
    trace.depth, trace.uncounted = flow.deepest, flow.uncounted
    for number, call in enumerate(trace.calls):
        call.own_flops = flow.in_calls.get(number, 0)
    for call in reversed(trace.calls):  # a call comes after the one that it was made in
        call.flops += call.own_flops
        if call.parent >= 0:
            trace.calls[call.parent].flops += call.flops
    for key, number in flow.readers.items():
        reader = trace.paths[trace.calls[number].module] if number >= 0 else ""
        trace.readers[names[key]] = reader
    return trace


class _TensorNumbers(TensorMemory[int]):
    """Numbers tensors, so that one that went out of a module is known where it goes into the next."""

    def facts_of(self, tensor: Tensor, memory: frozenset[int] = frozenset()) -> TensorFacts:
        token = self.get(tensor)
        if token is None:
            token = self.n_put
            self.put(tensor, token)
        n_bytes = tensor.numel() * tensor.element_size()
        is_whole = not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype is not torch.bool
        is_new = not memory or address(tensor) not in memory
        return TensorFacts(tuple(tensor.shape), token, n_bytes, is_whole, is_new)


def address(tensor: Tensor) -> int:
    """Where the memory of a tensor begins, views of it included; 0 where it has none, as on the device "meta"."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse and nested ones have several
        return 0


def _listening(trace: Trace, flow: Flow) -> AbstractContextManager[None]:
    """Hooks on every module: ours come first on the way in and last on the way out, around the user's."""
    numbers = _TensorNumbers()
    # Calls that are not done, the memory they were given, and the error that was being handled when they began.
    running: list[tuple[int, frozenset[int], BaseException | None]] = []

    def begins(number: int, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = tensors_in((args, kwargs))
        memory = frozenset([address(one) for one in given]) - {0}
        trace.calls.append(TracedCall(number, tuple([numbers.facts_of(one) for one in given]), flow.call))
        flow.call = len(trace.calls) - 1
        running.append((flow.call, memory, sys.exception()))

    def ends(number: int, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        which, memory, handled = running.pop()
        call = trace.calls[which]
        flow.call = running[-1][0] if running else -1
        raised = sys.exception()
        if raised is not None and raised is not handled:
            call.raised = raised
            return
        call.outputs = tuple([numbers.facts_of(one, memory) for one in tensors_in(output)])
        for seen in call.outputs:  # whoever ends first made it: those around only hand it on
            trace.made.setdefault(seen.token, seen.n_bytes if seen.is_new else 0)
        if isinstance(module, nn.RNNBase) and args:
            flow.wait(tensors_in(args), tensors_in(output), steps=_length(module, args[0]) * module.num_layers)

    # Also where it raised, since the one around it may catch that, and go on.
    return hook_modules(enumerate(trace.modules), begins, ends, is_outermost=True, hears_errors=True)


def _length(module: nn.RNNBase, sequences: Any) -> int:
    """Steps of the longest of the sequences that a recurrent layer reads."""
    if isinstance(sequences, nn.utils.rnn.PackedSequence):
        return len(sequences.batch_sizes)
    return int(sequences.shape[1] if module.batch_first and sequences.dim() == 3 else sequences.shape[0])


def _keep_failure(trace: Trace, raised: Exception) -> None:
    """It failed in the innermost call that this was raised in, and in a hook of it if that is what torch called."""
    trace.failure = raised
    trace.failed_in = max((number for number, call in enumerate(trace.calls) if call.raised is raised), default=-1)
    if trace.failed_in >= 0:
        module = trace.modules[trace.calls[trace.failed_in].module]
        called = _called_by_torch(raised.__traceback__, module)
        forward = getattr(type(module).forward, "__code__", None)
        if called is not None and called.f_code is not forward:
            trace.failed_hook = called.f_code.co_name


def _called_by_torch(traceback: TracebackType | None, module: nn.Module) -> FrameType | None:
    """What torch's `_call_impl` of this module called when it was raised: the module's forward, or a hook."""
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    called = None
    for frame, inner in pairwise(frames):
        if inner.f_code.co_name == "inner" and inner.f_code.co_filename == frame.f_code.co_filename:
            continue
        if frame.f_code.co_name in ("_call_impl", "inner") and frame.f_locals.get("self") is module:
            called = inner
    return called
