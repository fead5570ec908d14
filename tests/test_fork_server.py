"""What the tests lean on: a command that runs in a fork ends with whoever asked for it."""

import subprocess
import time
from pathlib import Path


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_command_whose_client_is_killed_is_ended(pellucid_program, tmp_path):
    (tmp_path / "names.txt").write_text("\n".join(f"{a}{b}" for a in "abcdef" for b in ("nna", "lia", "ro")))
    words = [pellucid_program, "train", "names.txt", "--minutes", "5", "--name", "long"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        lock = tmp_path / "runs" / "long" / "lock"
        until = time.monotonic() + 120
        while not lock.exists() and time.monotonic() < until:
            time.sleep(0.05)
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and holds(path, lock)]
        client.kill()
    assert pids
    while any(is_alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(is_alive(pid) for pid in pids)


def holds(process: Path, file: Path) -> bool:
    """Whether a process has a file open."""
    try:
        return any(one.readlink() == file for one in (process / "fd").iterdir())
    except OSError:
        return False
