"""One training in several processes, and what may happen to it: `python -m trust.processes`.

    curves     1, 2 and 4 processes: losses within 1e-5 of each other over 200 steps, evaluations too
    resumes    stopped with one number of processes and gone on with another, against the run that never was stopped
    workers    `kill -9` of a worker at random moments: the launcher starts all again, and nothing is lost
    launchers  `kill -9` of the launcher at random moments: no worker is alive after a while, and the run can go on
    stops      Ctrl-C, SIGTERM and a closed terminal, to `--processes` and to torchrun: all end, saved, and one goes on
    machines   two network namespaces of this machine: they train together, and end when one of them is gone

The first two fork this process, which has loaded everything; the others start real launchers, as a user does.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch._dynamo  # what DDP would load in every fork
from trust.kills import digests, write_data

import pellucid.training.run
from pellucid.runs import is_finished, open_run

assert torch is not None
assert pellucid.training.run is not None

CLOSE = 1e-5
ENDS_WITHIN = 30.0  # seconds, of workers whose launcher is gone: they save first
SMALL = "--size tiny --batch-size 16 --threads 1 --seed 3"


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def train_together(folder: Path, words: list[str], n: int, seconds: float = 600.0) -> list[int]:
    """`pellucid train` in so many forks of this process, as torchrun would start them; what each ended with."""
    port, pids = free_port(), []
    for rank in range(n):
        pid = os.fork()
        if pid:
            pids.append(pid)
            continue
        code = 70
        try:
            os.chdir(folder)
            out = os.open(f"said-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(out, stream)
            # What replaced them in this process, as pytest does, is not the fork's.
            sys.stdout, sys.stderr = (open(stream, "w", closefd=False) for stream in (1, 2))  # noqa: SIM115
            if n > 1:
                os.environ.update(RANK=str(rank), WORLD_SIZE=str(n), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(n))
                os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            from pellucid.cli import main

            main(["train", *words])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    return [exit_code(pid, seconds) for pid in pids]


def exit_code(pid: int, seconds: float) -> int:
    """What a process ended with; one that takes longer is killed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def rows(run: Path, log: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / f"{log}.jsonl").read_text().splitlines()]


def farthest(run: Path, other: Path) -> float:
    """The most that the losses of two runs differ: in any step, in any evaluation, and at the end on dev and test."""
    worst = 0.0
    for log, names in (("metrics", ("loss",)), ("evaluations", ("train", "dev"))):
        here, there = rows(run, log), rows(other, log)
        assert [one["step"] for one in here] == [one["step"] for one in there], log
        worst = max(worst, *(abs(a[name] - b[name]) for a, b in zip(here, there, strict=True) for name in names))
    if rows(run, "metrics")[0]["n_tokens"] != rows(other, "metrics")[0]["n_tokens"]:
        raise AssertionError("not the same batch")
    if is_finished(run) and is_finished(other):
        worst = max(worst, *(abs(a - b) for a, b in zip(final_losses(run), final_losses(other), strict=True)))
    return worst


def final_losses(run: Path) -> tuple[float, float]:
    """On all of dev and test."""
    rung = next(rung for rung in open_run(run).report().ladder.rungs if not rung.is_counted)
    assert rung.test is not None
    return rung.dev, rung.test


def compare_curves(folder: Path, words: list[str], numbers: list[int], more: str = "") -> dict[int, float]:
    """How far the losses of so many processes are from those of one. more: options that only several can have."""
    assert train_together(folder, [*words, "--name", "p1"], 1) == [0], (folder / "said-0.txt").read_text()[-3000:]
    found = {}
    for n in numbers:
        codes = train_together(folder, [*words, *more.split(), "--name", f"p{n}"], n)
        assert codes == [0] * n, (codes, (folder / "said-0.txt").read_text()[-3000:])
        found[n] = farthest(folder / "runs" / "p1", folder / "runs" / f"p{n}")
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def start_launcher(
    folder: Path, words: list[str], n: int, *, within: Sequence[str] = (), by_torchrun: bool = False
) -> subprocess.Popen[bytes]:
    """`pellucid train --processes n` as a process of its own, or torchrun's own command. within: words before it."""
    environment = {**os.environ, "PELLUCID_OVERSUBSCRIBE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pellucid", "train", *words, "--processes", str(n)]
    if by_torchrun:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n)]
        command = [*torchrun, "-m", "pellucid", "train", *words]
    with (folder / "said.txt").open("ab") as out:
        return subprocess.Popen([*within, *command], cwd=folder, stdout=out, stderr=out, env=environment)


def wait_for(what: object, seconds: float) -> bool:
    """Until a function says yes."""
    assert callable(what)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if what():
            return True
        time.sleep(0.05)
    return False


