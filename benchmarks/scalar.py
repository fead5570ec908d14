"""Scalar autograd beside micrograd 0.1.0: its own moons demo, one training step, on this machine in this run.

    python benchmarks/scalar.py [--steps 10] [--json]

The demo: 100 points, MLP(2, [16, 16, 1]) with relu, hinge loss and 1e-4 of L2. Each arm has a process of its own,
so that none pays for the garbage of another; the arms take turns, one step at a time. Memory is by how much the most
that the process held had grown at the end, over what it held with the libraries loaded. Before anything is timed, every
arm's loss and gradients are compared with micrograd's.

micrograd's nodes refer to themselves, so only Python's collector frees them: that is most of its step, and it is timed
with the collector off as well.
"""

import argparse
import gc
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from memory import most_held, start_over

N_POINTS = 100
L2 = 1e-4
SEED = 1337
RATE = 1e-3
MOST_DISAGREEMENT = 1e-9
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


class Step(NamedTuple):
    wall_seconds: float
    cpu_seconds: float


class Arm(NamedTuple):
    """One contestant. `make` builds it in its own process and gives what does one step, and what tells its results."""

    name: str
    make: Callable[[], "Trainer"]
    n_steps_at_a_time: int = 1
    has_collector: bool = True


class Trainer(NamedTuple):
    step: Callable[[], None]
    results: Callable[[], tuple[int, float, list[float]]]  # nodes, loss, gradients


