"""The search for a learning rate on someone's data: the network and the plan that `train` would take."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pellucid.models.neural import network_called
from pellucid.records import RateSearch
from pellucid.training.batches import batches_of
from pellucid.training.opening import DataWishes, opened
from pellucid.training.plan import choose_plan
from pellucid.training.rate import N_RATES, search
from pellucid.training.wishes import TrainingWishes
from pellucid.training.workshop import built


def searched(data: DataWishes, wishes: TrainingWishes, seeds: Sequence[int]) -> RateSearch:
    """Sweeps over the rate, one for each seed; nothing is kept of the networks that were trained for it."""
    found = opened(data)
    card = network_called(wishes.model)
    config, plan = choose_plan(card, found.sides, found.context, wishes)
    torch.set_num_threads(plan.threads)
    return search(
        lambda seed: built(card, config, seed),
        # In any order: where items are sorted by length, the losses of batches differ by that alone.
        lambda seed: batches_of(found.sides.train, plan.batch, plan.context, seed, by_length=False),
        plan._replace(steps=N_RATES),
        seeds,
        source=found.facts.said,
        network=f"{card.name} with {plan.optimizer}",
    )
