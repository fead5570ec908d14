"""The error contract: one line, the right exit code, an empty stdout, and a fix in every message."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pellucid.cli import OUTCOME
from pellucid.cli.contract import answer
from pellucid.errors import LONGEST_LINE, ExpressionError, PellucidError, one_line, printable, quoted

LINE = re.compile(r"pellucid: \S.*\. \S.*\.")


def check_line(stderr: str) -> None:
    """The first line is whole in itself; only a mistake in an expression may add its two lines with the caret."""
    first, *more = stderr.splitlines()
    assert LINE.fullmatch(first), first
    assert len(first) <= LONGEST_LINE
    assert len(more) in (0, 2)
    if more:
        assert more[1].strip() == "^"
    assert "Traceback" not in stderr


def raising(error: BaseException):
    def action() -> None:
        raise error

    return action


def test_a_users_mistake_is_one_line_and_exit_2(capsys):
    assert answer(raising(PellucidError("x is missing", fix="Add x=1")), []) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "pellucid: x is missing. Add x=1.\n"


def test_an_expression_mistake_shows_its_column_with_a_caret(capsys):
    mistake = ExpressionError("a sign is missing", text="1 + 2x", column=6, fix="To multiply, write 2*x")
    assert answer(raising(mistake), []) == 2
    assert capsys.readouterr().err == (
        "pellucid: a sign is missing at column 6. To multiply, write 2*x.\n  1 + 2x\n       ^\n"
    )


def test_the_caret_stays_under_its_column_in_a_long_expression():
    text = "x+" * 500 + "$" + "+x" * 500
    excerpt, caret = ExpressionError("no", text=text, column=text.index("$") + 1, fix="no").excerpt().splitlines()
    assert excerpt[caret.index("^")] == "$"
    assert len(excerpt) < 90


def test_with_json_the_error_is_an_object(capsys):
    mistake = ExpressionError("a sign is missing", text="2x", column=2, fix="Write 2*x")
    assert answer(raising(mistake), ["derive", "2x", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err) == {
        "error": {"what": "a sign is missing", "where": "at column 2", "column": 2, "fix": "Write 2*x", "exit_code": 2}
    }


def test_a_bug_is_exit_70_and_leaves_a_report(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert answer(raising(ZeroDivisionError("inside")), []) == 70
    err = capsys.readouterr().err
    check_line(err)
    (report,) = tmp_path.iterdir()
    assert str(report) in err
    assert "ZeroDivisionError: inside" in report.read_text()


def test_debug_shows_the_traceback_and_keeps_the_exit_code(capsys, monkeypatch):
    monkeypatch.setenv("PELLUCID_DEBUG", "1")
    assert answer(raising(PellucidError("x is missing", fix="Add x=1")), []) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("pellucid: x is missing. Add x=1.\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (MemoryError(), 2),
        (OSError(28, "No space left on device"), 2),
        (click.UsageError("Got unexpected extra argument"), 2),
        (click.NoSuchOption("--brif", possibilities=["--brief"]), 2),
    ],
    ids=lambda x: type(x).__name__,
)
def test_every_end_has_its_code_and_its_line(capsys, error, code):
    assert answer(raising(error), []) == code
    check_line(capsys.readouterr().err)


def test_a_message_is_never_longer_than_the_contract_allows():
    error = PellucidError("x" * 1000, fix="y" * 1000)
    assert len("pellucid: " + str(error)) <= LONGEST_LINE


@pytest.mark.parametrize("text", ["a\nb", "\x1b]0;title\x07", "\udcff", "a\u2028b", "\u202eabc", "\x00"])
def test_no_character_of_the_users_can_move_the_cursor(text):
    for shown in (printable(text), quoted(text), one_line(text)):
        assert shown.isprintable()
        shown.encode("utf-8")


def test_a_closed_pipe_ends_quietly(tmp_path):
    words = [sys.executable, "-m", "pellucid", "derive", "+".join(["x"] * 800), "x=1", "--steps"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_ctrl_c_is_one_line_and_130(tmp_path):
    code = (
        "import sys, time; from pellucid.cli.contract import answer; "
        "sys.exit(answer(lambda: (print('up', flush=True), time.sleep(30)), []))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        check_line(process.stderr.read())
        assert process.wait(60) == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_your_machine_not_our_bug(tmp_path):
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "pellucid", "derive", "x", "x=1"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            encoding="utf-8",
            check=False,
        )
    assert run.returncode == 2
    check_line(run.stderr)


@pytest.mark.parametrize(
    "environment",
    [
        {"LANG": "C", "LC_ALL": "C"},
        {"PYTHONIOENCODING": "ascii"},
        {"HOME": ""},
        {"PYTHONHASHSEED": "7"},
        {"TERM": "dumb"},
    ],
    ids=lambda e: next(iter(e)),
)
def test_poor_surroundings_do_not_matter(pellucid, environment):
    run = pellucid("derive", "x*x", "x=3", env=environment)
    assert run.returncode == 0, run.stderr
    assert "x  " in run.stdout
    assert " 6 " in run.stdout


def test_closed_streams_do_not_matter(tmp_path):
    for closing in ("<&-", ">&-", "2>&-"):
        run = subprocess.run(
            ["sh", "-c", f'exec "$0" -m pellucid derive "x*x" x=3 --brief {closing}', sys.executable],
            capture_output=True,
            cwd=tmp_path,
            check=False,
        )
        assert run.returncode == 0, (closing, run.stderr)


def test_modules_in_the_users_folder_are_not_imported(tmp_path):
    """A folder may hold a file called json.py; running the command there must not run it."""
    for name in ("json", "click", "torch", "random", "re"):
        (tmp_path / f"{name}.py").write_text("open('canary', 'w').close()\n")
    script = Path(sys.executable).parent / "pellucid"
    if not script.exists():
        pytest.skip("pellucid is not installed as a command here")
    run = subprocess.run([script, "derive", "x*x", "x=3"], capture_output=True, cwd=tmp_path, check=False)
    assert run.returncode == 0
    assert not (tmp_path / "canary").exists()


def test_the_folder_may_be_gone(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os, sys; os.rmdir(os.getcwd()); from pellucid.cli import main; "
        "main(['derive', 'x*x', 'x=3', '--brief'])"
    )
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, cwd=gone, check=False)
    assert run.returncode == 0, run.stderr
    assert os.linesep.join(["x*x = 9", "x  6"]).encode() in run.stdout


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["no-such-command"], 2)])
@pytest.mark.parametrize("environment", [{}, {OUTCOME: "outcome"}], ids=["alone", "worker"])
def test_a_command_that_loaded_torch_ends_without_taking_it_apart(words, code, environment):
    """What was to be called at the end is called, all is printed, and the exit code stays; a worker's too, which has a
    thread that watches its parent."""
    around = (
        "import atexit, sys, threading, time, torch\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "class Kept:\n"
        "    def __del__(self): print('taken apart')\n"
        "kept = Kept()\n"
        "atexit.register(print, 'called at the end')\n"
        f"sys.argv = ['pellucid', *{words!r}]\n"
        "from pellucid.cli import main\n"
        "main()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", around],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        check=False,
    )
    assert run.returncode == code
    assert run.stdout.endswith("called at the end\n")
    assert ("pellucid" in run.stdout) == (not code)
    assert ("no-such-command" in run.stderr) == bool(code)
