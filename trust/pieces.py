"""Pieces of work for the tests of workers: light enough to be sent to a new process."""

import os
import signal
import time
from pathlib import Path


def square(number: int) -> int:
    return number * number


def die_once(marker: str, number: int) -> int:
    """The square of a number, by the second worker that is asked: the first is killed in the middle."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_always(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def square_slowly(number: int, seconds: float) -> int:
    """The same, after a while."""
    time.sleep(seconds)
    return number * number
