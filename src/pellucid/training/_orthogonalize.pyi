from typing import Any

import numpy.typing as npt

Numbers = npt.NDArray[Any]

def orthogonalize(
    matrices: Numbers, made: Numbers, rows: int, columns: int, coefficients: Numbers, is_narrow: bool = False, /
) -> None: ...
def step(
    gradient: Numbers,
    parameter: Numbers,
    momentum: Numbers,
    squares: Numbers,
    rows: int,
    columns: int,
    is_tall: bool,
    coefficients: Numbers,
    kept: float,
    levelling: float,
    least_square: float,
    shrunk: float,
    rate: float,
    is_narrow: bool = False,
    /,
) -> None: ...
def is_supported() -> bool: ...
