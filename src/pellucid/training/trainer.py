"""One run while it trains: the loop's steps are logged, and now and then it is probed, evaluated, sampled and saved.

Everything is made from the plan: the same seed gives the same weights, batches and draws, on this machine and with this
many threads. Nothing that is logged but the timings depends on the clock, so that a run that was stopped and resumed
leaves the same bytes as one that never was.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from pellucid.inspection.health import HealthProbe, is_look
from pellucid.models.catalogue import NetworkCard
from pellucid.models.contracts import Network, SequenceModel
from pellucid.records import Ending, Evaluation, Health, InitialLoss, NetworkFacts, Plan, SampledAt, Step, Timing
from pellucid.runs import RunWriter
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import delete_old_checkpoints, save_best, save_checkpoint
from pellucid.training.loop import steps
from pellucid.training.optimizers import Optimizer, build_optimizer
from pellucid.training.stopping import best_evaluation, check_ending
from pellucid.training.tasks.task import Batches, Task


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


def build_training(card: NetworkCard, config: Any, plan: Plan, task: Task) -> TrainingState:
    """Build the network and what it trains with."""
    torch.set_num_threads(plan.threads)
    model = task.build_network(card, config, plan)
    batches = task.make_batches(plan, is_fair=model.rows_meet)
    return TrainingState(card, config, plan, task, model, batches, build_optimizer(model, plan))


def network_facts(card: NetworkCard, config: Any, model: Network) -> NetworkFacts:
    """The network as the report shows it."""
    shapes = tuple((name, tuple(parameter.shape)) for name, parameter in model.named_parameters())
    return NetworkFacts(card.name, card.summary, dataclasses.asdict(config), model.n_parameters, shapes)


@dataclass
class Trainer:
    """A run in the hands of the process that trains it."""

    writer: RunWriter
    state: TrainingState
    callbacks: Callbacks
    evaluations: list[Evaluation]  # so far, by this process and those before it
    last_timing: Timing  # how long they took

    def train_from(self, after: int) -> Ending:
        """Train from the step after this one to the end, and say why it is the end."""
        plan = self.state.plan
        if not self.evaluations:
            self._evaluate(0)
        self.callbacks.on_start(self.start)
        ending = check_ending(self.evaluations, plan)
        stopwatch = _Stopwatch(self.last_timing)
        for step in self._steps(after + 1) if ending is None else ():
            self.last_timing = stopwatch.lap(step)
            self.writer.append("metrics", step)
            self.callbacks.on_step(step, self.last_timing)
            is_last = step.step == plan.steps
            if is_last or step.step % plan.evaluate_every == 0:
                self._evaluate(step.step)
                self.writer.append("timings", self.last_timing)
                ending = check_ending(self.evaluations, plan)
            if ending or step.step % plan.sample_every == 0:
                self._sample(step.step)
            # Read once: a signal between saving and ending would end unsaved.
            is_asked_to_stop = self.callbacks.stop.is_asked
            if ending or step.step % plan.save_every == 0 or is_asked_to_stop:
                self._save(step.step)
            if ending:
                break
            if is_asked_to_stop:
                self.callbacks.stop.raise_if_asked(self.writer.path.name, at=f"step {step.step:,}")
            stopwatch.go_on()
        assert ending is not None, "the last step is an end"
        return ending

    @property
    def start(self) -> InitialLoss:
        """The loss before the first step beside what it should have been."""
        found = self.state.task.check_initial_loss(self.evaluations[0].judged, self.state.plan)
        model = self.state.model
        return found._replace(expected=model.expected_first_loss) if isinstance(model, SequenceModel) else found

    def read_health(self) -> tuple[Health, ...]:
        """All that was probed so far, by earlier processes too."""
        self.writer.flush()
        return self.writer.run.health

    def _steps(self, first: int) -> Iterator[Step]:
        """The loop's steps, some of them looked at."""
        state, plan = self.state, self.state.plan
        probe = HealthProbe(state.model)

        def watch(step: int) -> AbstractContextManager[None]:
            if not is_look(step, plan.probe_every, plan.steps):
                return nullcontext()
            return probe.watch(step, with_maps=step in (1, plan.steps))

        loss_function = state.task.loss_function(plan)
        for step in steps(
            state.model, state.batches, state.optimizer, plan, loss_function=loss_function, first=first, watch=watch
        ):
            for health in probe.take_looks():
                self._look(health)
            yield step

    def _look(self, health: Health) -> None:
        self.writer.append("health", health)
        self.callbacks.on_health(health)

    def _evaluate(self, step: int) -> None:
        state = self.state
        train = state.task.evaluate_for(state.model, "train", state.plan)
        if state.task.measure.side == "dev":
            dev = state.task.evaluate_for(state.model, "dev", state.plan)
            evaluation = Evaluation(step, train.loss, dev.loss, dev.metric)
        else:
            evaluation = Evaluation(step, train.loss, math.nan, train.metric)
        self.evaluations.append(evaluation)
        self.writer.append("evaluations", evaluation)
        if best_evaluation(self.evaluations) is evaluation:
            save_best(self.writer.path, step, state.model.state_dict())
        self.callbacks.on_evaluation(evaluation)

    def _sample(self, step: int) -> None:
        sampled = SampledAt(step, self.state.task.preview(self.state.model, self.state.plan))
        self.writer.append("samples", sampled)
        self.callbacks.on_samples(sampled)

    def _save(self, step: int) -> None:
        # What the logs say up to this step must be on the disk before a checkpoint says that it is.
        self.writer.flush()
        save_checkpoint(self.writer.path, step, self.state.model.state_dict(), self.state.optimizer.tensors(), {})
        delete_old_checkpoints(self.writer.path, keep=set())


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
