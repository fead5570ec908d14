"""The two scales of a chart of our own: where a number stands on them, and which numbers are written beside them."""

import math
from collections.abc import Iterable
from typing import NamedTuple


class Axis(NamedTuple):
    """A range of numbers, linear or by powers of ten, and what they are."""

    low: float
    high: float
    title: str = ""
    is_log: bool = False

    def part(self, x: float) -> float:
        """Where x stands between the ends: 0 at the low one, 1 at the high one; outside it goes on.

        >>> Axis(1, 100, is_log=True).part(10), Axis(0, 4).part(1)
        (0.5, 0.25)
        """
        if self.is_log:
            # Nothing below zero has a place on it; the smallest there is stands far outside.
            x, low, high = [math.log10(max(value, 1e-300)) for value in (x, self.low, self.high)]
        else:
            low, high = self.low, self.high
        return (x - low) / (high - low)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers inside the range, at most that many.

        >>> Axis(1.9, 3.3).ticks(), Axis(2e-4, 3.0, is_log=True).ticks()
        ([2.0, 2.25, 2.5, 2.75, 3.0, 3.25], [0.001, 0.01, 0.1, 1.0])
        """
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            if last - first < 1:
                digits = [float(f"{digit}e{power}") for power in range(first - 1, last + 2) for digit in (1, 2, 5)]
                inside = [tick for tick in digits if self.low <= tick <= self.high]
                if len(inside) >= 2:
                    return inside[:: math.ceil(len(inside) / most)]
            else:
                every = max(1, math.ceil((last - first + 1) / most))
                return [float(f"1e{power}") for power in range(first, last + 1, every)]
        for step in _steps((self.high - self.low) / most):
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first < most:
                return [float(f"{i * step:.12g}") for i in range(first, last + 1)]
        return []

    def written(self, tick: float) -> str:
        """The tick as SVG text: powers of ten raised, all others as they are.

        >>> Axis(0.1, 1e6, is_log=True).written(1000.0), Axis(0, 2000).written(1500.0)
        ('10<tspan dy="-7" font-size="12">3</tspan>', '1,500')
        """
        power = math.log10(tick) if self.is_log and tick > 0 else 0.5
        if power == round(power) and not 0 <= power <= 1:
            return f'10<tspan dy="-7" font-size="12">{power:.0f}</tspan>'.replace(">-", ">−")
        if tick and not 1e-4 <= abs(tick) < 1e9:
            return f"{tick:.2g}".replace("e-0", "e-").replace("-", "−").replace("e+0", "e").replace("e+", "e")
        return f"{tick:,.10g}".replace("-", "−")


def _steps(least: float) -> Iterable[float]:
    """Round steps from the given one up."""
    power = math.floor(math.log10(least)) if least > 0 else 0
    for exponent in (power, power + 1):
        for digit in (1, 2, 2.5, 5):
            if digit * 10.0**exponent >= least * (1 - 1e-9):
                yield digit * 10.0**exponent
    yield 10.0 ** (power + 2)


def spanning(numbers: Iterable[float], title: str, *, is_log: bool = False, margin: float = 0.04) -> Axis:
    """An axis with room for all the finite numbers, and a little around them.

    >>> spanning([2.0, 3.0, float("inf")], "loss", margin=0.1)
    Axis(low=1.9, high=3.1, title='loss', is_log=False)
    """
    found = [x for x in numbers if math.isfinite(x) and (x > 1e-290 or not is_log)]
    low, high = (min(found), max(found)) if found else (1.0, 10.0)
    if is_log:
        if high <= low * 1.01:
            low, high = low / 3, high * 3
        room = (high / low) ** margin
        return Axis(low / room, high * room, title, is_log=True)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-300):
        low, high = low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)
    room = (high - low) * margin
    return Axis(low - room, high + room, title)
