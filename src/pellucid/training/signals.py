"""Asked to stop: finish the step, save, and say how to go on."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pellucid.errors import Stopped

# A terminal that closes ends a run as a polite kill does.
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}
NAMES = {signal.SIGINT: "by Ctrl-C", signal.SIGTERM: "by SIGTERM", signal.SIGHUP: "because the terminal closed"}
TWICE_WITHIN_SECONDS = 2.0


class StopRequests:
    """Whether a signal has asked to stop. Whoever works for long looks here between two pieces of work."""

    def __init__(self) -> None:
        self._first: signal.Signals | None = None
        self._interrupted_at: float | None = None

    @property
    def is_asked(self) -> bool:
        return self._first is not None

    @property
    def exit_code(self) -> int:
        """What the process will end with; 0 as long as nobody asks."""
        return EXIT_CODES[self._first] if self._first is not None else 0

    def raise_if_asked(self, run: str, *, at: str = "") -> None:
        """End a run that has just been saved, if that was asked for; `at` may say where, as in "step 120"."""
        if self._first is not None:
            where = f" at {at}" if at else ""
            raise Stopped(f"stopped {NAMES[self._first]}{where}", run=run, exit_code=self.exit_code)

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


@contextmanager
def stop_requests() -> Iterator[StopRequests]:
    """While this holds, the signals that ask a process to end set a flag and do nothing else.

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
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Steady(io.TextIOWrapper):
    """A stream that goes on when nobody reads it any more."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            self._go_nowhere()
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            self._go_nowhere()

    def _go_nowhere(self) -> None:
        # What is still in the buffer goes there too, and so does Python's own last flush.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


@contextmanager
def steady_output() -> Iterator[None]:
    """While this holds, a reader that goes away, as in `pellucid train | head -1`, does not end the work."""
    before = sys.stdout, sys.stderr
    steady = [
        _Steady(stream.buffer, stream.encoding, stream.errors, line_buffering=getattr(stream, "line_buffering", False))
        if isinstance(stream, io.TextIOWrapper)
        else stream
        for stream in before
    ]
    for stream in before:
        if stream is not None:
            stream.flush()
    sys.stdout, sys.stderr = steady
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in steady:
            if isinstance(stream, _Steady):
                stream.flush()
                stream.detach()
