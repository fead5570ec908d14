"""Bytes that reach the disk whole or not at all, and bytes read only from where they are expected."""

import os
import secrets
import stat
from pathlib import Path

TEMPORARY = ".tmp-"


def temporary_beside(path: Path) -> Path:
    """A new name in the same folder, so that renaming never crosses a file system."""
    return path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")


def write_new(path: Path, content: bytes) -> None:
    """A file that did not exist before, on the disk when this returns; links are not followed."""
    # The mode goes through the umask, as every program's files do.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes) -> None:
    """Put the content where the path says; whoever reads there sees all of the old or all of the new."""
    temporary = temporary_beside(path)
    try:
        write_new(temporary, content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    synchronise(path.parent)


def write_all(descriptor: int, content: bytes) -> None:
    """Every byte, however many calls it takes."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def read_regular(path: Path, most: int) -> bytes:
    """The content of a regular file of at most so many bytes; anything else there is an OSError."""
    # A pipe must not make the reader wait, and a link must not lead out of the folder.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "not a regular file")
        if found.st_size > most:
            raise OSError(0, f"{found.st_size:,} bytes, and at most {most:,} are expected")
        return file.read(most)


def synchronise(path: Path) -> None:
    """Wait until a file's or a folder's content has reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_regular(path: Path) -> bool:
    """Whether a file, and no link to one, is there."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
