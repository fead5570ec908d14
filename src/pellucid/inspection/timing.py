"""How long a forward takes, and which of its modules take how much of it.

The whole is timed as the user runs it, without a hook. The shares come from other runs, with a clock on every module:
a clock costs about a microsecond, which is much of a small module's time and nothing of the whole's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import nn

from pellucid.inspection.borrowing import own_inputs
from pellucid.inspection.flow import tensors_in
from pellucid.inspection.patient import unchanged_randomness

MOST_RUNS = 5
ENOUGH_SECONDS = 1.0  # of runs of one kind; the first is always made


class Timing(NamedTuple):
    """Seconds of a forward; the middle of several."""

    whole: float
    of_modules: tuple[float, ...]  # with their parts and over all calls of one forward, in the order they were given
    shares: tuple[float, ...]  # of the same forward


def timed(model: nn.Module, inputs: tuple[Any, ...], modules: Sequence[nn.Module]) -> Timing:
    """Time a forward without gradients, and each of these modules in it."""
    settle = torch.cuda.synchronize if any(one.is_cuda for one in tensors_in(inputs)) else _nothing

    def forward() -> float:
        ours = own_inputs(inputs)
        settle()
        start = perf_counter()
        model(*ours)
        settle()
        return perf_counter() - start

    with unchanged_randomness(), torch.no_grad():
        plain = list(_runs(forward))
        clocked = []
        with _clocks(modules, settle) as seconds:
            for total in _runs(forward):
                clocked.append((total, tuple(seconds)))
                seconds[:] = [0.0] * len(modules)
    middles = tuple(median(one) for one in zip(*(each for _, each in clocked), strict=True))
    shares = zip(*([part / total for part in each] for total, each in clocked), strict=True)
    return Timing(median(plain), middles, tuple(median(one) for one in shares))


def _runs(forward: Callable[[], float]) -> Iterator[float]:
    spent, n = 0.0, 0
    while n == 0 or (n < MOST_RUNS and spent < ENOUGH_SECONDS):
        seconds = forward()
        spent, n = spent + seconds, n + 1
        yield seconds


@contextmanager
def _clocks(modules: Sequence[nn.Module], settle: Callable[[], None]) -> Iterator[list[float]]:
    """A clock on each module; what they show is added up in the list."""
    seconds = [0.0] * len(modules)
    running: list[tuple[int, float]] = []

    def clocks(number: int) -> tuple[Callable[..., None], Callable[..., None]]:
        def began(module: nn.Module, args: Any) -> None:
            settle()
            running.append((number, perf_counter()))

        def ended(module: nn.Module, args: Any, output: Any) -> None:
            settle()
            while running[-1][0] != number:  # those whose error was caught around them
                running.pop()
            seconds[number] += perf_counter() - running.pop()[1]

        return began, ended

    handles = []
    try:
        for number, module in enumerate(modules):
            began, ended = clocks(number)
            handles.append(nn.Module.register_forward_pre_hook(module, began, prepend=True))
            handles.append(nn.Module.register_forward_hook(module, ended))
        yield seconds
    finally:
        for handle in handles:
            handle.remove()


def _nothing() -> None:
    """A CPU is never behind."""
