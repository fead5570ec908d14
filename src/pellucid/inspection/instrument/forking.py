"""A measurement of the patient itself, in a process that is forked for it: whatever happens there happens to nobody."""

from __future__ import annotations

import json
import math
import os
import resource
import selectors
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import nn

MOST_SECONDS = 20.0  # of CPU time
PATIENCE = 6  # times as long by the clock: on a busy machine it only comes on slowly


def measure_in_fork(model: nn.Module, measure: Callable[[], object], seconds: float = MOST_SECONDS) -> Any:
    """What a function gives, as plain values, when it is called in a forked process; None where it gives nothing.

    >>> layer = nn.Linear(2, 1)
    >>> measure_in_fork(layer, lambda: layer.weight.data.zero_().sum().item()), bool(layer.weight.any())
    (0.0, True)
    """
    if not hasattr(os, "fork") or any(one.device.type != "cpu" for one in model.parameters()):
        return None
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fork beside threads: those of torch are not used there
        child = os.fork()
    if child == 0:
        os.close(read_end)
        _answer(measure, write_end, seconds)
    os.close(write_end)
    try:
        text = _read_until(read_end, time.monotonic() + PATIENCE * seconds)
    finally:
        os.close(read_end)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return json.loads(text) if text else None


def _answer(measure: Callable[[], object], write_end: int, seconds: float) -> None:
    """The child's whole life. It leaves by _exit: nothing of the parent's is to be closed or flushed here."""
    try:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        most = math.ceil(time.process_time() + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        # The parent's threads are not here, and a second one would wait for them for ever.
        torch.set_num_threads(1)
        with os.fdopen(write_end, "w") as pipe:
            json.dump(measure(), pipe)
    finally:
        os._exit(0)


def _read_until(end: int, deadline: float) -> str:
    """All that is written before the deadline; "" where the end does not come."""
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(end, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                break
            part = os.read(end, 1 << 16)
            if not part:
                return b"".join(parts).decode()
            parts.append(part)
    return ""
