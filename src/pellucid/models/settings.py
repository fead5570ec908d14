"""What a setting of a network may be. A value that cannot be is refused with the nearest that can."""

import math

from pellucid.errors import PellucidError


def require_share(noun: str, value: int, parts: int, of: str) -> None:
    """Refuse a number that cannot be shared equally by so many parts.

    >>> require_share("hidden", 100, 8, of="groups")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: hidden 100 cannot be shared equally by 8 groups. The nearest that can is 96.
    """
    if value % parts:
        near = max(1, round(value / parts)) * parts
        raise PellucidError(
            f"{noun} {value} cannot be shared equally by {parts} {of}", fix=f"The nearest that can is {near}"
        )


def require_dropout(value: float) -> None:
    """Refuse a share of dropped values that is not in [0, 1).

    >>> require_dropout(1.0)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: dropout is 1. Choose a share from 0 to below 1, such as 0.1.
    """
    if not (math.isfinite(value) and 0 <= value < 1):
        raise PellucidError(f"dropout is {value:g}", fix="Choose a share from 0 to below 1, such as 0.1")
