"""One run while it trains: the loop's steps are logged, and now and then it is probed, evaluated, sampled and saved.

Everything is made from the plan: the same seed gives the same weights, batches and draws, on this machine and with this
many threads. Nothing that is logged but the timings depends on the clock, so that a run that was stopped and resumed
leaves the same bytes as one that never was.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from pellucid.inspection.health import HealthProbe, is_look
from pellucid.models.catalogue import NetworkCard
from pellucid.models.contracts import Network, SequenceModel
from pellucid.records import (
    WORTH_GROWING,
    Ending,
    Evaluation,
    Health,
    InitialLoss,
    NetworkFacts,
    Plan,
    Replan,
    SampledAt,
    Step,
    Timing,
)
from pellucid.runs import RunLog
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import delete_old_checkpoints, save_best, save_checkpoint
from pellucid.training.devices import place_for
from pellucid.training.distributed import ALONE, World, noticing_loss
from pellucid.training.engine import Engine
from pellucid.training.loop import steps
from pellucid.training.optimizers import Optimizer, build_optimizer
from pellucid.training.sharding import load_weights, shard_network, whole_tensors
from pellucid.training.stopping import best_evaluation, check_ending
from pellucid.training.tasks.task import Batches, Task

PACED = 3  # evaluations that the pace is told by, and
TOLERATED = 0.06  # of the time, by which it may be missed
LEAST_LEFT, MOST_LONGER = 4, 2  # a part of the steps between two evaluations; times the steps to go
GROWS_FROM, GROWS_BY = 0.6, 2  # of the plan; times its steps


@dataclass(frozen=True)
class TrainingState:
    """A network with its task, its batches and its optimizer."""

    card: NetworkCard
    config: Any
    plan: Plan
    task: Task
    model: Network
    batches: Batches
    optimizer: Optimizer
    engine: Engine


def build_training(card: NetworkCard, config: Any, plan: Plan, task: Task, world: World = ALONE) -> TrainingState:
    """Build the network and what it trains with, on the plan's device. world: processes that all build it together."""
    torch.set_num_threads(plan.threads)
    model = task.build_network(card, config, plan)
    batches = task.make_batches(plan, is_fair=plan.is_fair or model.rows_meet)
    model.to(place_for(plan.device, world.local_rank))
    if world.is_shared and plan.shard:
        shard_network(model)
    optimizer = build_optimizer(model, plan)
    engine = Engine(model, task.loss_function(plan), plan, world, task.batch_weight(plan))
    return TrainingState(card, config, plan, task, model, batches, optimizer, engine)


def network_facts(card: NetworkCard, config: Any, model: Network) -> NetworkFacts:
    """The network as the report shows it."""
    shapes = tuple((name, tuple(parameter.shape)) for name, parameter in model.named_parameters())
    return NetworkFacts(card.name, card.summary, dataclasses.asdict(config), model.n_parameters, shapes)


