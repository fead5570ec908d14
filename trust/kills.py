"""`kill -9` at random moments of `pellucid train`, and `--resume` until it is done: `python -m trust.kills`.

However often a run was killed, its weights, its optimizer and its logs must be those of one that never was, byte by
byte. Moments are uniform over the length of a run, start-up included. With --forked the process that is killed is a
fork of this one, which has loaded everything already; without it every process starts from nothing, as a user's does.
"""

import argparse
import hashlib
import importlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from pellucid.runs import LOGS, is_finished

LONGEST_CHAIN = 20


class Case(NamedTuple):
    """One kind of run that is killed."""

    name: str
    data: str
    words: str


CASES = (
    Case("list", "names.txt", "--model mlp --norm batch --steps 100"),
    Case("text", "book.txt", "--model transformer --dropout 0.1 --context 16 --steps 60"),
    Case("recurrent", "names.txt", "--model gru --optimizer sgd --momentum 0.9 --steps 60"),
)
SMALL = "--size tiny --batch-size 16 --threads 1 --seed 3"


def write_data(folder: Path) -> None:
    """A list and a text, small, and the same for every seed."""
    draw = random.Random(0)
    words = ["".join(draw.choices("aeiou", k=1) + draw.choices("bdklmnrst", k=1)) for _ in range(30)]
    names = sorted({"".join(draw.choices(words, k=draw.randint(1, 3))) for _ in range(400)})
    (folder / "names.txt").write_text("\n".join(names) + "\n")
    (folder / "book.txt").write_text("".join(" ".join(draw.choices(words, k=9)) + ".\n" for _ in range(150)))


def digests(run: Path) -> dict[str, str]:
    """What must not depend on how a run got there: newest checkpoint, best weights, all logs but the timings."""
    newest = max((run / "checkpoints").iterdir())
    files = [newest / "model.safetensors", newest / "optimizer.safetensors", run / "model.safetensors"]
    files += [run / f"{log}.jsonl" for log in LOGS if log != "timings"] + [run / "vocabulary.json"]
    found = {str(path.relative_to(run)): path for path in files if path.exists()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()}


class Machine:
    """Starts `pellucid` in a folder, as a new process or as a fork of this one."""

    def __init__(self, *, is_forked: bool) -> None:
        self.is_forked = is_forked
        if is_forked:
            # Everything that a run loads, and nothing that starts a thread, which a fork would not have.
            import torch._dynamo

            import pellucid.cli.train
            import pellucid.figures.report_page
            import pellucid.figures.words.training
            import pellucid.training.run
            from pellucid.models.catalogue import find_network

            for case in CASES:
                importlib.import_module(find_network(case.words.split()[1], "list").network.partition(":")[0])
            assert torch is not None
            assert pellucid.training.run is not None

    def start(self, folder: Path, words: list[str]) -> int:
        if pid := os.fork():
            return pid
        try:
            os.chdir(folder)
            out = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(out, stream)
            if not self.is_forked:
                os.execv(sys.executable, [sys.executable, "-m", "pellucid", *words])
            from pellucid.cli import main

            main(words)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
            os._exit(code)
        finally:
            os._exit(70)


def ended(pid: int, seconds: float | None) -> int | None:
    """The exit code of a process, or None when it still runs after so long and has now been killed."""
    until = None if seconds is None else time.monotonic() + seconds
    while until is None or time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status != -signal.SIGKILL else None


def moment(run: Path) -> str:
    """Where the last kill came."""
    if not run.exists():
        return "before there was a folder"
    folder = run / "checkpoints"
    if any(path.name.startswith(".") for path in [*folder.iterdir(), *run.iterdir()]):
        return "in the middle of a write"
    return "between writes" if any(folder.iterdir()) else "before the first checkpoint"


def train(machine: Machine, folder: Path, words: list[str], waits: list[float]) -> Counter[str]:
    """Train to the end in spite of a kill after each of these waits; where the kills came."""
    folder.mkdir()
    write_data(folder)
    run = folder / "runs" / "x"
    moments: Counter[str] = Counter()
    while not is_finished(run):
        again = ["train", "--resume", "x"] if run.exists() else ["train", *words, "--name", "x"]
        code = ended(machine.start(folder, again), waits.pop(0) if waits else None)
        if code is None:
            moments[moment(run)] += 1
        elif code:
            raise RuntimeError(f"{' '.join(again)} ended with {code}:\n{(folder / 'said.txt').read_text()[-2000:]}")
    return moments


def campaign(machine: Machine, case: Case, n_kills: int, draw: random.Random, *, in_a_row: bool) -> Counter[str]:
    """Kill runs of one case so often, and compare each end with that of a run that was left alone."""
    seen: Counter[str] = Counter()
    words = [case.data, *case.words.split(), *SMALL.split()]
    if in_a_row:
        words += ["--steps", "500"]
    with tempfile.TemporaryDirectory() as base:
        began = time.monotonic()
        train(machine, Path(base) / "alone", words, [])
        seconds = time.monotonic() - began
        wanted = digests(Path(base) / "alone" / "runs" / "x")
        if len(wanted) < 5:
            raise RuntimeError(f"only {sorted(wanted)} can be compared")
        while (done := seen["kills"]) < n_kills:
            n_here = min(LONGEST_CHAIN, n_kills - done)
            waits = [draw.uniform(0, seconds * (0.4 if in_a_row else 1.0)) for _ in range(n_here)]
            folder = Path(base) / f"chain-{seen['runs']}"
            moments = train(machine, folder, words, waits)
            seen += moments
            seen["kills"] += moments.total()
            seen["runs"] += 1
            found = digests(folder / "runs" / "x")
            if found != wanted:
                differing = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
                print(f"  {case.name}: after {moments.total()} kills these differ: {', '.join(differing)}")
                seen["wrong"] += 1
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    parser.add_argument("--forked", action="store_true", help="kill forks, which have loaded everything already")
    parser.add_argument("--in-a-row", action="store_true", help="longer runs and shorter waits: one is killed often")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    machine = Machine(is_forked=asked.forked)
    draw = random.Random(asked.seed)
    cases = [case for case in CASES if case.name in asked.cases.split(",")]
    total: Counter[str] = Counter()
    for number, case in enumerate(cases):
        n_kills = asked.kills * (number + 1) // len(cases) - asked.kills * number // len(cases)
        seen = campaign(machine, case, n_kills, draw, in_a_row=asked.in_a_row)
        total += seen
        where = ", ".join(f"{n} {name}" for name, n in seen.items() if name not in ("kills", "runs", "wrong"))
        print(f"{case.name:<10} {seen['kills']} kills of {seen['runs']} runs: {where}", flush=True)
    print(f"{total['kills']} kills, {total['runs']} runs, {total['wrong']} with another end")
    return 1 if total["wrong"] or not total["kills"] else 0


if __name__ == "__main__":
    sys.exit(main())
