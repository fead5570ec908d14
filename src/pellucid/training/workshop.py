"""Everything that a run works with, made from what its folder says and nothing else.

The same seed gives the same weights, batches and draws, on this machine and with this many threads.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch

from pellucid.models.network import Card, Network
from pellucid.records import NetworkFacts, Plan
from pellucid.training.optimizers import Optimizer, optimizer_for
from pellucid.training.randomness import number
from pellucid.training.task import Batches, Task


@dataclass(frozen=True)
class Workshop:
    """A network with its task, its batches and its optimizer."""

    card: Card
    config: Any
    plan: Plan
    task: Task
    model: Network
    batches: Batches
    optimizer: Optimizer


def workshop(card: Card, config: Any, plan: Plan, task: Task) -> Workshop:
    """Build the network and what it trains with."""
    torch.set_num_threads(plan.threads)
    model = built(card, config, plan.seed)
    batches = task.batches(plan, is_fair=model.rows_meet)
    return Workshop(card, config, plan, task, model, batches, optimizer_for(model, plan))


def built(card: Card, config: Any, seed: int) -> Network:
    """The network with its first weights, which depend on the seed alone. The global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number(seed, 0, "weights"))
        return card.build(config)


def network_facts(card: Card, config: Any, model: Network) -> NetworkFacts:
    """The network as the report shows it."""
    shapes = tuple((name, tuple(parameter.shape)) for name, parameter in model.named_parameters())
    return NetworkFacts(card.name, card.says, dataclasses.asdict(config), model.n_parameters, shapes)