def _moons() -> tuple[list[tuple[float, float]], list[int]]:
    """Two half circles with noise, and -1 or 1 for each point."""
    draw = random.Random(SEED)
    turns = [math.pi * i / (N_POINTS // 2 - 1) for i in range(N_POINTS // 2)]
    clean = [(math.cos(t), math.sin(t)) for t in turns] + [(1 - math.cos(t), 0.5 - math.sin(t)) for t in turns]
    points = [(x + draw.gauss(0, 0.1), y + draw.gauss(0, 0.1)) for x, y in clean]
    return points, [-1] * len(turns) + [1] * len(turns)


POINTS, SIDES = _moons()


def demo_loss(model: Any, number: Any) -> Any:
    """The demo's loss as micrograd's notebook writes it, on whichever numbers remember."""
    inputs = [list(map(number, point)) for point in POINTS]
    scores = list(map(model, inputs))
    losses = [(1 + -side * score).relu() for side, score in zip(SIDES, scores, strict=True)]
    data_loss = sum(losses) * (1.0 / len(losses))
    return data_loss + L2 * sum(p * p for p in model.parameters())


def demo_trainer(number: Any, n_nodes: Callable[[Any], int]) -> Trainer:
    """micrograd's own network code on micrograd's numbers, or on ours in their place."""
    from micrograd import nn

    nn.Value = number
    random.seed(SEED)
    model = nn.MLP(2, [16, 16, 1])

    def step() -> None:
        loss = demo_loss(model, number)
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= RATE * p.grad

    def results() -> tuple[int, float, list[float]]:
        loss = demo_loss(model, number)
        model.zero_grad()
        loss.backward()
        return n_nodes(loss), float(loss.data), [float(p.grad) for p in model.parameters()]

    return Trainer(step, results)


def micrograd_trainer() -> Trainer:
    from micrograd.engine import Value

    def n_nodes(loss: Any) -> int:
        seen, stack = {loss}, [loss]
        while stack:
            new = stack.pop()._prev - seen
            seen |= new
            stack += new
        return len(seen)

    return demo_trainer(Value, n_nodes)


def drop_in_trainer() -> Trainer:
    from pellucid.autograd.value import Value, ancestors

    return demo_trainer(Value, lambda loss: len(ancestors(loss)))


def own_model_and_loss() -> tuple[Any, Any, Callable[[], Any]]:
    """Our network with micrograd's first weights: a neuron is its products and one sum."""
    from pellucid.autograd import ScalarMLP, Value, hinge, total

    model = ScalarMLP(2, [16, 16, 1], activation="relu")
    draw = random.Random(SEED)
    for layer in model.layers:
        for neuron in layer.neurons:
            for weight in neuron.weights:
                weight.data = draw.uniform(-1, 1)
    inputs = [[Value(x) for x in point] for point in POINTS]

    def loss() -> Value:
        data = total([hinge(model(point)[0], side) for point, side in zip(inputs, SIDES, strict=True)])
        return data / len(POINTS) + L2 * total([p * p for p in model.parameters()])

    return model, [x for point in inputs for x in point], loss


def own_trainer() -> Trainer:
    from pellucid.autograd.value import ancestors

    model, _, loss = own_model_and_loss()

    def step() -> None:
        loss().backward()
        for p in model.parameters():
            p.data -= RATE * p.grad

    def results() -> tuple[int, float, list[float]]:
        now = loss()
        now.backward()
        return len(ancestors(now)), now.data, [p.grad for p in model.parameters()]

    return Trainer(step, results)


def replay_trainer() -> Trainer:
    from pellucid.autograd import replay

    model, inputs, loss = own_model_and_loss()
    fast = replay(loss, inputs=inputs, parameters=model.parameters())
    points, numbers = fast.inputs, fast.parameters

    def step() -> None:
        nonlocal numbers
        _, gradients = fast.run(inputs=points, parameters=numbers)
        numbers -= RATE * gradients

    return Trainer(step, lambda: (fast.n_instructions, *_plain(fast.run(inputs=points, parameters=numbers))))


def _plain(run: tuple[float, Any]) -> tuple[float, list[float]]:
    return run[0], run[1].tolist()


ARMS = (
    Arm("micrograd", micrograd_trainer),
    Arm("micrograd, collector off", micrograd_trainer, has_collector=False),
    Arm("pellucid, micrograd's nn code", drop_in_trainer),
    Arm("the same, collector off", drop_in_trainer, has_collector=False),
    Arm("pellucid, own MLP", own_trainer),
    Arm("pellucid, replayed", replay_trainer, n_steps_at_a_time=100),
)


def serve(arm: Arm, pipe: Connection) -> None:
    """In the arm's own process: results on "results", one timed turn on "step"; its memory on "stop"."""
    arm.make()  # loads what is loaded once
    before = start_over()
    trainer = arm.make()
    if not arm.has_collector:
        gc.disable()
    while (order := pipe.recv()) != "stop":
        if order == "results":
            pipe.send(trainer.results())
            continue
        if not arm.has_collector:
            gc.collect()  # between the turns, or micrograd would fill the memory
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(arm.n_steps_at_a_time):
            trainer.step()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        pipe.send(Step(wall / arm.n_steps_at_a_time, cpu / arm.n_steps_at_a_time))
    pipe.send(most_held() - before)


def measured(n_steps: int) -> dict[str, dict[str, Any]]:
    """For each arm its size, its disagreement with micrograd, the steps that were timed and its memory."""
    processes = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    for arm in ARMS:
        ours, theirs = processes.Pipe()
        processes.Process(target=serve, args=(arm, theirs), daemon=True).start()
        pipes[arm.name] = ours
    found: dict[str, dict[str, Any]] = {}
    for name, pipe in pipes.items():
        pipe.send("results")
        nodes, loss, gradients = pipe.recv()
        found[name] = {"nodes": nodes, "loss": loss, "gradients": gradients, "steps": []}
    for name, results in found.items():
        results["disagreement"] = disagreement(results, found[ARMS[0].name])
        if not results["disagreement"] <= MOST_DISAGREEMENT:
            sys.exit(f"{name} disagrees with micrograd by {results['disagreement']:g}; nothing was timed")
    for turn in range(n_steps + 1):
        for name, pipe in pipes.items():
            pipe.send("step")
            step = pipe.recv()
            if turn:  # the first warms up
                found[name]["steps"].append(step)
    for name, pipe in pipes.items():
        pipe.send("stop")
        found[name]["grown"] = pipe.recv()
    return found


def disagreement(results: dict[str, Any], wanted: dict[str, Any]) -> float:
    pairs: Iterable[tuple[float, float]] = zip(
        [results["loss"], *results["gradients"]], [wanted["loss"], *wanted["gradients"]], strict=True
    )
    return max(abs(came - should) for came, should in pairs)


def scaling() -> tuple[list[tuple[int, float]], float]:
    """CPU seconds to build and derive ever larger graphs, and the exponent that fits them: 1 is linear."""
    from pellucid.autograd.value import Value

    curve: list[tuple[int, float]] = []
    for n_nodes in SIZES:
        seconds = []
        for _ in range(3):
            weights = [Value(0.5 + 0.001 * i) for i in range(10)]
            began = time.process_time()
            out = weights[0]
            for i in range(n_nodes // 3):
                out = (out * weights[i % 10] + weights[(i + 1) % 10]).tanh()
            out.backward()
            seconds.append(time.process_time() - began)
        curve.append((n_nodes, statistics.median(seconds)))
    logs = [(math.log(n), math.log(s)) for n, s in curve]
    mean_n, mean_s = statistics.fmean(n for n, _ in logs), statistics.fmean(s for _, s in logs)
    exponent = sum((n - mean_n) * (s - mean_s) for n, s in logs) / sum((n - mean_n) ** 2 for n, _ in logs)
    return curve, exponent


def spread(seconds: Sequence[float]) -> str:
    """The median and, in brackets, the lowest and the highest, in milliseconds."""
    return " ".join([f"{_ms(statistics.median(seconds)):>7}", f"[{_ms(min(seconds))}..{_ms(max(seconds))}]"])


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio > 100 else f"{ratio:.1f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}" if seconds > 0.01 else f"{seconds * 1e3:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10, help="timed turns of each arm")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    asked = parser.parse_args()
    # One thread each: the clock is CPU time, and these matrices are too small to share.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    found = measured(asked.steps)
    curve, exponent = scaling()
    for results in found.values():
        del results["gradients"]
        results["wall"] = statistics.median(step.wall_seconds for step in results["steps"])
        results["cpu"] = statistics.median(step.cpu_seconds for step in results["steps"])
    if asked.json:
        print(json.dumps({"arms": found, "scaling": curve, "exponent": exponent}))
        return
    peers = [found[arm.name]["cpu"] for arm in ARMS[:2]]
    print(f"micrograd's moons demo, one training step, milliseconds, median [lowest..highest] of {asked.steps}")
    print(f"{'':64}times faster than micrograd, its collector")
    print(f"{'':31}{'nodes':>7}  {'CPU':<24}{'on':>8}{'off':>8}      MB   wall")
    for name, results in found.items():
        cpu, wall = ([step[kind] for step in results["steps"]] for kind in (1, 0))
        ratios = "".join(f"{_times(peer / results['cpu']):>8}" for peer in peers) + f"{results['grown'] / 1e6:>8,.1f}"
        print(f"{name:31}{results['nodes']:>7,}  {spread(cpu):<24}{ratios}   {spread(wall)}")
    worst = max(results["disagreement"] for results in found.values())
    print(f"losses and gradients agree with micrograd's to {worst:.0e}; a replay's nodes are its instructions")
    print("\neager forward and backward, nodes against CPU seconds:")
    for n_nodes, seconds in curve:
        print(f"{n_nodes:>10,}  {seconds:>8.4f} s  {seconds / n_nodes * 1e6:>6.2f} µs a node")
    print(f"seconds grow as nodes to the power {exponent:.2f}")


if __name__ == "__main__":
    main()
