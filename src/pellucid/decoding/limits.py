"""What a draw may be asked for. Nothing heavy, so that a bad wish is refused at once."""

import math

from pellucid.errors import PellucidError

MOST_SEED = 2**64 - 1


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
