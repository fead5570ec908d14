"""Disks that are full, read-only or broken, made of memory and mounted for the test."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pellucid.errors import NotWritten, PellucidError
from pellucid.runs import RunWriter, read_log
from pellucid.runs.folder import checkpoint_steps
from pellucid.training.checkpoints import load_best, newest_checkpoint, save_best, save_checkpoint

CHECKPOINT = 250_000  # bytes of one, with a little room


@pytest.fixture
def mounted(tmp_path):
    """Mounts a small disk with the given options; all are unmounted at the end."""
    disks = []

    def mount(options: str) -> Path:
        disk = tmp_path / f"disk{len(disks)}"
        disk.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("a small disk cannot be mounted here")
        disks.append(disk)
        return disk

    yield mount
    for disk in disks:
        subprocess.run(["umount", disk], check=True)


def weights(step: int) -> dict[str, torch.Tensor]:
    return {"w": torch.full((30_000,), float(step))}


def save(run: RunWriter, step: int) -> None:
    save_checkpoint(run.path, step, weights(step), weights(-step), {})


def assert_whole(run: RunWriter, step: int) -> None:
    found = newest_checkpoint(run.path)
    assert found is not None
    assert (found.step, found.unused) == (step, {})
    assert bool((found.model["w"] == step).all())


def fill(disk: Path, leave: int) -> None:
    """Take all room but so many bytes."""
    (disk / "ballast").unlink(missing_ok=True)
    room = os.statvfs(disk)
    with (disk / "ballast").open("wb") as file:
        file.write(b"x" * max(0, room.f_bavail * room.f_frsize - leave))


def write_for_ever(run: RunWriter) -> None:
    for step in itertools.count():
        run.append("metrics", {"step": step, "text": "x" * 100})


def test_too_little_room_is_said_before_anything_is_made(mounted):
    disk = mounted("size=1m")
    with pytest.raises(
        PellucidError, match=r"3 checkpoints need 1\.2 MB and 1\.0 MB are free in .*Make room"
    ) as caught:
        RunWriter.create(disk / "runs" / "x", {}, n_bytes=400_000)
    assert caught.value.exit_code == 2
    assert not (disk / "runs").exists()
    RunWriter.create(disk / "runs" / "x", {}, n_bytes=200_000).close()


@pytest.mark.parametrize("options", ["size=64k,nr_inodes=2", "size=64k,nr_inodes=3", "size=64k,nr_inodes=4"])
def test_no_room_for_another_file(mounted, options):
    disk = mounted(options)
    with pytest.raises(PellucidError, match=r"a run cannot be made in .*(No room|No space)"):
        RunWriter.create(disk / "runs" / "x", {}, n_bytes=10)
    assert not (disk / "runs").exists() or os.listdir(disk / "runs") == []


def test_a_disk_that_is_read_only(mounted):
    disk = mounted("size=1m")
    RunWriter.create(disk / "x", {"seed": 3}, n_bytes=10).close()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with pytest.raises(PellucidError, match=r"a run cannot be made in .*Read-only file system"):
        RunWriter.create(disk / "y", {}, n_bytes=10)
    with pytest.raises(PellucidError, match=r"nothing can be written into .*Read-only file system"):
        RunWriter.resume(disk / "x")


def test_a_full_disk_costs_older_checkpoints_and_never_the_newest(mounted):
    disk = mounted("size=2m")
    with RunWriter.create(disk / "x", {}, CHECKPOINT) as run:
        for step in (1, 2, 3):
            save(run, step)
        fill(disk, leave=100_000)
        save(run, 4)
        assert checkpoint_steps(run.path) == [4, 3]
        assert_whole(run, 4)


def test_a_full_disk_without_anything_to_spare(mounted):
    disk = mounted("size=2m")
    with RunWriter.create(disk / "x", {}, CHECKPOINT) as run:
        run.append("metrics", {"step": 1})
        save(run, 1)
        save_best(run.path, 1, weights(1))
        for leave in (0, 4096, 8192, 50_000, 130_000, 240_000):
            fill(disk, leave)
            with pytest.raises(NotWritten, match="step 2 could not be saved: No space left") as caught:
                save(run, 2)
            assert caught.value.exit_code == 3
            assert "pellucid train --resume x" in str(caught.value)
            assert_whole(run, 1)
            assert os.listdir(run.path / "checkpoints") == ["step-000000001"]
        fill(disk, leave=0)
        with pytest.raises(NotWritten, match="the best weights could not be saved"):
            save_best(run.path, 2, weights(2))
        assert load_best(run.path)[1] == 1
        with pytest.raises(NotWritten, match=r"report\.html could not be written"):
            run.write("report.html", "x" * 100_000)
        # A log takes whole lines or none.
        with pytest.raises(NotWritten, match=r"metrics\.jsonl could not be written"):
            write_for_ever(run)
        steps = [record["step"] for record in read_log(run.path, "metrics")][1:]
        assert steps == list(range(len(steps)))
        assert (run.path / "metrics.jsonl").read_bytes().endswith(b"}\n")
        (disk / "ballast").unlink()
        save(run, 2)
        assert_whole(run, 2)


LIMITED = """
import os, resource, signal, sys, torch
from pathlib import Path
from pellucid.errors import PellucidError
from pellucid.training.checkpoints import newest_checkpoint, save_checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
run = Path(sys.argv[1])
for limit in (1, 100, 1000, 10_000, 100_000, 120_100):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        save_checkpoint(run, 2, {"w": torch.ones(30_000)}, {"w": torch.ones(30_000)}, {})
        print("saved")
    except PellucidError as error:
        print(error.exit_code, newest_checkpoint(run).step, error)
sys.stdout.flush()
os._exit(0)
"""


def test_a_write_that_fails_half_way_leaves_the_old_one(tmp_path):
    with RunWriter.create(tmp_path / "x", {}, CHECKPOINT) as run:
        save(run, 1)
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, run.path], capture_output=True, encoding="utf-8", check=True
        )
        lines = done.stdout.splitlines()
        assert len(lines) == 6
        for line in lines[:5]:
            assert line.startswith("3 1 step 2 could not be saved: File too large")
        assert lines[5] == "saved"
        assert sorted(os.listdir(run.path / "checkpoints")) == ["step-000000001", "step-000000002"]


def test_a_folder_of_somebody_else(tmp_path):
    """Root ignores modes, so the test becomes somebody else."""
    tmp_path.chmod(0o755)
    (tmp_path / "theirs").mkdir(mode=0o755)
    code = (
        "import os, sys; from pathlib import Path; from pellucid.runs import *; from pellucid.errors import *\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: RunWriter.create(Path(sys.argv[1]) / 'x', {}, 1)\n"
        "except PellucidError as error: print(error)"
    )
    if os.geteuid():
        pytest.skip("only root can become somebody else")
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "theirs"], capture_output=True, encoding="utf-8", check=True
    )
    assert "Permission denied" in done.stdout
    assert os.listdir(tmp_path / "theirs") == []
