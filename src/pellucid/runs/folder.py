"""What is where in the folder of a run."""

import os
import re
import secrets
import shutil
from pathlib import Path

from pellucid.runs.disk import fsync_path, is_regular

RECORD = "run.json"
FINISHED = "finished.json"
BASELINES = "baselines.json"  # what simple models reach, known before the first step
LOCK = "lock"
LOGS = ("metrics", "evaluations", "health", "findings", "samples", "replans", "timings")
TRASH = ".trash-"
STEP = re.compile(r"step-([0-9]{9,18})")


def is_finished(run: Path) -> bool:
    """Whether nothing is left to do."""
    return is_regular(run / FINISHED)


def log_path(run: Path, log: str) -> Path:
    if log not in LOGS:
        raise ValueError(f"{log!r} is not one of the logs {LOGS}")
    return run / f"{log}.jsonl"


def checkpoints_of(run: Path) -> Path:
    return run / "checkpoints"


def checkpoint_at(run: Path, step: int) -> Path:
    """The folder of a checkpoint. Its name alone says which is newer; no clock does.

    >>> checkpoint_at(Path("runs/x"), 1200).as_posix()
    'runs/x/checkpoints/step-000001200'
    """
    return checkpoints_of(run) / f"step-{step:09d}"


def checkpoint_steps(run: Path) -> list[int]:
    """The steps that have a checkpoint, newest first; whether it is whole is another question.

    A folder that cannot be listed is an OSError: it must never pass for one without checkpoints.
    """
    names = [STEP.fullmatch(name) for name in os.listdir(checkpoints_of(run))]
    steps = {int(name[1]) for name in names if name is not None}
    return sorted((step for step in steps if os.path.lexists(checkpoint_at(run, step))), reverse=True)


def delete_checkpoints(run: Path, steps: list[int]) -> None:
    """Delete the checkpoints of these steps, each by one rename first."""
    trash = [(checkpoint_at(run, step), checkpoints_of(run) / f"{TRASH}{secrets.token_hex(8)}") for step in steps]
    for place, away in trash:
        os.rename(place, away)
    if trash:
        fsync_path(checkpoints_of(run))
    for _, away in trash:
        shutil.rmtree(away, ignore_errors=True)
