"""`pellucid inspect`: every part of a module with its shapes and costs, and what is wrong where they disagree."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from pellucid.api.inspect import expression_target, find_target, inspect_targets
from pellucid.cli.options import SETTINGS, json_option
from pellucid.errors import PellucidError, printable

EXIT_FOUND = 1


@click.command(
    "inspect",
    context_settings=SETTINGS,
    epilog="""
    \b
    Examples:
      pellucid inspect "nn.Sequential(nn.Conv2d(1,8,5), nn.Flatten(), nn.Linear(120,10))" --input 1,1,32,32
      pellucid inspect model.py:Net --input 2,16:int
      pellucid inspect names-transformer
      pellucid inspect model.py:small --against model.py:large --input 1,128:int

    \b
    Exit code 1: its forward fails on these inputs, or a mistake in what was written had to be read over.
    """,
)
@click.argument("model", metavar="MODEL")
@click.option("--input", "inputs", multiple=True, metavar="SHAPE", help="As 1,1,32,32, or 2,16:int; once for each.")
@click.option("--batch", default="", metavar="FILE", help="Inputs from a file: .npy, .npz, .safetensors or .pt.")
@click.option("--against", default="", metavar="MODEL", help="Another model, side by side.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds that it may take.")
@json_option
def command(model: str, inputs: tuple[str, ...], batch: str, against: str, timeout: float, as_json: bool) -> None:
    """Show every part of MODEL: shapes, parameters, FLOPs counted in two ways, memory and time.

    MODEL is a run of pellucid train, an expression of torch.nn's modules (- reads it from standard input), or
    file.py:name for a module, a class or a function that makes one. Your file is run in a process of its own. Where
    shapes disagree, it is told which layer was fed what, how that came, and which repairs were tried and work. Without
    an input, one is guessed from the first layers.
    """
    words = [model, against] if against else [model]
    targets = [expression_target(_standard_input()) if word == "-" else find_target(word) for word in words]
    status = _running([target.file for target in targets if target.file])
    found = inspect_targets(targets, inputs=inputs, batch=batch, timeout=timeout, status=status)

    from pellucid.figures.show import record_json, show

    if against:
        from pellucid.records import Versus

        both = Versus.of(*found)
        click.echo(record_json(both)) if as_json else show(both)
    elif as_json:
        click.echo(record_json(found[0]))
    else:
        show(found[0])
    sys.stdout.flush()
    if any(one.has_found_something_wrong for one in found):
        sys.exit(EXIT_FOUND)


@contextmanager
def _running(files: list[str]) -> Iterator[None]:
    """A line on a terminal while someone's code is run."""
    if not files or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(f"running your code: {printable(Path(files[0]).name)}")):
        yield


def _standard_input() -> str:
    from pellucid.inspection.expression.syntax import MOST_CHARACTERS

    if sys.stdin is None:
        raise PellucidError("standard input is closed", fix="Give the expression between quotes")
    raw = sys.stdin.buffer.read(4 * MOST_CHARACTERS + 1)
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise PellucidError(
            f"standard input is not UTF-8 text at byte {error.start}", fix="Save the expression as UTF-8"
        ) from error
