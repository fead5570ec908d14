"""A look inside while the network learns: what each layer puts out, what comes back, how far each weight moves.

A look wraps one step of training and leaves no trace: no weight, gradient or random number differs for it. It costs
about as much as one or two steps, so it is taken rarely: `cadence` keeps all looks of a run within a twentieth of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from pellucid.inspection.hooks import Call, Gathered, is_activation
from pellucid.inspection.layer_stats import MAP_EXAMPLES, flatness, layer_stats, unit_map, weight_stats
from pellucid.records import Health, LayerStats, UnitMap

MOST_LAYERS = 40
MOST_LOOKS = 40
FEWEST_STEPS = 40  # from one look to the next

_NORMS = ("BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm")
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
    return 2 if type(module).__name__.startswith(_NORMS) else 3


class HealthProbe:
    """Looks at steps of a model's training; `taken` has what it saw.

    Positions that the loss does not ask about (padding) get no gradient at the network's output; that is how they are
    known, and they do not count. `left_out` has the paths of layers that there was no room for.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    >>> probe = HealthProbe(model)
    >>> with probe.watch(step=1):
    ...     model(torch.ones(4, 2)).square().mean().backward()
    >>> [health] = probe.taken()
    >>> [(layer.path, layer.kind, layer.width) for layer in health.layers]
    [('0', 'Linear', 3), ('1', 'Tanh', 3), ('2', 'Linear', 2)]
    """

    def __init__(self, model: nn.Module, most_layers: int = MOST_LAYERS) -> None:
        self.model = model
        self.layers, self.left_out = telling_layers(model, most_layers)
        self._looks: list[Health] = []
        # One place for all looks: new memory for every copy would cost more than the copying.
        self._before = {path: parameter.detach().clone() for path, parameter in model.named_parameters()}

    def taken(self) -> list[Health]:
        """The looks since this was last asked."""
        looks, self._looks = self._looks, []
        return looks

    @contextmanager
    def watch(self, step: int, with_maps: bool = False) -> Iterator[None]:
        """Around one step: forward, backward and update. If the step fails, nothing is kept of it."""
        gathered = Gathered()
        for path, parameter in self.model.named_parameters():
            self._remember(path, parameter.detach())
        handles = [
            self.model.register_forward_hook(gathered.network_ran),
            *(
                module.register_forward_hook(partial(gathered.layer_ran, path, _rank(module)))
                for path, module in self.layers.items()
            ),
            # Not read at the end, where the gradients may have been clipped.
            *(
                parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    partial(gathered.gradient_came, path)
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
        self._looks.append(self._health(step, gathered, with_maps))

    def _remember(self, path: str, now: Tensor) -> None:
        """What a parameter is before the step; if its shape or place is not that of the last look, it is a new one."""
        before = self._before.get(path)
        if before is None or (before.shape, before.dtype, before.device) != (now.shape, now.dtype, now.device):
            self._before[path] = now.clone()
        else:
            before.copy_(now)

    @torch.no_grad()
    def _health(self, step: int, gathered: Gathered, with_maps: bool) -> Health:
        layers: list[LayerStats] = []
        maps: list[UnitMap] = []
        for (path, which), calls in gathered.by_layer(self.layers).items():
            values, inputs, gradients, passed_on = _pooled(calls, gathered)
            module, kind = self.layers[path], type(self.layers[path]).__name__
            is_flat = flatness(module)
            flat = is_flat(inputs, values) if is_flat else None
            layers.append(layer_stats(f"{path}{which}", kind, values, gradients, flat))
            if flat is not None and with_maps:
                apart = max(1, len(flat) // MAP_EXAMPLES)  # neighbours are of one item, and alike
                maps.append(unit_map(f"{path}{which}", kind, flat[::apart], passed_on[::apart]))
        weights = tuple(
            weight_stats(path, self._before[path], parameter, gathered.norms.get(path, 0.0))
            for path, parameter in self.model.named_parameters()
            if parameter.numel() and path in self._before and self._before[path].shape == parameter.shape
        )
        return Health(step, tuple(layers), weights, tuple(maps))


def _pooled(calls: list[Call], gathered: Gathered) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What all calls of a layer put out, read, got back and passed on, without padding: (examples, units) each."""
    parts: list[tuple[Tensor, ...]] = []
    for call in calls:
        nothing = torch.zeros_like(call.values) if call.gradients is None or call.passed_on is None else call.values
        one = (
            call.values,
            call.inputs,
            nothing if call.gradients is None else call.gradients,
            nothing if call.passed_on is None else call.passed_on,
        )
        asked = gathered.asked(call)
        parts.append(one if asked is None else tuple(part[asked] for part in one))
    values, inputs, gradients, passed_on = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
    return values, inputs, gradients, passed_on
