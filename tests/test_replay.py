"""A replay has the values and gradients of the graph it was traced from, for any numbers, or it says no."""

import math
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from pellucid.autograd.nn import ScalarMLP, cross_entropy
from pellucid.autograd.replays import replay
from pellucid.autograd.rules import RULES
from pellucid.autograd.value import Value, ancestors, apply, maximum, product, total, was_compared, where
from pellucid.errors import GraphChanges, PellucidError


def assert_same_as_eager(
    build: Callable[[], Value], leaves: Sequence[Value], draw: random.Random, rounds: int = 4
) -> None:
    """Trace at the numbers at hand, then compare at others; half of the leaves are inputs and half parameters."""
    half = len(leaves) // 2
    fast = replay(build, inputs=leaves[:half], parameters=leaves[half:])
    for _ in range(rounds):
        numbers = [draw.uniform(-2.0, 2.0) for _ in leaves]
        for leaf, number in zip(leaves, numbers, strict=True):
            leaf.data = number
        loss = build()
        loss.backward()
        value, gradients = fast.run(inputs=numbers[:half], parameters=np.array(numbers[half:]))
        # Sums in another order differ in the last digits of their largest terms, not of their result.
        scale = max(1.0, max(abs(node.grad) for node in ancestors(loss) if math.isfinite(node.grad)))
        assert value == pytest.approx(loss.data, rel=1e-12, abs=1e-12, nan_ok=True)
        wanted = [leaf.grad for leaf in leaves]
        came = [*fast.input_gradients.tolist(), *gradients.tolist()]
        assert came == pytest.approx(wanted, rel=1e-12, abs=1e-12 * scale, nan_ok=True)


def random_graph(draw: random.Random, leaves: Sequence[Value], n_operations: int) -> Value:
    """Rules of the table on earlier numbers, shared at random, and each result tamed so that nothing overflows."""
    nodes = list(leaves)
    for _ in range(n_operations):
        rule = RULES[draw.choice(sorted(RULES))]
        inputs = [draw.choice(nodes[-12:]) for _ in range(rule.arity or draw.randint(1, 5))]
        if rule.name in ("divide", "log", "sqrt", "power"):
            inputs = [value.softplus() + 0.5 for value in inputs]
        elif rule.name in ("asin", "acos"):
            inputs = [value.tanh() * 0.9 for value in inputs]
        elif rule.name == "tan":
            inputs = [value.tanh() for value in inputs]
        result = apply(rule, *inputs)
        nodes.append(
            result.tanh() * draw.uniform(0.5, 2.0) if draw.random() < 0.7 or rule.arity == 1 else result * 0.25
        )
    return total([*nodes[-4:], *leaves])


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_with_every_rule(seed: int) -> None:
    leaves = [Value(random.Random(seed + 1000).uniform(-2, 2), f"x{i}") for i in range(6)]
    assert_same_as_eager(lambda: random_graph(random.Random(seed), leaves, 40), leaves, random.Random(seed))


@pytest.mark.parametrize("name", RULES)
def test_each_rule_alone(name: str) -> None:
    rule = RULES[name]
    for point in rule.tried_at:
        leaves = {f"x{i}": Value(x) for i, x in enumerate(point)}
        out = apply(rule, *leaves.values())
        out.backward()
        fast = replay(out, inputs=leaves)
        assert fast.value == pytest.approx(out.data, rel=1e-14)
        assert fast.input_gradients.tolist() == pytest.approx([leaf.grad for leaf in leaves.values()], rel=1e-14)


@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid", "linear"])
def test_networks_become_matrix_products(activation: str) -> None:
    draw = random.Random(3)
    model = ScalarMLP(3, [12, 12, 4], activation=activation, seed=draw)
    points = [[Value(draw.uniform(-1, 1)) for _ in range(3)] for _ in range(20)]
    leaves = [*[x for point in points for x in point], *model.parameters()]

    def build() -> Value:
        return total([cross_entropy(model(point), i % 4) for i, point in enumerate(points)]) / len(points)

    assert_same_as_eager(build, leaves, draw, rounds=2)
    fast = replay(build, parameters=model.parameters())
    assert sum(type(step).__name__ == "MatrixProduct" for step in fast._graph.instructions) == 3
    assert fast.n_instructions < 20


