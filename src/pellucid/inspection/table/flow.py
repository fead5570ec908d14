"""What each tensor of a forward was made from: followed through every operation that torch dispatches.

From it come FLOPs by operation, which parameters were read by whom, and how many modules had to wait for one another.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from torch import Tensor

from pellucid.inspection.instrument.specimen import tensors_in
from pellucid.inspection.table.flops import RULES, flops_of, has_no_rule, named_arguments, short_name

Fact = TypeVar("Fact")


class Origin(NamedTuple):
    """How a tensor came to be."""

    depth: int = 0  # modules with parameters that it had to wait for
    stage: tuple[int, int] | None = None  # the last of these: whose parameter it was, and in which call
    owner: int | None = None  # for what is made of parameters alone, as a transposed weight: whose they are


UNKNOWN = Origin()


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


class OpObserver(Protocol):
    """Who looks at operations as they come."""

    def see(self, operation: DispatchedOp) -> None: ...


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
        self._origins: TensorMemory[Origin] = TensorMemory()

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
            observer.see(operation)

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
        latest: Origin | None = None
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
            made = Origin(owner=owner)
        elif owner is None or (owner, self.call) == latest.stage:
            made = latest
        else:
            made = Origin(latest.depth + 1, (owner, self.call))
        self.deepest = max(self.deepest, made.depth)
        for tensor in operation.made:
            self._origins.put(tensor, made)

    def wait(self, inputs: Iterable[Tensor], outputs: Iterable[Tensor], steps: int) -> None:
        """The outputs of this call waited for so many steps after the inputs, as those of a recurrent layer."""
        before = max(((self._origins.get(one) or UNKNOWN).depth for one in inputs), default=0)
        self.deepest = max(self.deepest, before + steps)
        for tensor in outputs:
            self._origins.put(tensor, Origin(before + steps))
