"""Training beside the recipes of makemore and nanoGPT, in one run: what theirs reaches, and how soon ours does.

    python benchmarks/training.py [--task names|shakespeare] [--data FOLDER] [--quick] [--json]

Both arms are our code, with the same number of blocks, heads and width, so that what is compared is the recipe:

    names        makemore: AdamW at 5e-4, decay 0.01, 32 names padded to the longest of all, 15,000 steps
    shakespeare  nanoGPT's README for a CPU: AdamW from 1e-3 by a cosine, decay 0.1, 12 windows of 64, 2,000 steps

both with learned positions; and ours: Muon with AdamW, rotary positions, items of all lengths together.
The split is the one that each is known by: names 80/10/10 by the lecture's seed, of shakespeare the last tenth. Theirs
keeps its best evaluation, as makemore does; ours is what its last step gave, or the first evaluation that is as good.
A learning rate comes down over the whole of a run, so how soon a loss is reached is asked of a run that is planned to
end there. Its number of steps and its rates were chosen on that same side; a run of minutes learns more with lower
ones. Of names a longer run goes on to a loss that theirs does not reach.

Theirs has torch's fused attention and computes its padding; ours has what it has: attention of its own for short rows,
and no padding. The clock is the CPU time of one thread; the arms take turns, a share of their steps at a time;
evaluations are not timed. A step's time is the median of the turns [lowest..highest]. Memory is by how much a process
of its own grows during ten steps. With --quick every arm makes a tenth of its steps, which shows the cost of a step and
not what is reached. All of it takes about ten minutes on a quiet machine.
"""

import argparse
import itertools
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

# One thread for both arms, before torch is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import nn

from memory import Action, grown_alone
from pellucid.data import Characters
from pellucid.data.prepare import encode_list, encode_text
from pellucid.data.prepare.tokens import Corpus
from pellucid.layers import row_attention
from pellucid.layers.feed_forward import FeedForward
from pellucid.models.catalogue import find_network
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.records import Plan
from pellucid.training.loop import steps
from pellucid.training.optimizers import build_optimizer
from pellucid.training.rng import numpy_rng
from pellucid.training.tasks.batches import Batch, Items, list_items, make_batches
from pellucid.training.tasks.sequences import evaluate_loss
from pellucid.training.tasks.task import Batches

MODEL = find_network("transformer", "list")

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
SHARES = 10  # turns of each arm, and evaluations


class Task(NamedTuple):
    """One corpus, and how long both arms are trained on it."""

    name: str
    file: str
    size: str
    their_steps: int
    our_epochs: float
    our_rates: tuple[float, float]  # of AdamW, and of Muon
    longer: tuple[float, tuple[float, float]] | None  # epochs and rates of a second run of ours
    target: float  # the loss that ours should reach, and
    target_says: str  # where it is from


TASKS = {
    "names": Task(
        "names",
        "names.txt",
        "medium",
        15_000,
        1.4,
        (0.02, 0.03),
        (6.0, (0.02, 0.02)),
        1.96,
        "wanted within 60 s",
    ),
    "shakespeare": Task(
        "shakespeare",
        "shakespeare.txt",
        "large",
        2_000,
        0.1335,
        (0.02, 0.045),
        None,
        1.8982,
        "nanoGPT's own, wanted in a quarter of the recipe's time",
    ),
}


class Point(NamedTuple):
    """The loss on dev after a step, and the CPU seconds until then."""

    step: int
    seconds: float
    dev: float


