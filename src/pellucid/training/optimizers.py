"""How gradients become updates: SGD, AdamW, or Muon for hidden matrices with AdamW for the rest.

What an optimizer remembers is a flat dictionary of tensors by name, so that it can be saved without pickling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.records import Plan
from pellucid.training.muon import Muon, require_like

OPTIMIZERS = ("muon", "adamw", "sgd")
BETAS = (0.9, 0.99)
# With Muon the rates are large and the run is short, so what is remembered must fade sooner.
BETAS_BESIDE_MUON = (0.8, 0.95)

Parameters = Mapping[str, nn.Parameter]


class Rule(Protocol):
    """How some parameters follow their gradients."""

    def step(self, factor: float) -> None:
        """One update with this part of the highest rate."""

    def tensors(self) -> dict[str, Tensor]:
        """All that is remembered between steps, by name; the tensors themselves, not copies."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Remember this instead: what `tensors` gave at another time."""


class Optimizer:
    """Every parameter of a model with the rule that updates it."""

    def __init__(self, parameters: Parameters, rules: Sequence[Rule]) -> None:
        self.parameters, self.rules = parameters, rules

    def zero(self) -> None:
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


class OfTorch:
    """One of torch's own optimizers, whose state is told by the parameters' names.

    remembers: what it keeps for each parameter, once that was updated.
    """

    def __init__(self, parameters: Parameters, optimizer: torch.optim.Optimizer, remembers: Sequence[str]) -> None:
        self.parameters, self.optimizer, self.remembers = parameters, optimizer, remembers
        self.rates = [float(group["lr"]) for group in optimizer.param_groups]

    def step(self, factor: float) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.optimizer.step()

    def tensors(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": self.optimizer.state[parameter][key]
            for name, parameter in self.parameters.items()
            if parameter in self.optimizer.state
            for key in self.remembers
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, parameter in self.parameters.items():
            if not any(f"{name}.{key}" in tensors for key in self.remembers):
                self.optimizer.state.pop(parameter, None)
                continue
            like = {key: torch.zeros(()) if key == "step" else parameter.detach() for key in self.remembers}
            self.optimizer.state[parameter] = {
                key: require_like(tensors, f"{name}.{key}", like[key]).clone() for key in self.remembers
            }


def optimizer_for(model: nn.Module, plan: Plan) -> Optimizer:
    """The optimizer that the plan names, with its highest rates."""
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if plan.optimizer == "sgd":
        return Optimizer(parameters, [_sgd(parameters, plan)])
    if plan.optimizer == "adamw":
        return Optimizer(parameters, [_adamw(parameters, plan, BETAS)])
    if plan.optimizer == "muon":
        hidden = hidden_matrices(model)
        rest = {name: parameter for name, parameter in parameters.items() if name not in hidden}
        muon = Muon(hidden, plan.matrix_learning_rate, plan.weight_decay)
        return Optimizer(parameters, [muon, _adamw(rest, plan, BETAS_BESIDE_MUON)] if rest else [muon])
    raise PellucidError(
        f"there is no optimizer called {quoted(plan.optimizer)}",
        fix=did_you_mean(plan.optimizer, OPTIMIZERS),
    )


def hidden_matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The matrices that take a stream to a stream: neither looked up by tokens, nor the head that scores them.

    >>> model = nn.Sequential()
    >>> model.add_module("embedding", nn.Embedding(5, 3)), model.add_module("hidden", nn.Linear(3, 3))
    (None, None)
    >>> model.add_module("head", nn.Linear(3, 5)), list(hidden_matrices(model))
    (None, ['hidden.weight'])
    """
    looked_up = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
        and parameter.ndim >= 2
        and id(parameter) not in looked_up
        and "head" not in name.split(".")
    }


def _sgd(parameters: Parameters, plan: Plan) -> OfTorch:
    sgd = torch.optim.SGD(_groups(parameters, plan), lr=plan.learning_rate, momentum=plan.momentum, foreach=True)
    return OfTorch(parameters, sgd, ["momentum_buffer"] if plan.momentum else [])


def _adamw(parameters: Parameters, plan: Plan, betas: tuple[float, float]) -> OfTorch:
    adamw = torch.optim.AdamW(_groups(parameters, plan), lr=plan.learning_rate, betas=betas, fused=True)
    return OfTorch(parameters, adamw, ["step", "exp_avg", "exp_avg_sq"])


def _groups(parameters: Parameters, plan: Plan) -> list[dict[str, Any]]:
    """Matrices decay; biases, gains and other single rows do not."""
    matrices = [parameter for parameter in parameters.values() if parameter.ndim >= 2]
    rows = [parameter for parameter in parameters.values() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": plan.weight_decay}, {"params": rows, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
