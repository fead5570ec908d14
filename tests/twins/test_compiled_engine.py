"""The scalar engine compiled and in Python: the same numbers to the last bit, the same order, the same graphs."""

import copy
import gc
import json
import math
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest

import pellucid
from pellucid.autograd import Value, maximum, total, where
from pellucid.autograd import value as value_module
from pellucid.autograd.node import propagate
from pellucid.autograd.replays import replay
from pellucid.autograd.value import ancestors

IS_COMPILED = value_module.engine.__name__.endswith("._node")
N_PROGRAMS = 60


def random_graph(seed: int) -> tuple[list[Value], Value]:
    """Leaves and one output made of them by every kind of operation, with numbers at the ends of float64 among them."""
    rng = random.Random(seed)
    leaves = [Value(rng.choice([rng.gauss(0, 2), 0.0, -0.0, 1e300, -1e-320, 3.0]), f"x{i}") for i in range(4)]
    if seed % 10 == 9:
        leaves[0].data = rng.choice([math.inf, -math.inf, math.nan])
    nodes: list[Value] = list(leaves)
    for _ in range(rng.randrange(1, 40)):
        a, b, c = (rng.choice(nodes) for _ in range(3))
        number = rng.choice([2, 0.5, -1, 3.0])
        made = [
            lambda a=a, b=b: a + b,
            lambda a=a, b=b: a * b,
            lambda a=a, b=b: a - b,
            lambda a=a, b=b: a / b,
            lambda a=a, n=number: n * a + n,
            lambda a=a, n=number: a**n,
            lambda a=a: a.relu() + a.tanh(),
            lambda a=a: -a.sigmoid(),
            lambda a=a, b=b, c=c: total([a, b, c, a, 1.0]),
            lambda a=a, b=b: maximum(a, b),
            lambda a=a, b=b, c=c: where(a, b, c) if seed % 2 else a * c,
        ]
        nodes.append(rng.choice(made)())
    return leaves, total(nodes[-3:])


# Below zero relu is constant, and so is what is made of it: the difference quotient of a finite value is 0, and that of
# an infinite one is inf - inf. At 0 itself there is no slope.
FLAT = [
    ("sqrt(relu(x))", lambda x: x.relu().sqrt(), -1.0, 0.0),
    ("sqrt(relu(x)) + x", lambda x: x.relu().sqrt() + x, -1.0, 1.0),
    ("sqrt(max(x, 0))", lambda x: maximum(x, 0.0).sqrt(), -1.0, 0.0),
    ("sqrt(1 - x^0)", lambda x: (1.0 - x**0.0).sqrt(), 2.0, 0.0),
    ("1/relu(x)", lambda x: 1.0 / x.relu(), -1.0, math.nan),
    ("sqrt(relu(x))", lambda x: x.relu().sqrt(), 0.0, math.nan),
]


@pytest.mark.parametrize(("text", "function", "at", "slope"), FLAT)
def test_what_is_constant_nearby_hands_on_nothing(text, function, at, slope):
    """By the pass that is told, by the engine that is there, by the one in Python, and by the replay."""
    x, other, third = (Value(at, "x") for _ in range(3))
    function(x).backward()
    propagate(function(other), False)
    found = {
        "told": pellucid.derive(text, x=at).record.gradients["x"],
        "engine": x.grad,
        "python": other.grad,
        "replay": float(replay(function(third), inputs=[third]).input_gradients[0]),
    }
    assert {name: str(number) for name, number in found.items()} == dict.fromkeys(found, str(slope))


def told(seed: int) -> list[str]:
    """Everything that can be seen of a graph: numbers and gradients in the walk's order, to the last bit."""
    leaves, out = random_graph(seed)
    out.backward()
    lines = [f"{node.rule.name} {node.data.hex()} {node.grad.hex()} {node.name}" for node in ancestors(out)]
    out.backward(accumulate=True)
    return [*lines, *(leaf.grad.hex() for leaf in leaves)]


def all_told() -> list[list[str]]:
    return [told(seed) for seed in range(N_PROGRAMS)]


