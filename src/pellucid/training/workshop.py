"""Everything that a run works with, made from what its folder says and nothing else.

The same seed gives the same weights, batches and draws, on this machine and with this many threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pellucid.data.sides import Side, Sides
from pellucid.models.neural import NeuralCard, SequenceModel
from pellucid.records import NetworkFacts, Plan
from pellucid.training.batches import Batches, batches_of
from pellucid.training.optimizers import Optimizer, optimizer_for
from pellucid.training.randomness import number


@dataclass(frozen=True)
class Workshop:
    """A network with its batches and its optimizer."""

    card: NeuralCard
    config: Any
    plan: Plan
    sides: Sides
    model: SequenceModel
    batches: Batches
    optimizer: Optimizer
    train_part: Side  # of train, as large as dev, on which the training loss is measured


def workshop(card: NeuralCard, config: Any, plan: Plan, sides: Sides) -> Workshop:
    """Build the network and what it trains with."""
    torch.set_num_threads(plan.threads)
    model = built(card, config, plan.seed)
    return Workshop(
        card,
        config,
        plan,
        sides,
        model,
        batches_of(sides.train, plan.batch, plan.context, plan.seed, by_length=not model.rows_meet),
        optimizer_for(model, plan),
        part_of(sides.train, sides.dev.n_predicted),
    )


def built(card: NeuralCard, config: Any, seed: int) -> SequenceModel:
    """The network with its first weights, which depend on the seed alone. The global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number(seed, 0, "weights"))
        return card.build(config)


def network_facts(card: NeuralCard, config: Any, model: SequenceModel) -> NetworkFacts:
    """The network as the report shows it."""
    import dataclasses

    shapes = tuple((name, tuple(parameter.shape)) for name, parameter in model.named_parameters())
    return NetworkFacts(card.name, card.says, dataclasses.asdict(config), model.n_parameters, shapes)


def part_of(side: Side, n_predicted: int) -> Side:
    """As much of a side as that, spread evenly over it: whole items of a list, or eight stretches of a text.

    >>> part_of(Side(np.array([0, 1, 0, 2, 2, 0, 3, 0, 4, 0]), True), 5).tokens.tolist()
    [0, 1, 0, 3, 0]
    """
    if n_predicted >= side.n_predicted:
        return side
    if not side.has_boundary:
        length = max(2, n_predicted // 8)
        starts = np.linspace(0, len(side.tokens) - length, 8).astype(int)
        return Side(np.concatenate([side.tokens[start : start + length] for start in starts]), False)
    ends = np.flatnonzero(side.tokens == 0)
    every = -(-side.n_predicted // n_predicted)
    items = [side.tokens[ends[i] : ends[i + 1]] for i in range(0, len(ends) - 1, every)]
    return Side(np.concatenate([*items, side.tokens[:1]]), True)
