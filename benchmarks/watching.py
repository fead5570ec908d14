"""What `pellucid.watch` costs someone's own loop: steps with it beside steps without, in turns, in one process.

    python benchmarks/watching.py [--steps 200] [--json]

The clock is the CPU time of one thread. `median` is that of a watched step over that of one that is not; `all` is the
sum of all watched steps, those that are looked at included, over that of the others.
"""

import argparse
import json
import os
import statistics
import time
from typing import NamedTuple

# One thread, before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.nn import functional

from pellucid.inspection.watch import Watch
from pellucid.models.catalogue import find_network
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer

MODEL = find_network("transformer", "list")

BATCH = 32
CONFIGS = {
    "tiny": MODEL.tiny,
    "0.8 M": TransformerConfig(vocab_size=65, context=64, width=128, depth=4, n_heads=4),
}
WARM_UP = 5  # steps that are not counted


class Cost(NamedTuple):
    name: str
    parameters: int
    step: float  # median milliseconds
    watched: float
    median: float  # ratio of the two
    all: float  # ratio of the sums

    def line(self) -> str:
        times = f"{1e3 * self.step:>10.2f}{1e3 * self.watched:>10.2f}"
        return f"{self.name:<8}{self.parameters:>12,}{times}{self.median:>10.3f}{self.all:>10.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    costs = [cost(name, options.steps) for name in CONFIGS]
    if options.json:
        print(json.dumps([one._asdict() for one in costs]))
        return
    print(f"{options.steps} steps with a watch and as many without, in turns; CPU milliseconds")
    print(f"{'network':<8}{'parameters':>12}{'a step':>10}{'watched':>10}{'median':>10}{'all':>10}")
    for one in costs:
        print(one.line())


def cost(name: str, n_steps: int) -> Cost:
    """Two equal loops, a step of each in turn, one of them watched."""
    plain, watched = Loop(name), Loop(name)
    taken: dict[bool, list[float]] = {False: [], True: []}
    with Watch(watched.model, watched.optimizer):
        for _ in range(n_steps + WARM_UP):
            taken[False].append(plain.step())
            taken[True].append(watched.step())
    without, with_it = (times[WARM_UP:] for times in taken.values())
    medians = statistics.median(without), statistics.median(with_it)
    n_parameters = sum(parameter.numel() for parameter in plain.model.parameters())
    return Cost(name, n_parameters, *medians, medians[1] / medians[0], sum(with_it) / sum(without))


class Loop:
    """A network and its optimizer, as anyone writes them."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        config = CONFIGS[name]
        self.model: nn.Module = Transformer(config)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.tokens: Tensor = torch.randint(config.vocab_size, (BATCH, config.context + 1))

    def step(self) -> float:
        """CPU seconds of one step."""
        began = time.process_time()
        self.optimizer.zero_grad()
        scores = self.model(self.tokens[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), self.tokens[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return time.process_time() - began


if __name__ == "__main__":
    main()
