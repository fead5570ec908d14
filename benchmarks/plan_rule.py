"""Is the plan's choice a good one? Its network beside those of other sizes, batches and rates, in the same time.

    python benchmarks/plan_rule.py --part choose|unseen [--folder FOLDER] [--only NAME,NAME] [--seconds 10]

For each list and text that `own_data.py` knows: the plan of `--minutes` is made and followed for so many seconds, and
then again with one thing changed: the next smaller or larger size, half or twice the batch, half or twice the learning
rate. Each makes as many steps as fit into the same seconds. All seconds are those of the processor, so that other work
on the machine changes little; one thread. A line of JSON for each item, and at the end how far the choice is from the
best of its neighbours.
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from outside import ITEMS, PARTS, Packages
from own_data import ROOT
from pellucid.data.options import DataOptions
from pellucid.models.contracts import SequenceModel
from pellucid.models.settings import SIZES
from pellucid.records import Plan
from pellucid.training import plan as planning
from pellucid.training.loop import steps
from pellucid.training.options import TrainOptions
from pellucid.training.plan import EVALUATED, choose_plan, config_for, measure_pace, with_dropout, with_steps
from pellucid.training.tasks import open_task
from pellucid.training.tasks.sequences import SequenceTask
from pellucid.training.trainer import build_training

LOOKS = 6  # evaluations of each arm; the best one counts, as in a run
LEVEL = 0.005  # nats, within which two arms are called level: two seeds of one differ by about as much
ARMS = ("as planned", "size smaller", "size larger", "batch half", "batch double", "rate half", "rate double")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "own-data", help="as of own_data.py")
    parser.add_argument("--part", choices=("choose", "unseen"), required=True)
    parser.add_argument("--only", default="", metavar="NAME,NAME")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the processor, for each arm")
    parser.add_argument("--arms", default=",".join(ARMS), metavar="NAME,NAME")
    options = parser.parse_args()
    torch.set_num_threads(1)
    setattr(planning, "time", SimpleNamespace(monotonic=time.process_time))  # noqa: B010  # the plan's clock
    packages, rows = Packages(options.folder.resolve()), []
    for name, item in ITEMS.items():
        is_asked = name in options.only.split(",") if options.only else True
        if item.kind not in ("list", "text") or PARTS[name] != options.part or not is_asked:
            continue
        path = item.path(packages.root)
        if not path.exists():
            print(f"{name}: skipped, {path} is not there; own_data.py --make makes it", file=sys.stderr)
            continue
        row = {"name": name, **try_arms(str(path), item.kind, options.seconds, options.arms.split(","))}
        print(json.dumps(row), flush=True)
        rows.append(row)
    print(summary(rows))


def try_arms(path: str, kind: str, seconds: float, arms: list[str]) -> dict[str, Any]:
    task = open_task(DataOptions(path, kind=kind))
    assert isinstance(task, SequenceTask)
    card = task.find_card("transformer")
    counted = min([one.rung.dev for one in task.fit_baselines(None)])
    _ = task._counted(torch.zeros(1, dtype=torch.int64).numpy())  # what is made once is not part of any arm
    # So much that as many seconds are left for steps.
    minutes = (seconds + planning.KEPT_BACK_SECONDS) / 60 / (1 - planning.KEPT_BACK)
    _, chosen = choose_plan(card, task, TrainOptions(minutes=minutes, threads=1))
    found: dict[str, Any] = {"counting": counted, "size": chosen.size, "batch": chosen.batch_size, "dev": {}}
    for arm in arms:
        what, _, how = arm.partition(" ")
        size, plan = chosen.size, chosen
        if what == "size":
            place = SIZES.index(size) + (1 if how == "larger" else -1)
            if not 0 <= place < len(SIZES):
                continue
            size = SIZES[place]
        factor = 2.0 if how == "double" else 0.5
        if what == "batch":
            plan = plan._replace(batch_size=min(task.max_batch_size, max(1, int(factor * plan.batch_size))))
        if what == "rate":
            plan = plan._replace(
                learning_rate=factor * plan.learning_rate, matrix_learning_rate=factor * plan.matrix_learning_rate
            )
        found["dev"][arm] = train_arm(card, task, size, plan, seconds)
    return found


def train_arm(card: Any, task: SequenceTask, size: str, plan: Plan, seconds: float) -> float:
    """The lowest loss on dev, of as many steps as fit, or fewer where the plan has fewer."""
    config = config_for(card, task, size, {})
    pace = measure_pace(build_training(card, config, plan, task), 1.0)
    per_epoch = build_training(card, config, plan, task).batches.per_epoch
    n_steps = max(1, int(seconds / pace.step))
    if plan.available:  # epochs decided, and not the time
        n_steps = min(n_steps, plan.steps)
    config, _ = with_dropout(card, config, n_steps / per_epoch, TrainOptions())
    state = build_training(card, config, plan, task)
    plan = with_steps(plan, n_steps, {})
    state = dataclasses.replace(state, plan=plan)
    model = state.model
    assert isinstance(model, SequenceModel)
    losses = [task.evaluate(model, "dev", EVALUATED // 2).loss]
    for step in steps(model, state.batches, state.optimizer, plan, loss_function=task.loss_function(plan)):
        if step.step == n_steps or step.step % max(1, n_steps // LOOKS) == 0:
            losses.append(task.evaluate(model, "dev", EVALUATED // 2).loss)
    return min(losses)


def summary(rows: list[dict[str, Any]]) -> str:
    """How often each neighbour was better than the plan's choice by more than the noise, and by how much on average."""
    lines = []
    for arm in ARMS[1:]:
        gains = [row["dev"][ARMS[0]] - row["dev"][arm] for row in rows if arm in row["dev"]]
        if gains:
            better, worse = (sum(1 for gain in gains if sign * gain > LEVEL) for sign in (1, -1))
            lines.append(
                f"{arm}: better on {better}, worse on {worse} of {len(gains)}, mean {sum(gains) / len(gains):+.4f}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
