"""Ours = torch's: values and gradients of generated expressions, and of every rule at every special number."""

import functools
import itertools
import math

import pytest
from trust.arbiter import agree
from trust.expressions import CHUNK, Tally, check, fuzz, report, stretch
from trust.trees import ANY_NUMBER, INFIX, N_POINTS, UNARY, Case, Node, case

SEED = 1
N_EXPRESSIONS = 2_000  # `make trust` tries a million
SPECIAL = (
    *(0.0, -0.0, 5e-324, -5e-324, 1e-310, -1e-310, 2.2250738585072014e-308, 1e-160, -1e-160, 1 / 3, -1 / 3),
    *(0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, -8.0, -0.7517915246935645, 37.5, -37.5, 710.0, -710.0, -745.0),
    *(1e16, 1e155, -1e155, 1.7976931348623157e308, -1.7976931348623157e308, math.inf, -math.inf, math.nan),
)


@functools.cache
def chunk_from(start: int) -> Tally:
    return stretch((SEED, start, start + CHUNK))


@pytest.mark.parametrize("start", range(0, N_EXPRESSIONS, CHUNK))
def test_generated_expressions(start: int) -> None:
    tally = chunk_from(start)
    print(report(tally, SEED))
    assert tally.n_cases == CHUNK
    assert not tally.wrong, report(tally, SEED)


def test_a_case_is_a_pure_function_of_seed_and_number() -> None:
    assert case(3, 14) == case(3, 14)
    assert case(3, 14) != case(3, 15)
    assert case(3, 14) != case(4, 14)


def test_two_processes_find_what_one_finds(monkeypatch) -> None:
    monkeypatch.setattr("trust.expressions.CHUNK", 100)
    alone, shared = fuzz(200, SEED), fuzz(200, SEED, processes=2)
    assert (alone.verdicts, alone.n_gradients) == (shared.verdicts, shared.n_gradients)


def test_every_operation_is_tried_often() -> None:
    tally = chunk_from(0)
    assert set(tally.kinds) == {*UNARY, *ANY_NUMBER, *INFIX, "neg", "where", "number", "variable"}
    assert min(tally.kinds.values()) > 100


def of_one_operation(kind: str, rows: list[tuple[float, ...]]) -> list[Case]:
    """Cases that apply the operation alone to each of the rows of inputs, eight rows at a time."""
    cases = []
    n_inputs = len(rows[0])
    names = ["x", "y", "z"][:n_inputs]
    text = f"-{names[0]}" if kind == "neg" else kind.join(names) if kind in INFIX else f"{kind}({', '.join(names)})"
    nodes = [Node("variable", (), float(i)) for i in range(n_inputs)]
    nodes.append(Node(kind, tuple(range(n_inputs)), 0.0))
    for number, start in enumerate(range(0, len(rows), N_POINTS)):
        eight = (rows[start : start + N_POINTS] * N_POINTS)[:N_POINTS]
        columns = [list(column) for column in zip(*eight, strict=True)]
        cases.append(Case(0, number, text, nodes, names, columns))
    return cases


@pytest.mark.parametrize("kind", ["neg", *UNARY, *INFIX, *ANY_NUMBER, "where"])
def test_special_numbers(kind: str) -> None:
    n_inputs = 3 if kind == "where" else 2 if kind in INFIX or kind in ANY_NUMBER else 1
    numbers = SPECIAL if n_inputs < 3 else SPECIAL[::3]
    tally = Tally()
    for one in of_one_operation(kind, list(itertools.product(numbers, repeat=n_inputs))):
        check(one, tally)
    print(report(tally, 0))
    assert not tally.wrong, report(tally, 0)


@pytest.mark.parametrize("kind", ["max", "min", "sum", "prod"])
@pytest.mark.parametrize("n_inputs", [1, 3])
def test_special_numbers_in_ones_and_threes(kind: str, n_inputs: int) -> None:
    tally = Tally()
    for one in of_one_operation(kind, list(itertools.product(SPECIAL[::3], repeat=n_inputs))):
        check(one, tally)
    assert not tally.wrong, report(tally, 0)


def test_agreement_is_strict() -> None:
    assert agree(1.0, 1.0 + 9e-13)
    assert not agree(1.0, 1.0 + 2e-12)
    assert not agree(math.nan, 1.0)
    assert not agree(math.inf, 1.7976931348623157e308)
    assert not agree(0.0, 1e-300)