@dataclass
class Trainer:
    """A run in the hands of the process that trains it.

    Where several processes train together, each has one. They take the same steps and decide by the same numbers; what
    depends on the clock rank 0 decides, and only rank 0 writes.
    """

    writer: RunLog
    state: TrainingState
    callbacks: Callbacks
    evaluations: list[Evaluation]  # so far, by this process and those before it
    timings: list[Timing]  # how long they took
    asked: Sequence[Replan] = ()  # changes of the plan that are to be made; none: it follows the clock, if it has one
    world: World = ALONE
    looks: list[Health] = field(default_factory=list)  # by this process

    def __post_init__(self) -> None:
        self.is_resumed = bool(self.evaluations)

    def train_from(self, after: int) -> Ending:
        """Train from the step after this one to the end, and say why it is the end."""
        self.state.engine.asked_to_stop = self.callbacks.stop.signal_number
        with noticing_loss(self.writer.path.name) if self.world.is_shared else nullcontext():
            return self._train_from(after)

    def _train_from(self, after: int) -> Ending:
        if not self.evaluations:
            self._evaluate(0)
        self.callbacks.on_start(self.start)
        ending = check_ending(self.evaluations, self.state.plan)
        stopwatch = _Stopwatch(self.last_timing)
        while ending is None:
            ending = self._train_on(stopwatch, after)
            after = self.state.plan.replans[-1].step if ending is None else after
        return ending

    @property
    def last_timing(self) -> Timing:
        return self.timings[-1] if self.timings else Timing(0, 0.0, 0.0)

    def _train_on(self, stopwatch: _Stopwatch, after: int) -> Ending | None:
        """Train by the plan as it is to the end, or to where it is changed: then there is no ending yet."""
        plan, ending = self.state.plan, None
        for step in self._steps(after + 1):
            timing = stopwatch.lap(step)
            self.writer.append("metrics", step)
            self.callbacks.on_step(step, timing)
            is_evaluated = step.step == plan.steps or step.step % plan.evaluate_every == 0
            if is_evaluated:
                self._evaluate(step.step)
                self.timings.append(timing)
                self.writer.append("timings", timing)
                ending = check_ending(self.evaluations, plan)
            change = None if ending else self._change_after(step.step, is_evaluated=is_evaluated)
            if change:
                self.writer.append("replans", change)
            if ending or step.step % plan.sample_every == 0:
                self._sample(step.step)
            # Read once: a signal between saving and ending would end unsaved. All processes hear of it with the loss.
            is_asked_to_stop = self.callbacks.stop.is_asked
            if self.world.is_shared:
                self.callbacks.stop.follow(self.state.engine.stop_signal)
                is_asked_to_stop = bool(self.state.engine.stop_signal)
            if ending or step.step % plan.save_every == 0 or is_asked_to_stop:
                self._save(step.step)
            if ending:
                break
            if is_asked_to_stop:
                self.callbacks.stop.raise_if_asked(self.writer.path.name, at=f"step {step.step:,}")
            stopwatch.go_on()
            if change:
                self.state = dataclasses.replace(self.state, plan=plan.changed_by(change))
                self.callbacks.on_replan(self.state.plan)
                return None
        assert ending is not None, "the last step is an end"
        return ending

    def _change_after(self, step: int, *, is_evaluated: bool) -> Replan | None:
        """How the plan is to be changed after this step, if at all."""
        if self.asked:
            return next((change for change in self.asked if change.step == step), None)
        if not is_evaluated:
            return None
        plan = self.state.plan
        change = extend_plan(plan, self.evaluations, self.timings) or follow_clock(plan, self.timings)
        return self.world.broadcast(change)

    @property
    def start(self) -> InitialLoss:
        """The loss before the first step beside what it should have been."""
        found = self.state.task.check_initial_loss(self.evaluations[0].judged, self.state.plan)
        model = self.state.model
        return found._replace(expected=model.expected_first_loss) if isinstance(model, SequenceModel) else found

    def read_health(self) -> tuple[Health, ...]:
        """All that was probed so far, by earlier processes too."""
        if not self.is_resumed:
            return tuple(self.looks)  # what the log gives back, without reading thousands of numbers
        self.writer.flush()
        return self.writer.run.health

    def _steps(self, first: int) -> Iterator[Step]:
        """The loop's steps, some of them looked at."""
        state, plan = self.state, self.state.plan
        probe = HealthProbe(state.model)

        def watch(step: int) -> AbstractContextManager[None]:
            if not is_look(step, plan.probe_every, plan.steps) or plan.shard or not self.world.is_main:
                return nullcontext()
            return probe.watch(step, with_maps=step in (1, plan.steps))

        for step in steps(
            state.model, state.batches, state.optimizer, plan, first=first, watch=watch, engine=state.engine
        ):
            for health in probe.take_looks():
                self._look(health)
            yield step

    def _look(self, health: Health) -> None:
        self.looks.append(health)
        self.writer.append("health", health)
        self.callbacks.on_health(health)

    def _evaluate(self, step: int) -> None:
        state = self.state
        train = state.task.evaluate_for(state.model, "train", state.plan, self.world)
        if state.task.measure.side == "dev":
            dev = state.task.evaluate_for(state.model, "dev", state.plan, self.world)
            evaluation = Evaluation(step, train.loss, dev.loss, dev.metric)
        else:
            evaluation = Evaluation(step, train.loss, math.nan, train.metric)
        self.evaluations.append(evaluation)
        self.writer.append("evaluations", evaluation)
        if best_evaluation(self.evaluations) is evaluation:
            weights = whole_tensors(state.model.state_dict())
            if self.world.is_main:
                save_best(self.writer.path, step, weights)
        self.callbacks.on_evaluation(evaluation)

    def _sample(self, step: int) -> None:
        model = self._model_at_hand()
        if not self.world.is_main:
            return
        sampled = SampledAt(step, self.state.task.preview(model, self.state.plan))
        self.writer.append("samples", sampled)
        self.callbacks.on_samples(sampled)

    def _model_at_hand(self) -> Network:
        """The network as one whole on the CPU, for what is done one token at a time."""
        state = self.state
        if state.plan.device == "cpu" and not (state.plan.shard and self.world.is_shared):
            return state.model
        weights = whole_tensors(state.model.state_dict())
        model = state.task.build_network(state.card, state.config, state.plan)
        if self.world.is_main:
            load_weights(model, weights)
        return model

    def _save(self, step: int) -> None:
        weights, remembered = (
            whole_tensors(one) for one in (self.state.model.state_dict(), self.state.optimizer.tensors())
        )
        if self.world.is_main:
            save_checkpoint(self.writer.path, step, weights, remembered, {})
            delete_old_checkpoints(self.writer.path, keep=set())


