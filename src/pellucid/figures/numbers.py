"""How numbers are written, everywhere alike."""

import math


def short(x: float) -> str:
    """Six significant digits, without an idle minus before zero.

    >>> short(0.2689414213699951), short(-0.0), short(1e-12), short(float("-inf"))
    ('0.268941', '0', '1e-12', '-inf')
    """
    return f"{x:.6g}" if x else "0"


def bracketed(x: float) -> str:
    """The number, in brackets where it is negative, so that it can stand behind a sign.

    >>> f"2 * {bracketed(-1.0)}"
    '2 * (-1)'
    """
    return f"({short(x)})" if math.copysign(1.0, x) < 0 and x else short(x)


def rough(x: float) -> str:
    """Three significant digits, for a sentence."""
    return f"{x:.3g}" if x else "0"


def counted(n: int, noun: str) -> str:
    """
    >>> counted(1, "step"), counted(12345, "step")
    ('1 step', '12,345 steps')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"
