"""`pellucid claims`: what courses and papers say about networks, each with an experiment and a verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Set
from pathlib import Path

import click

from pellucid.cli.contract import say_written, show_answer
from pellucid.cli.options import SETTINGS, given_flags, json_option, options_from
from pellucid.data.options import DataOptions
from pellucid.data.splits import DIVIDING
from pellucid.errors import PellucidError
from pellucid.figures.words.notation import duration
from pellucid.options import options_of
from pellucid.records import ClaimResult
from pellucid.training.workers import WorkerOptions

JOURNAL = Path("runs", "claims.jsonl")

EPILOG = """\b
Examples:
  pellucid claims --verdict fails
  pellucid claims --search softmax
  pellucid claims show dice-expected-49-24
  pellucid claims run dice-and-grids
  pellucid claims run dice-expected-49-24 --knob sides=8
  pellucid claims run n-and-a-end-most-names --data my-names.txt
  pellucid claims --html ledger.html
"""


@click.group("claims", invoke_without_command=True, context_settings=SETTINGS, epilog=EPILOG)
@click.option("--family", default="", metavar="NAME", help="Claims of this family.")
@click.option("--verdict", default="", metavar="NAME", help="holds, fails, only when, not decided or not testable.")
@click.option("--search", default="", metavar="WORDS", help="Claims with all of these words.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Also as one page with every number.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, family: str, verdict: str, search: str, html: Path | None, as_json: bool) -> None:
    """Claims about networks, tested: the statement, the number that decides, and the verdict.

    Without a word behind it, the ledger that comes with pellucid. `run` tests claims again, here; `show` tells one with
    all its numbers.
    """
    if ctx.invoked_subcommand is not None:
        return
    from pellucid.api.claims import list_claims, write_ledger_page
    from pellucid.api.results import require_output_path

    if html:
        require_output_path(html, (".html",))
    ledger = list_claims(family, verdict, search)
    if html:
        write_ledger_page(ledger, html)
    show_answer(ledger, as_json=as_json)
    if not as_json:
        say_written(html)


@command.command("run", context_settings=SETTINGS)
@click.argument("names", nargs=-1, metavar="ID|FAMILY|all...")
@click.option("--seeds", type=int, help="Seeds of each claim that draws or trains.")
@click.option("--knob", "knobs", multiple=True, metavar="NAME=VALUE", help="Another value of a knob; may be repeated.")
@click.option("--data", metavar="DATA", help="Ask it of your own data; also a folder that `split` wrote.")
@options_from(DataOptions, only=DIVIDING)
@options_from(WorkerOptions)
@click.option("--minutes", type=float, help="Begin no claim after so many minutes.")
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Goes on where this file ends; for all, runs/claims.jsonl if none is named.",
)
@click.option(
    "--store", type=click.Path(path_type=Path), metavar="FOLDER", help="Write the results there, as a ledger."
)
@json_option
@click.pass_context
def run_command(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    seeds: int | None,
    knobs: tuple[str, ...],
    data: str | None,
    minutes: float | None,
    journal: Path | None,
    store: Path | None,
    as_json: bool,
    **_: object,
) -> None:
    """Test claims again, here and now, and say where a verdict differs from the stored one.

    A run of all that was killed goes on where it was: each result is in a journal as soon as it is there.
    """
    from pellucid.api.claims import expected_seconds, run_claims

    given = {}
    for word in knobs:
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise PellucidError(f"{word!r} is no knob with its value", fix="Write --knob name=value")
        given[name] = value
    if journal is None and "all" in names:
        journal = JOURNAL
    progress = _Progress(expected_seconds(names) if names else {})
    workers = WorkerOptions(**given_flags(ctx, options_of(WorkerOptions)))
    try:
        ledger = run_claims(
            names,
            knobs=given,
            seeds=seeds,
            data=data,
            journal=journal,
            store=store,
            workers=workers,
            minutes=minutes,
            on_done=progress.say,
            on_division=lambda sentence: print(sentence, file=sys.stderr),
            **given_flags(ctx, DIVIDING),
        )
    except PellucidError as error:
        raise _as_knobs(error, {one.name for one in ctx.command.params}) from error
    n_left = len(progress.seconds) - len(ledger.results) - len(ledger.refused)
    if minutes is not None and n_left > 0:
        print(f"{n_left} claims were not begun: the {minutes:g} minutes were over", file=sys.stderr)
    show_answer(ledger.results[0] if len(ledger.results) == 1 and not as_json else ledger, as_json=as_json)


def _as_knobs(error: PellucidError, known: Set[str | None]) -> PellucidError:
    """What the command has no option for is a knob: --knob target=species in place of --target species."""
    turned = [name for name in error.options if name not in known]
    for name in turned:
        value = error.options[name]
        error.fix = error.fix.replace(f"{{{name}}}", f"--knob {name}={'NAME' if value is None else value}")
    return error


class _Progress:
    """A line for each claim that is done, with the time that is left by what the others took when they were stored."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.seconds = dict(seconds)
        self.began = time.monotonic()
        self.done: list[str] = []

    def say(self, result: ClaimResult, n: int, of: int) -> None:
        if of <= 1:
            return
        self.done.append(result.id)
        share = sum([self.seconds[name] for name in self.done])
        whole = sum(self.seconds.values())
        pace = (time.monotonic() - self.began) / share if share else 0.0
        left = f", about {duration(pace * (whole - share))} left" if n < of and share else ""
        bar = "━" * (20 * n // of) + "─" * (20 - 20 * n // of)
        print(f"{bar} {n} of {of}{left}: {result.id} {result.verdict}", file=sys.stderr, flush=True)


@command.command("show", context_settings=SETTINGS)
@click.argument("name", metavar="ID")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Its picture; .svg, .png or .html.")
@json_option
def show_command(name: str, out: Path | None, as_json: bool) -> None:
    """One claim with all its numbers, from the stored ledger."""
    from pellucid.api.claims import draw_claim, find_result
    from pellucid.api.results import require_output_path

    if out:
        require_output_path(out)
    result = find_result(name)
    if out:
        draw_claim(result, out)
    show_answer(result, as_json=as_json)
    if not as_json:
        say_written(out)
