"""Optimizers and learning rate schedules by name: SGD, AdamW, or Muon for hidden matrices with AdamW for the rest.

Adding an optimizer is adding a row to OPTIMIZERS: `--optimizer` offers it, the plan takes its learning rate, and the
contract tests run it. Adding a schedule is adding a row to SCHEDULES: `--schedule` offers it. What an optimizer
remembers is a flat dictionary of tensors by name, so that it is saved without pickling. torch is loaded when one is
built: the names are checked before anything heavy is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from pellucid.errors import PellucidError, require_one_of
from pellucid.records import Plan

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    Parameters = Mapping[str, nn.Parameter]

BETAS = (0.9, 0.99)
# With Muon the rates are large and the run is short, so what is remembered must fade sooner.
BETAS_BESIDE_MUON = (0.8, 0.95)
REMEMBERED = ("step", "exp_avg", "exp_avg_sq")  # by AdamW, of each parameter


class UpdateRule(Protocol):
    """How some parameters follow their gradients."""

    def step(self, factor: float) -> None:
        """One update with this part of the peak learning rate."""

    def tensors(self) -> dict[str, Tensor]:
        """All that is remembered between steps, by name; the tensors themselves, not copies."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Remember this instead: what `tensors` gave at another time."""


@dataclass(frozen=True)
class OptimizerCard:
    """An optimizer as a row of the table: its name, and how it is built for a model and a plan."""

    name: str
    summary: str
    build: Callable[[nn.Module, Plan], Sequence[UpdateRule]]
    learning_rate: float  # the peak, where the network's recipe is for another optimizer
    matrix_learning_rate: float = 0.0  # of hidden matrices, where they have one of their own


