"""Derivatives by measuring: rise over run with a step h, and how good such a measurement can be.

>>> cubic = lambda x: x**3
>>> [round(d.slope, 6) for d in differences(cubic, 2.0, h=0.001, exact=12.0)]
[12.006001, 11.994001, 12.000001]
"""

from collections.abc import Callable, Sequence

from pellucid.autograd import ieee
from pellucid.records import Difference


def differences(function: Callable[[float], float], x: float, *, h: float, exact: float) -> list[Difference]:
    """The slope of the function at x by forward, backward and central difference, each with its error."""
    return list(compare(x, h, below=function(x - h), here=function(x), above=function(x + h), exact=exact))


def compare(
    x: float, h: float, *, below: float, here: float, above: float, exact: float
) -> tuple[Difference, Difference, Difference]:
    """The three differences from what a function gave at x - h, x and x + h."""
    # x + h is rounded; dividing by the step that was really taken costs nothing and removes that error.
    up, down = (x + h) - x, x - (x - h)
    forward = ieee.divide(above - here, up)
    backward = ieee.divide(here - below, down)
    central = ieee.divide(above - below, up + down)
    return (
        Difference("forward", h, forward, forward - exact),
        Difference("backward", h, backward, backward - exact),
        Difference("central", h, central, central - exact),
    )


def sweep(
    function: Callable[[float], float], x: float, *, exact: float, steps: Sequence[float] = ()
) -> list[list[Difference]]:
    """Differences for ever smaller h: the truncation error falls with h until rounding takes over and rises.

    >>> import math
    >>> rows = sweep(math.sin, 1.0, exact=math.cos(1.0))
    >>> best = min(rows, key=lambda row: abs(row[2].error))
    >>> 1e-7 < best[2].h < 1e-3
    True
    """
    return [differences(function, x, h=h, exact=exact) for h in steps or [10.0**-k for k in range(17)]]


def default_step(x: float) -> float:
    """A millionth, or a millionth of x where x is large: near the best a central difference can do."""
    return 1e-6 * max(1.0, abs(x))
