"""A look inside while the network learns: what each layer puts out, what comes back, how far each weight moves.

A look wraps one step of training and leaves no trace: no weight, gradient or random number differs for it. It costs
about as much as one or two steps, so it is taken rarely: `cadence` keeps all looks of a run within a twentieth of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.nests import main_tensor
from pellucid.inspection.instrument.recording import by_unit, has_channels_first, is_norm
from pellucid.inspection.judgements import MAP_EXAMPLES, flatness, layer_stats, unit_map, weight_stats
from pellucid.records import Health, LayerStats, UnitMap

MOST_LAYERS = 40
MOST_LOOKS = 40
FEWEST_STEPS = 40  # from one look to the next
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

_SILENT = (nn.Dropout, nn.Identity, nn.Flatten, nn.ModuleList, nn.ModuleDict)  # put out what came in, or nothing


def cadence(steps: int) -> int:
    """How many steps from one look to the next, for a run of so many.

    >>> cadence(100), cadence(8000)
    (40, 200)
    """
    return max(FEWEST_STEPS, -(-steps // MOST_LOOKS))


def is_look(step: int, every: int, steps: int) -> bool:
    """Whether this step of a run is looked at: the first, the last, and every so many.

    >>> [step for step in range(1, 101) if is_look(step, every=40, steps=100)]
    [1, 40, 80, 100]
    """
    return step in (1, steps) or step % every == 0


def telling_layers(model: nn.Module, most: int = MOST_LAYERS) -> tuple[dict[str, nn.Module], tuple[str, ...]]:
    """The layers worth a look, from the input up, and the paths of those for which there was no room.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Dropout(), nn.Linear(3, 2))
    >>> list(telling_layers(model)[0])
    ['0', '1', '3']
    >>> telling_layers(model, most=1)
    ({'1': Tanh()}, ('0', '3'))
    """
    named = {path: module for path, module in model.named_modules() if path and not isinstance(module, _SILENT)}
    kept = set(sorted(named, key=lambda path: _rank(named[path]))[:most])  # of equals those nearer the input
    return (
        {path: module for path, module in named.items() if path in kept},
        tuple(path for path in named if path not in kept),
    )


def _rank(module: nn.Module) -> int:
    """The lower, the more a look at it tells."""
    if is_activation(module):
        return 0
    if next(module.children(), None) is not None:
        return 1  # a block, as attention
    return 2 if is_norm(module) else 3


class HealthProbe:
    """Looks at steps of a model's training; `take_looks` gives what it saw.

    Positions that the loss does not ask about (padding) get no gradient at the network's output; that is how they are
    known, and they do not count. `left_out` has the paths of layers that there was no room for.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    >>> probe = HealthProbe(model)
    >>> with probe.watch(step=1):
    ...     model(torch.ones(4, 2)).square().mean().backward()
    >>> [health] = probe.take_looks()
    >>> [(layer.path, layer.kind, layer.width) for layer in health.layers]
    [('0', 'Linear', 3), ('1', 'Tanh', 3), ('2', 'Linear', 2)]
    """

    def __init__(self, model: nn.Module, most_layers: int = MOST_LAYERS) -> None:
        self.model = model
        self.layers, self.left_out = telling_layers(model, most_layers)
        self._looks: list[Health] = []
        self.old_gradients: dict[int, dict[str, tuple[float, float]]] = {}  # of each look, as `StepRecord.first`
        # One place for all looks: new memory for every copy would cost more than the copying.
        self._before = {path: parameter.detach().clone() for path, parameter in model.named_parameters()}

    def take_looks(self) -> list[Health]:
        """The looks since this was last asked."""
        looks, self._looks = self._looks, []
        return looks

    @contextmanager
    def watch(self, step: int, with_maps: bool = False) -> Iterator[None]:
        """Around one step: forward, backward and update. If the step fails, nothing is kept of it."""
        record = StepRecord()
        for path, parameter in self.model.named_parameters():
            self._remember(path, parameter.detach())
        handles = [
            self.model.register_forward_hook(record.network_ran),
            *(
                module.register_forward_hook(partial(record.layer_ran, path, _rank(module)))
                for path, module in self.layers.items()
            ),
            *(
                parameter.register_hook(partial(record.gradient_comes, path, parameter))  # type: ignore[no-untyped-call]
                for path, parameter in self.model.named_parameters()
                if parameter.requires_grad
            ),
            # Not read at the end, where the gradients may have been clipped.
            *(
                parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    partial(record.gradient_came, path)
                )
                for path, parameter in self.model.named_parameters()
                if parameter.requires_grad
            ),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            record.let_go()
        self._looks.append(self._health(step, record, with_maps))
        self.old_gradients[step] = record.first

    def _remember(self, path: str, now: Tensor) -> None:
        """What a parameter is before the step; if its shape or place is not that of the last look, it is a new one."""
        before = self._before.get(path)
        if before is None or (before.shape, before.dtype, before.device) != (now.shape, now.dtype, now.device):
            self._before[path] = now.clone()
        else:
            before.copy_(now)

    @torch.no_grad()
    def _health(self, step: int, record: StepRecord, with_maps: bool) -> Health:
        layers: list[LayerStats] = []
        maps: list[UnitMap] = []
        for (path, which), calls in record.by_layer(self.layers).items():
            values, inputs, gradients, passed_on = _pool_calls(calls, record)
            module, kind = self.layers[path], type(self.layers[path]).__name__
            is_flat = flatness(module)
            flat = is_flat(inputs, values) if is_flat else None
            layers.append(layer_stats(f"{path}{which}", kind, values, gradients, flat))
            if flat is not None and with_maps:
                apart = max(1, len(flat) // MAP_EXAMPLES)  # neighbours are of one item, and alike
                maps.append(unit_map(f"{path}{which}", kind, flat[::apart], passed_on[::apart]))
        weights = tuple(
            weight_stats(path, self._before[path], parameter, record.norms.get(path, 0.0))
            for path, parameter in self.model.named_parameters()
            if parameter.numel() and path in self._before and self._before[path].shape == parameter.shape
        )
        return Health(step, tuple(layers), weights, tuple(maps))


def _pool_calls(calls: list[LayerCall], record: StepRecord) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What all calls of a layer put out, read, got back and passed on, without padding: (examples, units) each."""
    parts: list[tuple[Tensor, ...]] = []
    for call in calls:
        came_back = (call.gradients, call.passed_on)
        one = (call.values, call.inputs, *(torch.zeros_like(call.values) if x is None else x for x in came_back))
        asked = record.asked_examples(call)
        parts.append(one if asked is None else tuple(part[asked] for part in one))
    values, inputs, gradients, passed_on = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
    return values, inputs, gradients, passed_on


