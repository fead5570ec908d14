"""What the other processes of a training do: they wait for what rank 0 says, try what it wants tried, and train.

    PaceTrial   a plan whose pace is to be measured, by all processes together
    Begin       the plan that is trained by, and where the training begins
    Over        rank 0 has written the report

Rank 0 tells each of them to all; whatever it does between two of them, it does alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from pellucid import __version__
from pellucid.records import Evaluation, Plan, Replan
from pellucid.runs import FollowedRun
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import Checkpoint
from pellucid.training.distributed import World, require_equal
from pellucid.training.plan import measure_pace
from pellucid.training.sharding import load_weights, works_in_step
from pellucid.training.shared_data import share_between_processes
from pellucid.training.tasks.baselines import SideResult
from pellucid.training.tasks.task import Task
from pellucid.training.trainer import Trainer, TrainingState, build_training


class PaceTrial(NamedTuple):
    """A plan to be tried for so many seconds."""

    model: str
    config: Any
    plan: Plan
    seconds: float


class Begin(NamedTuple):
    """Where the training begins: after which step, and what was seen before it."""

    model: str
    config: Any
    plan: Plan  # as the network is built
    current: Plan  # as it is now, with its changes on the way
    run: str
    after: int
    evaluations: tuple[Evaluation, ...]
    asked: tuple[Replan, ...]
    has_checkpoint: bool


class Judge(NamedTuple):
    """A side that all look at with the weights that come next, each at its part."""

    side: str


class Over(NamedTuple):
    """The report is written, or there will be none."""


def share_task(world: World, make: Callable[[], Task]) -> Task:
    """The task that rank 0 made, in every process; refused where another machine has other data."""
    task = share_between_processes(world, make)
    if world.is_shared:
        require_equal(world, "data", task.facts.fingerprint)
        require_equal(world, "versions of pellucid", __version__)
    return task


def follow_run(world: World, make: Callable[[], Task], callbacks: Callbacks) -> Path:
    """Do what rank 0 says until the training is over; back: the run's folder."""
    task = share_task(world, make)
    place = Path()
    while True:
        said = world.broadcast(None)
        match said:
            case PaceTrial():
                state = build_training(task.find_card(said.model), said.config, said.plan, task, world)
                measure_pace(state, said.seconds, world)
            case Begin():
                place = Path(said.run)
                state = _begin(world, task, said, None)
                trainer = Trainer(
                    FollowedRun(place), state, callbacks, list(said.evaluations), [], said.asked, world=world
                )
                with callbacks.stop.held(place.name):
                    trainer.train_from(said.after)
            case Judge():
                judge_together(world, trainer.state, said.side, {})
            case Over():
                return place
            case _:
                raise AssertionError(f"rank 0 said {said!r}")


def judge_together(world: World, state: TrainingState, side: str, weights: Mapping[str, Tensor]) -> SideResult:
    """A whole side by all processes, with the weights that rank 0 has: each looks at a part, and all are told all."""
    if world.is_main:
        world.broadcast(Judge(side))
    load_weights(state.model, world.broadcast_tensors(weights))
    network = state.model if works_in_step(state.model) else state.model.for_inference()
    return state.task.evaluate_whole(network, side, world)


def begin_together(world: World, task: Task, begin: Begin, found: Checkpoint | None) -> TrainingState:
    """Rank 0 tells the others where the training begins, and all build it."""
    world.broadcast(begin)
    return _begin(world, task, begin, found)


def _begin(world: World, task: Task, begin: Begin, found: Checkpoint | None) -> TrainingState:
    state = build_training(task.find_card(begin.model), begin.config, begin.plan, task, world)
    if begin.has_checkpoint:
        nothing: Mapping[str, Tensor] = {}
        load_weights(state.model, world.broadcast_tensors(found.model if found else nothing))
        optimizer = world.broadcast_tensors(found.optimizer if found else nothing)
        if optimizer:
            state.optimizer.load(optimizer)
    return dataclasses.replace(state, plan=begin.current)
