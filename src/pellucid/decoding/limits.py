"""What a draw may be asked for. Nothing heavy, so that a bad wish is refused at once."""

import math
import sys

from pellucid.errors import PellucidError

MOST_SEED = 2**64 - 1
MOST_BEAM = 1_000
MOST_PENALTY = 10.0
ALL = sys.maxsize  # as many tokens as there are


def require_temperature(temperature: float) -> None:
    """Refuse a temperature that bends no distribution."""
    if not (math.isfinite(temperature) and temperature >= 0):
        raise PellucidError(
            f"the temperature is {temperature:g}", fix="Choose 0 (always the likeliest) or more; 1 leaves it as it is"
        )


def require_seed(seed: int) -> None:
    """Refuse a seed that is no 64-bit number."""
    if not 0 <= seed <= MOST_SEED:
        raise PellucidError(f"the seed is {seed}", fix="Choose a whole number from 0 to 2^64 - 1")


def require_top_k(k: int, vocab_size: int = ALL) -> None:
    """Refuse to keep no token, or more than there are; `ALL` is always well."""
    if k < 1:
        raise PellucidError(f"top-k is {k}", fix="Choose a whole number from 1, or leave it out to keep all tokens")
    if vocab_size < k < ALL:
        raise PellucidError(
            f"top-k is {k:,} and there are {vocab_size:,} tokens",
            fix="Choose fewer, or leave it out to keep all tokens",
        )


def require_top_p(mass: float) -> None:
    """Refuse a mass that is no part of all probability. nan is refused too."""
    if not 0 < mass <= 1:
        raise PellucidError(f"top-p is {mass:g}", fix="Choose a number above 0, at most 1, such as 0.9")


def require_beam(width: int) -> None:
    """Refuse a beam that follows nothing, or more than memory is meant for."""
    if not 1 <= width <= MOST_BEAM:
        raise PellucidError(f"the beam is {width}", fix=f"Choose a whole number from 1 to {MOST_BEAM:,}, such as 4")


def require_length_penalty(power: float) -> None:
    """Refuse a power of the length that is negative or overflows; nan is refused too."""
    if not 0 <= power <= MOST_PENALTY:
        raise PellucidError(
            f"the length penalty is {power:g}", fix=f"Choose 0 (none) to {MOST_PENALTY:g}; 1 compares means"
        )