def test_weights_on_either_side_and_points_as_plain_floats() -> None:
    model = ScalarMLP(8, [16], seed=1)
    points = [[math.sin(i * 7 + j) for j in range(8)] for i in range(30)]

    def build() -> Value:
        neurons = model.layers[0].neurons
        flipped = [
            total([*[x * w for x, w in zip(p, n.weights, strict=True)], n.bias]) for n in neurons for p in points
        ]
        return total([score * score for score in flipped])

    fast = replay(build, parameters=model.parameters())
    assert next(type(step).__name__ for step in fast._graph.instructions) == "MatrixProduct"
    assert_same_as_eager(build, model.parameters(), random.Random(2))


def test_sharing_and_powers_of_itself() -> None:
    x, y = Value(0.5, "x"), Value(1.5, "y")

    def build() -> Value:
        shared = x * y + x
        return shared * shared + product([shared, shared, y]) + (shared - shared) + maximum(shared, shared) - x * x

    assert_same_as_eager(build, [x, y], random.Random(0), rounds=20)


def test_deep_and_long() -> None:
    x, y = Value(0.3, "x"), Value(0.7, "y")

    def deep() -> Value:
        out = x
        for _ in range(2000):
            out = (out * y).sin() + x
        return out

    assert_same_as_eager(deep, [x, y], random.Random(0), rounds=1)

    def long(n_terms: int, is_from_right: bool = False) -> Value:
        out = x * y
        for _ in range(n_terms):
            out = x + out if is_from_right else out + x
        for _ in range(n_terms):
            out = out - y
        return out

    for is_from_right in (False, True):
        assert_same_as_eager(lambda r=is_from_right: long(500, r), [x, y], random.Random(0))
        fast = replay(long(30_000, is_from_right), inputs=[x], parameters=[y])
        assert fast.n_instructions == 1
        exact = Fraction(x.data) * Fraction(y.data) + 30_000 * (Fraction(x.data) - Fraction(y.data))
        # 60,000 roundings one after another cost the eager sum more digits than this.
        assert fast.value == pytest.approx(float(exact), rel=1e-12)


def test_where_chooses_anew_and_what_it_passes_by_gives_exactly_nothing() -> None:
    x = Value(4.0, "x")
    fast = replay(lambda: where(x, x.sqrt() + x.log(), x * x * 3.0), inputs=[x])
    assert (fast.value, fast.gradient["x"]) == (2.0 + math.log(4.0), 0.5)
    # The road not taken is not a number here, with an infinite slope at zero; nothing of it may leak.
    assert fast.run(inputs=[-1.0])[0] == 3.0
    assert fast.gradient == {"x": -6.0}
    fast.run(inputs=[0.0])
    assert fast.gradient == {"x": 0.0}


def test_where_inside_where_and_roads_that_meet_again() -> None:
    a, b, c = leaves = [Value(x, name) for x, name in ((1.0, "a"), (0.5, "b"), (-2.0, "c"))]

    def build() -> Value:
        inner = where(b, (a * c).exp(), b.log())
        return where(a - c, inner * b + total([a, inner]), (b - c) * inner) + where(c, inner, b * 2.0) * a

    assert_same_as_eager(build, leaves, random.Random(1), rounds=60)


def test_a_result_that_is_not_a_number_has_gradients_that_are_none() -> None:
    x, y = Value(1.0, "x"), Value(2.0, "y")
    fast = replay(lambda: x.log() + y * y, inputs=[x], parameters=[y])
    value, gradients = fast.run(inputs=[-1.0])
    assert math.isnan(value)
    assert np.isnan(gradients).all()
    assert fast.run(inputs=[1.0])[0] == 4.0


