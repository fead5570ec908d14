"""Ours = torch's, written in Python: Value's operators and methods, mixed with plain numbers, beside a tensor's."""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.at_length import examples
from torch.nn import functional
from trust.arbiter import agree

from pellucid.autograd.value import Value, maximum, minimum, product, total, where

Number = Any  # a Value, a tensor or a plain number

TWO: dict[str, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}
# What Value calls by a method or a function, and torch by another name.
OURS: dict[str, Callable[..., Number]] = {
    **{name: operator.methodcaller(name) for name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "relu")},
    **{name: operator.methodcaller(name) for name in ("leaky_relu", "softplus", "gelu")},
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
}
THEIRS: dict[str, Callable[..., Number]] = {
    **{name: getattr(torch, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "relu")},
    "leaky_relu": functional.leaky_relu,
    "softplus": lambda a: functional.softplus(a, threshold=700.0),
    "gelu": functional.gelu,
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
}
MANY: dict[str, tuple[Callable[..., Number], Callable[..., Number]]] = {
    "max": (maximum, lambda *xs: torch.stack(xs).amax(0)),
    "min": (minimum, lambda *xs: torch.stack(xs).amin(0)),
    "sum": (lambda *xs: total(xs), lambda *xs: torch.stack(xs).sum(0)),
    "prod": (lambda *xs: product(xs), lambda *xs: torch.stack(xs).prod(0)),
}

# Kept away from where digits cancel or slopes saturate: there mpmath has to decide, as the expressions' twin does.
tame = st.one_of(st.floats(0.1, 2.0), st.sampled_from([0.5, 1.0, 2.0]))
step = st.tuples(
    st.sampled_from([*TWO, *OURS, *MANY, "where", "plain left", "plain right"]),
    st.integers(0, 50),
    st.integers(0, 50),
    st.sampled_from([*TWO]),
    st.sampled_from([2, 3, 0.5, -1, 1.5]),
)


def run(program: list[tuple[str, int, int, str, float]], leaves: list[Number], is_ours: bool) -> list[Number]:
    """The program's numbers, one after the other, with Values or with tensors."""
    numbers = list(leaves)
    for name, i, k, sign, plain in program:
        a, b = numbers[i % len(numbers)], numbers[k % len(numbers)]
        if name in TWO:
            numbers.append(TWO[name](a, b))
        elif name in OURS:
            numbers.append((OURS if is_ours else THEIRS)[name](a))
        elif name in MANY:
            numbers.append(MANY[name][0 if is_ours else 1](a, b, a))
        elif name == "where":
            numbers.append(where(a, b, a) if is_ours else torch.where(a > 0, b, a))
        elif name == "plain left":
            numbers.append(TWO[sign](plain, a))
        else:
            numbers.append(TWO[sign](a, plain))
    return numbers


@settings(max_examples=examples(600), derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(step, min_size=1, max_size=6), st.lists(tame, min_size=1, max_size=3))
def test_values_compute_what_tensors_compute(
    program: list[tuple[str, int, int, str, float]], points: list[float]
) -> None:
    ours = [Value(x) for x in points]
    theirs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in points]
    all_ours, all_theirs = run(program, ours, True), run(program, theirs, False)
    for number, twin in zip(all_ours, all_theirs, strict=True):
        assume(not is_touchy(number.data))
        assert agree(number.data, twin.item())
    all_ours[-1].backward()
    gradients = torch.autograd.grad(all_theirs[-1], theirs, allow_unused=True)
    for value, gradient in zip(ours, gradients, strict=True):
        expected = 0.0 if gradient is None else gradient.item()
        assert math.isclose(value.grad, expected, rel_tol=1e-11, abs_tol=1e-13), (value.grad, expected)


def is_touchy(x: float) -> bool:
    """Near zero by cancellation, beyond where slopes saturate, or not finite."""
    return not 1e-6 < abs(x) < 15.0


def test_plain_numbers_stand_on_either_side() -> None:
    x = Value(2.0)
    results = [1 + x, x + 1, 3 - x, x - 3, 3 * x, x * 3, 3 / x, x / 4, 3**x, x**3, +x, -x, abs(x)]
    assert [result.data for result in results] == [3, 3, 1, -1, 6, 6, 1.5, 0.5, 9, 8, 2, -2, 2]
