"""Derivatives by measuring: rise over run with a step h, and how good such a measurement can be.

    >>> cubic = lambda x: x**3
    >>> [round(d.slope, 6) for d in differences(cubic, 2.0, h=0.001, exact=12.0)]
    [12.006001, 11.994001, 12.000001]
"""

import math
from collections.abc import Callable, Sequence

from pellucid.autograd import ieee
from pellucid.records import Difference

KINDS = ("forward", "backward", "central")
DEFAULT_H = 1e-6


def differences(function: Callable[[float], float], x: float, *, h: float, exact: float) -> list[Difference]:
    """The slope of the function at x by forward, backward and central difference, each with its error."""
    here, above, below = function(x), function(x + h), function(x - h)
    # x + h is rounded; dividing by the step that was really taken costs nothing and removes that error.
    up, down = (x + h) - x, x - (x - h)
    slopes = (
        ieee.divide(above - here, up),
        ieee.divide(here - below, down),
        ieee.divide(above - below, up + down),
    )
    return [Difference(kind, h, slope, slope - exact) for kind, slope in zip(KINDS, slopes, strict=True)]


def sweep(
    function: Callable[[float], float], x: float, *, exact: float, steps: Sequence[float] = ()
) -> list[list[Difference]]:
    """Differences for ever smaller h: the truncation error falls with h until rounding takes over and rises.

    >>> rows = sweep(math.sin, 1.0, exact=math.cos(1.0))
    >>> best = min(rows, key=lambda row: abs(row[2].error))
    >>> 1e-7 < best[2].h < 1e-3
    True
    """
    return [differences(function, x, h=h, exact=exact) for h in steps or [10.0**-k for k in range(17)]]


def scaled_step(x: float, h: float) -> float:
    """h in proportion to x, so that the step neither drowns beside a large x nor swamps a small one."""
    return h * max(1.0, abs(x))
