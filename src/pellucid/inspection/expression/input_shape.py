"""Shapes of inputs as people write them: 1,1,32,32 for numbers, 2,16:int for tokens. No torch, to refuse at once."""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple

from pellucid.errors import PellucidError, TooLarge, did_you_mean, quoted

KINDS = ("float", "int", "bool", "double")
MOST_NUMBERS = 1 << 30


class InputShape(NamedTuple):
    """An input that is to be made up."""

    sizes: tuple[int, ...]
    kind: str  # of KINDS

    def __str__(self) -> str:
        return ",".join(map(str, self.sizes)) + f":{self.kind}" * (self.kind != "float")


def read_shape(word: str) -> InputShape:
    """
    >>> read_shape("1,1,32,32"), read_shape("2, 16:int")
    (InputShape(sizes=(1, 1, 32, 32), kind='float'), InputShape(sizes=(2, 16), kind='int'))
    """
    sizes, _, kind = word.replace("x", ",").replace("×", ",").partition(":")
    kind = kind.strip() or "float"
    if kind not in KINDS:
        raise PellucidError(
            f"there is no kind of input called {quoted(kind)}",
            fix=did_you_mean(kind, KINDS, f"Write one of {', '.join(KINDS)}"),
        )
    parts = [part.strip() for part in sizes.strip(" ()[]").split(",") if part.strip()]
    wrong = next((part for part in parts if not re.fullmatch(r"[0-9]{1,12}", part) or int(part) < 1), None)
    if wrong is not None or not parts:
        raise PellucidError(
            f"{quoted(wrong if wrong is not None else word)} is no size in --input {quoted(word)}",
            fix="Write whole numbers with commas, as 1,1,32,32, or 2,16:int for tokens",
        )
    found = InputShape(tuple(int(part) for part in parts), kind)
    if prod(found.sizes) > MOST_NUMBERS:
        raise TooLarge(f"an input of {prod(found.sizes):,} numbers is too large", fix="Write smaller sizes")
    return found
