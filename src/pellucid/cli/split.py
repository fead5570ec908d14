"""`pellucid split`: read data, divide them, show what came out, write the parts."""

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    from pellucid.data.splits.split import Splittable
    from pellucid.records import SplitReport

EXIT_FOUND = 1
SUFFIXES = {"parquet": ".parquet", "csv": ".csv"}


@click.command(
    "split",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid split names.txt
      pellucid split sales.csv --strategy stratified --by amount --with region --out sales-split
      pellucid split visits.parquet --group patient
      pellucid split log.csv --strategy time --order date --fractions 0.7,0.15,0.15
      pellucid split --demo transactions

    \b
    Strategies:  hash        by a hash of the item, the row or its --key; never moves when rows are appended
                 stratified  the same part of every quantile bin of --by, the tail in bins of its own
                 time        the first rows by --order train, the last test
                 group       by a hash of --group, so that no group is divided
                 random      a seeded shuffle: to see what goes wrong
    Without one, a strategy is proposed, with its reasons, and used.
    Exit code 1: something stands on two sides, or the split looks ahead.
    """,
)
@click.argument("data", required=False)
@click.option("--demo", metavar="NAME", help="Divide a set that comes with pellucid, such as transactions.")
@click.option("--drift", is_flag=True, help="With --demo transactions: the regime change at row 1,000,000.")
@click.option("--strategy", default="", metavar="NAME", help="hash, stratified, time, group or random.")
@click.option("--by", default="", metavar="COLUMN", help="The numeric column whose quantile bins are the strata.")
@click.option("--with", "together_with", default="", metavar="COLUMNS", help="Columns that divide each bin further.")
@click.option("--key", default="", metavar="COLUMN", help="The column that stands for the row when it is hashed.")
@click.option("--group", default="", metavar="COLUMN", help="The column whose values are not to be divided.")
@click.option("--order", default="", metavar="COLUMN", help="The column that tells the order of the rows.")
@click.option("--fractions", default="0.8,0.1,0.1", show_default=True, help="Parts of train, dev and test.")
@click.option("--seed", default="", metavar="TEXT", help="Another seed gives another split.")
@click.option("--repeats", default=30, show_default=True, help="Splits over which the tail's wandering is measured.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="A new folder; else NAME-split.")
@click.option(
    "--format", "file_format", default="parquet", show_default=True, help="Of a table's parts: parquet or csv."
)
@click.option("--dry-run", is_flag=True, help="Only the report; write nothing.")
@click.option("--kind", default="", help="Read DATA as a list, table or pairs.")
@click.option("--encoding", default="utf-8", show_default=True, help="Of a text file.")
@click.option("--sep", "separator", default="", metavar="CHARACTER", help="Of a table in a text file.")
@click.option("--newlines", default="keep", show_default=True, help="keep, or unix to make every line end LF.")
@click.option("--as-number", multiple=True, metavar="COLUMN", help="Read it as numbers in spite of $, % and commas.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON, for machines.")
def command(
    data: str | None,
    demo: str | None,
    drift: bool,
    strategy: str,
    by: str,
    together_with: str,
    key: str,
    group: str,
    order: str,
    fractions: str,
    seed: str,
    repeats: int,
    out: Path | None,
    file_format: str,
    dry_run: bool,
    kind: str,
    encoding: str,
    separator: str,
    newlines: str,
    as_number: tuple[str, ...],
    as_json: bool,
) -> None:
    """Divide DATA into train, dev and test, and say what is wrong with the division.

    DATA is a list (one item a line), a table (CSV, TSV, Parquet, JSONL) or pairs. The parts and split.json are
    written into a new folder, all or nothing.
    """
    from pellucid.data.splits.request import SplitRequest, read_fractions

    source = _source(data, demo, drift)
    suffix = _suffix(file_format)
    request = SplitRequest(
        strategy=strategy,
        by=by,
        together_with=tuple(name for name in together_with.split(",") if name),
        key=key,
        group=group,
        order=order,
        fractions=read_fractions(fractions),
        seed=seed,
        repeats=repeats,
    )
    if out and dry_run:
        raise PellucidError("--dry-run writes nothing, so --out says nothing", fix="Keep one of them")
    folder = out or Path(f"{'stdin' if source == '-' else Path(source).stem}-split")
    if not dry_run:
        from pellucid.data.splits.parts import require_new_folder

        require_new_folder(folder)

    names: list[str] = []
    with _working(source):
        opened = _opened(source, drift, kind, encoding, separator, newlines, as_number)
        from pellucid.data.splits.split import split_data

        division = split_data(opened, request)
        if not dry_run:
            from pellucid import __version__
            from pellucid.data.splits.parts import write_parts

            names = write_parts(opened, division, folder, suffix, made_with=f"pellucid {__version__}")
    _say(division.report, folder, names, as_json)
    sys.stdout.flush()
    if division.report.has_found_something_wrong:
        sys.exit(EXIT_FOUND)


def _working(source: str) -> AbstractContextManager[object]:
    """A line that moves on a terminal while the work is done."""
    if sys.stdout is None or not sys.stdout.isatty() or sys.stderr is None or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.markup import escape

    return Console(stderr=True).status(f"dividing {escape(quoted(source))}")


def _source(data: str | None, demo: str | None, drift: bool) -> str:
    if data and demo:
        raise PellucidError("DATA and --demo both name what to divide", fix="Keep one of them")
    if drift and demo != "transactions":
        raise PellucidError("--drift belongs to the made-up transactions", fix="Write --demo transactions --drift")
    source = data or demo
    if not source:
        raise PellucidError("there is nothing to divide", fix="Name a file, or try --demo transactions")
    if demo and not demo.replace("-", "").isalnum():
        raise PellucidError(f"{quoted(demo)} is no name of a set", fix="Without --demo it is read as a path")
    return source


def _suffix(file_format: str) -> str:
    if file_format not in SUFFIXES:
        raise PellucidError(f"parts cannot be written as {quoted(file_format)}", fix="Choose parquet or csv")
    return SUFFIXES[file_format]


def _opened(
    source: str,
    drift: bool,
    kind: str,
    encoding: str,
    separator: str,
    newlines: str,
    as_number: tuple[str, ...],
) -> "Splittable":
    if drift:
        from pellucid.data.sets.transactions import load

        return load(drift=True)
    from pellucid.data import ListData, PairsData, TableData, open_data

    opened = open_data(
        source, kind=kind, encoding=encoding, separator=separator, newlines=newlines, as_number=as_number
    )
    if not isinstance(opened, ListData | PairsData | TableData):
        raise PellucidError(
            f"{opened.name} was taken for {opened.kind}, and lists, tables and pairs can be divided",
            fix="Try --kind list" if opened.kind == "text" else "Name another file",
        )
    return opened


def _say(report: "SplitReport", folder: Path, names: list[str], as_json: bool) -> None:
    if as_json:
        import json

        from pellucid.data.splits.parts import plain_report

        written = {"folder": str(folder), "files": names} if names else None
        click.echo(json.dumps({**plain_report(report), "written": written}, allow_nan=False))
        return
    from pellucid.figures.show import show

    show(report)
    if names:
        click.echo(f"\nWritten: {', '.join(names)} in {quoted(str(folder), 80)}")