def n_steps_made(run: Path) -> int:
    try:
        return (run / "metrics.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def kill_launcher(
    folder: Path, words: list[str], n: int, draw: random.Random, longest: float, after_steps: int = 0
) -> tuple[int, str]:
    """Kill one launcher at a random moment; back: workers that are still alive, and where the kill came.

    after_steps: once so many steps were made, however long that takes.
    """
    launcher = start_launcher(folder, words, n)
    run = folder / "runs" / "killed"
    if after_steps:
        wait_for(lambda: n_steps_made(run) >= after_steps or launcher.poll() is not None, 600)
    else:
        wait_for(lambda: launcher.poll() is not None, draw.uniform(0.0, longest))
    workers = children_of(launcher.pid)
    launcher.kill()
    launcher.wait()
    # A child may have been born between the look and the kill.
    wait_for(lambda: not any(map(alive, workers)), ENDS_WITHIN)
    left = [pid for pid in workers if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    moment = "before there were workers" if not workers else "after workers had started"
    return len(left), moment


def kill_worker(folder: Path, words: list[str], n: int, after_steps: int, rank: int) -> int:
    """Kill a worker once so many steps were made; what the launcher ended with."""
    run = folder / "runs" / "killed"
    launcher = start_launcher(folder, [*words, "--name", "killed"], n)
    if not wait_for(lambda: n_steps_made(run) >= after_steps or launcher.poll() is not None, 600):
        raise RuntimeError((folder / "said.txt").read_text()[-3000:])
    workers = children_of(launcher.pid)
    if workers:
        os.kill(workers[rank % len(workers)], signal.SIGKILL)
    return launcher.wait(timeout=900)


def stop_launcher(folder: Path, words: list[str], number: int, *, by_torchrun: bool = False) -> tuple[int, int]:
    """Send a signal while it trains; what the launcher ended with, and how many of its workers are left."""
    launcher = start_launcher(folder, [*words, "--name", "stopped"], 2, by_torchrun=by_torchrun)
    wait_for(lambda: n_steps_made(folder / "runs" / "stopped") >= 5 or launcher.poll() is not None, 300)
    workers = children_of(launcher.pid)
    launcher.send_signal(number)
    code = launcher.wait(timeout=120)
    wait_for(lambda: not any(map(alive, workers)), ENDS_WITHIN)
    return code, sum(map(alive, workers))


class TwoMachines:
    """Two network namespaces of this machine with a cable between them; needs root and iproute2."""

    def __init__(self) -> None:
        self.names = [f"pellucid-{os.getpid()}-{one}" for one in "ab"]

    def __enter__(self) -> "TwoMachines":
        a, b = self.names
        for name in self.names:
            self.ip("netns", "add", name)
        self.ip("link", "add", "cable", "netns", a, "type", "veth", "peer", "name", "cable", "netns", b)
        for number, name in enumerate(self.names, 1):
            self.ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "cable")
            for device in ("cable", "lo"):
                self.ip("-n", name, "link", "set", device, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            self.ip("netns", "delete", name)

    @staticmethod
    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)

    def start(self, number: int, folder: Path, words: list[str]) -> subprocess.Popen[bytes]:
        """The command of a training on one of them; the run's folder is where its rank 0 is."""
        meeting = ["--nodes", "2", "--rendezvous", "10.77.0.1:29400", "--job", "proof"]
        within = ["ip", "netns", "exec", self.names[number]]
        return start_launcher(folder, [*words, *meeting], 1, within=within)


