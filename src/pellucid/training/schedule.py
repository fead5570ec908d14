"""The learning rate as a pure function of the step: it climbs, then it decays."""

import math

from pellucid.errors import PellucidError, did_you_mean, quoted

SCHEDULES = ("linear", "cosine", "step", "constant")
DROPS = ((0.9, 0.01), (0.6, 0.1))  # "step": after so much of the way, so much of the rate


def learning_rate_factor(step: int, steps: int, warm_up: int, decay: str) -> float:
    """The part of the highest rate that step `step` of `steps` learns with, above 0 and at most 1. The first step is 1.

    >>> [learning_rate_factor(step, steps=6, warm_up=2, decay="linear") for step in range(1, 7)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    >>> [round(learning_rate_factor(step, steps=4, warm_up=0, decay="cosine"), 3) for step in range(1, 5)]
    [1.0, 0.854, 0.5, 0.146]
    """
    if step <= warm_up:
        return step / warm_up
    done = (step - warm_up - 1) / max(1, steps - warm_up)
    if decay == "linear":
        return 1 - done
    if decay == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    if decay == "step":
        return next((factor for after, factor in DROPS if done >= after), 1.0)
    if decay == "constant":
        return 1.0
    raise PellucidError(
        f"there is no decay called {quoted(decay)}",
        fix=did_you_mean(decay, SCHEDULES),
    )
