"""How much memory something takes: by how many bytes the most that a process ever held grows while it is done.

What is loaded and prepared is there before and does not count. What was borrowed on the way and given back does not
hide anything either: free pieces go back to the system first, and where Linux lets it the mark of the most that was
ever held comes down to what is held now. Pages of code that are touched for the first time do count, so `grown_alone`
does the thing once with another copy before.
"""

import contextlib
import ctypes
import gc
import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

Action = Callable[[], object]
Result = TypeVar("Result")


def most_held(process: int | str = "self") -> int:
    """The most bytes that a process held since it began, or since `start_over`."""
    status = Path(f"/proc/{process}/status")
    if status.exists():
        # Linux hands the number that getrusage gives on to children, so theirs would begin at their parent's.
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if "VmHWM" in line)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS, in bytes


def start_over() -> int:
    """The bytes that this process holds now, and from now on the least that `most_held` can be."""
    gc.collect()
    give_back: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if give_back:
        give_back(0)
    with contextlib.suppress(OSError):  # then growth below what was once held is not seen
        Path("/proc/self/clear_refs").write_text("5")
    return most_held()


def grown_by(action: Action) -> int:
    """Bytes by which this process grows, at its most, while it does that."""
    before = start_over()
    action()
    return most_held() - before


def alone(function: Callable[..., Result], *given: Any) -> Result:
    """What a function of a module gives that is called in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *given).result()


def grown_alone(prepare: Callable[..., Action], *given: Any) -> int:
    """Bytes by which a process of its own grows while it does what `prepare` gives, for the second time."""
    return alone(_grown_again, prepare, *given)


def _grown_again(prepare: Callable[..., Action], *given: Any) -> int:
    prepare(*given)()
    return grown_by(prepare(*given))
