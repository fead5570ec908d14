"""Position encodings: attention alone could not tell where a token stands, it sees a set of tokens and not a row.

Each says in `acts_on` where it acts: on the input, on queries and keys, on the scores, or on nothing. To add one, write
its class (see `Positions`) and add a row here; then it is a choice of `positions` everywhere. Nothing here needs torch:
the class is imported when it is built.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.layers.positions.encodings import Positions

# Where the class of each stands, as "module:Class".
ENCODINGS: dict[str, str] = {
    "none": "pellucid.layers.positions.encodings:NoPositions",
    "index": "pellucid.layers.positions.encodings:IndexPositions",
    "sinusoidal": "pellucid.layers.positions.encodings:SinusoidalPositions",
    "learned": "pellucid.layers.positions.encodings:LearnedPositions",
    "rotary": "pellucid.layers.positions.encodings:RotaryPositions",
    "relative": "pellucid.layers.positions.encodings:RelativeBias",
    "alibi": "pellucid.layers.positions.encodings:ALiBi",
}
POSITIONS = tuple(ENCODINGS)


def build_positions(
    name: str, *, length: int, width: int, n_heads: int, is_causal: bool, rotary_base: float = 10_000.0
) -> Positions:
    """The encoding of this name, for up to `length` tokens of `width` numbers, shared by `n_heads` heads.

    rotary_base: of rotary positions, how much slower the last pair turns than the first.

    >>> build_positions("alibi", length=8, width=16, n_heads=4, is_causal=True).acts_on
    'scores'
    """
    module, _, class_name = ENCODINGS[name].partition(":")
    encoding: type[Positions] = getattr(importlib.import_module(module), class_name)
    return encoding.for_attention(
        length=length, width=width, n_heads=n_heads, is_causal=is_causal, rotary_base=rotary_base
    )
