"""Where a token stands: attention alone could not tell, it sees a set of tokens and not a row.

Seven kinds with one interface. Each says in `acts_on` where it acts: on the input, on queries and keys, on the scores,
or on nothing.
"""

from pellucid.layers.positions.absolute import IndexPositions, LearnedPositions, SinusoidalPositions, sinusoids
from pellucid.layers.positions.distances import ALiBi, RelativeBias, buckets, distances, slopes
from pellucid.layers.positions.interface import NoPositions, Positions
from pellucid.layers.positions.resizing import resized_grid, resized_row
from pellucid.layers.positions.rotary import RotaryPositions, turned, turns

POSITIONS = ("none", "index", "sinusoidal", "learned", "rotary", "relative", "alibi")


def positions_called(kind: str, *, length: int, width: int, n_heads: int, is_causal: bool) -> Positions:
    """The positions of this kind, for up to `length` tokens of `width` numbers, shared by `n_heads` heads.

    >>> positions_called("alibi", length=8, width=16, n_heads=4, is_causal=True).acts_on
    'scores'
    """
    match kind:
        case "none":
            return NoPositions()
        case "index":
            return IndexPositions(width)
        case "sinusoidal":
            return SinusoidalPositions(length, width)
        case "learned":
            return LearnedPositions(length, width)
        case "rotary":
            return RotaryPositions(length, width // n_heads)
        case "relative":
            return RelativeBias(n_heads, is_causal=is_causal)
        case "alibi":
            return ALiBi(n_heads)
    raise AssertionError(f"no positions are called {kind}")


__all__ = [
    "POSITIONS",
    "ALiBi",
    "IndexPositions",
    "LearnedPositions",
    "NoPositions",
    "Positions",
    "RelativeBias",
    "RotaryPositions",
    "SinusoidalPositions",
    "buckets",
    "distances",
    "positions_called",
    "resized_grid",
    "resized_row",
    "sinusoids",
    "slopes",
    "turned",
    "turns",
]
