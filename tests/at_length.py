"""What `make test` runs in short, `make trust` runs at length: it sets PELLUCID_AT_LENGTH."""

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

AT_LENGTH = os.environ.get("PELLUCID_AT_LENGTH") == "1"


def some_of(cases: Sequence[Case], every: int) -> list[Case]:
    """Each case at length; in short the first of every so many."""
    return list(cases if AT_LENGTH else cases[::every])


def examples(n: int) -> int:
    """How often hypothesis tries a property: so often at length, in short a third."""
    return n if AT_LENGTH else -(-n // 3)
