"""What a second core brings: one training in two processes or with two threads, and two trainings at once.

    python benchmarks/scaling.py [--rounds 3] [--steps 6] [--size large] [--write FILE | --json]

The large transformer trains on windows of 64 tokens. Four arms take turns, so that what else the machine does meets all
of them alike, and the median of a step's seconds counts:

    one        one process, one thread
    threads    one process, two threads, which wait without spinning
    strong     two processes of one thread share the same batch
    weak       two processes of one thread share a batch twice as large

Beside the clock on the wall stands the CPU time of the process that took most: on cores that others use too, the wall
tells how much of them was left, and CPU time what a quiet core would take but for waiting. Of two threads it is that of
both.

Then `pellucid compare` trains the same networks with one worker and with two. Ratios are what lasts.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pellucid.training  # noqa: F401  # sets how threads wait, before torch is loaded

import torch  # isort: skip
import torch._dynamo

from pellucid.data.options import DataOptions
from pellucid.records import Plan
from pellucid.training.distributed import ALONE, World, joined_world
from pellucid.training.loop import steps
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.tasks import open_task
from pellucid.training.tasks.task import Task
from pellucid.training.trainer import build_training

WARM = 2
BATCH = 64  # windows of 64 tokens
N_LETTERS = 400_000
ARMS = ("one", "threads", "strong", "weak")


def write_text(path: Path) -> None:
    """Running text that nobody has to fetch: words by a fixed rule."""
    import random

    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(2000)]
    path.write_text(" ".join(draw.choices(words, k=N_LETTERS // 6)))


class Measured(NamedTuple):
    """What one process saw of an arm."""

    seconds: float  # of a step, the median
    cpu_seconds: float  # of this process for a step, all its threads together
    n_tokens: int  # of a step
    parameters: int


def step_seconds(task: Task, config: Any, plan: Plan, n_steps: int, world: World) -> Measured:
    """Train for so many steps after a few that do not count."""
    state = build_training(task.find_card("transformer"), config, plan._replace(steps=n_steps + WARM), task, world)
    taken, n_tokens, last, cpu = [], 0, time.perf_counter(), [0.0]
    for step in steps(state.model, state.batches, state.optimizer, state.plan, engine=state.engine):
        now = time.perf_counter()
        taken.append(now - last)
        last, n_tokens = now, step.n_tokens
        cpu.append(time.process_time())
    each = (cpu[-1] - cpu[WARM]) / n_steps
    return Measured(statistics.median(taken[WARM:]), each, n_tokens, state.model.n_parameters)


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def serve(rank: int, size: int, port: int, task: Task, config: Any, door: Connection) -> None:
    """A process of the two: it takes part in whatever arm is named, until there is none."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    with joined_world() as world:
        while (asked := door.recv()) is not None:
            plan, n_steps = asked
            door.send(step_seconds(task, config, plan, n_steps, world))


def measure_training(
    rounds: int, n_steps: int, size: str, n_processes: int, arms: tuple[str, ...] = ARMS
) -> dict[str, Any]:
    """Median seconds of a step of each arm, in turns."""
    import multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        write_text(Path(folder) / "text.txt")
        task = open_task(DataOptions(source=str(Path(folder) / "text.txt")))
        asked = TrainOptions(model="transformer", size=size, steps=10, batch_size=BATCH, threads=1, start="scratch")
        config, plan = choose_plan(task.find_card("transformer"), task, asked)
    port = free_port()
    fork = multiprocessing.get_context("fork")
    doors, workers = [], []
    for rank in range(n_processes):
        here, there = fork.Pipe()
        worker = fork.Process(target=serve, args=(rank, n_processes, port, task, config, there), daemon=True)
        worker.start()
        doors.append(here)
        workers.append(worker)
    several = plan._replace(processes=n_processes)
    plans = {
        "one": (plan, 1),
        "threads": (plan._replace(threads=n_processes), 1),
        "strong": (several, n_processes),
        "weak": (several._replace(batch_size=n_processes * BATCH), n_processes),
    }
    seen: dict[str, list[Measured]] = {name: [] for name in arms}
    for _ in range(rounds):
        for name in arms:
            arm, n = plans[name]
            if n == 1:
                seen[name].append(step_seconds(task, config, arm, n_steps, ALONE))
                continue
            for door in doors:
                door.send((arm, n_steps))
            told = [door.recv() for door in doors]
            # The slowest decides, by either clock.
            seen[name].append(
                told[0]._replace(
                    seconds=max(one.seconds for one in told), cpu_seconds=max(one.cpu_seconds for one in told)
                )
            )
    for door in doors:
        door.send(None)
    for worker in workers:
        worker.join(10)
    found: dict[str, dict[str, Any]] = {}
    for name, results in seen.items():
        seconds, cpu = (statistics.median([one[clock] for one in results]) for clock in (0, 1))
        n_tokens = results[0].n_tokens
        found[name] = {
            "milliseconds": 1e3 * seconds,
            "cpu_milliseconds": 1e3 * cpu,
            "tokens_per_second": n_tokens / seconds,
            "rates": [n_tokens / one.seconds for one in results],
            "tokens_per_cpu_second": n_tokens / cpu,
        }
    for one in found.values() if "one" in found else ():
        one["times_one"] = one["tokens_per_second"] / found["one"]["tokens_per_second"]
        one["ratios"] = [rate / alone for rate, alone in zip(one["rates"], found["one"]["rates"], strict=True)]
        one["times_one_by_cpu"] = one["tokens_per_cpu_second"] / found["one"]["tokens_per_cpu_second"]
    return {"parameters": seen[arms[0]][0].parameters, "processes": n_processes, "arms": found}