def is_activation(module: nn.Module) -> bool:
    """Whether a layer bends each number by itself.

    >>> is_activation(nn.ReLU6()), is_activation(nn.Softmax(-1))
    (True, False)
    """
    return isinstance(module, _ACTIVATIONS) or type(module).__name__ in _NAMED


@dataclass
class LayerCall:
    """One time that a layer was called, by a sample of its examples; the tensors are (examples, units)."""

    path: str
    rank: int
    output: Tensor | None  # the very tensor, to know it again where a block hands on what its last layer put out
    shape: tuple[int, ...]  # of the examples
    rows: Tensor  # which of the examples are in the sample
    which: int  # of the passes through the whole network
    values: Tensor
    inputs: Tensor  # what an activation read; of other layers the values again
    gradients: Tensor | None = None  # None: the loss does not depend on this layer
    passed_on: Tensor | None = None  # the gradient of what an activation read

    def keep_gradient(self, name: str, module: nn.Module, gradient: Tensor) -> None:
        """A hook of what it put out, or read. name: of the field that it is for."""
        setattr(self, name, by_unit(gradient, module)[self.rows])


@dataclass
class StepRecord:
    """All that was heard during one step. Only what happens with gradients on counts: evaluations are not training."""

    calls: list[LayerCall] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)  # of the network's positions, for each pass
    real: dict[int, Tensor] = field(default_factory=dict)  # for each pass which positions the loss asked about
    norms: dict[str, float] = field(default_factory=dict)  # of each parameter's gradient, before any clipping
    is_deaf: bool = False
    # The norm of the first gradient of each parameter with what lay there before, and without; the same twice where
    # that was cleared before one of the backward passes.
    first: dict[str, tuple[float, float]] = field(default_factory=dict)

    def let_go(self) -> None:
        """Outputs have hooks that know the calls: where these knew them for ever, neither would ever be freed."""
        for call in self.calls:
            call.output = None

    def __reduce__(self) -> tuple[object, ...]:
        """A copy of the model, or a file of it, takes the hooks along. There they must hear and keep nothing."""
        return StepRecord, ([], [], {}, {}, True)

    def network_ran(self, module: nn.Module, args: tuple[object, ...], output: object) -> None:
        """A hook of the whole network. Each layer's calls before it belong to this pass."""
        if self.is_deaf:
            return
        scores = main_tensor(output)
        which = len(self.shapes)
        self.shapes.append(tuple(scores.shape[:-1]) if scores is not None else ())
        if scores is not None and scores.requires_grad and scores.dim() > 1:

            def came_back(gradient: Tensor) -> None:
                self.real[which] = (gradient[..., :_ENOUGH_SCORES] != 0).any(-1).reshape(-1)

            scores.register_hook(came_back)  # type: ignore[no-untyped-call]

    def layer_ran(self, path: str, rank: int, module: nn.Module, args: tuple[object, ...], output: object) -> None:
        """A hook of one layer; rank: of two layers with the very same output the lower keeps it."""
        out = main_tensor(output)
        if self.is_deaf or out is None or not torch.is_grad_enabled():
            return
        if not out.is_floating_point() or not out.dim() or not out.numel():
            return
        for call in reversed(self.calls):
            if call.output is out:
                if rank < call.rank:
                    call.path, call.rank = path, rank
                return
        if sum(call.path == path for call in self.calls) == MOST_CALLS:
            return
        examples = by_unit(out.detach(), module)
        rows = sample_examples(*examples.shape)
        # A copy: what is computed in place later does not touch it.
        values = examples[rows]
        call = LayerCall(path, rank, out, _shape_of_examples(out, module), rows, len(self.shapes), values, values)
        self.calls.append(call)
        if out.requires_grad:
            out.register_hook(partial(call.keep_gradient, "gradients", module))  # type: ignore[no-untyped-call]
        into = args[0] if args else None
        if is_activation(module) and isinstance(into, Tensor) and into.shape == out.shape:
            call.inputs = by_unit(into.detach(), module)[rows]
            if into.requires_grad:
                into.register_hook(partial(call.keep_gradient, "passed_on", module))  # type: ignore[no-untyped-call]

    def gradient_comes(self, path: str, parameter: Tensor, gradient: Tensor) -> None:
        """A hook of one parameter, before its gradient is added to what lies there: at its first one, what does?"""
        if self.is_deaf or gradient.is_sparse:
            return
        new = torch.linalg.vector_norm(gradient).item()
        old = parameter.grad
        if old is None or old.is_sparse or not old.any():
            self.first[path] = (new, new)  # cleared, and be it between two passes of one step
        elif path not in self.first:
            self.first[path] = (torch.linalg.vector_norm(old + gradient).item(), new)

    def gradient_came(self, path: str, parameter: Tensor) -> None:
        """A hook of one parameter, after its gradient is complete."""
        assert parameter.grad is not None
        gradient = parameter.grad.coalesce().values() if parameter.grad.is_sparse else parameter.grad
        self.norms[path] = torch.linalg.vector_norm(gradient).item()

    def by_layer(self, order: Iterable[str]) -> dict[tuple[str, str], list[LayerCall]]:
        """The calls of each layer that was called, layers in this order, by path and number.

        Where one layer serves several widths, as an activation may, each is a layer of its own: "[0]", "[1]" and so on.
        """
        found: dict[str, dict[int, list[LayerCall]]] = {path: {} for path in order}
        for call in self.calls:
            found[call.path].setdefault(call.values.shape[1], []).append(call)
        return {
            (path, f"[{number}]" if len(widths) > 1 else ""): calls
            for path, widths in found.items()
            for number, calls in enumerate(widths.values())
        }

    def asked_examples(self, call: LayerCall) -> Tensor | None:
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
def sample_examples(n: int, units: int) -> Tensor:
    """Which of n examples are looked at, in their order: all of a few, an even draw of many, always the same.

    >>> sample_examples(3, units=100), len(sample_examples(10_000, units=64))
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
    return (shape[0], *shape[2:]) if has_channels_first(values, module) else shape[: max(1, len(shape) - 1)]
