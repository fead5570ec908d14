"""`kill -9` and failing disks at any moment, and many runs in a folder, in short; `make trust` has them at length."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def proof(*words: str) -> str:
    """What a proof of trust/ printed, which must have held."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *words],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_killed_6_times_in_a_row():
    said = proof("trust.kills", "--forked", "--in-a-row", "--kills", "6", "--cases", "list")
    assert "6 kills" in said
    assert "0 with another end" in said


def test_killed_at_random_moments():
    said = proof("trust.kills", "--forked", "--kills", "2", "--cases", "text", "--seed", "2")
    assert "2 kills" in said
    assert "0 with another end" in said


def test_system_calls_that_fail_or_kill():
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed, so no system call can be made to fail")
    said = proof("trust.faults", "--share", "0.02")
    if "not tried" in said:
        pytest.skip("strace may not attach to a process here")
    assert "0 not recovered from" in said


@pytest.mark.slow
def test_a_hundredth_of_a_load():
    said = proof("trust.loads", "runs", "--share", "0.01")
    assert said.count("allowed") == 1
    assert "0 wrong" in said