def test_names_arrays_and_the_way_home() -> None:
    x, w, bias = Value(2.0, "x"), Value(3.0, "w"), Value(-1.0)
    fast = replay(lambda: w * x + bias, inputs={"point": x}, parameters=[w, bias])
    assert (fast.input_names, fast.parameter_names) == (("point",), ("w", "parameter2"))
    assert fast.run(inputs={"point": 5.0}) == (14.0, pytest.approx([5.0, 1.0]))
    assert fast.forward(parameters=np.array([[1], [10]])) == 15.0
    assert fast.forward(parameters={"parameter2": 0.5}) == 5.5
    assert fast.backward().tolist() == [5.0, 1.0]
    assert fast.gradient == {"point": 1.0, "w": 5.0, "parameter2": 1.0}
    assert (x.data, w.data, bias.data) == (2.0, 3.0, -1.0)
    fast.store()
    assert (x.data, w.data, bias.data) == (5.0, 1.0, 0.5)
    assert (x.grad, w.grad, bias.grad) == (1.0, 5.0, 1.0)


def test_a_loss_that_is_its_own_input() -> None:
    x = Value(2.0, "x")
    fast = replay(x, inputs=[x])
    assert (fast.forward(inputs=[3.0]), fast.gradient) == (3.0, {"x": 1.0})


def test_tracing_leaves_no_trace() -> None:
    x, w = Value(2.0, "x"), Value(0.1 + 0.2, "w")
    x.grad, w.grad = 5.0, 6.0
    assert x < 3.0
    replay(lambda: x * w, inputs=[x], parameters=[w])
    assert (x.data, w.data, x.grad, w.grad) == (2.0, 0.1 + 0.2, 5.0, 6.0)
    assert (was_compared(x), was_compared(w)) == (True, False)
    with pytest.raises(GraphChanges):
        replay(lambda: x * w if w > 0 else x, inputs=[x], parameters=[w])
    assert (x.data, w.data, was_compared(w)) == (2.0, 0.1 + 0.2, False)


# Each builds a loss from x = 2 and w = 3 that Python shapes by looking at the numbers.
def _by_comparing(x: Value, w: Value) -> Value:
    return w * x if x > 0 else -w


def _by_comparing_something_made_from_it(x: Value, w: Value) -> Value:
    return w * x if (x * w).exp() < 1e9 else w - x


def _by_truth(x: Value, w: Value) -> Value:
    return w * x if x else w


def _by_sorting(x: Value, w: Value) -> Value:
    return sorted([x, w])[0] * 2.0 + x + w


def _by_float(x: Value, w: Value) -> Value:
    return x * w + float(x)


def _by_looking_inside(x: Value, w: Value) -> Value:
    return x * w if x.data > 0 else x + w


def _by_counting(x: Value, w: Value) -> Value:
    out = x
    for _ in range(int(abs(x.data) * 1000)):
        out = out * w
    return out


def _by_a_constant_from_the_data(x: Value, w: Value) -> Value:
    return (x - x.data) * w


def _by_chance(x: Value, w: Value) -> Value:
    return x * w * random.random()


def _by_failing(x: Value, w: Value) -> Value:
    return x * w if math.log(x.data) < 100.0 else x


def _by_swapping_leaves(x: Value, w: Value) -> Value:
    return (x - w) if x.data > 0 else (w - x)


REFUSED = {
    _by_comparing: "the loss looks at the input x, or at a number made from it, to decide something in Python",
    _by_comparing_something_made_from_it: "the loss looks at the input x",
    _by_truth: "the loss looks at the input x",
    _by_sorting: "the loss looks at the input x",
    _by_float: "a number that should stay the same turns from 2 into 2.00286 with the data in add(a multiply of 6, 2)",
    _by_looking_inside: "the loss is another graph for other numbers: multiply(x, w) becomes add(x, w) at step 3 of 3",
    _by_counting: "the loss is made of 2002 numbers",
    _by_a_constant_from_the_data: "a number that should stay the same turns from 2 into 2.0",
    _by_chance: "a number that should stay the same turns from",
    _by_failing: "the loss can be built for the numbers given but not for others (ValueError: math domain error)",
    _by_swapping_leaves: "the loss is another graph for other numbers: w becomes x at step 1 of 3",
}


@pytest.mark.parametrize("build", REFUSED, ids=lambda build: build.__name__.strip("_"))
def test_a_graph_that_changes_with_the_data_is_refused(build: Callable[[Value, Value], Value]) -> None:
    x, w = Value(2.0, "x"), Value(3.0, "w")
    with pytest.raises(GraphChanges) as refusal:
        replay(lambda: build(x, w), inputs=[x], parameters=[w])
    assert str(refusal.value).startswith(REFUSED[build])