def train_on_two_machines(base: Path, words: list[str], *, is_one_killed: bool = False) -> tuple[list[int], Path]:
    """What both ended with, and the run. is_one_killed: the machine without the run, once five steps were made."""
    folders = [base / "a", base / "b"]
    for folder in folders:
        folder.mkdir(parents=True)
        write_data(folder)
    with TwoMachines() as machines:
        both = [machines.start(number, folder, words) for number, folder in enumerate(folders)]

        def runs() -> list[Path]:
            return [folder / "runs" / "both" for folder in folders if n_steps_made(folder / "runs" / "both") >= 5]

        if is_one_killed:
            wait_for(lambda: runs() or any(one.poll() is not None for one in both), 300)
            both[1 - folders.index(runs()[0].parent.parent)].kill()
        codes = [one.wait(timeout=300) for one in both]
    (run,) = runs()  # one of them alone has it
    return codes, run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--worker-kills", type=int, default=6)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--early", action="store_true", help="kill launchers by the clock alone")
    parser.add_argument("--longest", type=float, default=25.0, help="seconds up to which launchers are killed")
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        write_data(folder)
        steps = ["--steps", str(asked.steps)]
        if asked.only in ("", "curves"):
            for name, words in {
                "list, on counting": f"names.txt --model transformer --dropout 0 {SMALL}",
                "list, batch norm": f"names.txt --model mlp --norm batch --start scratch {SMALL}",
                "text": f"book.txt --model transformer --start scratch --context 16 --dropout 0 {SMALL}",
                "divided": f"names.txt --model transformer --optimizer adamw --dropout 0 {SMALL}",
                "in pieces": f"names.txt --model transformer --optimizer adamw --dropout 0 {SMALL}",
            }.items():
                place = folder / name.replace(" ", "-")
                place.mkdir()
                write_data(place)
                more = {"divided": "--shard", "in pieces": "--accumulate 3"}.get(name, "")
                found = compare_curves(place, [*words.split(), *steps], [2, 4], more)
                print(f"curves, {name}: {found} (at most {CLOSE:g} is wanted)", flush=True)
                assert max(found.values()) <= CLOSE
        words = [*f"names.txt --model transformer --dropout 0 {SMALL} --save-every 10".split(), *steps]
        if asked.only in ("", "resumes"):
            place = folder / "resumes"
            place.mkdir()
            write_data(place)
            assert train_together(place, [*words, "--name", "whole"], 2) == [0, 0]
            whole = place / "runs" / "whole"
            for n in (2, 1, 4):
                stopped = place / "runs" / "stopped"
                code, _ = stop_launcher(place, words, signal.SIGTERM)
                made = n_steps_made(stopped)
                assert code == 143, (place / "said.txt").read_text()
                assert train_together(place, ["--resume", "stopped"], n) == [0] * n
                far, is_same = farthest(whole, stopped), digests(whole) == digests(stopped)
                same = "the same bytes" if is_same else "other last digits"
                print(f"2 processes stopped after {made} steps, {n} go on: {far:.2g} from never stopped, {same}")
                assert far <= CLOSE
                assert is_same or n != 2
                shutil.rmtree(stopped)
        if asked.only in ("", "workers"):
            place = folder / "workers"
            for number in range(asked.worker_kills):
                place = folder / f"workers-{number}"
                place.mkdir()
                write_data(place)
                train_together(place, [*words, "--name", "p1"], 1)
                at = draw.randrange(1, asked.steps)
                code = kill_worker(place, words, 2, at, number)
                far = farthest(place / "runs" / "p1", place / "runs" / "killed")
                print(
                    f"worker {number % 2} killed after step {at}: exit {code}, {far:.2g} from one process", flush=True
                )
                assert code == 0
                assert is_finished(place / "runs" / "killed")
                assert far <= CLOSE
        if asked.only in ("", "launchers"):
            orphans, moments = 0, dict[str, int]()
            for number in range(asked.kills):
                place = folder / f"launchers-{number}"
                place.mkdir()
                write_data(place)
                # Every second one while it trains, the others anywhere from the first moment on.
                after = draw.randrange(1, asked.steps // 2) if number % 2 and not asked.early else 0
                named = [*words, "--name", "killed"]
                left, moment = kill_launcher(place, named, 2, draw, longest=asked.longest, after_steps=after)
                orphans += left
                moments[moment] = moments.get(moment, 0) + 1
                made = n_steps_made(place / "runs" / "killed")
                print(f"launcher {number + 1}: {moment}, {made} steps made, {left} left", flush=True)
            print(f"{asked.kills} launchers killed: {orphans} workers left behind; {moments}")
            assert not orphans
        if asked.only in ("", "stops"):
            words = [*f"names.txt --model transformer {SMALL} --save-every 10 --steps 2000".split()]
            for by_torchrun in (False, True):
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    place = folder / f"stops-{number}-{by_torchrun}"
                    place.mkdir()
                    write_data(place)
                    code, left = stop_launcher(place, words, number, by_torchrun=by_torchrun)
                    made = n_steps_made(place / "runs" / "stopped")
                    saved = max(path.name for path in (place / "runs" / "stopped" / "checkpoints").iterdir())
                    who = "torchrun" if by_torchrun else "--processes"
                    print(f"{number.name} to {who}: exit {code}, {made} steps made, {saved} saved, {left} workers left")
                    assert saved == f"step-{made:09d}"
                    assert not left
                    assert by_torchrun or code == 128 + number  # torchrun says 1, whatever its workers say
        if asked.only in ("", "machines"):
            if os.geteuid() or not shutil.which("ip"):
                print("machines: not tried, for network namespaces need root and iproute2")
                return
            words = [*f"names.txt --model transformer --dropout 0 {SMALL} --save-every 10 --name both".split(), *steps]
            train_together(folder, [*words[:-4], *steps, "--name", "alone"], 1)
            codes, run = train_on_two_machines(folder / "together", words)
            far = farthest(folder / "runs" / "alone", run)
            print(f"two machines: exits {codes}, {far:.2g} from one process")
            assert codes == [0, 0]
            assert far <= CLOSE
            began = time.monotonic()
            codes, run = train_on_two_machines(folder / "parted", [*words[:-1], "2000"], is_one_killed=True)
            took = time.monotonic() - began
            print(f"one of two machines killed: exits {codes}, {n_steps_made(run)} steps, after {took:.0f} s")
            assert sorted(codes) == [-9, 143]
            assert not is_finished(run)


if __name__ == "__main__":
    main()
