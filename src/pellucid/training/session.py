"""One run while it is trained: the loop's steps are written down, and now and then the network is looked at,
evaluated, sampled and saved.

Nothing that is written but the timings depends on the clock, so that a run that was stopped and resumed leaves the
same bytes as one that never was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pellucid.inspection.health import HealthProbe, is_look
from pellucid.records import Ending, Evaluation, Health, InitialLoss, SampledAt, Step, Timing
from pellucid.runs import RunWriter
from pellucid.training import checkpoints
from pellucid.training.callbacks import Callbacks
from pellucid.training.loop import steps
from pellucid.training.reports import health_of
from pellucid.training.stopping import best, ending_of
from pellucid.training.workshop import Workshop


@dataclass
class Session:
    """A run in the hands of the process that trains it."""

    writer: RunWriter
    shop: Workshop
    callbacks: Callbacks
    evaluations: list[Evaluation]  # so far, by this process and those before it
    last_timing: Timing  # how long they took

    def go_on(self, after: int) -> Ending:
        """Train from the step after this one to the end, and say why it is the end."""
        plan = self.shop.plan
        if not self.evaluations:
            self._evaluate(0)
        self.callbacks.on_start(self.start)
        ending = ending_of(self.evaluations, plan)
        stopwatch = _Stopwatch(self.last_timing.seconds)
        for step in self._steps(after + 1) if ending is None else ():
            self.last_timing = stopwatch.lap(step)
            self.writer.append("metrics", step)
            self.callbacks.on_step(step, self.last_timing)
            is_last = step.step == plan.steps
            if is_last or step.step % plan.evaluate_every == 0:
                self._evaluate(step.step)
                self.writer.append("timings", self.last_timing)
                ending = ending_of(self.evaluations, plan)
            if ending or step.step % plan.sample_every == 0:
                self._sample(step.step)
            is_asked_to_stop = (
                self.callbacks.stop.is_asked
            )  # read once: a signal between saving and ending would end unsaved
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
        return self.shop.task.start(self.evaluations[0].dev)

    def looks(self) -> tuple[Health, ...]:
        """All looks inside so far, of earlier processes too."""
        self.writer.flush()
        return health_of(self.writer.path)

    def _steps(self, first: int) -> Iterator[Step]:
        """The loop's steps, some of them looked at."""
        shop, plan = self.shop, self.shop.plan
        probe = HealthProbe(shop.model)

        def watch(step: int) -> AbstractContextManager[None]:
            if not is_look(step, plan.probe_every, plan.steps):
                return nullcontext()
            return probe.watch(step, with_maps=step in (1, plan.steps))

        ask = shop.task.ask(plan)
        for step in steps(shop.model, shop.batches, shop.optimizer, plan, ask=ask, first=first, watch=watch):
            for health in probe.taken():
                self._look(health)
            yield step

    def _look(self, health: Health) -> None:
        self.writer.append("health", health)
        self.callbacks.on_health(health)

    def _evaluate(self, step: int) -> None:
        shop = self.shop
        train, dev = (shop.task.measured(shop.model, side) for side in ("train", "dev"))
        evaluation = Evaluation(step, train.loss, dev.loss, dev.metric)
        self.evaluations.append(evaluation)
        self.writer.append("evaluations", evaluation)
        if best(self.evaluations) is evaluation:
            checkpoints.save_best(self.writer.path, step, shop.model.state_dict())
        self.callbacks.on_evaluation(evaluation)

    def _sample(self, step: int) -> None:
        sampled = SampledAt(step, self.shop.task.texts(self.shop.model, self.shop.plan))
        self.writer.append("samples", sampled)
        self.callbacks.on_samples(sampled)

    def _save(self, step: int) -> None:
        # What the logs say up to this step must be on the disk before a checkpoint says that it is.
        self.writer.flush()
        checkpoints.save(self.writer.path, step, self.shop.model.state_dict(), self.shop.optimizer.tensors(), {})
        checkpoints.tidy(self.writer.path, keep=set())


class _Stopwatch:
    """Seconds of the run, those of earlier processes included, and how many tokens a second the steps learn from."""

    def __init__(self, seconds: float) -> None:
        self.before = seconds
        self.began = self.went_on = time.monotonic()
        self.stepping = 0.0  # seconds inside steps: not while it is evaluated, sampled or saved
        self.n_tokens = 0

    def lap(self, step: Step) -> Timing:
        """After a step."""
        now = time.monotonic()
        self.stepping += now - self.went_on
        self.n_tokens += step.n_tokens
        return Timing(step.step, self.before + now - self.began, self.n_tokens / max(self.stepping, 1e-9))

    def go_on(self) -> None:
        """Before the next step."""
        self.went_on = time.monotonic()
