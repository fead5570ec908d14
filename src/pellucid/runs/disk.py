"""Bytes that reach the disk whole or not at all, and bytes read only from where they are expected.

Checksummed JSON is one object with the SHA-256 of the rest of itself. Every byte counts: a file is believed only if
writing its content again gives the same bytes.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.errors import PellucidError, quoted
from pellucid.records import as_plain

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
    fsync_path(path.parent)


def hold_folder(path: Path) -> int:
    """A lock on a folder, to close when it is done; whatever ends this process lets go of it."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock)
        raise
    return lock


def sweep_unheld(parent: Path, prefix: str) -> list[Path]:
    """Remove the folders with this beginning that nobody holds any more, and say which: who made them was killed."""
    swept = []
    for path in sorted(parent.glob(f"{prefix}*")):
        try:
            lock = hold_folder(path)
        except OSError:  # its maker lives, or it is somebody else's
            continue
        try:
            shutil.rmtree(path)
            swept.append(path)
        except OSError:
            continue
        finally:
            os.close(lock)
    return swept


def write_all(descriptor: int, content: bytes) -> None:
    """Every byte, however many calls it takes."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def read_regular(path: Path, most: int, start: int = 0) -> bytes:
    """The content of a regular file of at most so many bytes, from a byte on; anything else there is an OSError."""
    # A pipe must not make the reader wait, and a link must not lead out of the folder.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "not a regular file")
        if found.st_size > most:
            raise OSError(0, f"{found.st_size:,} bytes, and at most {most:,} are expected")
        file.seek(start)
        return file.read(max(0, found.st_size - start))


def fsync_path(path: Path) -> None:
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


FORMAT = 2
FIRST_CHECKED = 2  # the first format whose logs have a check on each line
LARGEST_JSON = 64 << 20
OURS = {"format", "sha256"}
_CLOSE = b"\n}"


class Damaged(PellucidError):
    """A file of a run is not what was written."""


def checksummed_json(content: Mapping[str, object]) -> bytes:
    """The content as a JSON file with its format and its checksum.

    >>> print(checksummed_json({"step": 3}).decode())
    {
     "format": 2,
     "step": 3,
     "sha256": "b77f067a76867cd1f2be53f6104f168c4147ceba87baa6fe34107ed93c6ffb88"
    }
    <BLANKLINE>
    """
    if taken := OURS & set(content):
        raise ValueError(f"{taken} cannot be a name of the content")
    return _with_checksum({"format": FORMAT, **{name: as_plain(item) for name, item in content.items()}})


def read_checksummed(path: Path) -> dict[str, Any]:
    """The content of a checksummed file; one that was changed, or that a newer pellucid made, is refused.

    A missing file is an OSError, for whoever asks knows what that means.
    """
    return parse_checksummed(read_regular(path, LARGEST_JSON), path)


def read_format(path: Path) -> int:
    """By which version of the format a checksummed file was written; as `read_checksummed` otherwise."""
    return _parse(read_regular(path, LARGEST_JSON), path)[0]


def parse_checksummed(text: bytes, path: Path) -> dict[str, Any]:
    """What `checksummed_json` was given. The path is for the messages alone."""
    return _parse(text, path)[1]


def _parse(text: bytes, path: Path) -> tuple[int, dict[str, Any]]:
    where = f"in {quoted(str(path), 80)}"
    try:
        content = json.loads(text.decode("ascii"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"the JSON is damaged {where}", fix="Take the file from a copy of the run") from error
    if not isinstance(content, dict):
        raise Damaged(f"there is no JSON object {where}", fix="Take the file from a copy of the run")
    version = content.get("format")
    if type(version) is int and version > FORMAT:
        raise PellucidError(f"format {version} was made by a newer pellucid {where}", fix="Install that version")
    checksum = content.pop("sha256", None)
    if not isinstance(checksum, str) or type(version) is not int or version < 1 or not _holds(text, checksum):
        raise Damaged(f"the content is not what was written {where}", fix="Take the file from a copy of the run")
    del content["format"]
    return version, content


def _with_checksum(content: Mapping[str, object]) -> bytes:
    body = json.dumps(content, indent=1, allow_nan=False).encode("ascii").removesuffix(_CLOSE)
    return body + _checksum_line(hashlib.sha256(body + _CLOSE).hexdigest())


def _holds(text: bytes, checksum: str) -> bool:
    """Whether a checksum is that of all that stands before it."""
    last = _checksum_line(checksum)
    return text.endswith(last) and hashlib.sha256(text.removesuffix(last) + _CLOSE).hexdigest() == checksum


def _checksum_line(checksum: str) -> bytes:
    return f',\n "sha256": {json.dumps(checksum)}'.encode("ascii") + _CLOSE + b"\n"


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no JSON")
