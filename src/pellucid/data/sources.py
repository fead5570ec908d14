"""Where bytes come from: a regular file, standard input, or memory. Nothing else is ever opened.

A file is read through its descriptor in pieces, not through a mapping: a mapped file that somebody cuts short kills the
process with SIGBUS, and a piece read from a changed file would be trained on in silence. Here both are one error.
"""

import os
import re
import stat
import sys
import weakref
from pathlib import Path
from typing import Protocol

from pellucid.errors import DataChanged, PellucidError, did_you_mean, quoted

PIECE = 1 << 20
STDIN = "-"
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:|^//|^\\\\")


class Source(Protocol):
    """Bytes that can be read in pieces, any number of times."""

    name: str  # what messages call it, safe to print
    size: int

    def read(self, start: int, n: int) -> bytes:
        """The bytes from `start` on, `n` of them or fewer at the end."""
        ...


class FileSource:
    """A regular file, held open, so that it survives being deleted; a change to it is noticed at the next piece."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = quoted_name(path)
        _require_regular(path)
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise unreadable(path, error) from error
        weakref.finalize(self, os.close, self._descriptor)
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _not_regular(path, status.st_mode)
        self.size = status.st_size
        self._seen = (status.st_size, status.st_mtime_ns)

    def read(self, start: int, n: int) -> bytes:
        try:
            status = os.fstat(self._descriptor)
            piece = os.pread(self._descriptor, n, start)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if (status.st_size, status.st_mtime_ns) != self._seen or len(piece) < min(n, self.size - start):
            raise DataChanged(f"{self.name} changed while it was being read", fix="Run it again on a file at rest")
        return piece


class MemorySource:
    """Bytes that are already here: standard input, or a set that comes with pellucid."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self.size = len(content)
        self._content = content

    def read(self, start: int, n: int) -> bytes:
        return self._content[start : start + n]


def whole(source: Source) -> bytes:
    """All bytes at once, for kinds that live in memory."""
    if isinstance(source, MemorySource):
        return source.read(0, source.size)
    return b"".join(source.read(start, PIECE) for start in range(0, source.size, PIECE))


def open_source(path: str | Path) -> Source:
    """The file at `path`, or standard input for "-"; anything but a readable regular file is refused at once."""
    if path == STDIN:
        return _standard_input()
    refuse_addresses(str(path))
    return FileSource(Path(path))


def refuse_addresses(text: str) -> None:
    """Refuse http://, s3://, file://, \\\\host and their like: pellucid opens files and never a connection.

    >>> refuse_addresses("s3://a/b.csv")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: 's3://a/b.csv' is an address, not a file. Download it first, then give the path of
    the file.
    """
    # A single letter before the colon is a drive, as in C:\data.
    if _SCHEME.match(text) and not os.path.lexists(text):
        raise PellucidError(
            f"{quoted(text)} is an address, not a file", fix="Download it first, then give the path of the file"
        )


def quoted_name(path: Path) -> str:
    """The last part of a path, safe to print whatever bytes it is made of.

    >>> quoted_name(Path("data/names.txt"))
    'names.txt'
    """
    name = os.fsencode(path.name or str(path)).decode("utf-8", "backslashreplace")
    return name if name.isprintable() and " " not in name and len(name) <= 40 else quoted(name)


def unreadable(path: Path, error: OSError) -> PellucidError:
    """What the operating system said, as one of our errors."""
    if isinstance(error, PermissionError):
        return PellucidError(f"{quoted_name(path)} may not be read by you", fix="Ask its owner, or chmod +r it")
    reason = (error.strerror or type(error).__name__).lower()
    return PellucidError(f"{quoted_name(path)} cannot be read: {reason}", fix="Check the path")


def missing(path: Path, also: tuple[str, ...] = ()) -> PellucidError:
    """There is nothing at this path; perhaps a neighbour, or one of the names in `also`, was meant."""
    folder = path.parent
    try:
        around = sorted(entry.name for entry in os.scandir(folder))
    except PermissionError as error:
        return unreadable(folder, error)
    except OSError:
        return PellucidError(f"there is no folder {quoted(str(folder))}", fix="Check the path")
    otherwise = (
        f"Check the path, or use a set that comes with pellucid: {', '.join(also)}" if also else "Check the path"
    )
    otherwise = did_you_mean(path.name, also, otherwise, show=lambda name: f"the data set {name}")
    fix = did_you_mean(path.name, around, otherwise, show=lambda name: quoted(str(folder / name)))
    return PellucidError(f"there is no file {quoted(str(path))}", fix=fix)


def _require_regular(path: Path) -> None:
    try:
        # Before opening: opening a FIFO waits for a writer, and a device may do anything.
        status = path.stat()
    except FileNotFoundError as error:
        raise missing(path) from error
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError):
            raise PellucidError(f"{quoted(str(path))} cannot be a path", fix="Check the path") from error
        raise unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(path, status.st_mode)


def _not_regular(path: Path, mode: int) -> PellucidError:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    what = kinds.get(stat.S_IFMT(mode), "something else")
    fix = "Give the path of a file inside it" if what == "a folder" else "Save its bytes in a file and give that"
    return PellucidError(f"{quoted_name(path)} is {what}, not a regular file", fix=fix)


def _standard_input() -> Source:
    stream = sys.stdin
    if stream is None or stream.closed or stream.isatty():
        raise PellucidError("nothing is piped into standard input", fix="Write cat FILE | before it, or give a path")
    try:
        return MemorySource("standard input", stream.buffer.read())
    except OSError as error:
        raise unreadable(Path("standard input"), error) from error
