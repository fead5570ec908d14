"""Names for dimensions, where they can be told: by the kind of a module, and by what a tensor was called before.

A convolution knows its channels, a recurrent layer its time. A name is put on a dimension only if its size agrees: what
a linear layer reads is called batch only where it is as long as the batch, and batch·time where both were folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import nn

from pellucid.inspection.table.trace import TensorFacts, Trace, TracedCall
from pellucid.records.inspection import NamedShape

Names = tuple[str, ...]  # one for each dimension; "" where it cannot be told
_MAYBE_TIME = "time?"  # time, if it is as long as the sequences that came in: patches of an image are not

_SPACE: dict[int, Names] = {1: ("time",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_CHANNELS_FIRST = {f"torch.nn.modules.{name}" for name in ("conv", "pooling", "batchnorm", "instancenorm", "padding")}
_NUMBER_BY_NUMBER = {
    f"torch.nn.modules.{name}" for name in ("activation", "dropout", "normalization", "batchnorm", "instancenorm")
}


class Sizes(NamedTuple):
    """How long the batch and its sequences are; 0 and nothing where it cannot be told."""

    batch: int
    times: frozenset[int]


class Namer:
    """Names the shapes of a trace.

    >>> import torch
    >>> from pellucid.inspection.table.trace import trace_forward
    >>> trace = trace_forward(nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU()), (torch.zeros(4, 2, 9),))
    >>> print(*Namer(trace).outputs(trace.calls[-1]))
    (batch 4, channels 3, time 7)
    """

    def __init__(self, trace: Trace) -> None:
        self._modules = trace.modules
        self._told: dict[int, Names] = {}  # by the token of a tensor
        for call in trace.calls:
            self._learn(call)
        self._given = list(self._named_inputs(trace.calls[0])) if trace.calls else []
        self.sizes = self._measure()

    def inputs(self, call: TracedCall) -> tuple[NamedShape, ...]:
        return tuple(self._name(one) for one in call.inputs)

    def outputs(self, call: TracedCall) -> tuple[NamedShape, ...]:
        return tuple(self._name(one) for one in call.outputs)

    def time_axis(self, shape: Sequence[int]) -> int | None:
        """Which dimension of an input of the whole is time; None where none is, or no input has this shape."""
        return next(
            (names.index("time") for seen, names in self._given if seen.shape == shape and "time" in names), None
        )

    def _learn(self, call: TracedCall) -> None:
        """What the kind of a module says of the tensors that it was given and made, whatever their sizes."""
        module = self._modules[call.module]
        if isinstance(module, nn.RNNBase):  # its states come behind what it reads and makes
            for seen in (*call.inputs[1:], *call.outputs[1:]):
                self._told.setdefault(seen.token, ("layers", "batch", "features") if len(seen.shape) == 3 else ())
        for seen in call.inputs:
            if names := _by_kind(module, len(seen.shape), is_whole=seen.is_whole):
                self._told.setdefault(seen.token, names)
        works_alike = type(module).__module__ in _NUMBER_BY_NUMBER
        for seen in call.outputs:
            if works_alike and call.inputs and call.inputs[0].shape == seen.shape:
                names = self._told.get(call.inputs[0].token, ())
            else:
                names = _by_kind(module, len(seen.shape), is_whole=False)
            if names:
                self._told.setdefault(seen.token, names)

    def _named_inputs(self, whole: TracedCall) -> Iterator[tuple[TensorFacts, Names]]:
        """What comes into the whole: as its modules call it, and where none says more by its rank."""
        are_whole = all(seen.is_whole for seen in whole.inputs)
        for seen in whole.inputs:
            if seen.token != whole.inputs[0].token and len(seen.shape) == 2 and seen.shape[0] == seen.shape[1]:
                yield seen, ("", "")  # beside another input a square is a mask, which no batch has
                continue
            told = self._told.get(seen.token, ())
            if _MAYBE_TIME in told:  # what depends on the length of time cannot tell it
                yield seen, tuple("time" if name == _MAYBE_TIME else name for name in told)
            else:
                yield seen, told or _by_rank(seen, are_tokens=are_whole)

    def _measure(self) -> Sizes:
        """The batch is what all inputs share; time what follows it in tokens, or in sequences of features."""
        named = [pair for seen, names in self._given for pair in zip(names, seen.shape, strict=True)]
        batches = {size for name, size in named if name == "batch"}
        times = frozenset(size for name, size in named if name == "time")
        return Sizes(batches.pop() if len(batches) == 1 else 0, times)

    def _name(self, seen: TensorFacts) -> NamedShape:
        rank = len(seen.shape)
        names = self._told.get(seen.token) or ("batch", _MAYBE_TIME, *("" for _ in seen.shape[2:]))[:rank]
        agreed = (self._agreed_name(name, size) for name, size in zip(names, seen.shape, strict=True))
        return NamedShape(seen.shape, tuple(agreed))

    def _agreed_name(self, name: str, size: int) -> str:
        """The name, if a dimension of this size can be that."""
        batch, times = self.sizes
        if name == "batch" and size != batch:
            return "batch·time" if batch and any(size == batch * time for time in times) else ""
        if name == _MAYBE_TIME:
            return "time" if size in times else ""
        # Where time was shortened, by a stride or a window, it is still time to those who work along it.
        return name


def _by_kind(module: nn.Module, rank: int, is_whole: bool) -> Names:
    """What a module of this kind calls the dimensions of what it reads and makes; nothing where it has no names."""
    if isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        first: Names = ("batch", "time") if module.batch_first else ("time", "batch")
        return (*first, "features") if rank == 3 else ()
    if isinstance(module, nn.Embedding) and is_whole:
        return ("batch", _MAYBE_TIME) if rank == 2 else ()
    if isinstance(module, nn.Flatten):
        return ("batch", "features") if rank == 2 else ()
    if isinstance(module, nn.Linear | nn.LayerNorm | nn.RMSNorm | nn.Embedding):
        known: dict[int, Names] = {1: ("features",), 2: ("batch", "features"), 3: ("batch", _MAYBE_TIME, "features")}
        return known.get(rank, ("batch", *("" for _ in range(rank - 2)), "features"))
    for kind in type(module).__mro__:
        if kind.__module__ in _CHANNELS_FIRST and (found := re.search(r"(\d)d$", kind.__name__)):
            space = _SPACE[int(found[1])]
            if rank == len(space) + 2:
                return ("batch", "channels", *space)
            return ("batch", "features") if "Norm" in kind.__name__ and rank == 2 else ()
    return ()


def _by_rank(seen: TensorFacts, are_tokens: bool) -> Names:
    """What the input of a whole model is taken for where none of its modules says more.

    Whole numbers are tokens where nothing else comes; beside other numbers they may be categories.
    """
    rank = len(seen.shape)
    if rank == 3 and not seen.is_whole:
        return ("batch", "time", "features")
    second = "" if not seen.is_whole else "time" if are_tokens else ""
    return ("batch", second, *("" for _ in range(rank - 2)))[:rank]
