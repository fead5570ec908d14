"""`pellucid inspect`: every part of a module with its shapes and costs, and what is wrong where they disagree."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pellucid.api.inspect import InspectTarget, expression_target, find_target, inspect_targets
from pellucid.cli.contract import EXIT_FOUND, read_expression_input, show_answer, working
from pellucid.cli.options import command_named, json_option
from pellucid.errors import printable


@command_named(
    "inspect",
    'pellucid inspect "nn.Sequential(nn.Conv2d(1,8,5), nn.Flatten(), nn.Linear(120,10))" --input 1,1,32,32',
    "pellucid inspect model.py:Net --input 2,16:int",
    "pellucid inspect names-transformer",
    "pellucid inspect vit-b/16 --against resnet-50",
    "pellucid inspect model.py:small --against model.py:large --input 1,128:int",
    more="""
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

    MODEL is a run of pellucid train, an expression of torch.nn's modules (- reads it from standard input), file.py:name
    for a module, a class or a function that makes one, or a network that papers name by its size: vit-b/32, vit-b/16,
    vit-l/16, vit-h/14 or resnet-50. Your file is run in a process of its own. Where
    shapes disagree, it is told which layer was fed what, how that came, and which repairs were tried and work. Without
    an input, one is guessed from the first layers.
    """
    words = [model, against] if against else [model]
    targets = [_find_target(word) for word in words]
    files = [Path(target.file).name for target in targets if target.file]
    status = working(f"running your code: {printable(files[0])}") if files else None
    found = inspect_targets(targets, inputs=inputs, batch=batch, timeout=timeout, status=status)

    from pellucid.records import Versus

    show_answer(Versus.of(*found) if against else found[0], as_json=as_json)
    sys.stdout.flush()
    if any(one.has_found_something_wrong for one in found):
        sys.exit(EXIT_FOUND)


def _find_target(word: str) -> InspectTarget:
    if word != "-":
        return find_target(word)
    from pellucid.inspection.expression.syntax import MOST_CHARACTERS

    return expression_target(read_expression_input(MOST_CHARACTERS))
