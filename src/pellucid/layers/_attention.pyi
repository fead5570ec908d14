from typing import Any

import numpy.typing as npt

Numbers = npt.NDArray[Any]

def forward(
    parts: Numbers,
    starts: Numbers,
    n_heads: int,
    width: int,
    angles: Numbers | None,
    weights: Numbers,
    mixed: Numbers,
    is_plain: bool = False,
    /,
) -> None: ...
def backward(
    parts: Numbers,
    starts: Numbers,
    n_heads: int,
    width: int,
    angles: Numbers | None,
    weights: Numbers,
    of_mixed: Numbers,
    of_parts: Numbers,
    is_plain: bool = False,
    /,
) -> None: ...
