"""What the hooks of one look at one step gather: a sample of every layer's output, and the gradients that came back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from pellucid.inspection.patient import tensor_of

MOST_EXAMPLES, FEWEST_EXAMPLES = 1024, 256  # of one call of one layer: the wider, the fewer
ENOUGH_VALUES = 1 << 14  # of all its units together; copying more would cost more than the step
MOST_CALLS = 8  # of one layer in one step, as where one norm serves twice
_ENOUGH_SCORES = 32  # of a position, to see whether a gradient came to it

_ACTIVATIONS = (
    *(nn.Tanh, nn.Sigmoid, nn.ReLU, nn.GELU, nn.LeakyReLU),
    *(nn.SiLU, nn.ELU, nn.Softplus, nn.Hardtanh),
)
# Those that torch has not are known by their names, whoever wrote them.
_NAMED = ("SquaredReLU",)
_CHANNELS_FIRST = (nn.Conv1d, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)


def is_activation(module: nn.Module) -> bool:
    """Whether a layer bends each number by itself.

    >>> is_activation(nn.ReLU6()), is_activation(nn.Softmax(-1))
    (True, False)
    """
    return isinstance(module, _ACTIVATIONS) or type(module).__name__ in _NAMED


@dataclass
class Call:
    """One time that a layer was called, by a sample of its examples; the tensors are (examples, units)."""

    path: str
    rank: int
    output: Tensor  # the very tensor, to know it again where a block hands on what its last layer put out
    shape: tuple[int, ...]  # of the examples
    rows: Tensor  # which of the examples are in the sample
    which: int  # of the passes through the whole network
    values: Tensor
    inputs: Tensor  # what an activation read; of other layers the values again
    gradients: Tensor | None = None  # None: the loss does not depend on this layer
    passed_on: Tensor | None = None  # the gradient of what an activation read

    def came_back(self, module: nn.Module, gradient: Tensor) -> None:
        self.gradients = _by_unit(gradient, module)[self.rows]

    def went_on(self, module: nn.Module, gradient: Tensor) -> None:
        self.passed_on = _by_unit(gradient, module)[self.rows]


@dataclass
class Gathered:
    """All that was heard during one step. Only what happens with gradients on counts: evaluations are not training."""

    calls: list[Call] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)  # of the network's positions, for each pass
    real: dict[int, Tensor] = field(default_factory=dict)  # for each pass which positions the loss asked about
    norms: dict[str, float] = field(default_factory=dict)  # of each parameter's gradient, before any clipping
    is_deaf: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        """A copy of the model, or a file of it, takes the hooks along. There they must hear and keep nothing."""
        return Gathered, ([], [], {}, {}, True)

    def network_ran(self, module: nn.Module, args: tuple[object, ...], output: object) -> None:
        """A hook of the whole network. Each layer's calls before it belong to this pass."""
        if self.is_deaf:
            return
        scores = tensor_of(output)
        which = len(self.shapes)
        self.shapes.append(tuple(scores.shape[:-1]) if scores is not None else ())
        if scores is not None and scores.requires_grad and scores.dim() > 1:

            def came_back(gradient: Tensor) -> None:
                self.real[which] = (gradient[..., :_ENOUGH_SCORES] != 0).any(-1).reshape(-1)

            scores.register_hook(came_back)  # type: ignore[no-untyped-call]

    def layer_ran(self, path: str, rank: int, module: nn.Module, args: tuple[object, ...], output: object) -> None:
        """A hook of one layer; rank: of two layers with the very same output the lower keeps it."""
        out = tensor_of(output)
        if self.is_deaf or out is None or not torch.is_grad_enabled() or not _has_numbers(out):
            return
        for call in reversed(self.calls):
            if call.output is out:
                if rank < call.rank:
                    call.path, call.rank = path, rank
                return
        if sum(call.path == path for call in self.calls) == MOST_CALLS:
            return
        examples = _by_unit(out.detach(), module)
        rows = sample(*examples.shape)
        # A copy: what is computed in place later does not touch it.
        values = examples[rows]
        call = Call(path, rank, out, _shape_of_examples(out, module), rows, len(self.shapes), values, values)
        self.calls.append(call)
        if out.requires_grad:
            out.register_hook(partial(call.came_back, module))  # type: ignore[no-untyped-call]
        into = args[0] if args else None
        if is_activation(module) and isinstance(into, Tensor) and into.shape == out.shape:
            call.inputs = _by_unit(into.detach(), module)[rows]
            if into.requires_grad:
                into.register_hook(partial(call.went_on, module))  # type: ignore[no-untyped-call]

    def gradient_came(self, path: str, parameter: Tensor) -> None:
        """A hook of one parameter, after its gradient is complete."""
        assert parameter.grad is not None
        gradient = parameter.grad.coalesce().values() if parameter.grad.is_sparse else parameter.grad
        self.norms[path] = torch.linalg.vector_norm(gradient).item()

    def by_layer(self, order: Iterable[str]) -> dict[tuple[str, str], list[Call]]:
        """The calls of each layer that was called, layers in this order, by path and number.

        Where one layer serves several widths, as an activation may, each is a layer of its own: "[0]", "[1]" and so on.
        """
        found: dict[str, dict[int, list[Call]]] = {path: {} for path in order}
        for call in self.calls:
            found[call.path].setdefault(call.values.shape[1], []).append(call)
        return {
            (path, f"[{number}]" if len(widths) > 1 else ""): calls
            for path, widths in found.items()
            for number, calls in enumerate(widths.values())
        }

    def asked(self, call: Call) -> Tensor | None:
        """Which of the call's sampled examples the loss asked about; None: all, or it cannot be told.

        It can be told where a layer's examples are the network's positions, or a whole number for each of them.
        """
        real = self.real.get(call.which)
        if real is None:
            return None
        n, positions = math.prod(call.shape), self.shapes[call.which]
        begins_alike = call.shape[: len(positions)] == positions or call.shape[:1] == (len(real),)
        if n != len(real) and not (begins_alike and n % len(real) == 0):
            return None
        kept = real[call.rows // (n // len(real))]
        return kept if kept.any() and not kept.all() else None


@lru_cache(maxsize=64)
def sample(n: int, units: int) -> Tensor:
    """Which of n examples are looked at, in their order: all of a few, an even draw of many, always the same.

    >>> sample(3, units=100), len(sample(10_000, units=64))
    (tensor([0, 1, 2]), 256)
    """
    most = min(MOST_EXAMPLES, max(FEWEST_EXAMPLES, ENOUGH_VALUES // max(1, units)))
    if n <= most:
        return torch.arange(n)
    # Drawn, not every so many: a stride that meets the length of the rows would see one position alone.
    return torch.randperm(n, generator=torch.Generator().manual_seed(n))[:most].sort().values


def _shape_of_examples(values: Tensor, module: nn.Module) -> tuple[int, ...]:
    """
    >>> _shape_of_examples(torch.zeros(8, 5, 3), nn.Tanh())
    (8, 5)
    >>> _shape_of_examples(torch.zeros(8, 5, 3), nn.Conv1d(1, 5, kernel_size=1))
    (8, 3)
    """
    shape = tuple(values.shape)
    return (shape[0], *shape[2:]) if _has_channels_first(values, module) else shape[: max(1, len(shape) - 1)]


def _by_unit(values: Tensor, module: nn.Module) -> Tensor:
    """The same numbers as (examples, units); those of half precision in single, in which all can be reckoned."""
    if values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    if values.dim() == 1:
        return values[:, None]
    return (values.movedim(1, -1) if _has_channels_first(values, module) else values).flatten(0, -2)


def _has_channels_first(values: Tensor, module: nn.Module) -> bool:
    return values.dim() == 4 or (values.dim() == 3 and isinstance(module, _CHANNELS_FIRST))


def _has_numbers(out: Tensor) -> bool:
    return out.is_floating_point() and out.dim() > 0 and out.numel() > 0