@pytest.mark.skipif(not IS_COMPILED, reason="pellucid was installed without a C compiler")
def test_both_engines_give_the_same_bits_in_the_same_order():
    in_python = (
        "import sys, json\n"
        "sys.modules['pellucid.autograd._node'] = None\n"
        "from tests.twins.test_compiled_engine import IS_COMPILED, all_told\n"
        "assert not IS_COMPILED\n"
        "json.dump(all_told(), sys.stdout)\n"
    )
    root = Path(__file__).parent.parent.parent
    answer = subprocess.run([sys.executable, "-c", in_python], capture_output=True, text=True, check=True, cwd=root)
    assert json.loads(answer.stdout) == all_told()


def test_a_deep_graph_is_walked_and_freed_without_calls_within_calls():
    x = Value(1.0)
    out = x
    for _ in range(300_000):
        out = out * 1.0
    out.backward()
    assert x.grad == 1.0
    del out
    for _ in range(100_000):
        x = total([x])
    x.backward()
    del x


@pytest.mark.skipif(not IS_COMPILED, reason="nodes in Python are tracked")
def test_the_collector_is_not_told_of_nodes():
    assert not gc.is_tracked(Value(1.0) * 2)

    class Weighed(Value):
        """With attributes of its own a node can be part of a cycle, and has to be tracked."""

    weighed = Weighed(1.0)
    weighed.self = weighed
    assert gc.is_tracked(weighed)
    assert type(weighed * 2) is Weighed


def test_graphs_can_be_copied_and_pickled():
    x = Value(3.0, "x")
    y = (x - 1) / x
    for again in (copy.deepcopy(y), pickle.loads(pickle.dumps(y))):
        again.backward()
        leaf = again.parents[1]
        assert (again.rule, leaf.name, leaf.grad) == (y.rule, "x", pytest.approx(1 / 9))
        assert again.parents[0].parents[0] is leaf


@pytest.mark.parametrize("wrong", [None, [1.0], "three", object()])
def test_what_is_no_number_is_refused_as_by_float(wrong):
    with pytest.raises((TypeError, ValueError)):
        Value(1.0) + wrong
    with pytest.raises((TypeError, ValueError)):
        wrong * Value(1.0) if not isinstance(wrong, (list, str)) else Value(1.0) * wrong


def test_a_rule_that_fails_is_not_swallowed():
    x = Value(1.0)
    y = x.tanh()
    y.rule = type("Broken", (), {"listens": None, "slopes": staticmethod(lambda out, a: 1 / 0)})()
    with pytest.raises(ZeroDivisionError):
        y.backward()


def test_numbers_stay_their_own_while_others_come_and_go():
    """Nodes are freed in any order and their places used again; those that live on are not touched."""
    rng = random.Random(0)
    living: list[tuple[float, str, Value]] = []
    for turn in range(40_000):
        number, name = float(turn), f"x{turn}" if turn % 7 == 0 else ""
        living.append((number, name, Value(number, name) * 2))
        if rng.random() < 0.45 or len(living) > 6000:
            for _ in range(rng.randrange(1, 4)):
                if living:
                    living[rng.randrange(len(living))] = living[-1]
                    living.pop()
    assert len(living) > 1000
    for number, name, node in living:
        node.backward()
        leaf = node.parents[0]
        assert (node.data, leaf.data, leaf.grad, leaf.name, node.name) == (2 * number, number, 2.0, name, "")


def test_a_few_nodes_that_live_on_do_not_hold_the_memory_of_all():
    """One node is kept of each of 2,000 graphs of 1,100: at most four times what lives is held, not all 2.2 million."""
    program = (
        "import resource\n"
        "from pellucid.autograd import Value\n"
        "def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "def kept(n):\n"
        "    out = Value(1.0)\n"
        "    for _ in range(n // 2): out = out * 1.0\n"
        "    return Value(out.data)\n"
        "living, before = [kept(1100)], most()\n"
        "for _ in range(2000): living.append(kept(1100))\n"
        "print((most() - before) / before)\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(answer.stdout) < 0.5
