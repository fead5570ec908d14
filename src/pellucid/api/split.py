"""Divide data into train, dev and test, or train and test; say what is wrong with it, and write the parts."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid import __version__
from pellucid.api.frames import count_rows, take_rows
from pellucid.data.kinds import ListData, PairsData, TableData
from pellucid.data.options import DataOptions, open_with
from pellucid.data.readers.memory import MEMORY, is_place, read_memory
from pellucid.data.splits import SIDES, SplitRequest, read_fractions
from pellucid.errors import PellucidError, quoted, require_one_of
from pellucid.figures import Shown
from pellucid.records.plain import as_plain
from pellucid.runs.disk import fsync_path, hold_folder, sweep_unheld

if TYPE_CHECKING:
    import numpy

    from pellucid.data.splits.split import Division, Splittable
    from pellucid.records import SplitReport

SUFFIXES = {"parquet": ".parquet", "csv": ".csv"}
ZSTD_LEVEL = 1  # of a table's parts: sooner than by Polars' own level 3, and nearly as small
FORMAT = 1  # of split.json
HALF_MADE = ".tmp-split-"  # how a folder is called until everything in it is on the disk
HASH = "BLAKE2b-64 of items; splitmix64 over the columns of rows"


class WrittenSplit(NamedTuple):
    """The report on a division, and the files of its parts; no files where nothing was written.

    Of data that Python held, train, dev and test are parts of the same kind.
    """

    report: Shown[SplitReport]
    folder: Path
    files: tuple[str, ...]
    parts: Mapping[str, Any] = MappingProxyType({})  # by side, of what Python held
    swept: tuple[Path, ...] = ()  # half-made folders that a split which was killed had left, removed now

    @property
    def train(self) -> Any:
        return self._part("train")

    @property
    def dev(self) -> Any:
        return self._part("dev")

    @property
    def test(self) -> Any:
        return self._part("test")

    def _part(self, side: str) -> Any:
        if side not in self.parts:
            where = f"Read {side} from {quoted(str(self.folder), 80)}" if self.files else "Leave {dry_run} out"
            if side not in self.report.record.sizes:
                raise PellucidError(
                    f"no {side} side was asked for",
                    fix="Give it a part with {fractions}",
                    options={"fractions": "0.8,0.1,0.1"},
                )
            raise PellucidError(
                "the data came from a file, and so their parts are files", fix=where, options={"dry_run": None}
            )
        return self.parts[side]

    def __repr__(self) -> str:
        return repr(self.report)


def split(
    data: object,
    *,
    strategy: str = "",
    by: str = "",
    together_with: Sequence[str] = (),
    key: str = "",
    group: str = "",
    order: str = "",
    target: str = "",
    fractions: str | Sequence[float] = (0.8, 0.1, 0.1),
    seed: str = "",
    repeats: int = 30,
    out: str | Path | None = None,
    file_format: str = "parquet",
    dry_run: bool = False,
    drift: bool = False,
    kind: str = "",
    encoding: str = "utf-8",
    separator: str = "",
    newlines: str = "keep",
    as_number: Sequence[str] = (),
) -> WrittenSplit:
    """Divide a list, a table or pairs; the parts and split.json are written into a new folder, all or nothing.

    What Python holds already, as of `train`, comes back as train, dev and test of the same kind: frames as frames with
    their index, lists as lists. It is written only where `out` names a folder.

    Without a strategy (hash, stratified, time, group or random) one is proposed, with its reasons, and used. by: the
    numeric column whose quantile bins are the strata; together_with: columns that divide each bin further; key: stands
    for the row when it is hashed; group: is not to be divided; order: tells the order of the rows; target: is to be
    predicted, so rows that are equal but for it share a side, and what gives it away is told. fractions: two are of
    train and test, and then there is no dev. dry_run: only the report. drift: of the made-up transactions, a regime
    change.
    """
    require_one_of("format of a table's parts", file_format, SUFFIXES)
    text = fractions if isinstance(fractions, str) else ",".join(map(str, fractions))
    request = SplitRequest(
        strategy=strategy,
        by=by,
        together_with=tuple(together_with),
        key=key,
        group=group,
        order=order,
        target=target,
        fractions=read_fractions(text),
        seed=seed,
        repeats=repeats,
    )
    if out and dry_run:
        raise PellucidError(
            "{dry_run} writes nothing, so {out} says nothing",
            fix="Keep one of them",
            options={"dry_run": None, "out": None},
        )
    is_file = is_place(data)
    source = str(data) if is_file else MEMORY
    folder = (
        Path(out) if out else Path(f"{'stdin' if source == '-' else Path(source).stem if is_file else 'data'}-split")
    )
    is_written = not dry_run and (is_file or out is not None)
    swept: list[Path] = []
    if is_written:
        require_new_folder(folder)
        swept = sweep_unheld(folder.parent, HALF_MADE)

    from pellucid.data.splits.split import split_data

    reading = DataOptions(source, kind, encoding, newlines, separator=separator, as_number=",".join(as_number))
    opened = _open_divisible(reading, drift, None if is_file else data)
    division = split_data(opened, request)
    names = write_parts(opened, division, folder, SUFFIXES[file_format]) if is_written else []
    parts = {} if is_file else _parts(data, division)
    return WrittenSplit(Shown(division.report), folder, tuple(names), MappingProxyType(parts), tuple(swept))


def _parts(data: object, division: Division) -> dict[str, Any]:
    """What Python holds, side by side."""
    n_given = count_rows(data)
    if n_given != len(division.sides):
        left_out = n_given - len(division.sides)
        raise PellucidError(f"{left_out:,} of {n_given:,} are empty and cannot be divided", fix="Take them out first")
    return {side: take_rows(data, (division.sides == SIDES.index(side)).nonzero()[0]) for side in division.report.sizes}


def _open_divisible(options: DataOptions, drift: bool, given: object = None) -> Splittable:
    if drift:
        from pellucid.data.sets.transactions import load

        return load(drift=True)
    opened = open_with(options) if given is None else read_memory(given, kind=options.kind)
    if not isinstance(opened, ListData | PairsData | TableData):
        raise PellucidError(
            f"{opened.name} was taken for {opened.kind}, and lists, tables and pairs can be divided",
            fix="Try {kind}" if opened.kind == "text" else "Name another file",
            options={"kind": "list"} if opened.kind == "text" else {},
        )
    return opened


def write_parts(data: Splittable, division: Division, folder: Path, suffix: str = ".parquet") -> list[str]:
    """Write train, dev, test and split.json into a new folder; give back their names.

    They are written beside it under another name and synchronised to the disk; renaming is the last step, so the folder
    is either there as a whole or not at all. Lists become .txt and pairs .tsv; `suffix` chooses for tables.
    """
    with new_folder(folder) as temporary:
        return _write_all(data, division, temporary, suffix)


def _write_all(data: Splittable, division: Division, folder: Path, suffix: str) -> list[str]:
    def write(side: str) -> tuple[str, dict[str, Any]]:
        return _write_side(data, division.sides == SIDES.index(side), folder / side, suffix)

    with ThreadPoolExecutor(2) as threads:  # two: the large side, and the small ones one after the other
        documents = dict(threads.map(write, division.report.sizes))
    document = {
        "format": FORMAT,
        "made_with": f"pellucid {__version__}",
        "data": {"name": data.name, "kind": data.kind, "sha256": data.fingerprint, "rows": len(division.sides)},
        "hash": HASH,
        "parts": documents,
        "report": as_plain(division.report),
    }
    path = folder / "split.json"
    path.write_text(json.dumps(document, ensure_ascii=True, allow_nan=False, indent=1) + "\n", encoding="utf-8")
    fsync_path(path)
    return [*documents, path.name]


def _write_side(
    data: Splittable, is_here: numpy.ndarray[Any, Any], stem: Path, suffix: str
) -> tuple[str, dict[str, Any]]:
    """One side's file, on the disk: its name, and what split.json says of it."""
    if isinstance(data, TableData):
        path = stem.with_name(stem.name + suffix)
        _write_table(data, is_here, path)
    else:
        path = stem.with_name(stem.name + (".txt" if isinstance(data, ListData) else ".tsv"))
        lines = data.items if isinstance(data, ListData) else ["\t".join(pair) for pair in data.pairs]
        chosen = [lines[row] for row in is_here.nonzero()[0].tolist()]
        path.write_bytes("".join(f"{line}\n" for line in chosen).encode("utf-8", "surrogatepass"))
    fsync_path(path)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return path.name, {"rows": int(is_here.sum()), "bytes": path.stat().st_size, "sha256": digest}


def _write_table(data: TableData, is_here: numpy.ndarray[Any, Any], path: Path) -> None:
    import polars as pl

    part = data.frame.filter(pl.Series(is_here))
    try:
        if path.suffix == ".csv":
            part.write_csv(path)
        else:
            part.write_parquet(path, compression_level=ZSTD_LEVEL)
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error).splitlines()[0]) from error


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
        temporary = Path(tempfile.mkdtemp(prefix=f"{HALF_MADE}{path.name[:40]}-", dir=path.parent))
        lock = hold_folder(temporary)
        try:
            yield temporary
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o777 & ~umask)
            fsync_path(temporary)
            # A folder that came into being meanwhile is replaced only if it is empty; a file or a link never.
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        finally:
            os.close(lock)
        fsync_path(path.parent)
    except OSError as error:
        raise PellucidError(
            f"{quoted(str(path))} could not be written: {error.strerror or error}",
            fix="Make room or name another {out}",
            options={"out": None},
        ) from error
