"""What a variable may be called."""

import keyword
import math

from pellucid.autograd.rules import FUNCTIONS
from pellucid.errors import ExpressionError, quoted

LONGEST_NAME = 32
CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
RESERVED = frozenset(FUNCTIONS) | frozenset(CONSTANTS) | frozenset(keyword.kwlist) | {"inf", "nan", "infinity"}


def require_free_name(name: str, text: str, column: int) -> None:
    """Refuse a name that already means something, or that the grammar has no room for."""
    if name in RESERVED:
        raise ExpressionError(
            f"{name} already means something and cannot be a variable",
            text=text,
            column=column,
            fix=f"Call it {name}_ or {name}1",
        )
    if name.startswith("__"):
        raise ExpressionError(
            f"the name {quoted(name)} begins with two underscores",
            text=text,
            column=column,
            fix="Begin it with a letter",
        )
    if len(name) > LONGEST_NAME:
        raise ExpressionError(
            f"the name {quoted(name, 12)} has {len(name)} characters and at most {LONGEST_NAME} are allowed",
            text=text,
            column=column,
            fix="Shorten it",
        )
