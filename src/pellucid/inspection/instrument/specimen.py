"""A specimen: someone's module with a batch, and as far as they are known the loss and the optimizer.

Probes work on copies (`copy`), so that the module itself is never trained, never moved and never hooked.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.inspection.instrument.isolation import HOOKS, fixed_rng, isolate, own_inputs, try_or_none
from pellucid.inspection.instrument.nests import main_tensor, map_tensors

LossFunction = Callable[[Any, Any], Tensor]  # what the module put out, and the targets -> one number
TrainStep = Callable[[], object]  # someone's own step of training; what it gives back may be the loss
# Weights are told from fresh ones by how torch draws them: a first loss is judged of fresh ones, a plateau of others.
_DRAWN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
FEWEST_STEPS = 10  # before which nobody could know anything
FEWEST_TO_TELL = 32  # of weights: with these, the largest of a layer as torch draws it is near its bound


@dataclass(frozen=True)
class Specimen:
    """What the doctor is shown: its patient.

    >>> specimen = Specimen(nn.Linear(2, 3), (torch.ones(4, 2),))
    >>> specimen.outputs().shape
    torch.Size([4, 3])
    """

    model: nn.Module
    inputs: tuple[Any, ...]  # what forward is called with; the first dimension of its tensors is the batch
    targets: Any = None  # a tensor, or a nest of them, as the loss takes it
    loss: LossFunction | None = None
    optimizer: torch.optim.Optimizer | None = None
    more: tuple[tuple[tuple[Any, ...], Any], ...] = ()  # further batches: inputs and targets
    is_causal: bool | None = None  # whether it must not see ahead; None: it is not said
    name: str = "the model"
    step: TrainStep | None = None  # their own step of training, of the module itself and of no copy
    keeps_hooks: bool = False  # whether copies have the hooks of its modules, as they must where these change something
    time_axis: int | None = None  # which axis of the inputs is time; None: it is not said
    known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # measured once for all

    def outputs(self) -> Any:
        """What the module puts out for the batch, as it is."""
        return self.model(*self.inputs)

    def main_output(self, inputs: tuple[Any, ...] | None = None, seed: int = 0) -> Tensor | None:
        """The main tensor of what the module puts out, for the batch or for other inputs; for copies alone."""
        return run_module(self.model, self.inputs if inputs is None else inputs, seed)

    @property
    def target(self) -> Tensor | None:
        """The targets where they are one tensor."""
        return self.targets if isinstance(self.targets, Tensor) else None

    @property
    def has_loss(self) -> bool:
        """Whether there is a loss and something to compare with."""
        return self.loss is not None and self.targets is not None

    def loss_of(self, outputs: Any) -> Tensor:
        """The loss of outputs for this batch; for those who know that there is one."""
        assert self.loss is not None, "this specimen has no loss"
        assert self.targets is not None, "this specimen has no targets"
        return self.loss(outputs, self.targets)

    def copy(self, mode: str = "") -> Specimen:
        """The same with a module and inputs of its own, without the optimizer and the step, which move others.

        Hooks of modules stay behind, unless they are kept; those of weights, which change gradients, come along.
        mode: "eval" or "training" to put the copy into; as it is without one.
        """
        model = self._hooked(copy.deepcopy(self.model))
        return replace(
            self,
            model=model.train(mode == "training") if mode else model,
            optimizer=None,
            step=None,
            inputs=own_inputs(self.inputs),
        )

    def copy_with_optimizer(self) -> Specimen:
        """As `copy`, with a copy of the optimizer too, that moves the copy's parameters with the state it has.

        >>> linear = nn.Linear(1, 1)
        >>> both = Specimen(linear, (), optimizer=torch.optim.SGD(linear.parameters(), lr=0.1)).copy_with_optimizer()
        >>> both.optimizer.param_groups[0]["params"][0] is both.model.weight
        True
        """
        model, optimizer = copy.deepcopy((self.model, self.optimizer))
        inputs = own_inputs(self.inputs)
        return replace(self, model=self._hooked(model), optimizer=optimizer, step=None, inputs=inputs)

    def _hooked(self, copied: nn.Module) -> nn.Module:
        """A copy of the module with the hooks that it is to have."""
        _take_tensor_hooks(self.model, copied)
        return copied if self.keeps_hooks else _without_hooks(copied)

    def double(self) -> Specimen:
        """A copy in float64, where rounding can be told from a difference; itself where it runs in no other."""

        def convert() -> Specimen:
            copied = self.copy()
            inputs, targets = map_tensors(_double, (copied.inputs, self.targets))
            double = replace(copied, model=copied.model.double(), inputs=inputs, targets=targets)
            with fixed_rng():
                outputs = double.copy().outputs()
                if double.has_loss:
                    double.loss_of(outputs)
            return double

        return try_or_none(convert) or self

    def batches(self, most: int = 4) -> Iterator[Specimen]:
        """The specimen with its batch, then with each of its further ones."""
        yield self
        for inputs, targets in self.more[: most - 1]:
            yield replace(self, inputs=inputs, targets=targets)

    @property
    def n_rows(self) -> int:
        """Rows of the batch; 0 where no input is a tensor."""
        tensors = [one for one in self.inputs if isinstance(one, Tensor) and one.dim()]
        return len(tensors[0]) if tensors else 0

    @property
    def tokens(self) -> Tensor | None:
        """The first input that holds whole numbers, (batch, time); None where there is none."""
        tables = (one for one in self.inputs if isinstance(one, Tensor) and one.dim() == 2)
        return next((one for one in tables if not one.is_floating_point() and one.dtype is not torch.bool), None)

    @property
    def is_rebuilding(self) -> bool:
        """Whether the targets are one of the inputs, as of an autoencoder."""
        given, targets = [one for one in self.inputs if isinstance(one, Tensor)], self.target
        return targets is not None and any(torch.equal(one.to(targets), targets) for one in given)

    @property
    def held_by_optimizer(self) -> set[int]:
        """The ids of the tensors that the optimizer moves; none without one."""
        groups = [] if self.optimizer is None else self.optimizer.param_groups
        return {id(one) for group in groups for one in group["params"]}


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _take_tensor_hooks(model: nn.Module, copied: nn.Module) -> None:
    """What was hooked to weights, hooked to those of a copy: a copy loses it, and would be told other gradients."""
    for one, other in zip(model.parameters(), copied.parameters(), strict=True):
        for hook in (getattr(one, "_backward_hooks", None) or {}).values():
            if other.requires_grad:
                other.register_hook(hook)  # type: ignore[no-untyped-call]  # torch gives it no types


def _without_hooks(model: nn.Module) -> nn.Module:
    for module in model.modules():
        for name in HOOKS:
            getattr(module, name).clear()
    return model


def run_module(
    model: nn.Module, inputs: tuple[Any, ...], seed: int = 0, *, with_gradients: bool = False
) -> Tensor | None:
    """The main tensor that a module puts out, without its graph; None where it puts out none.

    with_gradients: whether they are on while it runs, for attention may then take another way.

    >>> run_module(nn.Flatten(), (torch.ones(2, 3, 4),)).shape
    torch.Size([2, 12])
    """
    with isolate(seed), torch.set_grad_enabled(with_gradients):
        found = main_tensor(model(*own_inputs(inputs)))
    return None if found is None else found.detach()


def steps_taken(optimizer: torch.optim.Optimizer | None) -> int:
    """How many steps an optimizer remembers; 0 where it remembers none, or does not count, as SGD.

    >>> layer = nn.Linear(2, 1)
    >>> adam = torch.optim.Adam(layer.parameters())
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> before = steps_taken(adam)
    >>> adam.step()
    >>> before, steps_taken(adam)
    (0, 1)
    """
    states = optimizer.state.values() if optimizer is not None else ()
    return max((int(state["step"]) for state in states if "step" in state), default=0)


def is_fresh(specimen: Specimen) -> bool | None:
    """Whether nothing was learned yet; None where it cannot be told.

    Norms are born with ones and zeros, and a step leaves none of them alone. Linear layers and convolutions are drawn
    by torch within a bound that training crosses.

    >>> is_fresh(Specimen(nn.Linear(9, 9), ()))
    True
    """
    if specimen.optimizer is not None and any(specimen.optimizer.state.values()):
        return False
    return _looks_fresh(specimen.model)


def was_trained(specimen: Specimen) -> bool:
    """Whether it was trained for long enough to know something, as far as can be told."""
    steps = steps_taken(specimen.optimizer)
    if steps:
        return steps >= FEWEST_STEPS
    has_memory = specimen.optimizer is not None and any(specimen.optimizer.state.values())
    looks_fresh = _looks_fresh(specimen.model)
    return looks_fresh is False or (has_memory and looks_fresh is None)


def _looks_fresh(model: nn.Module) -> bool | None:
    signs = [sign for module in model.modules() for sign in _signs(module)]
    if any(sign is False for sign in signs):
        return False
    known = sum(sign is True for sign in signs)
    return True if known and known >= len(signs) / 2 else None


def stated(model: nn.Module, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """What a module says of itself under these names, in attributes or in its configuration."""
    for holder in (model, getattr(model, "config", None)):
        for name in names:
            value = try_or_none(partial(getattr, holder, name))
            if value is not None:
                yield name, value


def is_as_drawn(weight: Tensor, fan_in: int) -> bool:
    """Whether a weight looks as torch draws it: within ±1/√fan_in, evenly up to the bound."""
    largest = float(weight.detach().abs().max()) * math.sqrt(fan_in) if weight.numel() else 0.0
    return weight.numel() >= FEWEST_TO_TELL and 0.8 < largest <= 1 + 1e-5


def _signs(module: nn.Module) -> list[bool | None]:
    """Of a part that can tell: fresh, trained, or not known."""
    if isinstance(module, _NORMS):
        weight, bias = module.weight, getattr(module, "bias", None)
        if weight is None or not weight.requires_grad:
            return []
        # The last norm of a residual branch is often begun with zeros.
        is_born_so = bool((weight == 1).all()) or bool((weight == 0).all())
        return [is_born_so and (bias is None or bool((bias == 0).all()))]
    if isinstance(module, _DRAWN) and isinstance(module.weight, Tensor) and module.weight.requires_grad:
        fan_in = module.weight[0].numel()
        # Many draw the weights in their own way, and leave the bias as torch drew it, or begin it with zeros.
        bias = module.bias if module.bias is not None and module.bias.numel() > 1 else None
        is_empty = bias is not None and bool((bias == 0).all())
        is_own = float(module.weight.detach().abs().max()) * math.sqrt(fan_in) > 1.5  # drawn, but not by torch
        is_drawn = is_as_drawn(bias, fan_in) if is_own and bias is not None else is_as_drawn(module.weight, fan_in)
        return [True if is_empty or is_drawn else None]
    return []
