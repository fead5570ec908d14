"""Where bytes come from: a regular file, standard input, or memory. Nothing else is ever opened, and what is neither
text nor a table by its first bytes is named and refused, whatever its name says.

A file is read through its descriptor in pieces, not through a mapping: a mapped file that somebody cuts short kills the
process with SIGBUS, and a piece read from a changed file would be trained on in silence. Here both are one error.
"""

import hashlib
import io
import os
import re
import stat
import sys
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TypeAlias

from pellucid.errors import DataChanged, PellucidError, TooLarge, did_you_mean, quoted
from pellucid.records import Statement

PIECE = 1 << 20
STDIN = "-"
HEAD = 4096  # bytes that tell what a file is

_UNPACK = "Unpack it first"
_AS_TEXT = "Save it as plain text and give that"
_AS_TABLE = "Export it as CSV or Parquet and give that"
_IMAGES = "For images give a folder that holds a folder for each class"
_OTHERS = "Give a text, a table or a folder of images"
_NO_TEXT = rb"(?=.{0,63}[^\t-\r -~])"  # for first letters that also begin words
# How such a file begins, what it is, and the one thing to do about it.
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (rb"\x1f\x8b", "a gzip file", "Unpack it first: gunzip {name}"),
    (_NO_TEXT + rb"BZh", "a bzip2 file", "Unpack it first: bunzip2 {name}"),
    (rb"\xfd7zXZ\x00", "an xz file", "Unpack it first: unxz {name}"),
    (rb"\x28\xb5\x2f\xfd", "a Zstandard file", "Unpack it first: unzstd {name}"),
    (rb"\x04\x22\x4d\x18", "an LZ4 file", "Unpack it first: unlz4 {name}"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (rb"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (rb"%PDF-", "a PDF file", "Save its text as plain text and give that"),
    (rb"\{\\rtf", "an RTF document", _AS_TEXT),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", "Save it as plain text or CSV and give that"),
    (rb"SQLite format 3\x00", "an SQLite database", "Export the table as CSV and give that"),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file", _AS_TABLE),
    (rb"\x93NUMPY", "a NumPy array", _AS_TABLE),
    (rb"ARROW1", "an Arrow file", "Export it as Parquet and give that"),
    (_NO_TEXT + rb"ORC", "an ORC file", "Export it as Parquet and give that"),
    (rb"\x89PNG\r\n\x1a\n", "a PNG image", _IMAGES),
    (rb"\xff\xd8\xff", "a JPEG image", _IMAGES),
    (rb"GIF8", "a GIF image", _IMAGES),
    (rb"\x7fELF|MZ\x90\x00", "a program", _OTHERS),
    (rb"OggS", "a sound or film", _OTHERS),
    (_NO_TEXT + rb"ID3", "a sound", _OTHERS),
    (rb"PK\x03\x04.*xl/", "an Excel workbook", "Save the sheet as CSV and give that"),
    (rb"PK\x03\x04.*word/", "a Word document", _AS_TEXT),
    (rb"PK\x03\x04.*ppt/", "a PowerPoint file", _AS_TEXT),
    (rb"PK(\x03\x04|\x05\x06)", "a zip archive", _UNPACK),
    (rb".{257}ustar", "a tar archive", _UNPACK),
    (rb"RIFF.{4}(WEBP|WAVE|AVI )", "an image, a sound or a film", "For images give a folder of class folders"),
    (rb"\x80[\x02-\x05](\x95.{8}|[}\]c\x8c(K])", "a Python pickle, which can run code", "Export it as CSV or text"),
    # "BM" begins words too; a bitmap has two zero words and the length of its header behind that.
    (rb"BM.{4}\x00{4}.{4}[\x28\x6c\x7c]\x00{3}", "a BMP image", _IMAGES),
)
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:|^//|^\\\\")


class FileSource:
    """A regular file, held open, so that it survives being deleted; a change to it is noticed at the next piece.

    name: what messages call it, safe to print; ending: of its name, as ".csv".
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = quoted_name(path)
        self.ending = path.suffix.lower()
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
        """The bytes from `start` on, `n` of them or fewer at the end; any number of times."""
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
        self.ending = PurePath(name).suffix.lower()
        self.size = len(content)
        self._content = content

    def read(self, start: int, n: int) -> bytes:
        return self._content[start : start + n]


Source: TypeAlias = FileSource | MemorySource


def read_all(source: Source) -> bytes:
    """All bytes at once, for kinds that live in memory."""
    if isinstance(source, MemorySource):
        return source.read(0, source.size)
    content = io.BytesIO()  # it gives away what it gathered, where joined pieces would stand beside their sum
    for start in range(0, source.size, PIECE):
        content.write(source.read(start, PIECE))
    return content.getvalue()


def begin_fingerprint(content: bytes) -> Callable[[], str]:
    """The SHA-256 of many bytes, in hex. It is taken in a thread beside whatever is done until it is asked for.

    >>> begin_fingerprint(b"a,b\\n")()[:16]
    '5be08c9684a1d25e'
    """
    with_it = ThreadPoolExecutor(1)
    found = with_it.submit(lambda: hashlib.sha256(content).hexdigest())
    with_it.shutdown(wait=False)
    return found.result


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


def missing_file(path: Path, also: tuple[str, ...] = ()) -> PellucidError:
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
        raise missing_file(path) from error
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


def read_standard_input() -> Source:
    """All that is piped in; a terminal is not waited for."""
    stream = sys.stdin
    if stream is None or stream.closed or stream.isatty():
        raise PellucidError("nothing is piped into standard input", fix="Write cat FILE | before it, or give a path")
    try:
        return MemorySource("standard input", stream.buffer.read())
    except OSError as error:
        raise unreadable(Path("standard input"), error) from error


def notes_on_counts(*notes: Statement) -> list[Statement]:
    """Those whose count, `n`, is not 0."""
    return [note for note in notes if note.facts["n"]]


def physical_memory() -> int:
    """Bytes of memory of this machine, or a cautious 2 GB where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2 << 30


def gigabytes(n_bytes: float) -> str:
    """A size in words.

    >>> gigabytes(381_000_000), gigabytes(25e9)
    ('0.38 GB', '25 GB')
    """
    return f"{n_bytes / 1e9:.2g} GB" if n_bytes < 1e10 else f"{n_bytes / 1e9:,.0f} GB"


def require_memory(needed: int, name: str, fix: str, options: Mapping[str, object] = MappingProxyType({})) -> None:
    """Refuse what would not fit, with both numbers, before anything is read."""
    there = physical_memory()
    if needed > there:
        raise TooLarge(
            f"{name} needs about {gigabytes(needed)} of memory, and this machine has {gigabytes(there)}",
            fix=fix,
            options=options,
        )


def refuse_foreign(head: bytes, name: str) -> None:
    """Refuse what is neither text nor Parquet by its first bytes, with the way out.

    >>> refuse_foreign(b"\\x1f\\x8b\\x08\\x00", "names.txt.gz")
    Traceback (most recent call last):
    pellucid.errors.PellucidError: names.txt.gz is a gzip file. Unpack it first: gunzip names.txt.gz.
    """
    for start, what, fix in _FOREIGN:
        if re.match(start, head, re.DOTALL):
            raise PellucidError(f"{name} is {what}", fix=fix.format(name=name))
