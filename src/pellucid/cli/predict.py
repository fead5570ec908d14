"""`pellucid predict`: what a trained network says of new images, rows or sources, with probabilities."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.cli.contract import say_written, show_answer
from pellucid.cli.options import command_named, json_option, options_from
from pellucid.data.options import DataOptions

if TYPE_CHECKING:
    from pellucid.records import Predictions


@command_named(
    "predict",
    "pellucid predict digits-cnn seven.png",
    "pellucid predict penguins-tabm new.csv --out answers.csv",
    "pellucid predict dedupe-sort-encoder-decoder --text DAA --beam 4",
)
@click.argument("run", metavar="RUN")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--text", default="", help="One source of pairs, in place of FILE.")
@click.option("--beam", type=int, default=0, help="Beam search with this beam width, for pairs; by default greedy.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write all answers as a table, in .csv.")
@options_from(DataOptions, only=["encoding", "separator"])
@json_option
def command(
    run: str,
    files: tuple[str, ...],
    text: str,
    beam: int,
    out: Path | None,
    encoding: str,
    separator: str | None,
    as_json: bool,
) -> None:
    """Answer for new examples with the network of RUN: a folder that pellucid train made, or its name under runs/.

    FILE is an image or a folder of them, a table with the columns that the network was trained on, or for pairs a list
    of sources. Where the truth stands beside them, as in the target's column, it is said how many answers are right.
    """
    from pellucid.api.results import require_output_path, write_output
    from pellucid.api.run import predict

    if out:
        require_output_path(out, (".csv",))
    answered = predict(run, *files, text=text, beam=beam, encoding=encoding, separator=separator or "")

    if out:
        write_output(out, _as_csv(answered.record))
    show_answer(answered.record, as_json=as_json)
    if not as_json:
        say_written(out)


def _as_csv(answered: Predictions) -> str:
    """One row for each example: what it is, the answer, and its probability where there is one."""
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(["example", "answer", "probability"])
    for one in answered.predictions:
        table.writerow([one.what, one.answer, "" if one.probability is None else f"{one.probability:.6f}"])
    return written.getvalue()
