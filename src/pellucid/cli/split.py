"""`pellucid split`: read data, divide them, show what came out, write the parts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from pellucid.cli.contract import EXIT_FOUND, working
from pellucid.cli.options import command_named, json_option, options_from
from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError, quoted


@command_named(
    "split",
    "pellucid split names.txt",
    "pellucid split sales.csv --strategy stratified --by amount --with region --out sales-split",
    "pellucid split visits.parquet --group patient --target cured",
    "pellucid split log.csv --strategy time --order date --fractions 0.8,0.2",
    "pellucid split --demo transactions",
    more="""
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
@click.option("--strategy", default="", metavar="NAME", help="Strategy: hash, stratified, time, group or random.")
@click.option("--by", default="", metavar="COLUMN", help="Numeric column whose quantile bins are the strata.")
@click.option("--with", "together_with", default="", metavar="COLUMNS", help="Columns that divide each bin further.")
@click.option("--key", default="", metavar="COLUMN", help="Column that stands for the row when it is hashed.")
@click.option("--group", default="", metavar="COLUMN", help="Column whose values are not to be divided.")
@click.option("--order", default="", metavar="COLUMN", help="Column that tells the order of the rows.")
@click.option("--target", default="", metavar="COLUMN", help="Column that is to be predicted.")
@click.option(
    "--fractions", default="0.8,0.1,0.1", show_default=True, help="Shares of train, dev and test, or of train and test."
)
@click.option("--seed", default="", metavar="TEXT", help="Random seed; another seed gives another split.")
@click.option("--repeats", default=30, show_default=True, help="Splits over which the tail's wandering is measured.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="A new folder; else NAME-split.")
@click.option(
    "--format", "file_format", default="parquet", show_default=True, help="Format of a table's parts: parquet or csv."
)
@click.option("--dry-run", is_flag=True, help="Only the report; write nothing.")
@options_from(DataOptions, only=["kind", "encoding", "separator", "newlines"])
@click.option("--as-number", multiple=True, metavar="COLUMN", help="Read it as numbers in spite of $, % and commas.")
@json_option
def command(
    data: str | None,
    demo: str | None,
    drift: bool,
    together_with: str,
    as_json: bool,
    kind: str | None,
    separator: str | None,
    **options: Any,
) -> None:
    """Divide DATA into train, dev and test, and say what is wrong with the division.

    DATA is a list (one item a line), a table (CSV, TSV, Parquet, JSONL) or pairs. The parts and split.json are
    written into a new folder, all or nothing.
    """
    source = _source(data, demo, drift)
    columns = [name for name in together_with.split(",") if name]

    from pellucid.api.split import split

    with working(f"dividing {quoted(source)}"):
        written = split(
            source, together_with=columns, drift=drift, kind=kind or "", separator=separator or "", **options
        )
    report = written.report.record
    for path in written.swept:
        click.echo(f"Removed {quoted(str(path), 80)}, which a split that was killed had left half made", err=True)
    if as_json:
        import json

        from pellucid.figures.words.splitting import split_json

        files = {"folder": str(written.folder), "files": written.files} if written.files else None
        click.echo(json.dumps({**split_json(report), "written": files}, allow_nan=False))
    else:
        written.report.show()
        if written.files:
            from pellucid.figures.tables import show_lines

            show_lines(["", f"Written: {', '.join(written.files)} in {quoted(str(written.folder), 80)}"])
    sys.stdout.flush()
    if report.has_found_something_wrong:
        sys.exit(EXIT_FOUND)


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
