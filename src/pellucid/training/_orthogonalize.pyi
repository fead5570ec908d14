from typing import Any

import numpy.typing as npt

Numbers = npt.NDArray[Any]

def orthogonalize(
    matrices: Numbers, made: Numbers, rows: int, columns: int, coefficients: Numbers, is_narrow: bool = False, /
) -> None: ...
def is_supported() -> bool: ...
