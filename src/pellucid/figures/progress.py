"""One line on how far a training is, for a terminal, a log or a notebook."""

from __future__ import annotations

import math
import shutil
import textwrap
import time
from typing import TextIO

from pellucid.figures.words.notation import cut_end, duration
from pellucid.records import Evaluation, Measure, Plan, SampledAt, Step, Timing

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
    is a line for each tenth of the steps. The measure says what a step predicts: tokens, rows, images. is_live: the
    stream is no terminal, but a line can be written over, as in a notebook.
    """

    def __init__(self, plan: Plan, stream: TextIO, measure: Measure = COUNTING, *, is_live: bool = False) -> None:
        self._plan, self._stream, self._measure = plan, stream, measure
        self._is_terminal = is_live or stream.isatty()
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
                self._over([self._bar(step), *self._numbers(step, tokens_per_second, eta_seconds)])
        elif step.step >= self._next_step or is_last:
            tenth = max(1.0, self._plan.steps / 10)
            self._next_step = (step.step // tenth + 1) * tenth
            self._say("  ".join(self._numbers(step, tokens_per_second, eta_seconds)))

    def evaluation(self, evaluation: Evaluation) -> None:
        """The dev loss that the line shows from now on; nothing where nothing was held out."""
        self._dev = None if math.isnan(evaluation.dev) else evaluation.dev

    def replan(self, plan: Plan) -> None:
        """The number of steps that the line counts up to from now on."""
        self._plan = plan

    def samples(self, sampled: SampledAt) -> None:
        """What the network makes, or answers, by now."""
        longest = LONGEST_ANSWER if self._measure.metric else LONGEST
        shown = [cut_end(text.replace("\n", "↵"), longest) or "(empty)" for text in sampled.texts]
        if len(sampled.texts) == 1:
            shown = [cut_end(sampled.texts[0].replace("\n", "↵"), 70)]
        says = "answers" if self._measure.metric else "makes"
        self.tell(f"step {sampled.step:,} {says}: {', '.join(shown)}")

    def tell(self, line: str) -> None:
        """A line that stays above the progress."""
        width = shutil.get_terminal_size((100, 24)).columns
        self._say("\n".join(textwrap.wrap(line, width)) if self._is_terminal else line)

    def close(self) -> None:
        """Leave the terminal's line as it is and go to the next."""
        if self._is_open:
            self._stream.write("\n")
            self._stream.flush()
            self._is_open = False

    def _bar(self, step: Step) -> str:
        done = round(BAR * step.step / max(1, self._plan.steps))
        return "━" * done + "─" * (BAR - done)

    def _numbers(self, step: Step, tokens_per_second: float, eta_seconds: float) -> list[str]:
        share = f"{100 * step.step // max(1, self._plan.steps)} %"
        return [
            f"step {step.step:,} of {self._plan.steps:,} ({share})",
            f"loss {self._loss:.4f}",
            *([] if self._dev is None else [f"dev {self._dev:.4f}"]),
            f"{tokens_per_second:,.0f} {self._measure.one}s/s",
            *([f"{duration(eta_seconds)} left"] if step.step < self._plan.steps else []),
        ]

    def _over(self, parts: list[str]) -> None:
        width = max(20, shutil.get_terminal_size((100, 24)).columns - 1)
        # To the start of the line, and wipe it: what is shorter leaves nothing of what was longer.
        self._stream.write(f"\r\x1b[2K{fit_progress(parts, width)}")
        self._stream.flush()
        self._is_open = True

    def _say(self, line: str) -> None:
        if self._is_open:
            self._stream.write("\r\x1b[2K")
            self._is_open = False
        self._stream.write(f"{line}\n")
        self._stream.flush()


def fit_progress(parts: list[str], width: int) -> str:
    """A bar and what is told beside it on one line. Where it is too narrow, whole parts go, and no number is cut.

    parts: the bar, the step, the loss, perhaps dev, the speed, and perhaps the time left.

    >>> fit_progress(["━━━━────", "step 50 of 100 (50 %)", "loss 2.1000", "900 tokens/s", "4 s left"], 50)
    'step 50 of 100 (50 %)  loss 2.1000  4 s left'
    """
    bar, *told = parts
    line = f"{bar} {'  '.join(told)}"
    while len(line) > width and told:
        line = "  ".join(told)
        slower = [one for one in told if not one.endswith("/s")]
        told = slower if len(slower) < len(told) else told[:-1]
    return line if len(line) <= width else ""


def seconds_left(plan: Plan, step: Step, timing: Timing) -> float:
    """By the pace so far; the first steps, which are slow, by what the plan expects."""
    left = plan.steps - step.step
    is_early = plan.seconds > 0 and step.step < plan.steps * EARLY
    return left * (plan.seconds / plan.steps if is_early else timing.seconds / step.step)
