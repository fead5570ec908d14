from typing import Any

import numpy.typing as npt

from pellucid.models.counting.count_model import IntArray

Numbers = npt.NDArray[Any]

class Decoder:
    def __init__(
        self,
        *,
        is_double: bool,
        n_tokens: int,
        vocab_size: int,
        context: int,
        width: int,
        n_heads: int,
        embedding: Numbers,
        head: Numbers,
        blocks: tuple[tuple[Numbers, Numbers, Numbers, Numbers], ...],
        places: Numbers | None,
        angles: Numbers | None,
        bias: Numbers | None,
        wide: int,
        instructions: int = 2,
    ) -> None: ...

class Past:
    def __init__(self, decoder: Decoder) -> None: ...
    def reserve(self, n: int, /) -> None: ...
    def copy(self, source: Past, sources: IntArray, targets: IntArray, n: int, /) -> None: ...
    def advance(self, tokens: IntArray, slots: IntArray, positions: IntArray, logits: Numbers, /) -> None: ...
