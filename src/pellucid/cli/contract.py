"""What every command promises about how it ends. All of it is here.

stdout carries the answer and nothing else; on an error it stays empty. stderr gets one line,
`pellucid: <what is wrong> <where>. <one fix>.`, of at most 240 characters; a mistake in an expression is followed by
the expression with a caret under the column. With --json the line is an object. PELLUCID_DEBUG=1 adds the traceback.

    0    well
    1    it worked and found something wrong
    2    your input or your machine; nothing was changed
    3    started, then stopped by a fault from outside; what was there before is intact
    70   a bug in pellucid; the line says where its report is
    129  the terminal closed (SIGHUP); 131 SIGQUIT; 143 SIGTERM: a run that trains is saved first
    130  interrupted by Ctrl-C, likewise
    141  nobody reads the output any more, as in `pellucid ... | head -1`
"""

import errno
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import click

from pellucid import __version__
from pellucid.errors import PREFIX, ExpressionError, PellucidError, did_you_mean, quoted

EXIT_FOUND = 1
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141


def answer(action: Callable[[], object], words: Sequence[str]) -> int:
    """Run the action and turn however it ends into an exit code and at most one message."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show × gets a ? in its place, not a crash.
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    code = 0
    try:
        try:
            action()
        except click.exceptions.Exit as ended:
            # --help and --version have said what they had to say, or a command has found something wrong.
            code = ended.exit_code
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        return _stop_quietly()
    except Exception as error:
        return _report(_in_our_words(error), error, as_json="--json" in words)
    except KeyboardInterrupt as error:
        stopped = PellucidError("stopped by Ctrl-C", fix="Run the same command to start again")
        stopped.exit_code = EXIT_INTERRUPTED
        return _report(stopped, error, as_json="--json" in words)
    return code


def show_answer(record: object, *, as_json: bool) -> None:
    """The record on stdout, in words or as JSON."""
    from pellucid.figures.show import record_json, show

    click.echo(record_json(record)) if as_json else show(record)


def say_written(*files: Path | None) -> None:
    """Which files were written besides; None stands for one that was not asked for."""
    for file in files:
        if file:
            click.echo(f"\nWritten: {quoted(str(file), 80)}")


def working(words: str) -> AbstractContextManager[object]:
    """A line that moves on a terminal while the work is done."""
    if sys.stderr is None or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.markup import escape

    return Console(stderr=True).status(escape(words))


def read_expression_input(most_characters: int) -> str:
    """The expression that stands for -; a little more than may be read, so that too much is seen to be."""
    if sys.stdin is None:
        raise PellucidError("standard input is closed", fix="Give the expression between quotes")
    raw = sys.stdin.buffer.read(4 * most_characters + 1)
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise PellucidError(
            f"standard input is not UTF-8 text at byte {error.start}", fix="Save the expression as UTF-8"
        ) from error


def usage_error(what: str, fix: str) -> PellucidError:
    """A command that was called in a way it does not know."""
    return PellucidError(what, fix=fix)


def spell_flag(name: str, value: object) -> str:
    """An option as it is written in a shell: `--kind table`, or only its name where the value is None.

    >>> spell_flag("n_heads", 4), spell_flag("target", None)
    ('--heads 4', '--target')
    """
    import shlex

    from pellucid.training.options import flag_called

    flag = f"--{flag_called(name)}"
    return flag if value is None or value is True else f"{flag} {shlex.quote(str(value))}"


def _shown_options(ctx: click.Context) -> list[str]:
    return [word for one in ctx.command.get_params(ctx) if not getattr(one, "hidden", False) for word in one.opts]


def _in_our_words(error: Exception) -> PellucidError:
    """The error as one of ours: itself, or a mistake in the call, or the machine's refusal, or a bug."""
    if isinstance(error, PellucidError):
        return error
    if isinstance(error, click.NoSuchOption):
        options = _shown_options(error.ctx) if error.ctx else []
        return usage_error(
            f"there is no option called {error.option_name}",
            fix=did_you_mean(error.option_name, options, "Add --help to see the options"),
        )
    if isinstance(error, click.MissingParameter):
        name = error.param.human_readable_name if error.param else "an argument"
        return usage_error(f"{name} is missing", fix="Add --help to see an example")
    if isinstance(error, click.ClickException):
        return usage_error(error.format_message().rstrip("."), fix="Add --help to see what is possible")
    if isinstance(error, MemoryError):
        return PellucidError(
            "this needs more memory than the machine gave", fix="Ask for less at once, or close other programs"
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG):
        return PellucidError(f"the output could not be written: {error.strerror}", fix="Make room and run it again")
    bug = PellucidError(
        f"a bug in pellucid: {type(error).__name__}",
        fix=f"Please send us the report in {_crash_report(error)}",
    )
    bug.exit_code = EXIT_BUG
    return bug


def _report(error: PellucidError, cause: BaseException, *, as_json: bool) -> int:
    if os.environ.get("PELLUCID_DEBUG") == "1":
        traceback.print_exception(cause)
    if os.environ.get("RANK", "0") != "0" and error.exit_code != EXIT_BUG:
        return error.exit_code  # of several processes that train together the first says what is wrong
    if as_json:
        column = error.column if isinstance(error, ExpressionError) else None
        what, where, fix = (error.spelled(text, spell_flag) for text in (error.what, error.where, error.fix))
        words = {"what": what, "where": where, "column": column, "fix": fix}
        _say(json.dumps({"error": {**words, "exit_code": error.exit_code}}))
    else:
        _say(PREFIX + error.line(spell_flag))
        if isinstance(error, ExpressionError):
            _say(error.excerpt())
    return error.exit_code


def _say(text: str) -> None:
    # With stderr closed there is nobody to tell; the exit code still does.
    if sys.stderr is not None:
        with suppress(OSError):  # a terminal that has closed
            print(text, file=sys.stderr, flush=True)


def _stop_quietly() -> int:
    # Python flushes stdout once more on its way out; give that flush somewhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_PIPE_CLOSED


def _crash_report(error: Exception) -> str:
    """Write what is needed to find the bug into a new file and give its path."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="pellucid-crash-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as report:
            report.write(f"pellucid {__version__}, Python {sys.version}, {sys.platform}\n")
            report.writelines(traceback.format_exception(error))
        return report.name
    except OSError:
        return "the output of the same command with PELLUCID_DEBUG=1"


class _Steady(io.TextIOWrapper):
    """A stream that goes on when nobody reads it any more: a pipe whose reader left, or a terminal that has closed."""

    _is_terminal = False  # asked while it is one: of a closed one nothing can be asked

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._require_gone(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._require_gone(error)

    def _require_gone(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError) and not (error.errno == errno.EIO and self._is_terminal):
            raise error
        self._go_nowhere()

    def _go_nowhere(self) -> None:
        # What is still in the buffer goes there too, and so does Python's own last flush.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


@contextmanager
def steady_output() -> Iterator[None]:
    """While this holds, a reader that goes away, as in `pellucid train | head -1`, does not end the work."""
    before = sys.stdout, sys.stderr
    steady = [
        _Steady(stream.buffer, stream.encoding, stream.errors, line_buffering=getattr(stream, "line_buffering", False))
        if isinstance(stream, io.TextIOWrapper)
        else stream
        for stream in before
    ]
    for old, new in zip(before, steady, strict=True):
        if old is not None:
            old.flush()
        if isinstance(new, _Steady):
            new._is_terminal = new.isatty()
    sys.stdout, sys.stderr = steady
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in steady:
            if isinstance(stream, _Steady):
                stream.flush()
                stream.detach()
