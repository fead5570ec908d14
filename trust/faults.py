"""Every system call of a save, failed and killed: `python -m trust.faults`.

A child saves a checkpoint, the best weights, logs and a report over older ones, while strace makes one of its calls
fail (EIO, ENOSPC), makes every call from there on fail, or kills the child there. Afterwards the old checkpoint or the
new one must be whole, and saving again must end with the bytes of a run that nothing happened to.
"""

import argparse
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from pellucid.errors import PellucidError
from pellucid.runs import LOGS, RunWriter, read_log
from pellucid.training.checkpoints import (
    delete_old_checkpoints,
    load_best,
    newest_checkpoint,
    save_best,
    save_checkpoint,
)

CALLS = (
    *("openat", "write", "pwrite64", "ftruncate", "fsync", "fdatasync", "mkdir", "rename", "renameat", "renameat2"),
    *("unlink", "unlinkat", "rmdir", "link", "symlink", "chmod", "fchmod", "flock"),
)
FAULTS = {
    "killed": "signal=KILL:when={n}",
    "EIO once": "error=EIO:when={n}",
    "EIO from there on": "error=EIO:when={n}+",
    "ENOSPC once": "error=ENOSPC:when={n}",
    "ENOSPC from there on": "error=ENOSPC:when={n}+",
}
LAST = 4


def weights(step: int) -> dict[str, torch.Tensor]:
    return {"w": torch.full((300,), float(step)), "b": torch.full((3,), step / 7)}


def save(run: RunWriter, step: int) -> None:
    run.append("metrics", {"step": step})
    run.append("evaluations", {"step": step, "dev": step / 3})
    save_checkpoint(run.path, step, weights(step), weights(-step), {"step": step})
    save_best(run.path, step, weights(step))
    delete_old_checkpoints(run.path, keep=set())


def work(path: Path) -> None:
    """Go on to the last step from wherever the folder stands."""
    with RunWriter.resume(path) as run:
        found = newest_checkpoint(path)
        step = found.step if found else 0
        run.rewind(step)
        while step < LAST:
            step += 1
            save(run, step)
        save_best(path, LAST, weights(LAST))
        delete_old_checkpoints(path, keep=set())
        run.write("report.html", "<p>done")
        run.finish({"step": step})


def digests(path: Path) -> dict[str, str]:
    """Every file of a run and its SHA-256; the lock says who held it last, which is another each time."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.name != "lock")
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def child(path: Path, go: int) -> None:
    os.read(go, 1)
    code = 70
    try:
        work(path)
        code = 0
    except PellucidError as error:
        code = error.exit_code
    finally:
        os._exit(code)


def traced(path: Path, options: list[str]) -> tuple[int, str]:
    """Work in a child that strace watches from its first call on: how it ended, and what strace wrote."""
    out = path.with_name("strace.txt")
    read, write = os.pipe()
    if not (pid := os.fork()):
        os.close(write)
        child(path, read)
    os.close(read)
    strace = subprocess.Popen(["strace", "-qq", "-p", str(pid), "-o", str(out), *options], stderr=subprocess.PIPE)
    while "TracerPid:\t0" in Path(f"/proc/{pid}/status").read_text():
        if strace.poll() is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise RuntimeError(strace.communicate()[1].decode())
        time.sleep(0.001)
    os.write(write, b"x")
    os.close(write)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    strace.communicate()
    return status, out.read_text()


def recovers(path: Path, wanted: dict[str, str]) -> str:
    """What is wrong after a fault, or "" when everything is well."""
    try:
        found = newest_checkpoint(path)
        best, step = load_best(path)
        for log in LOGS:
            read_log(path, log)
        if found is None or found.unused or found.step < 2:
            return f"the old checkpoint is lost: {found}"
        if not bool((found.model["w"] == found.step).all()) or not bool((best["w"] == step).all()):
            return "weights of another step"
        work(path)
    except PellucidError as error:
        return str(error)
    return "" if digests(path) == wanted else "the end is another one"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of all faults, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if shutil.which("strace") is None:
        print("not tried: strace is not installed")
        return 0
    torch.set_num_threads(1)
    draw = random.Random(asked.seed)
    wrong = n_tried = 0
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        with RunWriter.create(base / "before", {"seed": 1}, 10_000) as run:
            for step in (1, 2):
                save(run, step)
        shutil.copytree(base / "before", base / "run")
        try:
            status, log = traced(base / "run", ["-e", f"trace={','.join(CALLS)}"])
        except RuntimeError as error:
            print(f"not tried: strace cannot attach: {error}")
            return 0
        assert status == 0, log
        wanted = digests(base / "run")
        found = re.findall(r"^(\w+)\(", log, re.MULTILINE)
        counts = {call: found.count(call) for call in CALLS if call in found}
        print("calls of one run:", ", ".join(f"{n} {call}" for call, n in counts.items()))
        for name, fault in FAULTS.items():
            ends: dict[int, int] = {}
            for call, n_calls in counts.items():
                for n in range(1, n_calls + 1):
                    if draw.random() > asked.share:
                        continue
                    shutil.rmtree(base / "run")
                    shutil.copytree(base / "before", base / "run")
                    options = ["-e", f"trace={call}", "-e", f"inject={call}:{fault.format(n=n)}"]
                    status, log = traced(base / "run", options)
                    ends[status] = ends.get(status, 0) + 1
                    n_tried += 1
                    why = recovers(base / "run", wanted) or ("a bug" if status not in (-9, 0, 2, 3) else "")
                    if not why and status != -9 and "(INJECTED)" not in log:
                        why = "the fault did not happen"
                    if why:
                        wrong += 1
                        print(f"  {name} at {call} {n}: ended with {status}: {why}")
            print(f"{name:<22} {sum(ends.values())} faults; the process ended with", dict(sorted(ends.items())))
    print(f"{n_tried} faults, {wrong} not recovered from")
    return 1 if wrong or not n_tried else 0


if __name__ == "__main__":
    sys.exit(main())
