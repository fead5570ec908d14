"""What looking inside costs: steps that are looked at beside steps that are not, in turns, in one process.

    python benchmarks/health.py [--looks 30] [--json]

The share of a run is what its looks add at the cadence of a plan, over the time of its steps. The clock is the CPU time
of one thread.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

# One thread, before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from pellucid.data.options import DataOptions
from pellucid.inspection.health import HealthProbe, cadence
from pellucid.models.catalogue import find_network
from pellucid.training.loop import steps
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.tasks import open_task
from pellucid.training.tasks.task import Task
from pellucid.training.trainer import build_training

NETWORKS = ("neural-ngram", "mlp", "gru", "transformer")
STEPS_OF_A_RUN = 3000


class Cost(NamedTuple):
    name: str
    step: float  # median milliseconds
    looked: float
    share: float  # of a run's steps

    def line(self) -> str:
        return f"{self.name:<14}{self.step:>10.2f}{self.looked:>14.2f}{100 * self.share:>14.2f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--looks", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = open_task(DataOptions("names"))
    costs = [cost(name, task, options.looks) for name in NETWORKS]
    if options.json:
        print(json.dumps([one._asdict() for one in costs]))
        return
    print(f"a look every {cadence(STEPS_OF_A_RUN)} steps; medians of {options.looks}, in CPU milliseconds")
    print(f"{'network':<14}{'a step':>10}{'looked at':>14}{'of the run':>16}")
    for one in costs:
        print(one.line())


def cost(name: str, task: Task, n_looks: int) -> Cost:
    """Every second step is looked at."""
    card = find_network(name, "list")
    wishes = TrainOptions(model=name, steps=2 * n_looks + 6, threads=1)
    config, plan = choose_plan(card, task, wishes)
    state = build_training(card, config, plan, task)
    probe = HealthProbe(state.model)

    def watch(step: int) -> AbstractContextManager[None]:
        return probe.watch(step) if step % 2 else nullcontext()

    taken = list(timed(steps(state.model, state.batches, state.optimizer, plan, watch=watch)))[6:]
    looked, plain = (statistics.median(taken[start::2]) for start in (0, 1))
    return Cost(name, 1e3 * plain, 1e3 * looked, (looked - plain) / plain / cadence(STEPS_OF_A_RUN))


def timed(iterator: Iterator[object]) -> Iterator[float]:
    """CPU seconds that each next one took."""
    while True:
        began = time.process_time()
        if next(iterator, None) is None:
            return
        yield time.process_time() - began


if __name__ == "__main__":
    main()
