"""Divide data into train, dev and test, say what is wrong with the division, and write the parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pellucid import __version__
from pellucid.api.results import Shown
from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError, require_one_of

if TYPE_CHECKING:
    from pellucid.data.splits.split import Splittable
    from pellucid.records import SplitReport

SUFFIXES = {"parquet": ".parquet", "csv": ".csv"}


class WrittenSplit(NamedTuple):
    """The report on a division, and the files of its parts; no files where nothing was written."""

    report: Shown[SplitReport]
    folder: Path
    files: tuple[str, ...]

    def __repr__(self) -> str:
        return repr(self.report)


def split(
    data: str | Path,
    *,
    strategy: str = "",
    by: str = "",
    together_with: Sequence[str] = (),
    key: str = "",
    group: str = "",
    order: str = "",
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

    Without a strategy (hash, stratified, time, group or random) one is proposed, with its reasons, and used. by: the
    numeric column whose quantile bins are the strata; together_with: columns that divide each bin further; key: stands
    for the row when it is hashed; group: is not to be divided; order: tells the order of the rows. dry_run: only the
    report. drift: of the made-up transactions, a regime change.
    """
    from pellucid.data.splits.request import SplitRequest, read_fractions

    require_one_of("format of a table's parts", file_format, SUFFIXES)
    text = fractions if isinstance(fractions, str) else ",".join(map(str, fractions))
    request = SplitRequest(
        strategy=strategy,
        by=by,
        together_with=tuple(together_with),
        key=key,
        group=group,
        order=order,
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
    source = str(data)
    folder = Path(out) if out else Path(f"{'stdin' if source == '-' else Path(source).stem}-split")
    if not dry_run:
        from pellucid.data.splits.parts import require_new_folder

        require_new_folder(folder)

    from pellucid.data.splits.split import split_data

    reading = DataOptions(source, kind, encoding, newlines, separator=separator, as_number=",".join(as_number))
    opened = _open_divisible(reading, drift)
    division = split_data(opened, request)
    names: list[str] = []
    if not dry_run:
        from pellucid.data.splits.parts import write_parts

        suffix = SUFFIXES[file_format]
        names = write_parts(opened, division, folder, suffix, made_with=f"pellucid {__version__}")
    return WrittenSplit(Shown(division.report), folder, tuple(names))


def _open_divisible(options: DataOptions, drift: bool) -> Splittable:
    if drift:
        from pellucid.data.sets.transactions import load

        return load(drift=True)
    from pellucid.data import ListData, PairsData, TableData
    from pellucid.data.options import open_with

    opened = open_with(options)
    if not isinstance(opened, ListData | PairsData | TableData):
        raise PellucidError(
            f"{opened.name} was taken for {opened.kind}, and lists, tables and pairs can be divided",
            fix="Try {kind}" if opened.kind == "text" else "Name another file",
            options={"kind": "list"} if opened.kind == "text" else {},
        )
    return opened
