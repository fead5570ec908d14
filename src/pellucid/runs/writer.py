"""The one process that writes a run."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pellucid.errors import NotWritten, PellucidError, quoted
from pellucid.runs.disk import TEMPORARY, is_regular, synchronise, write_new, write_whole
from pellucid.runs.locking import LOCK, Lock
from pellucid.runs.logs import LOGS, LogWriter
from pellucid.runs.places import FINISHED, NAME, RECORD, checkpoint_at, checkpoints_of, holds_run, require_free
from pellucid.runs.sealed import Damaged, read_sealed, sealed

# Two are kept and a third is written before the oldest goes.
CHECKPOINTS_AT_ONCE = 3
RESERVED = {RECORD, FINISHED, LOCK, *(f"{log}.jsonl" for log in LOGS)}


def read_record(run: Path) -> dict[str, Any]:
    """What the run was made with."""
    return _read(run, RECORD)


def read_ending(run: Path) -> dict[str, Any]:
    """How a finished run ended."""
    return _read(run, FINISHED)


def is_finished(run: Path) -> bool:
    """Whether nothing is left to do."""
    return is_regular(run / FINISHED)


def _read(run: Path, name: str) -> dict[str, Any]:
    try:
        return read_sealed(run / name)
    except OSError as error:
        raise PellucidError(
            f"{name} of {quoted(str(run), 80)} cannot be read: {error.strerror}", fix="Name the folder of a run"
        ) from error


class RunWriter:
    """Holds the lock of a run for as long as it lives, and is the only one to write there.

    with RunWriter.create(place_for("", "names"), {"seed": 1}, n_bytes=4_000_000) as run:
        run.append("metrics", Step(...))
    """

    def __init__(self, path: Path, record: Mapping[str, Any], lock: Lock) -> None:
        self.path = path
        self.record = record
        self._lock = lock
        self._logs = LogWriter(path)

    @classmethod
    def create(cls, path: Path, record: Mapping[str, object], n_bytes: int) -> Self:
        """A new run, there as a whole or not at all; `n_bytes` is what one of its checkpoints will take.

        Making it is also the probe: what cannot be written, locked, renamed or synchronised here fails now, not hours
        later.
        """
        content = sealed(record)
        try:
            path.parent.mkdir(exist_ok=True)
            lock = _made(path, content, n_bytes)
        except OSError as error:
            raise PellucidError(
                f"a run cannot be made in {quoted(str(path.parent), 80)}: {error.strerror}",
                fix="Make room or choose another folder",
            ) from error
        return cls(path, read_record(path), lock)

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Go on with a run that exists."""
        path = path.resolve() if path.is_symlink() else path
        if not holds_run(path):
            raise PellucidError(f"there is no run in {quoted(str(path), 80)}", fix="Name the folder of a run")
        record = read_record(path)
        if checkpoints_of(path).is_symlink() or not checkpoints_of(path).is_dir():
            raise Damaged(f"{path.name} has no folder of checkpoints", fix="Take it from a copy of the run")
        try:
            lock = Lock(path)
            try:
                _sweep(path, prefix=TEMPORARY)
            except BaseException:
                lock.release()
                raise
        except OSError as error:
            raise PellucidError(
                f"nothing can be written into {quoted(str(path), 80)}: {error.strerror}", fix="Copy the run elsewhere"
            ) from error
        return cls(path, record, lock)

    def append(self, log: str, record: object) -> None:
        """One line at the end of a log. The record has a step; numbers that are not finite become words."""
        self._logs.append(log, record)

    def flush(self) -> None:
        """Wait until the logs have reached the disk."""
        self._logs.synchronise()

    def rewind(self, step: int) -> None:
        """Make the logs what they were when the checkpoint of that step was made; without one, at step 0, empty."""
        sizes: Mapping[str, int] = {}
        try:
            sizes = read_sealed(checkpoint_at(self.path, step) / "state.json")["logs"]
        except OSError as error:
            if step or not isinstance(error, FileNotFoundError):
                raise Damaged(f"{self.path.name} has no checkpoint of step {step}", fix="Name another step") from error
        self._logs.cut(sizes)

    def write(self, name: str, content: str | bytes) -> None:
        """A file of the run as a whole: readers see all of the old or all of the new."""
        if name in RESERVED or not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for a file of a run")
        self._write(name, content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)

    def finish(self, ending: object) -> None:
        """Mark the run as finished; the last thing that happens to it."""
        self._write(FINISHED, sealed({"ending": ending}))

    def close(self) -> None:
        self._logs.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, name: str, content: bytes) -> None:
        try:
            write_whole(self.path / name, content)
        except OSError as error:
            raise NotWritten(f"{name} could not be written: {error.strerror}", run=self.path.name) from error


def _made(path: Path, content: bytes, n_bytes: int) -> Lock:
    """Make the folder beside its place and rename it; the lock is held from before it can be seen."""
    door = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Runs are made one at a time, so what an unfinished making left here has no owner any more.
        fcntl.flock(door, fcntl.LOCK_EX)
        require_free(path)
        _sweep(path.parent, prefix=f"{TEMPORARY}run-")
        _require_space(path.parent, n_bytes)
        temporary = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}run-", dir=path.parent))
        try:
            lock = Lock(temporary)
            try:
                checkpoints_of(temporary).mkdir()
                write_new(temporary / RECORD, content)
                synchronise(temporary)
                os.rename(temporary, path)
                os.fsync(door)
            except BaseException:
                lock.release()
                raise
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    finally:
        os.close(door)
    return lock


def _sweep(folder: Path, prefix: str) -> None:
    """Remove what a killed process left half made."""
    for path in list(folder.iterdir()):
        if path.name.startswith(prefix):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _require_space(folder: Path, n_bytes: int) -> None:
    room = os.statvfs(folder)
    needed = CHECKPOINTS_AT_ONCE * n_bytes
    free = room.f_bavail * room.f_frsize
    if free < needed:
        raise PellucidError(
            f"{CHECKPOINTS_AT_ONCE} checkpoints need {_megabytes(needed)} and {_megabytes(free)} are free "
            f"in {quoted(str(folder), 80)}",
            fix="Make room or choose another folder",
        )
    if room.f_files and not room.f_favail:
        raise OSError(errno.ENOSPC, "No room for another file")


def _megabytes(n: int) -> str:
    return f"{n / 1e6:,.1f} MB"