def follow_clock(plan: Plan, timings: Sequence[Timing]) -> Replan | None:
    """Another number of steps, where those of the plan would miss its time by more than a little.

    The pace is that of the last evaluations. What a machine does beside the training comes and goes, and a plan is made
    in a moment: with as many steps as the time has room for, the learning rate comes down to its end in time.

    >>> plan = Plan(900, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 45, 5, 5, 5, 1, 1, seconds=90.0)
    >>> follow_clock(plan, [Timing(45, 4.6, 9e3), Timing(90, 9.1, 9e3)])  # as planned, a tenth of a second each
    >>> follow_clock(plan, [Timing(45, 9.0, 4e3), Timing(90, 18.0, 4e3)])
    Replan(step=90, steps=450, why='clock')

    Where epochs and not the time decided how many there are, only those are changed that the time has no room for.
    """
    if not plan.seconds or len(timings) < 2 or timings[-1].step >= plan.steps:
        return None
    last, seconds, each = timings[-1], plan.available or plan.seconds, _seconds_of_step(timings)
    to_go = plan.steps - last.step
    most = to_go if plan.available else MOST_LONGER * to_go
    # So few that the rate would fall off a cliff would be worse than a little late.
    fitting = min(max(int((seconds - last.seconds) / each), plan.evaluate_every // LEAST_LEFT, 1), most)
    is_missed = abs(fitting - to_go) * each > TOLERATED * seconds
    return Replan(last.step, last.step + fitting) if is_missed else None


def extend_plan(plan: Plan, evaluations: Sequence[Evaluation], timings: Sequence[Timing]) -> Replan | None:
    """Twice the steps, where epochs and not the time decided how many there are and dev is still falling.

    It falls where, late in the plan, it is at its best. What was left of the learning rate's way down then takes as
    many steps more, never more than there is time for.

    >>> plan = Plan(300, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 15, 5, 5, 5, 1, 1, seconds=3.0, available=90.0)
    >>> timings = [Timing(165, 1.65, 9e3), Timing(180, 1.8, 9e3)]
    >>> extend_plan(plan, [Evaluation(165, 2.0, 2.0), Evaluation(180, 1.9, 1.9)], timings)
    Replan(step=180, steps=600, why='dev')
    >>> extend_plan(plan, [Evaluation(165, 2.0, 2.0), Evaluation(180, 1.9, 2.1)], timings)
    """
    if not plan.available or len(timings) < 2 or not GROWS_FROM * plan.steps <= timings[-1].step < plan.steps:
        return None
    last, now = evaluations[-1], timings[-1]
    # Where every answer is right already, only how sure it is can still grow.
    if best_evaluation(evaluations) is not last or not math.isfinite(last.dev) or last.metric == 1.0:
        return None
    fitting = int((plan.available - now.seconds) / _seconds_of_step(timings))
    steps = min(GROWS_BY * plan.steps, now.step + fitting)
    return Replan(now.step, steps, "dev") if steps > (1 + WORTH_GROWING) * plan.steps else None


def _seconds_of_step(timings: Sequence[Timing]) -> float:
    """Of the last evaluations, which are in it; above 0."""
    last, before = timings[-1], timings[-min(PACED, len(timings))]
    return max(1e-9, (last.seconds - before.seconds) / max(1, last.step - before.step))


class _Stopwatch:
    """Seconds of the run, those of earlier processes included, and how many tokens a second the steps learn from."""

    def __init__(self, before: Timing) -> None:
        self.before = before
        self.began = self.went_on = time.monotonic()
        self.stepping = 0.0  # seconds inside steps, of this process
        self.n_tokens = 0

    def lap(self, step: Step) -> Timing:
        """After a step."""
        now = time.monotonic()
        self.stepping += now - self.went_on
        self.n_tokens += step.n_tokens
        tokens_per_second = self.n_tokens / max(self.stepping, 1e-9)
        seconds, stepping = self.before.seconds + now - self.began, self.before.stepping + self.stepping
        return Timing(step.step, seconds, tokens_per_second, stepping)

    def go_on(self) -> None:
        """Before the next step."""
        self.went_on = time.monotonic()
