"""Writing the parts of a split: a new folder with all of them, or nothing."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pellucid.data.kinds import ListData, TableData
from pellucid.data.splits.folders import new_folder, synchronise
from pellucid.data.splits.request import SIDES
from pellucid.records import SplitReport, as_plain

if TYPE_CHECKING:
    from pellucid.data.splits.division import Divisible, Division

FORMAT = 1
HASH = "BLAKE2b-64 of items; splitmix64 over the columns of rows"


def write_parts(
    data: "Divisible", division: "Division", folder: Path, suffix: str = ".parquet", made_with: str = ""
) -> list[str]:
    """Write train, dev, test and split.json into a new folder; give back their names.

    They are written beside it under another name and synchronised to the disk; renaming is the last step, so the folder
    is either there as a whole or not at all. Lists become .txt and pairs .tsv; `suffix` chooses for tables.
    `made_with` is noted in split.json.
    """
    with new_folder(folder) as temporary:
        return _write_all(data, division, temporary, suffix, made_with)


def _write_all(data: "Divisible", division: "Division", folder: Path, suffix: str, made_with: str) -> list[str]:
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
            chosen = [lines[row] for row in np.flatnonzero(is_here)]
            path.write_bytes("".join(f"{line}\n" for line in chosen).encode("utf-8", "surrogatepass"))
        synchronise(path)
        names.append(path.name)
        documents[path.name] = {"rows": int(is_here.sum()), "bytes": path.stat().st_size, "sha256": _sha256(path)}
    document = {
        "format": FORMAT,
        "made_with": made_with,
        "data": {"name": data.name, "kind": data.kind, "sha256": data.fingerprint, "rows": len(division.sides)},
        "hash": HASH,
        "parts": documents,
        "report": plain_report(division.report),
    }
    path = folder / "split.json"
    path.write_text(json.dumps(document, ensure_ascii=True, allow_nan=False, indent=1) + "\n", encoding="utf-8")
    synchronise(path)
    return [*names, path.name]


def _write_table(data: TableData, is_here: "np.typing.NDArray[np.bool_]", path: Path) -> None:
    import polars as pl

    part = data.frame.filter(pl.Series(is_here))
    try:
        if path.suffix == ".csv":
            part.write_csv(path)
        else:
            part.write_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error).splitlines()[0]) from error


def plain_report(report: SplitReport) -> Mapping[str, object]:
    """The report as dictionaries, lists and numbers that JSON can hold."""
    return {field.name: as_plain(getattr(report, field.name)) for field in fields(report)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