def loopback_bytes() -> int:
    """Sent over the loopback device so far."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])


def measure_traffic(n_steps: int, size: str) -> list[dict[str, float]]:
    """Bytes of a step over the network of 2 and 4 processes, beside what the cost model says: 8 P (N - 1) in all.

    Nothing else may use this network: run it in a namespace of its own, as `unshare --net` gives.
    """
    found = []
    for n in (2, 4):
        # Of two lengths, so that what is sent once, such as the first weights, falls out.
        sent, parameters = [], 0
        for length in (n_steps, 3 * n_steps):
            before = loopback_bytes()
            parameters = measure_training(1, length, size, n, arms=("strong",))["parameters"]
            sent.append(loopback_bytes() - before)
        measured = (sent[1] - sent[0]) / (2 * n_steps)
        modelled = 8.0 * parameters * (n - 1)
        found.append({"processes": n, "measured": measured, "modelled": modelled, "ratio": measured / modelled})
    return found


def resident_bytes() -> int:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def hold_network(rank: int, size: int, port: int, task: Task, config: Any, plan: Plan, door: Connection) -> None:
    """A process of several: by how much it has grown after four steps, and how many parameters the network has."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    with joined_world() as world:
        torch.set_num_threads(1)
        before = resident_bytes()
        state = build_training(task.find_card("transformer"), config, plan, task, world)
        n_parameters = state.model.n_parameters
        for _ in steps(state.model, state.batches, state.optimizer, state.plan, engine=state.engine):
            pass
        door.send((resident_bytes() - before, n_parameters))


def measure_memory() -> Iterator[dict[str, float]]:
    """What a process holds with DDP and with --shard, beside the cost model: 16 P bytes, and 16 P / N."""
    import multiprocessing

    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        write_text(Path(folder) / "text.txt")
        task = open_task(DataOptions(source=str(Path(folder) / "text.txt")))
    for n, shard in ((2, False), (2, True), (4, False), (4, True)):
        asked = TrainOptions(
            model="transformer",
            steps=4,
            batch_size=4,
            threads=1,
            start="scratch",
            optimizer="adamw",
            network={"width": 768, "depth": 8},
        )
        config, plan = choose_plan(task.find_card("transformer"), task, asked)
        plan = plan._replace(processes=n, shard=shard)
        port, doors = free_port(), []
        for rank in range(n):
            here, there = fork.Pipe()
            fork.Process(target=hold_network, args=(rank, n, port, task, config, plan, there), daemon=True).start()
            doors.append(here)
        told = [door.recv() for door in doors]
        modelled = 16.0 * told[0][1] / (n if shard else 1)
        yield {
            "processes": n,
            "shard": shard,
            "parameters": told[0][1],
            "measured": max(grown for grown, _ in told),
            "modelled": modelled,
        }


def measure_compare(n_steps: int) -> dict[str, float]:
    """Seconds of `pellucid compare` with one worker and with two, start of the workers included."""
    from pellucid.api.train import compare
    from pellucid.training.workers import WorkerOptions

    taken = {}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for n in (1, 2):
                began = time.perf_counter()
                compare(
                    "names",
                    models=["transformer", "gru", "rnn", "mlp"],
                    start="scratch",
                    steps=n_steps,
                    size="medium",
                    name=f"with-{n}",
                    workers=WorkerOptions(workers=n),
                )
                taken[n] = time.perf_counter() - began
        finally:
            os.chdir(before)
    return {"one_worker": taken[1], "two_workers": taken[2], "ratio": taken[1] / taken[2]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--size", default="large")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--compare-steps", type=int, default=300, help="0 leaves compare out")
    parser.add_argument("--traffic", action="store_true", help="only bytes over the network, beside the cost model")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON object, of seconds, as the last line")
    parser.add_argument("--memory", action="store_true", help="only what a process holds, beside the cost model")
    asked = parser.parse_args()
    if asked.memory:
        for row in measure_memory():
            how = "--shard" if row["shard"] else "DDP"
            print(
                f"{row['processes']} processes, {how}: {row['measured'] / 1e6:,.0f} MB each for {row['parameters']:,} "
                f"parameters, {row['modelled'] / 1e6:,.0f} by the model"
            )
        return
    if asked.traffic:
        for row in measure_traffic(asked.steps, asked.size):
            print(
                "{processes} processes: {measured:,.0f} bytes a step over the network, {modelled:,.0f} by the model, "
                "{ratio:.3f} ×".format_map(row)
            )
        return
    found = measure_training(asked.rounds, asked.steps, asked.size, asked.processes)
    print(f"transformer, {found['parameters']:,} parameters, {BATCH} windows of 64 tokens, {torch.__version__}")
    for name, arm in found["arms"].items():
        print(
            f"{name:8} {arm['milliseconds']:6.0f} ms a step {arm['tokens_per_second']:8,.0f} tokens/s "
            f"{arm['times_one']:5.2f} × one; by CPU time {arm['cpu_milliseconds']:6.0f} ms "
            f"{arm['times_one_by_cpu']:5.2f} ×"
        )
    sys.stdout.flush()
    if asked.compare_steps:
        found["compare"] = measure_compare(asked.compare_steps)
        words = "compare: {one_worker:.1f} s with one worker, {two_workers:.1f} with two, {ratio:.2f} ×"
        print(words.format_map(found["compare"]))
    if asked.write:
        asked.write.write_text(json.dumps(found, indent=1) + "\n")
    if asked.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
