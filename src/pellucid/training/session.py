"""One run: from what was asked to a folder that holds everything that was seen.

The loop of `loop.py` yields its steps; here they are written down, and now and then the network is looked at,
evaluated, sampled and saved. Nothing written to the folder but the timings depends on the clock, so that a run that
was stopped and resumed leaves the same bytes as one that never was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pellucid.records import Ending, Evaluation, Health, SampledAt, Step, Timing
from pellucid.runs import RunWriter
from pellucid.training import checkpoints
from pellucid.training.evaluation import loss_on
from pellucid.training.health import HealthProbe
from pellucid.training.listening import Listener
from pellucid.training.loop import steps
from pellucid.training.signals import StopRequests
from pellucid.training.speaking import texts
from pellucid.training.stopping import ending_of
from pellucid.training.workshop import Workshop


@dataclass
class Session:
    """A run while it is being trained: its folder, its workshop and what was seen so far."""

    writer: RunWriter
    shop: Workshop
    listener: Listener
    stop: StopRequests
    evaluations: list[Evaluation]
    seconds: float = 0.0  # spent on the steps before, by earlier processes
    n_tokens: int = 0  # learned from since this process began

    def go_on(self, after: int) -> Ending:
        """Train from the step after `after` to the end, and say why it ended. Everything seen is in the folder then."""
        plan = self.shop.plan
        began = time.monotonic() - self.seconds
        self.first_step, self.began_here = after + 1, time.monotonic()
        if after == 0:
            self._evaluate(0)
        ending = ending_of(self.evaluations, plan)
        for step in self._steps(after + 1) if ending is None else ():
            self.writer.append("metrics", step)
            timing = self._timing(step, time.monotonic() - began)
            self.listener.stepped(step, timing)
            is_last = step.step == plan.steps
            if _is_due(step.step, plan.evaluate_every) or is_last:
                self._evaluate(step.step)
                self.writer.append("timings", timing)
                ending = ending_of(self.evaluations, plan)
            if _is_due(step.step, plan.sample_every) or is_last or ending:
                self._sample(step.step)
            if _is_due(step.step, plan.save_every) or is_last or ending or self.stop.is_asked:
                self._save(step.step)
            if ending:
                break
            self.stop.raise_if_asked(self.writer.path.name)
        assert ending is not None, "the last step ends every plan"
        return ending

    def _steps(self, first: int) -> Iterator[Step]:
        shop = self.shop
        probe = HealthProbe(shop.model)

        def watch(step: int) -> AbstractContextManager[None]:
            is_first, is_last = step == 1, step == shop.plan.steps
            if not (_is_due(step, shop.plan.probe_every) or is_first or is_last):
                return nullcontext()
            return probe.watch(step, with_maps=is_first or is_last)

        for step in steps(shop.model, shop.batches, shop.optimizer, shop.plan, first=first, watch=watch):
            for health in probe.taken():
                self._look(health)
            yield step

    def _look(self, health: Health) -> None:
        self.writer.append("health", health)
        self.listener.looked(health)

    def _evaluate(self, step: int) -> None:
        shop = self.shop
        train, dev = (loss_on(shop.model, side, shop.plan.context).nats for side in (shop.train_part, shop.sides.dev))
        evaluation = Evaluation(step, train, dev)
        self.evaluations.append(evaluation)
        self.writer.append("evaluations", evaluation)
        self.listener.evaluated(evaluation)

    def _sample(self, step: int) -> None:
        sampled = SampledAt(step, texts(self.shop, n_samples=5))
        self.writer.append("samples", sampled)
        self.listener.sampled(sampled)

    def _save(self, step: int) -> None:
        # What the logs say up to this step must be on the disk before a checkpoint says that it is.
        self.writer.flush()
        shop = self.shop
        state = {"best_step": best(self.evaluations).step}
        checkpoints.save(self.writer.path, step, shop.model.state_dict(), shop.optimizer.tensors(), state)
        checkpoints.tidy(self.writer.path, keep={best(self.evaluations).step})

    def _timing(self, step: Step, seconds: float) -> Timing:
        self.n_tokens += step.n_tokens
        here = time.monotonic() - self.began_here
        return Timing(step.step, seconds, self.n_tokens / max(here, 1e-9))


def best(evaluations: list[Evaluation]) -> Evaluation:
    """The evaluation with the least loss on dev; of equals the first."""
    return min(evaluations, key=lambda evaluation: evaluation.dev)


def _is_due(step: int, every: int) -> bool:
    return step % every == 0
