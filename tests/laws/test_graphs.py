"""Laws of any graph: paths add up to gradients, telling equals computing, asking twice changes nothing."""

import gc
import math
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.at_length import examples
from trust.trees import N_POINTS, case

from pellucid.autograd import explain, graph, parse
from pellucid.autograd.explanation import backward_pass, n_paths_in, paths_in
from pellucid.autograd.value import Value, ancestors, maximum, product, total, where

MOST_PATHS = 300
N_GRAPHS = 400
SEED = 5


def traced(number: int) -> tuple[list[Value], Value]:
    """The nodes and the answer of a generated expression at one of its points."""
    one = case(SEED, number)
    program = parse(one.text)
    nodes = program.trace(one.at(number % N_POINTS))
    return nodes, nodes[program.statements[-1].place]


def is_near(ours: float, theirs: float, size: float) -> bool:
    """Equal but for the order in which parts of this size were added."""
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return str(ours) == str(theirs)
    return abs(ours - theirs) <= 1e-12 * size + 1e-300


def test_contributions_of_all_paths_add_up_to_the_gradient() -> None:
    n_summed = n_with_several = 0
    for number in range(N_GRAPHS):
        _, output = traced(number)
        output.backward()
        nodes = ancestors(output)
        records = graph(nodes)
        last = len(nodes) - 1
        for index, node in enumerate(nodes):
            ways = n_paths_in(records, last, index)
            if ways > MOST_PATHS or node.rule.name != "input":
                continue
            found = paths_in(records, last, index)
            assert len(found) == ways
            parts = [path.contribution for path in found]
            # Infinite parts may cancel to nan along single paths while they never meet in the sum over nodes.
            if all(map(math.isfinite, parts)) and math.isfinite(node.grad) and output.data == output.data:
                assert is_near(math.fsum(parts), node.grad, sum(map(abs, parts)) + abs(node.grad))
                n_summed += 1
                n_with_several += ways > 1
    print(f"{n_summed} gradients were sums over paths, {n_with_several} of them over several")
    assert n_with_several > 100


def test_explaining_gives_the_gradients_of_backward() -> None:
    for number in range(N_GRAPHS):
        _, output = traced(number)
        output.backward()
        nodes = ancestors(output)
        records = graph(nodes)
        told = backward_pass(records, len(nodes) - 1)
        sums = [0.0] * len(nodes)
        sums[-1] = told.gradients[-1]
        for step in told.steps:
            assert repr(step.contribution) == repr(step.upstream * step.slope)
            sums[step.parent] += step.contribution
            assert repr(step.running_sum) == repr(sums[step.parent])
            assert 1 <= step.use <= step.uses
            assert step.because
        for record, node, gradient, summed in zip(records, nodes, told.gradients, sums, strict=True):
            if record.can_move:
                assert is_near(gradient, node.grad, abs(node.grad))
                assert repr(summed) == repr(gradient)


def test_backward_twice_is_backward_once() -> None:
    for number in range(N_GRAPHS):
        nodes, output = traced(number)
        output.backward()
        once = [repr(node.grad) for node in nodes]
        output.backward()
        assert [repr(node.grad) for node in nodes] == once


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=5))
def test_accumulating_adds(numbers: list[float]) -> None:
    weight = Value(0.5)
    for x in numbers:
        (weight * x).tanh().backward(accumulate=True)
    together = Value(0.5)
    total([(together * x).tanh() for x in numbers]).backward()
    assert weight.grad == pytest.approx(together.grad, rel=1e-12, abs=1e-15)


def test_parents_keep_their_order_and_their_repeats() -> None:
    a, b = Value(2.0), Value(5.0)
    assert (a - b).parents == (a, b)
    assert (a * a).parents == (a, a)
    assert (3 - a).parents[1] is a
    assert total([a, b, a]).parents == (a, b, a)
    square = a * a
    square.backward()
    assert a.grad == 4.0
    cube = product([a, a, a])
    cube.backward()
    assert a.grad == 12.0


def test_the_road_not_taken_gets_exactly_nothing() -> None:
    x = Value(-1.0)
    safe = where(x, x.log(), x * 2)  # the logarithm is nan, and nobody asked for it
    safe.backward()
    assert (safe.data, x.grad) == (-2.0, 2.0)


def test_a_nan_value_never_carries_a_finite_gradient() -> None:
    x, y = Value(-1.0), Value(3.0)
    out = x.log() + y
    out.backward()
    assert math.isnan(out.data)
    assert math.isnan(x.grad)
    assert math.isnan(y.grad)


def test_a_deep_graph_is_freed_at_once_and_without_recursion() -> None:
    class Witness(Value):
        __slots__ = ("__weakref__",)

    witness = Witness(0.5)
    gone = weakref.ref(witness)
    node: Value = witness + 0.0
    for _ in range(200_000):
        node = -node
    gc.disable()
    try:
        del witness, node
        assert gone() is None, "the graph refers to itself"
    finally:
        gc.enable()


@settings(max_examples=examples(50))
@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), min_size=1, max_size=6))
def test_ties_share_the_gradient_and_lose_none(numbers: list[float]) -> None:
    values = [Value(x) for x in numbers]
    maximum(*values).backward()
    assert math.fsum(v.grad for v in values) == pytest.approx(1.0)
    assert all((v.grad > 0.0) == (v.data == max(numbers)) for v in values)


def test_explain_says_why_in_words() -> None:
    x = Value(3.0, "x")
    steps = explain(x * x + x)
    assert [(step.use, step.uses) for step in steps if step.parent == 0] == [(1, 3), (2, 3), (3, 3)]
    assert all("{" not in step.because for step in steps)
