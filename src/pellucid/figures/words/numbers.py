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


def lasting(seconds: float) -> str:
    """
    >>> lasting(0.04), lasting(43.4), lasting(95), lasting(7500)
    ('under 0.1 s', '43 s', '1 min 35 s', '2 h 5 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "under 0.1 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")


def ended(sentence: str) -> str:
    """The sentence with its full stop.

    >>> ended("it fits"), ended("it fits.")
    ('it fits.', 'it fits.')
    """
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def counted(n: int, noun: str) -> str:
    """
    >>> counted(1, "step"), counted(12345, "step")
    ('1 step', '12,345 steps')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"
