"""The search for a learning rate on someone's data: the network and the plan that `train` would take."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pellucid.data import Data
from pellucid.records import RateSearch
from pellucid.training.opening import DataWishes, opened, task_of
from pellucid.training.plan import choose_plan
from pellucid.training.rate import N_RATES, search
from pellucid.training.wishes import TrainingWishes
from pellucid.training.workshop import built


def searched(data: DataWishes, wishes: TrainingWishes, seeds: Sequence[int], *, read: Data | None = None) -> RateSearch:
    """Sweeps over the rate, one for each seed; nothing is kept of the networks that were trained for it.

    read: the data, where they are open already.
    """
    task = task_of(read, data) if read is not None else opened(data)
    card = task.card(wishes.model)
    config, plan = choose_plan(card, task, wishes)
    torch.set_num_threads(plan.threads)
    return search(
        lambda seed: built(card, config, seed),
        # In any order: where items are sorted by length, the losses of batches differ by that alone.
        lambda seed: task.batches(plan._replace(seed=seed), is_fair=True),
        plan._replace(steps=N_RATES),
        seeds,
        source=task.facts.said,
        network=f"{card.name} with {plan.optimizer}",
        ask=task.ask(plan),
    )
