"""What each tensor of a forward was made from: followed through every operation that torch dispatches.

From it come FLOPs by operation, which parameters were read by whom, and how many modules had to wait for one another.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.inspection.operations import RULES, flops_of, has_no_rule, named_arguments, short_name


class Origin(NamedTuple):
    """How a tensor came to be."""

    depth: int = 0  # modules with parameters that it had to wait for
    stage: tuple[int, int] | None = None  # the last of these: whose parameter it was, and in which call
    owner: int | None = None  # for what is made of parameters alone, as a transposed weight: whose they are


UNKNOWN = Origin()


@dataclass
class Operation:
    """One operation as it was dispatched, for those who look at more than its FLOPs."""

    name: str
    given: Mapping[str, Any]
    out: Any
    call: int  # the call of a module that it ran in


class Origins:
    """What is known of each living tensor; a tensor that is freed is forgotten."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Tensor], Origin]] = {}

    def of(self, tensor: Tensor) -> Origin:
        known = self._known.get(id(tensor))
        # An address is used again after its tensor was freed, so the address alone proves nothing.
        return known[1] if known is not None and known[0]() is tensor else UNKNOWN

    def put(self, tensor: Tensor, origin: Origin) -> None:
        self._known[id(tensor)] = (weakref.ref(tensor), origin)


@dataclass
class Flow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation while it is entered. owners: by the id of a parameter the number of its module.

    >>> import torch
    >>> layer = torch.nn.Linear(3, 4)
    >>> flow = Flow(owners={id(layer.weight): 0, id(layer.bias): 0})
    >>> with torch.no_grad(), flow:
    ...     out = layer(layer(torch.ones(2, 3))[:, :3])
    >>> flow.flops
    96
    """

    owners: Mapping[int, int]
    call: int = -1  # the call that runs now; set by whoever hooks the modules
    flops: int = 0
    in_calls: dict[int, int] = field(default_factory=dict)  # FLOPs of each call, those of calls inside it left out
    readers: dict[int, int] = field(default_factory=dict)  # by the id of a parameter the first call that read it
    deepest: int = 0
    uncounted: dict[str, int] = field(default_factory=dict)  # operations with products that no rule counts
    origins: Origins = field(default_factory=Origins)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._names: dict[Any, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = short_name(func)
        if name in RULES:
            self._count(name, named_arguments(func, args, kwargs), out)
        elif has_no_rule(name):
            self.uncounted[name] = self.uncounted.get(name, 0) + 1
        self._follow(args, kwargs, out)
        return out

    def _count(self, name: str, given: Mapping[str, Any], out: Any) -> None:
        flops = flops_of(name, given, out)
        self.flops += flops
        self.in_calls[self.call] = self.in_calls.get(self.call, 0) + flops

    def _follow(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> None:
        owner: int | None = None
        latest: Origin | None = None
        for tensor in (*tensors_in(args), *tensors_in(kwargs.values())):
            key = id(tensor)
            if key in self.owners:
                self.readers.setdefault(key, self.call)
                owner = self.owners[key]
                continue
            origin = self.origins.of(tensor)
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
        for tensor in tensors_in(out):
            self.origins.put(tensor, made)

    def waited(self, inputs: Iterator[Tensor], outputs: Iterator[Tensor], steps: int) -> None:
        """The outputs of this call waited for so many steps after the inputs, as those of a recurrent layer."""
        before = max((self.origins.of(one).depth for one in inputs), default=0)
        self.deepest = max(self.deepest, before + steps)
        for tensor in outputs:
            self.origins.put(tensor, Origin(before + steps))


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor of a value, in order: of tuples, lists, dictionaries and records, also inside one another.

    >>> import torch
    >>> [tuple(one.shape) for one in tensors_in({"a": torch.zeros(2), "b": (None, [torch.zeros(3)])})]
    [(2,), (3,)]
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors_in(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from tensors_in(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for part in fields(value):
            yield from tensors_in(getattr(value, part.name, None))
