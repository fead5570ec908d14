"""Rest for the garbage collector while something large and without cycles is built."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_resting() -> Iterator[None]:
    """Graphs refer to their parents and never back, so nothing in them waits for the collector. Left to run, it would
    walk the growing graph again and again: half of the time that a large derivation takes."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
