"""What a short run costs beside its steps, and how long its first screen takes, from the start of the process.

    python benchmarks/overhead.py [DATA ...] [--rounds 5] [--steps 200 | --minutes 0.7] [--demo] [--json]

Each round is `pellucid train DATA`, names unless others are given, in a process and a folder of its own. The first
screen is there when the plan is printed; everything but the steps is all from start to end but what the training loop
itself took, by the clock and by the time of the processor. One thread, so that the two can be compared, unless minutes
are asked for, in which the plan chooses; the median counts. With --demo also what `make demo` runs, once, and how far
ahead of counting it says it ends. A first start, which is not timed, leaves Python's compiled
files behind, as that of any installed program does.
"""

import argparse
import atexit
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """What is measured of a run, its unit and the digits after the point."""

    what: str
    unit: str = "s"
    digits: int = 1


MEASURED = (
    Measured("to the first screen"),
    Measured("everything but the steps"),
    Measured("everything but the steps, of the processor"),
    Measured("the steps"),
    Measured("the steps, of the processor"),
    Measured("all of it"),
    Measured("peak memory", "MB", 0),
)
WARMING = ("train", "names", "--steps", "2", "--threads", "1")
DEMO = ("train", "--minutes", "0.7")


def train_and_tell(words: Sequence[str]) -> None:
    """In a process of its own: the command as it is started from a shell, with a stopwatch around the loop.

    Its last line is what was measured.
    """
    from pellucid.cli import main

    clocks = (time.perf_counter, time.process_time)
    in_steps = [0.0, 0.0]

    def time_steps() -> None:
        from pellucid.training import loop, trainer

        def timed(*given: Any, **named: Any) -> Iterator[Any]:
            taken = loop.steps(*given, **named)
            while True:
                began = [clock() for clock in clocks]
                step = next(taken, None)
                for place, clock in enumerate(clocks):
                    in_steps[place] += clock() - began[place]
                if step is None:
                    return
                yield step

        vars(trainer)["steps"] = timed  # the same, with a stopwatch

    def tell() -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        others = resource.getrusage(resource.RUSAGE_CHILDREN)  # what was counted while torch was loaded
        cpu = time.process_time() + others.ru_utime + others.ru_stime
        print(json.dumps([*in_steps, cpu, peak]))

    _call_after_import("pellucid.training.run", time_steps)
    atexit.register(tell)
    sys.argv = ["pellucid", *words]
    main()


def _call_after_import(name: str, function: Callable[[], None]) -> None:
    """Once, as soon as that module is loaded: to load it here would be another start than the command's own."""

    class Finder(MetaPathFinder):
        def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
            if fullname != name:
                return None
            sys.meta_path.remove(self)
            spec = find_spec(name)
            assert spec is not None
            assert spec.loader is not None
            load = spec.loader.exec_module

            def load_and_call(module: ModuleType) -> None:
                load(module)
                function()

            vars(spec.loader)["exec_module"] = load_and_call
            return spec

    sys.meta_path.insert(0, Finder())


def measure_run(words: Sequence[str]) -> tuple[float, ...]:
    """One run in a folder of its own: what `MEASURED` names."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", encoding="utf-8") as progress:
        began = time.perf_counter()
        screen, last = 0.0, ""
        with subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--one", shlex.join(words)],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=progress,
            encoding="utf-8",
            env={**kept, "PYTHONUNBUFFERED": "1"},
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not screen and line.startswith("written to"):
                    screen = time.perf_counter() - began
                last = line
        if process.returncode:
            progress.seek(0)
            raise SystemExit(f"{progress.read()}\nthe training ended with {process.returncode}")
        whole = time.perf_counter() - began
    wall, cpu, all_cpu, peak = json.loads(last)
    return screen, whole - wall, all_cpu - cpu, wall, cpu, whole, peak


def figures(name: str, runs: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    """Lowest, median and highest of each thing that was measured, as `beside_peers.py` reads them."""
    found = []
    for (what, unit, digits), seen in zip(MEASURED, zip(*runs, strict=True), strict=True):
        spread = {"low": min(seen), "median": statistics.median(seen), "high": max(seen)}
        found.append({"what": f"`pellucid train {name}`: {what}", "unit": unit, "digits": digits, **spread})
    return found


def demo_figures() -> list[dict[str, Any]]:
    """What `make demo` runs where pellucid is installed: from start to end, and what its network earns."""
    from pellucid.runs import open_run

    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = subprocess.run([sys.executable, "-m", "pellucid", *DEMO], cwd=folder, capture_output=True, check=False)
        seconds = time.perf_counter() - began
        if run.returncode:
            raise SystemExit(f"what `make demo` runs ended with {run.returncode}: {run.stderr.decode()}")
        (path,) = Path(folder, "runs").iterdir()
        gains = [gain for rung in open_run(path).result.ladder.rungs for gain in rung.gains]
    name = f"`make demo` once installed (`pellucid {' '.join(DEMO)}`): all of it"
    found = [{"what": name, "unit": "s", "digits": 1, "low": seconds, "median": seconds, "high": seconds}]
    for gain in gains:
        spread = {"low": gain.low, "median": gain.mean, "high": gain.high}
        what = f"`make demo`: ahead of counting on {gain.side}, with its 95 % interval"
        found.append({"what": what, "unit": "nats a token", "digits": 4, **spread})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=["names"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        train_and_tell(shlex.split(asked.one))
        return
    measure_run(WARMING)
    budget = ["--minutes", str(asked.minutes)] if asked.minutes else ["--steps", str(asked.steps), "--threads", "1"]
    rows = []
    for one in asked.data:
        # A file is found from the run's own folder too, and may bring options: "birds.csv --target order".
        source, *options = shlex.split(one)
        source = os.path.abspath(source) if os.path.exists(source) else source
        runs = [measure_run(["train", source, *options, *budget]) for _ in range(asked.rounds)]
        rows += figures(f"{os.path.basename(source)} {' '.join(budget[:2])}", runs)
    rows += demo_figures() if asked.demo else []
    if asked.as_json:
        print(json.dumps(rows))
        return
    print(f"median of {asked.rounds} runs [lowest..highest]")
    for row in rows:
        low, middle, high = (f"{row[name]:.{max(2, row['digits'])}f}" for name in ("low", "median", "high"))
        print(f"  {row['what']:72}{middle:>8} {row['unit']} [{low}..{high}]")


if __name__ == "__main__":
    main()
