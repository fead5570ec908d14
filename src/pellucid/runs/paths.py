"""Where runs are, and what they may be called."""

import os
import re
from pathlib import Path

from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.runs.disk import is_regular

BASE = Path("runs")
RECORD = "run.json"
FINISHED = "finished.json"
LOCK = "lock"
LOGS = ("metrics", "evaluations", "health", "findings", "samples", "timings")
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
STEP = re.compile(r"step-([0-9]{9,18})")


def new_run_path(name: str, stem: str, base: Path = BASE) -> Path:
    """The folder that a new run will be made in: of that name, or of the first free name like the data's.

    >>> new_run_path("", "names", Path("nowhere")).as_posix()
    'nowhere/names'
    """
    if not name:
        stem = (re.sub(r"[^A-Za-z0-9._-]+", "-", stem).lstrip(".-") or "run")[:56]
        names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, 1_000_000))
        return next(base / free for free in names if not os.path.lexists(base / free))
    require_name(name)
    require_free(base / name)
    return base / name


def require_name(name: str) -> None:
    """Refuse a name that could lead elsewhere or that a shell or a page would trip over."""
    if not NAME.fullmatch(name):
        raise PellucidError(
            f"a run cannot be called {quoted(name)}", fix="Use up to 64 letters, digits, dots, dashes and underscores"
        )


def require_free(path: Path) -> None:
    """Refuse a path where something is, saying what."""
    where = str(path)
    if holds_run(path):
        if is_regular(path / FINISHED):
            raise PellucidError(
                f"{where} holds a finished run",
                fix="Choose another {name} or {resume}",
                options={"name": None, "resume": None},
            )
        raise PellucidError(
            f"{where} holds a run",
            fix="Go on with {resume} or choose another {name}",
            options={"resume": path.name, "name": None},
        )
    if os.path.lexists(path):
        what = "is a link" if path.is_symlink() else "exists already and is no run"
        raise PellucidError(f"{where} {what}", fix="Choose another {name}", options={"name": None})


def holds_run(path: Path) -> bool:
    """Whether a run's record is in the folder; whether it can be read is another question."""
    return not path.is_symlink() and is_regular(path / RECORD)


def is_run(word: str) -> bool:
    """Whether `find_run` would find one."""
    return _find_folder(word) is not None


def find_run(word: str) -> Path:
    """The folder of a run, from its name under ./runs or from its path."""
    found = _find_folder(word)
    if found is not None:
        return found
    known = sorted(path.name for path in _listed(BASE) if holds_run(path))
    there_are = f"There are {', '.join(known[:5])}{', …' * (len(known) > 5)}" if known else "Make one: pellucid train"
    raise PellucidError(
        f"there is no run called {quoted(word)}",
        fix=did_you_mean(Path(word).name, known, there_are),
    )


def _find_folder(word: str) -> Path | None:
    if not word:
        return None
    if NAME.fullmatch(word) and holds_run(BASE / word):
        return BASE / word
    # A path may go through links: whoever typed it meant what is there.
    path = Path(word)
    return path if is_regular(path / RECORD) else None


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


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


def log_path(run: Path, log: str) -> Path:
    if log not in LOGS:
        raise ValueError(f"{log!r} is not one of the logs {LOGS}")
    return run / f"{log}.jsonl"
