"""What a terminal is told while networks train: facts on stdout as they are known, the progress on stderr."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from pellucid.figures.tables import show_parts
from pellucid.figures.words.ladder import baseline_table
from pellucid.figures.words.notation import cut_end, duration
from pellucid.figures.words.training import data_lines, plan_lines, start_words
from pellucid.records import (
    DataFacts,
    Evaluation,
    InitialLoss,
    Ladder,
    Measure,
    NetworkFacts,
    Plan,
    SampledAt,
    Step,
    Timing,
)
from pellucid.training.callbacks import Callbacks, PageWriter, StopRequests

EARLY = 0.05  # of the steps
SMOOTH = 0.95  # of the loss that is shown, from one step to the next
EVERY_SECONDS = 0.1
BAR = 20
LONGEST = 24  # letters of one sample
LONGEST_ANSWER = 40
COUNTING = Measure()


class ProgressLine:
    """Tells of steps, evaluations and samples on a stream, which is stderr.

    On a terminal one line is written over and over, with samples left standing above it. Elsewhere, as in a log, there
    is a line for each tenth of the steps. The measure says what a step predicts: tokens, rows, images.
    """

    def __init__(self, plan: Plan, stream: TextIO, measure: Measure = COUNTING) -> None:
        self._plan, self._stream, self._measure = plan, stream, measure
        self._is_terminal = stream.isatty()
        self._loss: float | None = None
        self._dev: float | None = None
        self._is_open = False  # whether the terminal's line holds something
        self._next_time = 0.0
        self._next_step = 0.0

    def step(self, step: Step, tokens_per_second: float, eta_seconds: float) -> None:
        """After each step; most of them say nothing."""
        before = self._loss
        # As many steps as there are weigh alike at first, so that the line does not hang on the first loss.
        keep = min(SMOOTH, 1 - 1 / step.step)
        self._loss = step.loss if before is None else keep * before + (1 - keep) * step.loss
        is_last = step.step >= self._plan.steps
        if self._is_terminal:
            now = time.monotonic()
            if now >= self._next_time or is_last:
                self._next_time = now + EVERY_SECONDS
                self._over(self._bar(step) + self._numbers(step, tokens_per_second, eta_seconds))
        elif step.step >= self._next_step or is_last:
            tenth = max(1.0, self._plan.steps / 10)
            self._next_step = (step.step // tenth + 1) * tenth
            self._say(self._numbers(step, tokens_per_second, eta_seconds))

    def evaluation(self, evaluation: Evaluation) -> None:
        """The dev loss that the line shows from now on."""
        self._dev = evaluation.dev

    def samples(self, sampled: SampledAt) -> None:
        """What the network makes, or answers, by now."""
        longest = LONGEST_ANSWER if self._measure.metric else LONGEST
        shown = [cut_end(text.replace("\n", "↵"), longest) or "(empty)" for text in sampled.texts]
        if len(sampled.texts) == 1:
            shown = [cut_end(sampled.texts[0].replace("\n", "↵"), 70)]
        says = "answers" if self._measure.metric else "makes"
        self._say(f"step {sampled.step:,} {says}: {', '.join(shown)}")

    def close(self) -> None:
        """Leave the terminal's line as it is and go to the next."""
        if self._is_open:
            self._stream.write("\n")
            self._stream.flush()
            self._is_open = False

    def _bar(self, step: Step) -> str:
        done = round(BAR * step.step / max(1, self._plan.steps))
        return "━" * done + "─" * (BAR - done) + " "

    def _numbers(self, step: Step, tokens_per_second: float, eta_seconds: float) -> str:
        dev = "" if self._dev is None else f"  dev {self._dev:.4f}"
        left = f"  {duration(eta_seconds)} left" if step.step < self._plan.steps else ""
        share = f"{100 * step.step // max(1, self._plan.steps)} %"
        return (
            f"step {step.step:,} of {self._plan.steps:,} ({share})  loss {self._loss:.4f}{dev}"
            f"  {tokens_per_second:,.0f} {self._measure.one}s/s{left}"
        )

    def _over(self, line: str) -> None:
        width = max(20, shutil.get_terminal_size((100, 24)).columns - 1)
        # To the start of the line, and wipe it: what is shorter leaves nothing of what was longer.
        self._stream.write(f"\r\x1b[2K{line[:width]}")
        self._stream.flush()
        self._is_open = True

    def _say(self, line: str) -> None:
        if self._is_open:
            self._stream.write("\r\x1b[2K")
            self._is_open = False
        self._stream.write(f"{line}\n")
        self._stream.flush()


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
            show_parts(["", baseline_table(ladder.rungs, ladder.measure)])
            sys.stdout.flush()

    def on_plan(self, plan: Plan, network: NetworkFacts, folder: str) -> None:
        self.plan = plan
        self.line = ProgressLine(plan, sys.stderr, self.measure)
        self._say("", *plan_lines(plan, network), f"written to {folder}")

    def on_start(self, start: InitialLoss) -> None:
        self._say(f"before the first step: {start_words(start)}", "")

    def on_resume(self, step: int, notes: tuple[str, ...]) -> None:
        self._say(f"goes on after step {step:,}", *[f"note: {note}" for note in notes])

    def on_step(self, step: Step, timing: Timing) -> None:
        if self.line and self.plan:
            self.line.step(step, timing.tokens_per_second, self._seconds_left(self.plan, step, timing))

    def on_evaluation(self, evaluation: Evaluation) -> None:
        if self.line:
            self.line.evaluation(evaluation)

    def on_samples(self, samples: SampledAt) -> None:
        if self.line and self.with_samples:
            self.line.samples(samples)

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


class ComparisonCallbacks(ConsoleCallbacks):
    """Tells of several runs, one after another: the data and the baselines once, then each run's progress."""

    def __init__(self, n_runs: int, stop: StopRequests, page: PageWriter, *, is_quiet: bool = False) -> None:
        super().__init__(stop, page, is_quiet=is_quiet)
        self.n_runs = n_runs
        self.runs: list[ConsoleCallbacks] = []

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
