"""How much of its input one place of a convolution's output can see, by formula and by gradients.

By formula, through every convolution, pooling and padding that was dispatched, whoever called it:

    reach' = reach + (kernel - 1) · dilation · step      step' = step · stride      left' = left - padding · step

By gradients: the places of the input that move the middle of the last output, on inputs drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import fixed_rng, own_inputs
from pellucid.inspection.instrument.recording import InterceptFunctions
from pellucid.inspection.table.trace import DispatchedOp, TensorMemory
from pellucid.records.inspection import ReceptiveField

_POOLS = ("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d", "max_pool2d")
_WINDOWS = tuple(f"{kind}{n}d" for kind in ("conv", "max_pool", "avg_pool") for n in (1, 2, 3))
_DRAWS = 4  # of inputs: a unit that is cut to zero on one is not on all


class FieldAxis(NamedTuple):
    """What a row of places sees along one dimension of the input."""

    reach: int = 1  # of one place
    step: int = 1  # from one place to the next
    left: int = 0  # where the first begins; below 0 in the padding

    def size_seen(self, place: int, size: int) -> int:
        """How much of an input so long one place sees; padding is not the input."""
        begin = self.left + place * self.step
        return max(0, min(size, begin + self.reach) - max(0, begin))


def through(axis: FieldAxis, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> FieldAxis:
    """What is seen through one more window.

    >>> through(through(FieldAxis(), kernel=5), kernel=2, stride=2)
    FieldAxis(reach=6, step=2, left=0)
    """
    return FieldAxis(
        axis.reach + (kernel - 1) * dilation * axis.step, axis.step * stride, axis.left - padding * axis.step
    )


class FieldFollower:
    """Follows what every place sees, through a forward."""

    def __init__(self) -> None:
        self._axes: TensorMemory[tuple[FieldAxis, ...]] = TensorMemory()
        self._last: tuple[FieldAxis, ...] = ()
        self._rank = 0  # of the first window: torch pools a line as a plane of one row
        self.n_windows = 0
        self.is_known = True  # False where something was enlarged: that is no window over the input

    @property
    def last(self) -> tuple[FieldAxis, ...]:
        """What a place of the last window's output sees."""
        return self._last[-self._rank :]

    def see(self, operation: DispatchedOp) -> None:
        if operation.name == "convolution":
            given = operation.arguments
            self.is_known &= not given["transposed"]
            kernel = given["weight"].shape[2:]
            self._window(operation, given["input"], kernel, given["stride"], given["padding"], given["dilation"])
        elif operation.name in _POOLS:
            given = operation.arguments
            kernel = given["kernel_size"]
            stride, padding = given.get("stride") or kernel, given.get("padding", 0)
            self._window(operation, given["self"], kernel, stride, padding, given.get("dilation", 1))
        elif self._axes:
            self._pass_on(operation)

    def _window(
        self, operation: DispatchedOp, tensor: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any
    ) -> None:
        rank = tensor.dim() - 2
        if rank < 1:
            return
        before = (*(FieldAxis() for _ in range(rank)), *(self._axes.get(tensor) or ()))[-rank:]
        sizes = zip(before, *(_each(one, rank) for one in (kernel, stride, padding, dilation)), strict=True)
        self._last = tuple(through(*one) for one in sizes)
        self._rank = self._rank or (1 if rank == 2 and tensor.shape[2] == _each(kernel, rank)[0] == 1 else rank)
        self.n_windows += 1
        for out in operation.made:
            self._axes.put(out, self._last)

    def _pass_on(self, operation: DispatchedOp) -> None:
        known = [axes for tensor in operation.tensors if (axes := self._axes.get(tensor))]
        if not known:
            return
        widest = max(known, key=lambda axes: [axis.reach for axis in axes])
        if operation.name == "constant_pad_nd":
            pads = operation.arguments["pad"]  # of the last dimension first, each before and behind
            shifts = [*pads[::2], *(0 for _ in widest)][: len(widest)][::-1]
            widest = tuple(
                axis._replace(left=axis.left - shift * axis.step) for axis, shift in zip(widest, shifts, strict=True)
            )
        for out in operation.made:
            self._axes.put(out, widest)


def _each(value: Any, rank: int) -> tuple[int, ...]:
    """One number for each dimension, also where one stands for all."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * rank if len(numbers) == 1 else numbers


class MeasuredField(NamedTuple):
    """What moved the middle of an output, along each dimension."""

    reach: tuple[int, ...]  # from the first place of the input that did to the last
    inputs: tuple[int, ...]  # how many places there are
    outputs: tuple[int, ...]


class _Windows:
    """Gives the first window an input of its own, and keeps what the last one made."""

    def __init__(self) -> None:
        self.first: Tensor | None = None
        self.last: Tensor | None = None

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        is_window = getattr(function, "__name__", "") in _WINDOWS
        if is_window and args and self.first is None:
            self.first = torch.randn_like(args[0]).requires_grad_()
            args = (self.first, *args[1:])
        out = function(*args, **named)
        if is_window and isinstance(out, Tensor):
            self.last = out
        return out


def measure_field(model: nn.Module, inputs: tuple[Any, ...]) -> MeasuredField | None:
    """What moves the middle of the last window's output; None where there is no window.

    The module is run as it is when it is used, not as when it is trained: batch norm would mix the examples.

    >>> measure_field(nn.Sequential(nn.Conv1d(1, 2, 3), nn.Conv1d(2, 1, 3)), (torch.zeros(1, 1, 9),))
    MeasuredField(reach=(5,), inputs=(9,), outputs=(5,))
    """
    touched: Tensor | None = None
    inputs_size: tuple[int, ...] = ()
    outputs_size: tuple[int, ...] = ()
    model.eval()
    with fixed_rng(), torch.enable_grad():
        for _ in range(_DRAWS):
            windows = _Windows()
            with InterceptFunctions(windows.call):
                model(*own_inputs(inputs))
            if windows.first is None or windows.last is None or not windows.last.requires_grad:
                return None
            inputs_size, outputs_size = tuple(windows.first.shape[2:]), tuple(windows.last.shape[2:])
            place: tuple[slice | int, ...] = (slice(None), slice(None), *(size // 2 for size in outputs_size))
            (slopes,) = torch.autograd.grad(windows.last[place].sum(), windows.first)
            moved = (slopes != 0).flatten(0, 1).any(0)
            touched = moved if touched is None else touched | moved
    assert touched is not None
    return MeasuredField(_extents(touched), inputs_size, outputs_size)


def _extents(touched: Tensor) -> tuple[int, ...]:
    """From the first to the last touched place, along each dimension."""
    places = touched.nonzero()
    return tuple((places.amax(0) - places.amin(0) + 1).tolist()) if len(places) else (0,) * touched.dim()


def receptive_field(follower: FieldFollower, measured: MeasuredField | None) -> ReceptiveField | None:
    """The field by formula and by gradients; None where there is no window."""
    if not follower.n_windows:
        return None
    by_gradients = measured.reach if measured else None
    if not follower.is_known:
        return ReceptiveField(follower.n_windows, None, (), None, by_gradients)
    axes, middle = follower.last, None
    if measured is not None and len(measured.reach) == len(axes):
        sizes = zip(axes, measured.outputs, measured.inputs, strict=True)
        middle = tuple(axis.size_seen(places // 2, size) for axis, places, size in sizes)
    reach, step = tuple(axis.reach for axis in axes), tuple(axis.step for axis in axes)
    return ReceptiveField(follower.n_windows, reach, step, middle, by_gradients)
