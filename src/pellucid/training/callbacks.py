"""Callbacks: what a training run tells while it goes on, how it is asked to stop, and who writes its page.

The loop knows nobody: a progress line, a notebook or a test subclasses `Callbacks` and overrides what it wants to hear.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pellucid.errors import Stopped
from pellucid.records import (
    DataFacts,
    Evaluation,
    Finding,
    Health,
    InitialLoss,
    Ladder,
    NetworkFacts,
    Plan,
    Resumption,
    Rung,
    SampledAt,
    Step,
    Timing,
    TrainingReport,
)

# 128 and the number of the signal, as a shell tells it of any program.
EXIT_CODES = {one: 128 + one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)}
NAMES = {
    signal.SIGINT: "by Ctrl-C",
    signal.SIGTERM: "by SIGTERM",
    signal.SIGHUP: "because the terminal closed",
    signal.SIGQUIT: "by SIGQUIT",
}
TWICE_WITHIN_SECONDS = 2.0

PageWriter = Callable[[TrainingReport], str]


class StopSignal(BaseException):
    """Raised where a signal comes and nothing could be lost; no Exception, so that nobody takes it for a failure."""


class StopRequests:
    """What a signal that asks to stop does.

    Inside `held` it only sets a flag: whoever holds it looks between two steps, saves, and ends. Outside there is
    nothing to save, or it is on the disk already, and the work ends where it is.
    """

    def __init__(self) -> None:
        self._first: signal.Signals | None = None
        self._interrupted_at: float | None = None
        self._is_held = False
        self._run = ""  # that can be gone on with; "" as long as there is none

    @property
    def is_asked(self) -> bool:
        return self._first is not None

    def signal_number(self) -> int:
        """Of the signal that asks; 0: none does."""
        return int(self._first) if self._first is not None else 0

    def follow(self, number: int) -> None:
        """Stop because another process of the same training was asked to; 0: none was."""
        if number and self._first is None:
            self._first = signal.Signals(number)

    @property
    def exit_code(self) -> int:
        """What the process will end with; 0 as long as nobody asks."""
        return EXIT_CODES[self._first] if self._first is not None else 0

    @contextmanager
    def held(self, run: str) -> Iterator[None]:
        """While this holds, whoever asks to stop waits until the run, which exists by now, has been saved."""
        self._run, self._is_held = run, True
        try:
            yield
        finally:
            self._is_held = False
        self.raise_if_asked(run)

    def raise_if_asked(self, run: str, *, at: str = "") -> None:
        """End what was asked to end: a run that has just been saved, or "" where there is none yet.

        at: where, as in "step 120".
        """
        if self._first is not None:
            where = f" at {at}" if at else ""
            raise Stopped(f"stopped {NAMES[self._first]}{where}", run=run, exit_code=self.exit_code)

    @contextmanager
    def said_as_stopped(self) -> Iterator[None]:
        """Say what a signal ended in one line, as every other end."""
        try:
            yield
        except StopSignal:
            self.raise_if_asked(self._run)

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Handle a signal. A second Ctrl-C soon after the first ends the process here and now.

        That is safe at any moment: whatever is being written has not yet taken the place of what was there.
        """
        asked = signal.Signals(number)
        if asked is signal.SIGINT:
            now = time.monotonic()
            if self._interrupted_at is not None and now - self._interrupted_at <= TWICE_WITHIN_SECONDS:
                os._exit(EXIT_CODES[asked])
            self._interrupted_at = now
        if self._first is None:
            self._first = asked
            if not self._is_held:
                raise StopSignal


@contextmanager
def stop_requests() -> Iterator[StopRequests]:
    """While this holds, the signals that ask a process to end do what `StopRequests` says.

    Outside the main thread Python hands out no signals; then the flag is never set.
    """
    requests = StopRequests()
    if threading.current_thread() is not threading.main_thread():
        yield requests
        return
    before = {}
    try:
        for number in EXIT_CODES:
            # What the parent chose to ignore stays ignored, as with nohup.
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, requests.ask)
        with requests.said_as_stopped():
            yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Callbacks:
    """Called while a run goes on, in this order; every method does nothing unless it is overridden.

    stop: asked between two steps whether to save and end. page: makes the report's HTML; without it none is written.
    """

    def __init__(self, stop: StopRequests | None = None, page: PageWriter | None = None) -> None:
        self.stop = stop if stop is not None else StopRequests()
        self.page = page

    def on_data(self, data: DataFacts) -> None:
        """The data are read and split."""

    def on_baselines(self, ladder: Ladder) -> None:
        """All baselines are fitted and measured."""

    def on_plan(self, plan: Plan, network: NetworkFacts, folder: str) -> None:
        """The network is built and the plan is fixed; the run's folder does not exist yet."""

    def on_resume(self, resumption: Resumption) -> None:
        """A stopped run goes on."""

    def on_start(self, start: InitialLoss) -> None:
        """The loss before the first step is known."""

    def on_step(self, step: Step, timing: Timing) -> None:
        """After each optimizer step."""

    def on_health(self, health: Health) -> None:
        """The activations and gradients of a step were measured."""

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """The loss on train and dev was measured."""

    def on_replan(self, plan: Plan) -> None:
        """The number of steps was changed, to end in time or because dev still falls; the plan from now on."""

    def on_samples(self, samples: SampledAt) -> None:
        """A few samples or predictions were made."""

    def on_fold(self, number: int, of: int) -> None:
        """A part of the cross-validation is held out, and the others are learned from; the first is 1."""

    def on_finding(self, finding: Finding) -> None:
        """At the end: something about the health of the run."""

    def on_rung(self, name: str, rung: Rung) -> None:
        """A network of a comparison is done, where several are trained at once."""

    def for_run(self, name: str) -> Callbacks:
        """Who is told of the next run, where several networks are compared."""
        return self
