"""A module of a network on one input, down to single numbers."""

from typing import NamedTuple


class ModuleOnInput(NamedTuple):
    """One module of a network, as it ran on an input."""

    path: str
    kind: str
    inputs: tuple[tuple[int, ...], ...]  # shapes
    output: tuple[int, ...]
    parameters: int
    has_formula: bool  # one of its units can be written as an expression


class NumberTable(NamedTuple):
    """Numbers by row and column, and what the rows stand for."""

    rows: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    n_columns: int  # in all: the table may hold the first of them


class ModuleNumbers(NamedTuple):
    """What went into a module and what came out, row by row."""

    path: str
    kind: str
    formula: str  # as it is written in books
    given: NumberTable | None
    made: NumberTable


class UnitExpression(NamedTuple):
    """One unit of a module at one place, as an expression with its numbers."""

    path: str
    row: int
    unit: int
    expression: str
    values: dict[str, float | list[float]]
    measured: float  # what the network itself put out there
    n_values: int  # numbers that it is made of
    symbols: dict[str, str]  # what each name stands for


__all__ = ["ModuleNumbers", "ModuleOnInput", "NumberTable", "UnitExpression"]
