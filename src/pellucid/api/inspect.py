"""`pellucid.inspect`: every part of your module, with its shapes and costs, and why its shapes disagree."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.figures import Shown
from pellucid.models.catalogue import PUBLISHED, find_published
from pellucid.runs import find_run, is_run

if TYPE_CHECKING:
    from torch import nn

    from pellucid.records import Inspection

CHILD = "pellucid.api.inspect_child:inspect_job"
LONGEST_SECONDS = 86_400.0


class InspectTarget(NamedTuple):
    """What a word stands for: an expression, a name in a file, a run, or a published network."""

    kind: str  # expression, file, run or published
    name: str
    text: str = ""  # of an expression
    file: str = ""
    of: str = ""  # the name in the file
    run: str = ""  # its folder


def inspect(model: nn.Module | str, *example: Any, name: str = "") -> Shown[Inspection]:
    """Everything that one forward of a module shows. The module is left as it was.

    model: a module, an expression such as "nn.Linear(4, 2)", or a published network such as "ViT-B/16". example: what
    forward is called with, or the path of a .npy, .npz, .safetensors or .pt file with it; without it, inputs are
    guessed from the first layers.

    >>> seen = inspect("nn.Sequential(nn.Flatten(), nn.Linear(784, 10))")
    >>> seen.parameters, str(seen.rows[-1].outputs[0])
    (7850, '(batch 2, features 10)')
    """
    from torch import nn

    from pellucid.inspection.batch_file import read_batch
    from pellucid.inspection.inspect import inspect_expression, inspect_module

    if len(example) == 1 and isinstance(example[0], str | Path):
        example = read_batch(Path(example[0])).inputs
    if isinstance(model, str):
        from pellucid.inspection.expression.modules import build_module

        if published := find_published(model):
            from pellucid.api.inspect_child import inspect_published

            return Shown(inspect_published(published, example))
        return Shown(inspect_expression(build_module(model), example, name or " ".join(model.split())))
    if not isinstance(model, nn.Module):
        raise PellucidError(
            f"a {type(model).__name__} is no nn.Module", fix="Give a module, or an expression such as nn.Linear(4, 2)"
        )
    return Shown(inspect_module(model, example, name))


def inspect_targets(
    targets: Sequence[InspectTarget],
    *,
    inputs: Sequence[str] = (),
    batch: str = "",
    timeout: float = 60.0,
    status: AbstractContextManager[object] | None = None,
) -> list[Inspection]:
    """Each of the targets, inspected in a process of its own, where the files of the user are run.

    inputs: shapes such as "2,16:int"; batch: a file with the inputs in place of them. status: entered while it runs.
    """
    from pellucid.inspection.batch_file import require_batch_file
    from pellucid.inspection.expression.syntax import parse_shape
    from pellucid.inspection.sandbox import run_in_child
    from pellucid.records import Inspection, from_plain, make_note

    if inputs and batch:
        raise PellucidError(
            "{input} and {batch} exclude each other", fix="Keep one of them", options={"input": None, "batch": None}
        )
    if not 0 < timeout <= LONGEST_SECONDS:
        raise PellucidError(
            f"{{timeout}} is {timeout:g}", fix="Give seconds above 0, such as 60", options={"timeout": None}
        )
    for word in inputs:
        parse_shape(word)
    file = str(require_batch_file(Path(batch)).resolve()) if batch else ""
    job = {"models": [target._asdict() for target in targets], "inputs": list(inputs), "batch": file}
    # Its folder is that of the first file, so that what lies beside it is found.
    files = [target.file for target in targets if target.file]
    folder = Path(files[0]).parent if files else Path.cwd()
    with status or nullcontext():
        answer = run_in_child(CHILD, job, seconds=timeout, folder=folder, whose=targets[0].name)
    found = [from_plain(Inspection, one) for one in answer.plain]
    if files:
        names = list(dict.fromkeys(Path(file).name for file in files))
        note = make_note("own-process", files=names, n_printed=answer.n_printed)
        found[0] = found[0]._replace(notes=(*found[0].notes, note))
    return found


def find_target(word: str) -> InspectTarget:
    """What a word stands for; whatever can be refused without torch is."""
    if is_run(word):
        return InspectTarget("run", Path(word).name, run=str(find_run(word).resolve()))
    if found := re.fullmatch(r"(.+\.py):([^:()]*)", word, re.DOTALL):
        return _find_in_file(found[1], found[2].strip())
    if word.endswith(".py"):
        return _find_in_file(word, "")
    if published := find_published(word):
        return InspectTarget("published", published.name)
    if "(" in word or re.match(r"\s*(torch\.)?nn\.", word):
        return expression_target(word)
    raise _unknown(word)


def expression_target(text: str) -> InspectTarget:
    from pellucid.inspection.expression.syntax import parse_module

    parse_module(text)
    return InspectTarget("expression", " ".join(text.split()), text=text)


def _find_in_file(file: str, name: str) -> InspectTarget:
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
    return InspectTarget("file", f"{path.name}:{name}", file=str(path.resolve()), of=name)


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
    try:
        find_run(word)
    except PellucidError as error:
        near = error.fix if error.fix.startswith("Perhaps") else ""
        known = {one.name.lower(): one.name for one in PUBLISHED}
        return PellucidError(
            f"{quoted(word)} is no run, no file.py:name, no expression and no published network",
            fix=near or did_you_mean(word.lower(), known, 'Write one, as "nn.Linear(4, 2)"', show=known.__getitem__),
        )
    raise AssertionError("a run would have been found before")
