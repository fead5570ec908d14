"""`pellucid learn`: the journey from a derivative to a vision transformer, each step one command that can be run."""

from __future__ import annotations

import contextlib
import io
import json
import sys

import click

from pellucid.api.learn import JOURNEY, LearnStep, all_steps, find_step, next_step
from pellucid.cli.options import command_named, json_option


@command_named(
    "learn",
    "pellucid learn",
    "pellucid learn derivative",
    "pellucid learn attention --json",
)
@click.argument("step", required=False)
@json_option
def command(step: str | None, as_json: bool) -> None:
    """The way from a derivative to a vision transformer, in steps: all of them, or STEP by its name or number.

    A step is one command, which is shown and then run. It needs no network, and takes well under a minute. Pictures
    are written into this folder, runs below ./runs.
    """
    if step is None:
        _show_journey(as_json)
    elif as_json:
        _run_as_json(find_step(step))
    else:
        _run(find_step(step))


def _show_journey(as_json: bool) -> None:
    numbers = {name: number for number, name in enumerate(all_steps(), start=1)}
    if as_json:
        rows = [
            {"number": numbers[step.name], "part": part, **_described(step)}
            for part, steps in JOURNEY.items()
            for step in steps
        ]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    from pellucid.figures.tables import Part, Table, TableColumn, heading, indent, show_lines, show_parts

    parts: list[Part] = []
    for part, steps in JOURNEY.items():
        listed = Table(TableColumn("", "right"), "", TableColumn("", "wrap"), n_keys=2)
        for step in steps:
            listed.add(str(numbers[step.name]), step.name, step.says)
        parts += [heading(part), indent(listed)]
    show_parts(parts)
    first = next(iter(numbers))
    show_lines(["", f"pellucid learn {first} shows the command of a step and runs it."])


def _described(step: LearnStep) -> dict[str, str]:
    return {"name": step.name, "says": step.says, "command": f"pellucid {step.command}"}


def _run(step: LearnStep) -> None:
    from pellucid.figures.tables import show_lines

    show_lines([step.says, f"$ pellucid {step.command}", ""])
    code = _invoke(step.words)
    after = next_step(step)
    if after:
        show_lines(["", f"next  pellucid learn {after.name}: {after.says}"])
    sys.exit(code)


def _run_as_json(step: LearnStep) -> None:
    """What the command says with --json stands in one document with what it is."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = _invoke([*(word for word in step.words if word != "--brief"), "--json"])  # it holds everything
    document = {**_described(step), "exit_code": code, "answer": json.loads(said.getvalue())}
    click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))
    sys.exit(code)


def _invoke(words: list[str]) -> int:
    """Run a command in this process, as the shell would; its exit code."""
    from pellucid.cli import pellucid

    try:
        with pellucid.make_context("pellucid", list(words)) as context:
            pellucid.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0
