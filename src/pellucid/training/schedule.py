"""The learning rate as a pure function of the step: it warms up, then it follows a schedule.

Adding a schedule is adding a row to SCHEDULES: `--schedule` offers it.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from pellucid.errors import require_one_of

DROPS = ((0.9, 0.01), (0.6, 0.1))  # "step": after so much of the way, so much of the learning rate

# The part of the peak learning rate, by how much of the way after the warmup is done: from 0 to below 1.
SCHEDULES: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "linear": lambda done: 1 - done,
        "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
        "step": lambda done: next((factor for after, factor in DROPS if done >= after), 1.0),
        "constant": lambda done: 1.0,
    }
)


def learning_rate_factor(step: int, steps: int, warmup: int, schedule: str) -> float:
    """The part of the peak learning rate at step `step` of `steps`, above 0 and at most 1. The first step is 1.

    >>> [learning_rate_factor(step, steps=6, warmup=2, schedule="linear") for step in range(1, 7)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    >>> [round(learning_rate_factor(step, steps=4, warmup=0, schedule="cosine"), 3) for step in range(1, 5)]
    [1.0, 0.854, 0.5, 0.146]
    """
    require_one_of("schedule", schedule, tuple(SCHEDULES))
    if step <= warmup:
        return step / warmup
    return SCHEDULES[schedule]((step - warmup - 1) / max(1, steps - warmup))
