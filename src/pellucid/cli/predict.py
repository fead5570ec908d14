"""`pellucid predict`: what a trained network says of new images, rows or sources, with probabilities."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.cli.files import require_output_path, write_whole
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    from pellucid.records import Predictions


@click.command(
    "predict",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid predict digits-cnn seven.png
      pellucid predict penguins-mlp new.csv --out answers.csv
      pellucid predict dedupe-sort-encoder-decoder --text DAA --beam 4
    """,
)
@click.argument("run", metavar="RUN")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--text", default="", help="Of pairs: one source, in place of FILE.")
@click.option("--beam", type=int, default=0, help="Of pairs: follow this many beginnings; without it, the likeliest.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="All answers as a table, in .csv.")
@click.option("--encoding", default="utf-8", show_default=True, help="How a file is encoded.")
@click.option("--sep", "separator", default="", help="Of a table, where it is no comma or tab.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON, for machines.")
def command(
    run: str,
    files: tuple[str, ...],
    text: str,
    beam: int,
    out: Path | None,
    encoding: str,
    separator: str,
    as_json: bool,
) -> None:
    """Answer for new examples with the network of RUN: a folder that pellucid train made, or its name under runs/.

    FILE is an image or a folder of them, a table with the columns that the network was trained on, or for pairs a list
    of sources. Where the truth stands beside them, as in the target's column, it is said how many answers are right.
    """
    from pellucid.runs import find_run
    from pellucid.training.asking import answering_run, questions

    if out:
        require_output_path(out, (".csv",))
    found = answering_run(find_run(run))
    if beam and found.kind != "pairs":
        raise PellucidError(
            f"--beam is for pairs, and {quoted(found.path.name)} reads {found.kind}", fix="Leave it out"
        )
    if beam:
        from pellucid.decoding.limits import require_beam

        require_beam(beam)
    asked = questions(found, files, text=text, encoding=encoding, separator=separator)

    from pellucid.figures.show import record_json, show
    from pellucid.training.predicting import predictions

    answered = predictions(found, asked, beam)
    if out:
        write_whole(out, _as_csv(answered))
    if as_json:
        click.echo(record_json(answered))
        return
    show(answered)
    if out:
        click.echo(f"\nWritten: {quoted(str(out), 80)}")


def _as_csv(answered: Predictions) -> str:
    """One row for each example: what it is, the answer, and its probability where there is one."""
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(["example", "answer", "probability"])
    for one in answered.predictions:
        table.writerow([one.what, one.answer, "" if one.probability is None else f"{one.probability:.6f}"])
    return written.getvalue()
