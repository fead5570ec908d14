"""What a terminal is told while networks train: facts on stdout as they are known, the progress on stderr."""

from __future__ import annotations

import sys

from pellucid.figures.progress import ProgressLine, seconds_left
from pellucid.figures.tables import show_lines, show_parts
from pellucid.figures.words.ladder import baseline_table
from pellucid.figures.words.training import data_lines, growth_words, plan_lines, resumption_lines, start_words
from pellucid.records import (
    DataFacts,
    Evaluation,
    InitialLoss,
    Ladder,
    Measure,
    NetworkFacts,
    Plan,
    Resumption,
    Rung,
    SampledAt,
    Step,
    Timing,
)
from pellucid.training.callbacks import Callbacks, PageWriter, StopRequests

COUNTING = Measure()


class ConsoleCallbacks(Callbacks):
    """Tells a run on the terminal. Silent on stdout where that is to hold JSON alone."""

    def __init__(
        self,
        stop: StopRequests | None = None,
        page: PageWriter | None = None,
        *,
        is_quiet: bool = False,
        with_samples: bool = True,
        measure: Measure = COUNTING,
    ) -> None:
        super().__init__(stop, page)
        self.is_quiet = is_quiet
        self.with_samples = with_samples
        self.measure = measure
        self.plan: Plan | None = None
        self.line: ProgressLine | None = None

    def on_data(self, data: DataFacts) -> None:
        self._say(*data_lines(data))

    def on_baselines(self, ladder: Ladder) -> None:
        self.measure = ladder.measure
        if not self.is_quiet:
            show_parts(["", baseline_table(ladder)])
            sys.stdout.flush()

    def on_plan(self, plan: Plan, network: NetworkFacts, folder: str) -> None:
        self.plan = plan
        self.line = ProgressLine(plan, sys.stderr, self.measure)
        self._say("", *plan_lines(plan, network), f"written to {folder}")

    def on_start(self, start: InitialLoss) -> None:
        self._say(f"before the first step: {start_words(start)}", "")

    def on_resume(self, resumption: Resumption) -> None:
        self._say(*resumption_lines(resumption))

    def on_step(self, step: Step, timing: Timing) -> None:
        if self.line and self.plan:
            self.line.step(step, timing.tokens_per_second, seconds_left(self.plan, step, timing))

    def on_evaluation(self, evaluation: Evaluation) -> None:
        if self.line:
            self.line.evaluation(evaluation)

    def on_replan(self, plan: Plan) -> None:
        self.plan = plan
        if self.line:
            self.line.replan(plan)
            if words := growth_words(plan):
                self.line.tell(words)

    def on_samples(self, samples: SampledAt) -> None:
        if self.line and self.with_samples:
            self.line.samples(samples)

    def on_fold(self, number: int, of: int) -> None:
        self.close()
        print(f"cross-validation: part {number} of {of}", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.line:
            self.line.close()

    def _say(self, *lines: str) -> None:
        if not self.is_quiet:
            # At once, so that in a log it stands before the progress on stderr.
            show_lines(lines)


class SilentCallbacks(Callbacks):
    """Of a process that follows another, which speaks."""

    def close(self) -> None:
        """Nothing was begun."""


class ComparisonCallbacks(ConsoleCallbacks):
    """Tells of several runs, one after another: the data and the baselines once, then each run's progress."""

    def __init__(self, n_runs: int, stop: StopRequests, page: PageWriter, *, is_quiet: bool = False) -> None:
        super().__init__(stop, page, is_quiet=is_quiet)
        self.n_runs = n_runs
        self.n_done = 0
        self.runs: list[ConsoleCallbacks] = []

    def on_rung(self, name: str, rung: Rung) -> None:
        self.n_done += 1
        reached = f"dev {rung.dev:.4f}" if rung.metric is None else f"{self.measure.metric} {rung.metric:.4f} on dev"
        print(f"{name} ({self.n_done} of {self.n_runs} done): {reached}", file=sys.stderr, flush=True)

    def for_run(self, name: str) -> ConsoleCallbacks:
        self.close()
        print(f"\n{name} ({len(self.runs) + 1} of {self.n_runs})", file=sys.stderr, flush=True)
        # The baselines are told once; by then it is known what the progress counts in a second.
        self.runs.append(
            ConsoleCallbacks(self.stop, self.page, is_quiet=True, with_samples=False, measure=self.measure)
        )
        return self.runs[-1]

    def close(self) -> None:
        for run in self.runs:
            run.close()
