"""The command line: one file for each command, loaded when it is asked for."""

import atexit
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Sequence

import click

from pellucid import __version__
from pellucid.cli.contract import answer, usage_error
from pellucid.errors import did_you_mean

OUTCOME = "PELLUCID_OUTCOME"  # as training/launch.py sets it for the processes that it starts

# Each command and the sentence that `pellucid --help` shows for it. Its file has the same name.
COMMANDS = {
    "train": "A network of your data within minutes, beside models that are no network.",
    "predict": "What a trained network says of new images, rows or sources, with probabilities.",
    "sample": "New items from a model of your data, each with how much of it is copied.",
    "score": "How likely a text is under a model of your data, character by character.",
    "compare": "The whole ladder, from guessing to transformers, on one split and one budget.",
    "serve": "The network of a run over HTTP, for OpenAI's clients and any other.",
    "rate": "The learning rate for a network on your data, and how sure that answer is.",
    "sweep": "The best of several settings by successive halving, and a run with them.",
    "draw": "Any picture by name, as SVG, PNG or a page of its own.",
    "export": "A run for Hugging Face, ONNX Runtime, llama.cpp, or torch without pellucid.",
    "open": "A model that others made, from a Hugging Face folder, as a run that every command takes.",
    "inspect": "Every shape, parameter and FLOP of any model, and what is wrong when shapes disagree.",
    "doctor": "What is wrong with a model, and what is right, proven on a batch.",
    "split": "Train, dev and test parts of your data, with a report on leaks, tails and drift.",
    "tokens": "Your text as symbols and indices, with contexts, targets, shapes and costs.",
    "claims": "What courses and papers say about networks, each tested, with a verdict.",
    "learn": "The way from a derivative to a vision transformer in steps, each one command.",
    "lab": "All of it in the browser, on this machine: train, look inside, decode, derive, learn.",
    "derive": "The value and gradient of an expression, and every step of backpropagation.",
}


class Commands(click.Group):
    """Commands that are imported only when they run, so that `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"pellucid.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            fix = did_you_mean(args[0], COMMANDS, "Type pellucid --help to see them all")
            raise usage_error(f"there is no command called {args[0]!r}", fix=fix)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=Commands,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="Each command explains itself: pellucid derive --help",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _tell_version(ctx, asked),
    help="Show the version and exit.",
)
@click.pass_context
def pellucid(ctx: click.Context) -> None:
    """Neural networks you can see through: whatever pellucid says, it measured."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _tell_version(ctx: click.Context, is_asked: bool) -> None:
    if not is_asked or ctx.resilient_parsing:
        return
    click.echo(f"pellucid {__version__}")
    if importlib.util.find_spec("pellucid.autograd._node") is None:
        click.echo(
            "Reading CSV, scalar derivatives, scoring by counts, training and sampling from transformers are slower "
            "than compiled: there was no C compiler at install."
        )
    ctx.exit()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code. arguments: where Python called it, and goes on afterwards."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        # Started by torchrun, or by `train --processes`: before anything heavy is loaded, so that none is left behind.
        from pellucid.training.launch import end_with_parent

        end_with_parent()
    elif arguments is None and words[:1] == ["train"] and "WORLD_SIZE" not in os.environ:
        from pellucid.training.torch_loading import defer_meta_functions

        defer_meta_functions()
    code = answer(lambda: _invoke(words), words)
    if OUTCOME in os.environ:
        from pellucid.training.launch import tell_outcome

        code = tell_outcome(code)
    if arguments is None and "torch" in sys.modules:
        _leave_at_once(code)
    sys.exit(code)


def _leave_at_once(code: int) -> None:
    """End the process without taking the interpreter apart, which with torch takes a tenth of its start.

    One of several that train together may not come to its end otherwise: Gloo's threads let go of tensors, and ask for
    the interpreter to do so. Whatever asked to be called at the end is called, and threads that are still at work are
    waited for as usual.
    """
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        return  # nobody reads any more, which Python says in its own way
    os._exit(code)


def _invoke(words: list[str]) -> None:
    # Not by click's own `main`, which ends a closed pipe in its own way.
    with pellucid.make_context("pellucid", words) as context:
        pellucid.invoke(context)
