"""`pellucid inspect`: every part of a module with its shapes and costs, and what is wrong where they disagree."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.errors import PellucidError, did_you_mean, printable, quoted

if TYPE_CHECKING:
    from pellucid.records import Inspection

EXIT_FOUND = 1
ENTRY = "pellucid.cli.inspecting:seen"
LONGEST_SECONDS = 86_400.0


@click.command(
    "inspect",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
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
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON, for machines.")
def command(model: str, inputs: tuple[str, ...], batch: str, against: str, timeout: float, as_json: bool) -> None:
    """Show every part of MODEL: shapes, parameters, FLOPs counted in two ways, memory and time.

    MODEL is a run of pellucid train, an expression of torch.nn's modules (- reads it from standard input), or
    file.py:name for a module, a class or a function that makes one. Your file is run in a process of its own. Where
    shapes disagree, it is told which layer was fed what, how that came, and which repairs were tried and work. Without
    an input, one is guessed from the first layers.
    """
    from pellucid.inspection.batch_file import require_batch_file
    from pellucid.inspection.expression.syntax import parse_shape

    if inputs and batch:
        raise PellucidError("--input and --batch exclude each other", fix="Keep one of them")
    if not 0 < timeout <= LONGEST_SECONDS:
        raise PellucidError(f"--timeout is {timeout:g}", fix="Give seconds above 0, as --timeout 60")
    for word in inputs:
        parse_shape(word)
    wanted = [_wanted(word) for word in ([model, against] if against else [model])]
    file = str(require_batch_file(Path(batch)).resolve()) if batch else ""
    job = {"models": wanted, "inputs": list(inputs), "batch": file}
    found = _looked_at(job, wanted, timeout)

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


def _looked_at(job: dict[str, Any], wanted: list[dict[str, str]], timeout: float) -> list[Inspection]:
    """What the child saw. Its folder is that of the first file, so that what lies beside it is found."""
    from pellucid.inspection.sandbox.process import run_in_child
    from pellucid.records import Inspection
    from pellucid.records.plain import from_plain

    files = [one["file"] for one in wanted if one["kind"] == "file"]
    with _running(files):
        answer = run_in_child(
            ENTRY,
            job,
            seconds=timeout,
            folder=Path(files[0]).parent if files else Path.cwd(),
            whose=wanted[0]["name"],
        )
    found = [from_plain(Inspection, one) for one in answer.plain]
    if files:
        names = ", ".join(dict.fromkeys(Path(file).name for file in files))
        printed = f", which printed {answer.n_printed:,} bytes" if answer.n_printed else ""
        said = f"running your code: {names} was run in a process of its own{printed}"
        found[0] = found[0]._replace(notes=(*found[0].notes, said))
    return found


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


def _wanted(word: str) -> dict[str, str]:
    """What MODEL stands for; whatever can be refused without torch is."""
    from pellucid.runs import is_run

    if word == "-":
        return _expression(_standard_input())
    if is_run(word):
        from pellucid.runs import find_run

        return {"kind": "run", "name": Path(word).name, "run": str(find_run(word).resolve())}
    if found := re.fullmatch(r"(.+\.py):([^:()]*)", word, re.DOTALL):
        return _file(found[1], found[2].strip())
    if word.endswith(".py"):
        return _file(word, "")
    if "(" in word or re.match(r"\s*(torch\.)?nn\.", word):
        return _expression(word)
    raise _unknown(word)


def _expression(text: str) -> dict[str, str]:
    from pellucid.inspection.expression.syntax import parse_module

    parse_module(text)
    return {"kind": "expression", "name": " ".join(text.split()), "text": text}


def _file(file: str, name: str) -> dict[str, str]:
    path = Path(file)
    if not path.is_file():
        beside = [one.name for one in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise PellucidError(
            f"there is no file called {quoted(file)}",
            fix=did_you_mean(path.name, beside, "Give file.py:name", show=lambda one: quoted(str(path.parent / one))),
        )
    if not name:
        has = names_in(path)
        raise PellucidError(
            f"{quoted(file)} does not say which name",
            fix=f"Write {path.name}:{has[0]}" + f"; it has {', '.join(has[:8])}" * (len(has) > 1)
            if has
            else f"Write {path.name}:name",
        )
    return {"kind": "file", "name": f"{path.name}:{name}", "file": str(path.resolve()), "of": name}


def names_in(path: Path) -> list[str]:
    """The classes, functions and values of a file, as it is written: nothing of it is run."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
        return []
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in dict.fromkeys(found) if not name.startswith("_")]


def _unknown(word: str) -> PellucidError:
    from pellucid.errors import PellucidError as Refused
    from pellucid.runs import find_run

    try:
        find_run(word)
    except Refused as error:
        near = error.fix if error.fix.startswith("Perhaps") else ""
        return PellucidError(
            f"{quoted(word)} is no run, no file.py:name and no expression",
            fix=near or 'Write one, as "nn.Linear(4, 2)"',
        )
    raise AssertionError("a run would have been found before")


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
