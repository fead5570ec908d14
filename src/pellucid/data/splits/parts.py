"""Writing the parts of a split: a new folder with all of them, or nothing. Loads nothing heavy until it writes."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.data.kinds import ListData, TableData
from pellucid.data.splits.request import SIDES
from pellucid.errors import PellucidError, quoted
from pellucid.records.plain import as_plain

if TYPE_CHECKING:
    import numpy

    from pellucid.data.splits.split import Division, Splittable

FORMAT = 1
HASH = "BLAKE2b-64 of items; splitmix64 over the columns of rows"


def write_parts(
    data: "Splittable", division: "Division", folder: Path, suffix: str = ".parquet", made_with: str = ""
) -> list[str]:
    """Write train, dev, test and split.json into a new folder; give back their names.

    They are written beside it under another name and synchronised to the disk; renaming is the last step, so the folder
    is either there as a whole or not at all. Lists become .txt and pairs .tsv; `suffix` chooses for tables.
    `made_with` is noted in split.json.
    """
    with new_folder(folder) as temporary:
        return _write_all(data, division, temporary, suffix, made_with)


def _write_all(data: "Splittable", division: "Division", folder: Path, suffix: str, made_with: str) -> list[str]:
    names = []
    documents = {}
    for number, side in enumerate(SIDES):
        is_here = division.sides == number
        if isinstance(data, TableData):
            path = folder / f"{side}{suffix}"
            _write_table(data, is_here, path)
        else:
            is_list = isinstance(data, ListData)
            path = folder / f"{side}{'.txt' if is_list else '.tsv'}"
            lines = data.items if isinstance(data, ListData) else ["\t".join(pair) for pair in data.pairs]
            chosen = [lines[row] for row in is_here.nonzero()[0]]
            path.write_bytes("".join(f"{line}\n" for line in chosen).encode("utf-8", "surrogatepass"))
        _fsync(path)
        names.append(path.name)
        documents[path.name] = {"rows": int(is_here.sum()), "bytes": path.stat().st_size, "sha256": _sha256(path)}
    document = {
        "format": FORMAT,
        "made_with": made_with,
        "data": {"name": data.name, "kind": data.kind, "sha256": data.fingerprint, "rows": len(division.sides)},
        "hash": HASH,
        "parts": documents,
        "report": as_plain(division.report),
    }
    path = folder / "split.json"
    path.write_text(json.dumps(document, ensure_ascii=True, allow_nan=False, indent=1) + "\n", encoding="utf-8")
    _fsync(path)
    return [*names, path.name]


def _write_table(data: TableData, is_here: "numpy.ndarray[Any, Any]", path: Path) -> None:
    import polars as pl

    part = data.frame.filter(pl.Series(is_here))
    try:
        if path.suffix == ".csv":
            part.write_csv(path)
        else:
            part.write_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error).splitlines()[0]) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_new_folder(path: Path) -> None:
    """Refuse a folder that exists in any form, or that cannot be made, before any work is done."""
    if os.path.lexists(path):
        raise PellucidError(
            f"{quoted(str(path))} exists already", fix="Name a new folder with {out}", options={"out": None}
        )
    parent = path.parent
    if not parent.is_dir():
        raise PellucidError(f"there is no folder {quoted(str(parent))}", fix="Make it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PellucidError(
            f"nothing can be written into {quoted(str(parent))}",
            fix="Name another folder with {out}",
            options={"out": None},
        )


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
            _fsync(temporary)
            # A folder that came into being meanwhile is replaced only if it is empty; a file or a link never.
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _fsync(path.parent)
    except OSError as error:
        raise PellucidError(
            f"{quoted(str(path))} could not be written: {error.strerror or error}",
            fix="Make room or name another {out}",
            options={"out": None},
        ) from error


def _fsync(path: Path) -> None:
    """Wait until a file's or a folder's content has reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
