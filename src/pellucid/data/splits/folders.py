"""A new folder that is there as a whole or not at all. Loads nothing heavy."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pellucid.errors import PellucidError, quoted


def require_new_folder(path: Path) -> None:
    """Refuse a folder that exists in any form, or that cannot be made, before any work is done."""
    if os.path.lexists(path):
        raise PellucidError(f"{quoted(str(path))} exists already", fix="Name a new folder with --out")
    parent = path.parent
    if not parent.is_dir():
        raise PellucidError(f"there is no folder {quoted(str(parent))}", fix="Make it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PellucidError(f"nothing can be written into {quoted(str(parent))}", fix="Name another folder with --out")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill, beside the one that it becomes when everything in it is on the disk.

    Renaming is the last step. Whatever goes wrong before it, nothing stays behind.
    """
    require_new_folder(path)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".tmp-{path.name[:40]}-", dir=path.parent))
        try:
            yield temporary
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o777 & ~umask)
            synchronise(temporary)
            # A folder that came into being meanwhile is replaced only if it is empty; a file or a link never.
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        synchronise(path.parent)
    except OSError as error:
        raise PellucidError(
            f"{quoted(str(path))} could not be written: {error.strerror or error}",
            fix="Make room or name another --out",
        ) from error


def synchronise(path: Path) -> None:
    """Wait until a file's or a folder's content has reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
