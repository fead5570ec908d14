"""What a short run costs beside its steps, and how long its first screen takes, from the start of the process.

    python benchmarks/overhead.py [--rounds 5] [--steps 200] [--json]

Each round is `pellucid train names` in a process and a folder of its own. The first screen is there when the plan is
printed; everything but the steps is all from start to end but what the training loop itself took, by the clock and by
the time of the processor. One thread, so that the two can be compared; the median counts.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

MEASURED = {
    "first screen": "seconds to the first screen",
    "but steps": "seconds of everything but the steps",
    "but steps, CPU": "the same, of the processor",
    "steps": "seconds of the steps",
    "steps, CPU": "the same, of the processor",
    "peak MB": "peak memory in MB",
}


def train_and_tell(n_steps: int) -> None:
    """In a process of its own: the command, with a stopwatch around the loop; its last line is what was measured."""
    from pellucid.cli import main
    from pellucid.training import loop, trainer

    clocks = (time.perf_counter, time.process_time)
    in_steps = [0.0, 0.0]

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
    sys.argv = ["pellucid", "train", "names", "--steps", str(n_steps), "--threads", "1"]
    try:
        main()
    finally:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([*in_steps, time.process_time(), peak]))


def measure_run(n_steps: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, os.path.abspath(__file__), "--steps", str(n_steps), "--one"]
        began = time.perf_counter()
        screen, last = 0.0, ""
        with subprocess.Popen(
            words, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8", env={**os.environ, "PYTHONUNBUFFERED": "1"}
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if not screen and line.startswith("written to"):
                    screen = time.perf_counter() - began
                last = line
        if process.returncode:
            raise SystemExit(f"the training ended with {process.returncode}")
        whole = time.perf_counter() - began
    wall, cpu, all_cpu, peak = json.loads(last)
    return dict(zip(MEASURED, (screen, whole - wall, all_cpu - cpu, wall, cpu, peak), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.one:
        train_and_tell(words.steps)
        return
    runs = [measure_run(words.steps) for _ in range(words.rounds)]
    if words.as_json:
        print(json.dumps(runs))
        return
    print(f"pellucid train names --steps {words.steps}, median of {words.rounds} runs [lowest..highest]")
    for name, meaning in MEASURED.items():
        seen = sorted(run[name] for run in runs)
        print(f"  {meaning:38}{statistics.median(seen):8.2f} [{seen[0]:.2f}..{seen[-1]:.2f}]")


if __name__ == "__main__":
    main()