class Optimizer:
    """Every trainable parameter of a model with the rule that updates it."""

    def __init__(self, parameters: Parameters, rules: Sequence[UpdateRule]) -> None:
        self.parameters, self.rules = parameters, rules

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def step(self, factor: float) -> None:
        for rule in self.rules:
            rule.step(factor)

    def tensors(self) -> dict[str, Tensor]:
        return {name: tensor for rule in self.rules for name, tensor in rule.tensors().items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for rule in self.rules:
            rule.load(tensors)


class TorchRule:
    """One of torch's own optimizers, whose state is told by the parameters' names.

    remembers: what it keeps for each parameter, once that was updated.
    """

    def __init__(self, parameters: Parameters, optimizer: torch.optim.Optimizer, remembers: Sequence[str]) -> None:
        self.parameters, self.optimizer, self.remembers = parameters, optimizer, remembers
        self.learning_rates = [float(group["lr"]) for group in optimizer.param_groups]

    def step(self, factor: float) -> None:
        for group, learning_rate in zip(self.optimizer.param_groups, self.learning_rates, strict=True):
            group["lr"] = learning_rate * factor
        self.optimizer.step()

    def tensors(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": self.optimizer.state[parameter][key]
            for name, parameter in self.parameters.items()
            if parameter in self.optimizer.state
            for key in self.remembers
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        import torch

        from pellucid.training.sharding import like_shards

        for name, parameter in self.parameters.items():
            if not any(f"{name}.{key}" in tensors for key in self.remembers):
                self.optimizer.state.pop(parameter, None)
                continue
            like = {key: torch.zeros(()) if key == "step" else parameter.detach() for key in self.remembers}
            self.optimizer.state[parameter] = {
                # The number of steps stays on the CPU, where it was made.
                key: like_shards(require_like(tensors, f"{name}.{key}", like[key]), like[key]).clone()
                for key in self.remembers
            }


class FusedAdamW:
    """AdamW by torch's fused kernel itself: the bits of torch.optim.AdamW, without the two seconds that its first use
    takes to load torch's compiler.
    """

    def __init__(self, parameters: Parameters, plan: Plan, betas: tuple[float, float]) -> None:
        self.parameters, self.learning_rate, self.betas = parameters, plan.learning_rate, betas
        names = {parameter: name for name, parameter in parameters.items()}
        self.groups = [
            ({names[parameter]: parameter for parameter in group["params"]}, float(group["weight_decay"]))
            for group in parameter_groups(parameters, plan)
        ]
        self.state: dict[str, dict[str, Tensor]] = {}

    def step(self, factor: float) -> None:
        import torch

        with torch.no_grad():
            for group, weight_decay in self.groups:
                moved = {name: one for name, one in group.items() if one.grad is not None}
                for name, one in moved.items():
                    if name not in self.state:
                        sizes = [torch.zeros_like(one, memory_format=torch.preserve_format) for _ in range(2)]
                        self.state[name] = dict(zip(REMEMBERED, (torch.zeros(()), *sizes), strict=True))
                if not moved:
                    continue
                n_steps, means, squares = ([self.state[name][key] for name in moved] for key in REMEMBERED)
                torch._foreach_add_(n_steps, 1)
                torch._fused_adamw_(
                    list(moved.values()),
                    [one.grad for one in moved.values() if one.grad is not None],
                    means,
                    squares,
                    [],
                    n_steps,
                    lr=self.learning_rate * factor,
                    beta1=self.betas[0],
                    beta2=self.betas[1],
                    weight_decay=weight_decay,
                    eps=1e-8,
                    amsgrad=False,
                    maximize=False,
                )

    def tensors(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": self.state[name][key]
            for name in self.parameters
            if name in self.state
            for key in REMEMBERED
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        import torch

        self.state = {}
        for name, parameter in self.parameters.items():
            if any(f"{name}.{key}" in tensors for key in REMEMBERED):
                like = {key: torch.zeros(()) if key == "step" else parameter.detach() for key in REMEMBERED}
                self.state[name] = {
                    key: require_like(tensors, f"{name}.{key}", like[key]).clone() for key in REMEMBERED
                }


def build_optimizer(model: nn.Module, plan: Plan) -> Optimizer:
    """The optimizer that the plan names, with its peak learning rates."""
    require_one_of("optimizer", plan.optimizer, tuple(OPTIMIZERS))
    return Optimizer(named_trainable(model), OPTIMIZERS[plan.optimizer].build(model, plan))


def require_like(tensors: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    """The tensor of that name, which must have this shape and type."""
    found = tensors.get(name)
    if found is None or found.shape != like.shape or found.dtype != like.dtype:
        came = "is missing" if found is None else f"has shape {tuple(found.shape)} and type {found.dtype}"
        raise PellucidError(
            f"{name} of the optimizer {came}, where {tuple(like.shape)} and {like.dtype} is wanted",
            fix="Resume with the network that the run began with",
        )
    return found


def hidden_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The matrices that take a stream to a stream: neither looked up by tokens, nor the head that scores them.

    >>> from torch import nn
    >>> model = nn.Sequential()
    >>> model.add_module("embedding", nn.Embedding(5, 3)), model.add_module("hidden", nn.Linear(3, 3))
    (None, None)
    >>> model.add_module("head", nn.Linear(3, 5)), list(hidden_matrices(model))
    (None, ['hidden.weight'])
    """
    from torch import nn

    looked_up = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return {
        name: parameter
        for name, parameter in named_trainable(model).items()
        if parameter.ndim >= 2 and id(parameter) not in looked_up and "head" not in name.split(".")
    }


def named_trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _build_muon(model: nn.Module, plan: Plan) -> list[UpdateRule]:
    from pellucid.training.muon import Muon

    hidden = hidden_matrices(model)
    rest = {name: parameter for name, parameter in named_trainable(model).items() if name not in hidden}
    muon = Muon(hidden, plan.matrix_learning_rate, plan.weight_decay)
    return [muon, _adamw(rest, plan, BETAS_BESIDE_MUON)] if rest else [muon]


def _build_adamw(model: nn.Module, plan: Plan) -> list[UpdateRule]:
    return [_adamw(named_trainable(model), plan, BETAS)]


def _build_sgd(model: nn.Module, plan: Plan) -> list[UpdateRule]:
    import torch

    parameters = named_trainable(model)
    sgd = torch.optim.SGD(
        parameter_groups(parameters, plan), lr=plan.learning_rate, momentum=plan.momentum, foreach=True
    )
    return [TorchRule(parameters, sgd, ["momentum_buffer"] if plan.momentum else [])]


def _adamw(parameters: Parameters, plan: Plan, betas: tuple[float, float]) -> UpdateRule:
    if plan.device == "cpu" and not plan.shard:
        return FusedAdamW(parameters, plan, betas)
    import torch

    adamw = torch.optim.AdamW(parameter_groups(parameters, plan), lr=plan.learning_rate, betas=betas, fused=True)
    return TorchRule(parameters, adamw, REMEMBERED)


def parameter_groups(parameters: Parameters, plan: Plan) -> list[dict[str, Any]]:
    """Weight decay is on matrices; biases, gains and other single rows have none."""
    matrices = [parameter for parameter in parameters.values() if parameter.ndim >= 2]
    rows = [parameter for parameter in parameters.values() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": plan.weight_decay}, {"params": rows, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


OPTIMIZERS: Mapping[str, OptimizerCard] = MappingProxyType(
    {
        card.name: card
        for card in (
            OptimizerCard("muon", "Muon for hidden matrices, AdamW for the rest.", _build_muon, 0.01, 0.02),
            OptimizerCard("adamw", "Adam with decoupled weight decay.", _build_adamw, 3e-3),
            OptimizerCard("sgd", "Stochastic gradient descent with momentum.", _build_sgd, 0.1),
        )
    }
)


DROPS = ((0.9, 0.01), (0.6, 0.1))  # "step": after so much of the way, so much of the learning rate

# The part of the peak learning rate, by how much of the way after the warmup is done: from 0 to below 1.
SCHEDULES: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "linear": lambda done: 1 - done,
        "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
        "step": lambda done: next((factor for after, factor in DROPS if done >= after), 1.0),
        "constant": lambda done: 1.0,
    }
)


def planned_rate_factor(plan: Plan, step: int) -> float:
    """The part of the peak learning rate at a step of a plan.

    Where its steps were changed on the way, what was left of the schedule fills what is left of them.

    >>> from pellucid.records import Replan
    >>> plan = Plan(6, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 1, 1, 1, 1, 1, 1)
    >>> [round(planned_rate_factor(plan.changed_by(Replan(2, 4)), step), 3) for step in range(1, 5)]
    [1.0, 0.833, 0.5, 0.167]
    """
    if not plan.replans:
        return learning_rate_factor(step, plan.steps, plan.warmup, plan.schedule)
    first, at, place, end = plan.replans[0].steps, 0, 0.0, plan.replans[0].steps
    for change in plan.replans[1:]:
        if step <= change.step:
            break
        place += (change.step - at) * (first - place) / (end - at)
        at, end = change.step, change.steps
    return learning_rate_factor(place + (step - at) * (first - place) / (end - at), first, plan.warmup, plan.schedule)


def learning_rate_factor(step: float, steps: int, warmup: int, schedule: str) -> float:
    """The part of the peak learning rate at step `step` of `steps`, above 0 and at most 1. The first step is 1.

    A pure function of the step: it warms up, then it follows the schedule.

    >>> [learning_rate_factor(step, steps=6, warmup=2, schedule="linear") for step in range(1, 7)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    >>> [round(learning_rate_factor(step, steps=4, warmup=0, schedule="cosine"), 3) for step in range(1, 5)]
    [1.0, 0.854, 0.5, 0.146]
    """
    require_one_of("schedule", schedule, tuple(SCHEDULES))
    if step <= warmup:
        return step / warmup
    return SCHEDULES[schedule](max(0.0, step - warmup - 1) / max(1, steps - warmup))