class PaddedBatches:
    """Items drawn at random, padded to the longest of all: what is saved by length in ours, theirs pays for."""

    def __init__(self, items: Items, batch: int, seed: int) -> None:
        self.items, self.size, self.seed = items, batch, seed
        self.per_epoch = -(-len(items) // batch)
        self.longest = int(np.argmax(items.lengths))

    def batch(self, step: int) -> Batch:
        rows = numpy_rng(self.seed, step, "padded").integers(len(self.items), size=self.size)
        tokens, targets, n_tokens, _ = self.items.collate(np.append(rows, self.longest))
        return Batch(tokens[:-1], targets[:-1], n_tokens - int(self.items.lengths[self.longest]))


class Arm:
    """A network while it is trained by a recipe."""

    def __init__(self, name: str, config: TransformerConfig, batches: Batches, plan: Plan, dev: Corpus) -> None:
        torch.manual_seed(plan.seed)
        self.name, self.plan, self.dev = name, plan, dev
        self.model = Transformer(config)
        if config.positions == "learned":
            begin_as_usual(self.model)
        else:
            self.model.look_back()
        self.steps = steps(self.model, batches, build_optimizer(self.model, plan), plan)
        self.seconds, self.n_tokens = 0.0, 0
        self.points: list[Point] = []

    def go_on(self) -> None:
        """A share of the steps, timed, and an evaluation, which is not."""
        step = self.points[-1].step if self.points else 0
        end = math.ceil(self.plan.steps * (len(self.points) + 1) / SHARES)
        began = time.process_time()
        self.train(end - step)
        self.seconds += time.process_time() - began
        self.points.append(Point(end, self.seconds, evaluate_loss(self.model, self.dev, self.plan.context).nats))

    def train(self, n_steps: int) -> None:
        with as_torch_has_it() if self.name == "theirs" else nullcontext():
            self.n_tokens += sum(step.n_tokens for step in itertools.islice(self.steps, n_steps))

    @property
    def each(self) -> list[float]:
        """Seconds of one step, by turn."""
        ends = [Point(0, 0.0, math.nan), *self.points]
        return [(b.seconds - a.seconds) / (b.step - a.step) for a, b in itertools.pairwise(ends)]

    @property
    def best(self) -> Point:
        return min(self.points, key=lambda point: point.dev)

    def first_at(self, loss: float) -> Point | None:
        return next((point for point in self.points if point.dev <= loss), None)


@contextmanager
def as_torch_has_it() -> Iterator[None]:
    """Inside, attention is torch's own, and padding is computed."""
    limits = dict.fromkeys(("LONGEST_COMPILED", "LONGEST_IN_TORCH"), 0)
    before = {name: getattr(row_attention, name) for name in limits}
    skips = Transformer.skips_padding
    vars(row_attention).update(limits)
    Transformer.skips_padding = property(lambda _: False)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        vars(row_attention).update(before)
        Transformer.skips_padding = skips  # type: ignore[method-assign]


def begin_as_usual(model: Transformer) -> None:
    """GELU, and every matrix from N(0, 0.02), as GPT-2 has and begins them; nothing at zero."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    for module in model.modules():
        if isinstance(module, FeedForward):
            module.activation = nn.GELU()


def sides_of(task: Task, folder: Path) -> tuple[int, int, Corpus, Corpus]:
    """How many tokens there are, the context, train and dev."""
    path = folder / task.file
    if not path.exists():
        sys.exit(f"{task.file} is not in {folder}; give the folder that has it with --data")
    if task.name == "names":
        words = path.read_text(encoding="utf-8").splitlines()
        vocabulary = Characters.of(sorted(set(words)))
        random.Random(42).shuffle(words)
        first, second = int(0.8 * len(words)), int(0.9 * len(words))
        train, dev = (
            Corpus(encode_list(part, vocabulary).tokens, True) for part in (words[:first], words[first:second])
        )
        return len(vocabulary), max(map(len, words)) + 1, train, dev
    text = path.read_text(encoding="utf-8")
    vocabulary = Characters.of(text, has_boundary=False)
    tokens = encode_text(text, vocabulary).tokens
    first = int(0.9 * len(tokens))
    return len(vocabulary), 64, Corpus(tokens[:first], False), Corpus(tokens[first:], False)


def arms_of(task: Task, folder: Path, part: float) -> list[Arm]:
    """Theirs, ours, and the longer run of ours where there is one."""
    vocab_size, context, train, dev = sides_of(task, folder)
    config = TransformerConfig.of_size(task.size, vocab_size, context)
    theirs = TransformerConfig(vocab_size, context, config.width, config.depth, config.n_heads, positions="learned")
    recipe = MODEL.recipe
    is_list = train.has_boundary
    plan = Plan(
        steps=max(SHARES, int(part * task.their_steps)),
        batch_size=32 if is_list else 12,
        context=context,
        optimizer="adamw",
        learning_rate=5e-4 if is_list else 1e-3,
        matrix_learning_rate=0.0,
        momentum=0.0,
        weight_decay=0.01 if is_list else 0.1,
        clip=0.0 if is_list else 1.0,
        warmup=0 if is_list else 100,
        schedule="constant" if is_list else "cosine",
        evaluate_every=1,
        probe_every=1,
        sample_every=1,
        save_every=1,
        threads=1,
        seed=1,
    )
    rows = plan.batch_size
    padded = PaddedBatches(list_items(train), rows, 1) if is_list else make_batches(train, rows, context, 1)
    arms = [Arm("theirs", theirs, padded, plan, dev)]
    runs = [("ours", task.our_epochs, task.our_rates), *([("longer", *task.longer)] if task.longer else [])]
    for name, epochs, (learning_rate, matrix_rate) in runs:
        ours = plan._replace(
            batch_size=recipe.batch_size if is_list else 12,
            optimizer=recipe.optimizer,
            learning_rate=learning_rate,
            matrix_learning_rate=matrix_rate,
            weight_decay=recipe.weight_decay,
            clip=recipe.clip,
            warmup=0,
            schedule=recipe.schedule,
        )
        batches = make_batches(train, ours.batch_size, context, seed=1, by_length=False)
        ours = ours._replace(steps=max(SHARES, int(part * epochs * batches.per_epoch)))
        arms.append(Arm(name, config, batches, ours, dev))
    return arms


def prepare_steps(name: str, folder: Path, place: int) -> Action:
    """Ten steps of one arm, for a process that does nothing else."""
    torch.set_num_threads(1)
    arm = arms_of(TASKS[name], folder, part=0.0)[place]
    return lambda: arm.train(arm.plan.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--task", choices=TASKS, help="one of them; else both")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with names.txt and shakespeare.txt")
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps of every arm")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name in [asked.task] if asked.task else TASKS:
        task = TASKS[name]
        arms = arms_of(task, asked.data, 0.1 if asked.quick else 1.0)
        for _ in range(SHARES):
            for arm in arms:
                arm.go_on()
        found[name] = {arm.name: [point._asdict() for point in arm.points] for arm in arms}
        grown = [grown_alone(prepare_steps, name, asked.data, place) for place in range(2)]
        found[name]["grown"] = {arm.name: n_bytes for arm, n_bytes in zip(arms, grown, strict=False)}
        if not asked.json:
            print_task(task, arms, is_quick=asked.quick)
            print("  memory: {theirs:,} bytes theirs, {ours:,} ours".format_map(found[name]["grown"]))
    if asked.json:
        print(json.dumps(found))


def print_task(task: Task, arms: list[Arm], *, is_quick: bool) -> None:
    theirs, ours, longest = arms[0], arms[1], arms[-1]
    print(f"{task.name}: {ours.model.n_parameters:,} parameters, CPU time of one thread, arms in turns")
    print(f"  {'':8}{'steps':>7}{'ms a step':>22}{'tokens/s':>10}{'seconds':>9}   loss on dev, nats")
    for arm in arms:
        last = arm.points[-1]
        each = f"{statistics.median(arm.each) * 1e3:.1f} [{min(arm.each) * 1e3:.1f}..{max(arm.each) * 1e3:.1f}]"
        row = f"{last.step:>7,}{each:>22}{arm.n_tokens / last.seconds:>10,.0f}{last.seconds:>9.1f}"
        print(f"  {arm.name:8}{row}   {last.dev:.4f}, best {arm.best.dev:.4f} at step {arm.best.step:,}")
    if is_quick:
        print("  a tenth of the steps: the losses are not what the recipes reach")
        return
    equal = ours.first_at(theirs.best.dev)
    if equal:
        times = theirs.best.seconds / equal.seconds
        sooner = f"ours is as good after {equal.seconds:.1f} s, {times:.1f}× sooner"
        print(f"  their best took {theirs.best.seconds:.1f} s; {sooner}")
    else:
        print("  ours did not reach their best")
    reached = longest.first_at(task.target)
    if reached is None:
        print(f"  ours did not reach {task.target:g} ({task.target_says})")
        return
    share = reached.seconds / theirs.seconds
    print(f"  ours reached {task.target:g} ({task.target_says}) after {reached.seconds:.1f} s, {share:.2f} of theirs")


if __name__ == "__main__":
    main()
