"""One writer for each run: a lock that the kernel holds and frees, however its holder ends."""

import fcntl
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from pellucid.errors import PellucidError, printable

LOCK = "lock"


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
