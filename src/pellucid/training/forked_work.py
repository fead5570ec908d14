"""Work that a fork of this process does, on another core, while this one does something else: load torch."""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class ForkedWork(Generic[Result]):
    """A function that is called in a forked process from now on, and whose result is handed over when it is asked for.

    Where that process does not come to its end, for whatever reason, the function is called here.

    >>> work = ForkedWork(lambda: sum(range(10)))
    >>> work.result()
    45
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._read_end, write_end = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a fork beside threads: those of NumPy's products are not used there
            self._child = os.fork()
        if self._child == 0:
            os.close(self._read_end)  # or it would wait for itself to read, where the other was killed
            _hand_over(work, write_end)
        os.close(write_end)

    def result(self) -> Result:
        """Wait for it; to be called once."""
        with os.fdopen(self._read_end, "rb") as pipe:
            try:
                found: list[Any] = [pickle.load(pipe)]
            except (EOFError, pickle.UnpicklingError):
                found = []
        os.waitpid(self._child, 0)
        return found[0] if found else self._work()


def can_fork() -> bool:
    """Whether there is another core for it, and a system on which a fork may go on as if it were started anew."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


def _hand_over(work: Callable[[], object], write_end: int) -> None:
    """The child's whole life. It leaves by _exit: nothing of the parent's is to be closed, flushed or said here."""
    try:
        with os.fdopen(write_end, "wb") as pipe:
            pickle.dump(work(), pipe, protocol=pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)
