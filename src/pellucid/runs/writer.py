"""The one process that writes a run: it holds the lock, appends to the logs and writes whole files."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from pellucid.errors import NotWritten, PellucidError, printable, quoted
from pellucid.runs.disk import TEMPORARY, Damaged, checksummed_json, fsync_path, write_new, write_whole
from pellucid.runs.folder import FINISHED, LOCK, LOGS, RECORD, checkpoint_steps, checkpoints_of, delete_checkpoints
from pellucid.runs.logs import LogPlace, LogWriter, checkpointed_places
from pellucid.runs.run import NAME, Run, holds_run, read_record, require_free
from pellucid.runs.seal import seal_files

# Two are kept and a third is written before the oldest goes.
CHECKPOINTS_AT_ONCE = 3
SMALLEST_CHECKPOINT = 65_536  # bytes, weights not counted
RESERVED = {RECORD, FINISHED, LOCK, *(f"{log}.jsonl" for log in LOGS)}


class RunLog(Protocol):
    """What is told of a run while it goes on: by the one process that writes it, or by one that only follows it."""

    path: Path

    @property
    def run(self) -> Run: ...

    def append(self, log: str, record: object) -> None: ...

    def flush(self) -> None: ...


class FollowedRun:
    """A run that another process writes: whatever is told of it here has been told there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def run(self) -> Run:
        return Run(self.path, read_record(self.path))

    def append(self, log: str, record: object) -> None:
        """Nothing: it is written by the other."""

    def flush(self) -> None:
        """Nothing was kept back."""


class RunWriter:
    """Holds the lock of a run for as long as it lives, and is the only one to write there.

    with RunWriter.create(new_run_path("", "names"), {"seed": 1}, n_bytes=4_000_000) as run:
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
        content = checksummed_json(record)
        is_new = not os.path.lexists(path.parent)
        try:
            path.parent.mkdir(exist_ok=True)
            lock = _make_folder(path, content, n_bytes)
        except BaseException as error:
            if is_new:
                with suppress(OSError):  # another run may be there by now
                    path.parent.rmdir()
            if not isinstance(error, OSError):
                raise
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

    @property
    def run(self) -> Run:
        """The same run, to read from."""
        return Run(self.path, self.record)

    def append(self, log: str, record: object) -> None:
        """One line at the end of a log. The record has a step; numbers that are not finite become words."""
        self._logs.append(log, record)

    def flush(self) -> None:
        """Wait until the logs have reached the disk."""
        self._logs.synchronise()

    def rewind(self, step: int) -> None:
        """Make the run what it was when the checkpoint of that step was made; without one, at step 0, empty.

        Newer checkpoints go, which are damaged, or this one would not be gone back to: left there, they would vouch for
        lines that are cut.
        """
        places: Mapping[str, LogPlace] = {}
        try:
            places = checkpointed_places(self.path, step)
        except OSError as error:
            if step or not isinstance(error, FileNotFoundError):
                raise Damaged(f"{self.path.name} has no checkpoint of step {step}", fix="Name another step") from error
        self._logs.require_whole(places)
        try:
            delete_checkpoints(self.path, [newer for newer in checkpoint_steps(self.path) if newer > step])
        except OSError as error:
            raise NotWritten(f"a checkpoint could not be deleted: {error.strerror}", run=self.path.name) from error
        self._logs.cut(places)

    def write(self, name: str, content: str | bytes) -> None:
        """A file of the run as a whole: readers see all of the old or all of the new."""
        if name in RESERVED or not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for a file of a run")
        self._write(name, content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)

    def finish(self, ending: object) -> None:
        """Mark the run as finished and seal every file of it; the last thing that happens to it."""
        self.flush()
        try:
            files = seal_files(self.path)
        except OSError as error:
            raise NotWritten(f"the run could not be read to seal it: {error.strerror}", run=self.path.name) from error
        self._write(FINISHED, checksummed_json({"ending": ending, "files": files}))

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


def _make_folder(path: Path, content: bytes, n_bytes: int) -> Lock:
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
                fsync_path(temporary)
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


def require_room(path: Path) -> None:
    """Refuse a place where not even the smallest run has room, before anything is read, shown or made for it."""
    folder = path.parent if path.parent.is_dir() else path.parent.parent
    try:
        _require_space(folder, SMALLEST_CHECKPOINT)
    except OSError as error:
        raise PellucidError(
            f"a run cannot be made in {quoted(str(path.parent), 80)}: {error.strerror}",
            fix="Make room or choose another folder",
        ) from error


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


class Lock:
    """Held from its making to `release`, or to the end of the process."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            _take(self._descriptor, folder)
            # For people only: nothing is ever decided by what stands in the file.
            holder = {"pid": os.getpid(), "host": platform.node(), "start": time.time()}
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(holder).encode("ascii"), 0)
        except BaseException:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _take(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PellucidError(
            f"the run {folder.name} is being trained by {_holder(descriptor)}",
            fix="Wait for it or stop it with Ctrl-C",
        ) from error
    except OSError as error:
        raise PellucidError(
            f"the file system of {folder.name} cannot lock files", fix="Keep runs on a local disk"
        ) from error


def _holder(descriptor: int) -> str:
    """Who holds the lock, as they wrote it themselves."""
    try:
        said: Any = json.loads(os.pread(descriptor, 4096, 0))
        return f"pid {int(said['pid'])} on host {printable(str(said['host']))[:64]}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def find_writer(run: Path) -> int | None:
    """The process that writes the run now, by its number; 0 where it is not known which; None where there is none.

    The kernel is asked who holds the lock. Nothing is taken: a reader never gets in the way of a writer.
    """
    try:
        status = os.stat(run / LOCK, follow_symlinks=False)
    except OSError:
        return None
    try:
        held = Path("/proc/locks").read_text()
    except OSError:  # not Linux
        return _find_writer_by_trying(run)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in held.splitlines():
        # As "3: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF"; one that waits has an arrow in it.
        words = line.split()
        if len(words) >= 6 and words[1] == "FLOCK" and words[5] == device:
            return max(0, int(words[4]))
    return None


def _find_writer_by_trying(run: Path) -> int | None:
    try:
        descriptor = os.open(run / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        return 0
    finally:
        os.close(descriptor)
