"""The seal of a finished run: finished.json holds size and SHA-256 of every other file, and its own checksum.

It is written last, by one rename, so a run is finished and sealed at the same moment or neither. A file is compared
with the seal when it is read. What can still be done without a file that is refused is told here, in one place.

Runs that were finished before there were seals are read as they were then: run.json, finished.json, the weights and the
counts have checksums of their own there, the logs and the other files have none.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.errors import PellucidError, quoted
from pellucid.runs.disk import TEMPORARY, Damaged, is_regular, read_checksummed, read_regular
from pellucid.runs.folder import FINISHED, LOCK, RECORD, TRASH, is_finished

AT_ONCE = 1 << 20  # bytes that are hashed

_AGAIN = (
    "Take it from a copy, or remove it: with pellucid train --resume {run} a network goes on from its last checkpoint"
)
_NETWORK = "Take it from a copy; what the network does (sample, score, predict) does not need it"
_REPORT = "Take it from a copy; pellucid train --resume {run} still shows the report of a finished run"
_NOTHING = "Take it from a copy: without it nothing else in the folder can be read"
_STILL = {
    RECORD: _NOTHING,
    FINISHED: _AGAIN,
    "report.html": "Remove it: pellucid train --resume {run} shows the report",
    "model.safetensors": _REPORT,
    "model.json": _REPORT,
    "vocabulary.json": _REPORT,
    "preparation.json": _REPORT,
    "counts.safetensors": _REPORT,
    "trained-on.bin": _REPORT,
}


def damage_in(run: Path, name: str, why: str) -> Damaged:
    """The refusal of a file of a run: which, what is wrong with it, and what can still be done without it."""
    fix = _STILL.get(name, _NETWORK if name.endswith(".jsonl") else "Take it from a copy of the run")
    return Damaged(f"{name} of {quoted(run.name, 64)} is damaged: {why}", fix=fix.format(run=run.name))


class FileSeal(NamedTuple):
    """A file as it was when the run was finished."""

    bytes: int
    sha256: str


class Seal(NamedTuple):
    """Every file of a finished run but finished.json, which holds this, and the lock."""

    run: Path
    files: Mapping[str, FileSeal]

    def require(self, name: str, content: bytes | None) -> None:
        """Refuse content that is not what the file of that name held; None: there is no such file."""
        said = self.files.get(name)
        if said is None:
            if content is not None:
                raise damage_in(self.run, name, "the run was finished without such a file")
        elif content is None:
            raise damage_in(self.run, name, "it is missing")
        elif len(content) != said.bytes:
            raise damage_in(self.run, name, f"it has {len(content):,} bytes, and {said.bytes:,} were written")
        elif hashlib.sha256(content).hexdigest() != said.sha256:
            raise damage_in(self.run, name, "its content is not what was written")


def seal_files(run: Path) -> dict[str, FileSeal]:
    """Size and SHA-256 of every file of a run as it is now; what is half written or on its way out is left out."""
    files = {}
    for folder, inner, names in os.walk(run):
        inner[:] = sorted(name for name in inner if not name.startswith((TEMPORARY, TRASH)))
        for name in sorted(names):
            path = Path(folder, name)
            place = path.relative_to(run).as_posix()
            if place not in (FINISHED, LOCK) and not name.startswith(TEMPORARY) and is_regular(path):
                files[place] = _seal_file(path)
    return files


def _seal_file(path: Path) -> FileSeal:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while content := file.read(AT_ONCE):
            digest.update(content)
            size += len(content)
    return FileSeal(size, digest.hexdigest())


def read_seal(run: Path) -> Seal | None:
    """The seal of a finished run; None of one that is not finished, or was before there were seals."""
    return seal_from(run, read_ending(run)) if is_finished(run) else None


def seal_from(run: Path, ending: Mapping[str, Any]) -> Seal | None:
    """The seal in the content of finished.json."""
    said = ending.get("files")
    if said is None:
        return None
    try:
        return Seal(run, {str(name): FileSeal(int(one["bytes"]), str(one["sha256"])) for name, one in said.items()})
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise damage_in(run, FINISHED, "files is not a size and a SHA-256 for each file") from error


def read_ending(run: Path) -> dict[str, Any]:
    """What finished.json holds: how the run ended, and its seal."""
    try:
        return read_checksummed(run / FINISHED)
    except Damaged as error:
        raise damage_in(run, FINISHED, "its content is not what was written") from error
    except OSError as error:
        raise PellucidError(
            f"{FINISHED} of {quoted(str(run), 80)} cannot be read: {error.strerror}", fix="Name the folder of a run"
        ) from error


def read_sealed(run: Path, name: str, most: int) -> bytes:
    """The content of a file, which is what it was when the run was finished. A missing one is an OSError."""
    seal = read_seal(run)
    content = read_regular(run / name, most)
    if seal is not None:
        seal.require(name, content)
    return content
