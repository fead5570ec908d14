"""What a terminal is told while networks train: facts on stdout as they are known, the progress on stderr."""

from __future__ import annotations

import sys

from pellucid.figures.model_facts import show
from pellucid.figures.progress import ProgressLine
from pellucid.figures.training_summary import baseline_table, data_lines, plan_lines, start_line
from pellucid.records import (
    DataFacts,
    Evaluation,
    Finding,
    Health,
    InitialLoss,
    Ladder,
    Measure,
    NetworkFacts,
    Plan,
    SampledAt,
    Step,
    Timing,
)

EARLY = 0.05  # of the steps
COUNTING = Measure()


class Teller:
    """Listens to a run and tells it. Silent on stdout where that is to hold JSON alone."""

    def __init__(self, *, is_quiet: bool = False, with_samples: bool = True, measure: Measure = COUNTING) -> None:
        self.is_quiet = is_quiet
        self.with_samples = with_samples
        self.measure = measure
        self.plan: Plan | None = None
        self.line: ProgressLine | None = None

    def opened(self, data: DataFacts) -> None:
        self._say(*data_lines(data))

    def counted(self, ladder: Ladder) -> None:
        self.measure = ladder.measure
        if not self.is_quiet:
            show("", baseline_table(ladder.rungs, ladder.measure))
            sys.stdout.flush()

    def planned(self, plan: Plan, network: NetworkFacts, folder: str) -> None:
        self.plan = plan
        self.line = ProgressLine(plan, sys.stderr, self.measure)
        self._say("", *plan_lines(plan, network), f"written to {folder}")

    def started(self, start: InitialLoss) -> None:
        self._say(start_line(start), "")

    def resumed(self, step: int, notes: tuple[str, ...]) -> None:
        self._say(f"goes on after step {step:,}", *[f"note: {note}" for note in notes])

    def stepped(self, step: Step, timing: Timing) -> None:
        if self.line and self.plan:
            self.line.step(step, timing.tokens_per_second, self._seconds_left(self.plan, step, timing))

    def looked(self, health: Health) -> None:
        pass

    def evaluated(self, evaluation: Evaluation) -> None:
        if self.line:
            self.line.evaluation(evaluation)

    def sampled(self, samples: SampledAt) -> None:
        if self.line and self.with_samples:
            self.line.samples(samples)

    def found(self, finding: Finding) -> None:
        pass

    def close(self) -> None:
        if self.line:
            self.line.close()

    @staticmethod
    def _seconds_left(plan: Plan, step: Step, timing: Timing) -> float:
        """By the pace so far; the first steps, which are slow, by what the plan expects."""
        left = plan.steps - step.step
        is_early = plan.seconds > 0 and step.step < plan.steps * EARLY
        return left * (plan.seconds / plan.steps if is_early else timing.seconds / step.step)

    def _say(self, *lines: str) -> None:
        if not self.is_quiet:
            # At once, so that in a log it stands before the progress on stderr.
            print("\n".join(lines), flush=True)