def test_a_value_whose_graph_was_looked_at_is_refused_with_the_function_as_the_way_out() -> None:
    x, w = Value(2.0, "x"), Value(3.0, "w")
    loss = x * w
    replay(loss, inputs=[x], parameters=[w])
    assert w > 1.0
    with pytest.raises(GraphChanges) as refusal:
        replay(loss, inputs=[x], parameters=[w])
    assert str(refusal.value) == (
        "Python looked at w, or at a number made from it, so what was built may hang on it. "
        "Pass a function that builds the loss, so that it can be built for other numbers and compared."
    )
    # An old look does not count when the function is seen not to look.
    assert replay(lambda: x * w, inputs=[x], parameters=[w]).value == 6.0


def test_a_look_at_a_number_from_outside_counts_though_it_was_looked_at_before() -> None:
    x = Value(2.0, "x")
    doubled = x * 2.0
    assert doubled > 0
    with pytest.raises(GraphChanges, match="the loss looks at the input x"):
        replay(lambda: doubled * x if doubled > 0 else x, inputs=[x])


def test_slopes_may_hang_on_the_data_where_the_graph_does_not() -> None:
    x, y = Value(-1.0, "x"), Value(2.0, "y")
    assert_same_as_eager(lambda: maximum(x, y) + abs(x) * x.relu() - (x - y).leaky_relu(), [x, y], random.Random(4), 30)


X, W, UNUSED = Value(2.0, "x"), Value(3.0, "w"), Value(1.0, "unused")


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            lambda: replay(lambda: X * W, [X], [W, UNUSED]),
            "the loss does not depend on the parameter unused. Leave it out of the parameters, or use it in the loss.",
        ),
        (
            lambda: replay(lambda: X * W, [X * 2.0], [W]),
            "the input input1 is computed, by multiply. List the numbers that it is made from instead.",
        ),
        (lambda: replay(lambda: X * W, [X], [W, X]), "the parameter x is listed twice, also as x. List it once."),
        (
            lambda: replay(lambda: X * W, {"a": X}, {"a": W}),
            "'a' names the parameter and also the input before it. Give each a name of its own.",
        ),
        (lambda: replay(lambda: X * W, [X], [3.0]), "the parameter parameter1 is a float. Make it Value(3.0)."),
        (
            lambda: replay(X * W),
            "a replay with neither inputs nor parameters came. List the numbers that will change.",
        ),
        (lambda: replay(lambda: 3.0, [X]), "the function that builds the loss gave a float. Let it return one Value."),
        (
            lambda: replay(X * W, [X], [W]).run(inputs=[1.0, 2.0]),
            "2 numbers came for 1 inputs. Give one number for each input, or some by name.",
        ),
        (
            lambda: replay(X * W, [X], [W]).run(parameters=[]),
            "0 numbers came for 1 parameters. Give one number for each parameter, or some by name.",
        ),
        (
            lambda: replay(X * W, [X], {"weight": W}).run(parameters={"wieght": 1.0}),
            "there is no parameter 'wieght'. Perhaps you meant weight.",
        ),
        *[
            (
                lambda numbers=numbers: replay(X * W, [X], [W]).run(inputs=numbers),
                "the new inputs are not all plain numbers. Give an array or a list of floats.",
            )
            for numbers in (["1.0"], [None], [1j], [Value(1.0)], [[1.0], [2.0, 3.0]], {"x": "2"})
        ],
    ],
)
def test_mistakes_are_named_with_a_fix(mistake: Callable[[], object], message: str) -> None:
    with pytest.raises(PellucidError) as refusal:
        mistake()
    assert str(refusal.value) == message


def test_refused_numbers_change_nothing() -> None:
    fast = replay(X * W, [X], [W])
    with pytest.raises(PellucidError):
        fast.run(inputs=["no"])
    assert (fast.inputs.tolist(), fast.value) == ([2.0], 6.0)


def test_numpy_is_loaded_by_the_first_replay_and_not_before() -> None:
    lines = (
        "import sys, pellucid.autograd as a; assert 'numpy' not in sys.modules; a.replay; assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", lines], check=True)
