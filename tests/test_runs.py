"""Run folders: rows of the reliability catalogue that concern their place, their lock, their record and their logs."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pellucid.errors import NotWritten, PellucidError
from pellucid.records import Evaluation
from pellucid.runs import (
    LOGS,
    RunWriter,
    find_run,
    is_finished,
    is_run,
    new_run_path,
    read_ending,
    read_log,
    read_record,
)
from pellucid.runs.disk import Damaged, checksummed_json, parse_checksummed

RECORD = {"seed": 1, "data": {"source": "names", "fingerprint": "abc"}, "rates": [1e-3, 0.1], "threads": 2}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A new run called x, in an empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    with RunWriter.create(new_run_path("x", "names"), RECORD, n_bytes=1000) as writer:
        yield writer


def said(action, *words: str, kind: type[PellucidError] = PellucidError, code: int = 2) -> str:
    """The message of the refusal, which must hold these words, fit one line and end with that code."""
    with pytest.raises(kind) as caught:
        action()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message
    assert len(message) <= 230
    assert caught.value.exit_code == code
    return message


def test_a_run_is_made_whole_and_read_back(run, tmp_path):
    assert run.path == Path("runs/x")
    assert read_record(run.path) == RECORD == run.record
    assert stat.S_IMODE(os.stat("runs/x").st_mode) == 0o700
    assert sorted(os.listdir("runs/x")) == ["checkpoints", "lock", "run.json"]
    assert os.listdir("runs") == ["x"]
    assert json.loads(Path("runs/x/run.json").read_text())["format"] == 2
    # C12: nothing is left in the folder for temporary files, whichever that is.
    assert sorted(os.listdir(tmp_path)) == ["runs"]


def test_a_run_is_found_by_its_name_or_its_path(run):
    assert find_run("x") == Path("runs/x")
    assert find_run("runs/x") == Path("runs/x")
    assert find_run(str(Path("runs/x").absolute())) == Path("runs/x").absolute()
    assert is_run("x")
    assert not is_run("y")
    assert not is_run("")
    assert not is_run("../runs\0")
    RunWriter.create(new_run_path("names-first", "names"), RECORD, 1).close()
    said(lambda: find_run("name-first"), "there is no run called 'name-first'", "Perhaps you meant names-first")
    said(lambda: find_run("zzz"), "There are names-first, x")
    shutil.rmtree("runs")
    said(lambda: find_run("x"), "Make one: pellucid train")


def test_names_that_are_free_and_names_that_are_none(run):
    assert new_run_path("", "names") == Path("runs/names")
    RunWriter.create(Path("runs/names"), RECORD, 1).close()
    Path("runs/names-2").symlink_to("nowhere")
    assert new_run_path("", "names") == Path("runs/names-3")
    assert new_run_path("", "../My data (1)") == Path("runs/My-data-1-")
    assert new_run_path("", "...") == Path("runs/run")
    assert len(new_run_path("", "é" * 50 + "a" * 500).name) == 56
    for name in (".hidden", "a/b", "..", "a b", "é", "x" * 65, "\x1b[2J", "-rf\n"):
        said(lambda name=name: new_run_path(name, "names"), "a run cannot be called")
    assert new_run_path("x" * 64, "names").name == "x" * 64


def test_a_folder_that_holds_another_run(run):
    said(lambda: new_run_path("x", "names"), "runs/x holds a run", "resume='x'")
    run.finish({"reason": "budget"})
    said(lambda: new_run_path("x", "names"), "runs/x holds a finished run", "Choose another name or resume")
    Path("runs/mine").mkdir()
    Path("runs/mine/notes.txt").write_text("kept")
    said(lambda: new_run_path("mine", "names"), "runs/mine exists already and is no run")
    said(lambda: RunWriter.create(Path("runs/mine"), RECORD, 1), "exists already")
    assert Path("runs/mine/notes.txt").read_text() == "kept"


def test_a_refused_run_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said(lambda: RunWriter.create(Path("runs/x"), RECORD, n_bytes=1 << 60), "3 checkpoints need")
    assert os.listdir(tmp_path) == []
    (tmp_path / "runs").mkdir()
    said(lambda: RunWriter.create(Path("runs/x"), RECORD, n_bytes=1 << 60), "3 checkpoints need")
    assert os.listdir(tmp_path) == ["runs"]


def test_a_link_is_no_place_for_a_run(run, tmp_path):
    (tmp_path / "mine").mkdir()
    Path("runs/linked").symlink_to(tmp_path / "mine")
    for action in (lambda: new_run_path("linked", "n"), lambda: RunWriter.create(Path("runs/linked"), RECORD, 1)):
        said(action, "runs/linked is a link")
    assert os.listdir(tmp_path / "mine") == []


def test_what_a_killed_making_left_is_swept(run):
    Path("runs/.tmp-run-abc/checkpoints").mkdir(parents=True)
    Path("runs/.tmp-run-abc/run.json").write_text("{")
    RunWriter.create(Path("runs/y"), RECORD, 1).close()
    assert sorted(os.listdir("runs")) == ["x", "y"]
    Path("runs/y/.tmp-123").write_text("half")
    RunWriter.resume(Path("runs/y")).close()
    assert ".tmp-123" not in os.listdir("runs/y")


HOLD = """
import sys
from pathlib import Path
from pellucid.runs import RunWriter
with RunWriter.resume(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_told_who_trains(run):
    run.close()
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, "runs/x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    said(lambda: RunWriter.resume(Path("runs/x")), f"is being trained by pid {other.pid} on host {os.uname().nodename}")
    assert read_record(Path("runs/x")) == RECORD
    # The kernel frees the lock of a killed process, so there is never a stale one.
    other.kill()
    other.communicate()
    RunWriter.resume(Path("runs/x")).close()


def test_two_makers_of_one_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = (
        "from pathlib import Path; from pellucid.runs import RunWriter\n"
        "with RunWriter.create(Path('runs/x'), {}, 1): import time; time.sleep(0.2)"
    )
    makers = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(4)]
    errors = [maker.communicate()[1] for maker in makers]
    assert sorted(maker.returncode for maker in makers) == [0, 1, 1, 1]
    assert sum(b"runs/x holds a run" in error for error in errors) == 3


def test_logs_are_appended_and_read_back(run):
    assert all(read_log(run.path, log) == [] for log in LOGS)
    run.append("evaluations", Evaluation(0, 3.25, float("inf")))
    run.append("metrics", {"step": 1, "loss": float("nan"), "text": "é\ud800\n"})
    run.flush()
    assert read_log(run.path, "evaluations") == [{"step": 0, "train": 3.25, "dev": "inf", "metric": None}]
    assert read_log(run.path, "metrics") == [{"step": 1, "loss": "nan", "text": "é\ud800\n"}]
    with pytest.raises(ValueError, match="needs a step"):
        run.append("metrics", {"loss": 1.0})
    with pytest.raises(ValueError, match="not one of the logs"):
        run.append("diary", {"step": 1})


def test_a_torn_last_line_is_left_out(run):
    for step in (1, 2, 3):
        run.append("metrics", {"step": step})
    whole = Path("runs/x/metrics.jsonl").read_bytes()
    for size in range(len(whole) + 1):
        Path("runs/x/metrics.jsonl").write_bytes(whole[:size])
        assert [record["step"] for record in read_log(run.path, "metrics")] == [1, 2, 3][: whole[:size].count(b"\n")]
    Path("runs/x/metrics.jsonl").write_bytes(whole.replace(b'"step": 2', b'"step": ?'))
    said(lambda: read_log(run.path, "metrics"), "metrics.jsonl of 'x' is damaged: line 2", "does not need it")


def test_a_run_without_a_checkpoint_starts_its_logs_again(run):
    run.append("metrics", {"step": 1})
    run.append("evaluations", {"step": 0})
    with Path("runs/x/metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "lo')
    run.close()
    with RunWriter.resume(Path("runs/x")) as again:
        again.rewind(0)
        assert read_log(again.path, "metrics") == read_log(again.path, "evaluations") == []
        again.append("metrics", {"step": 1})
        said(lambda: again.rewind(7), "x has no checkpoint of step 7")
    assert read_log(Path("runs/x"), "metrics") == [{"step": 1}]


def test_a_run_that_was_moved_or_copied_goes_on(run, tmp_path):
    run.append("metrics", {"step": 1})
    run.close()
    shutil.copytree("runs/x", tmp_path / "elsewhere" / "copy of x")
    Path("runs/x").rename("runs/renamed")
    for path in (Path("runs/renamed"), tmp_path / "elsewhere" / "copy of x"):
        with RunWriter.resume(path) as again:
            assert again.record == RECORD
            assert read_log(path, "metrics") == [{"step": 1}]
        for file in path.iterdir():
            assert file.is_dir() or str(tmp_path) not in file.read_text()


def test_hostile_clocks_decide_nothing(run, monkeypatch):
    run.close()
    for now in (0.0, -1e9, 1e11, float("nan"), float("inf")):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        with RunWriter.resume(Path("runs/x")) as again:
            again.append("metrics", {"step": 1})
            again.rewind(0)
        os.utime("runs/x/run.json", (0, 0))
    assert read_record(Path("runs/x")) == RECORD


def test_a_newer_format(run):
    path = Path("runs/x/run.json")
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "format": 3, "new": True}))
    said(lambda: read_record(run.path), "format 3 was made by a newer pellucid", "Install that version")
    for version in (0, -1, 1, True, "1", None, 1.0):
        path.write_text(json.dumps({**content, "format": version}))
        said(lambda: read_record(run.path), "not what was written")


def test_every_changed_byte_of_a_record_is_found(run):
    path = Path("runs/x/run.json")
    whole = path.read_bytes()
    assert parse_checksummed(whole, path) == RECORD
    for at in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            with pytest.raises(PellucidError):
                parse_checksummed(bytes(damaged), path)
        with pytest.raises(Damaged):
            parse_checksummed(whole[:at], path)
    for extra in (b" ", b"\n", b"{}"):
        with pytest.raises(Damaged):
            parse_checksummed(whole + extra, path)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b'{"format": NaN}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe",
        b"9" * 9000,
    ],
    ids=["empty", "null", "list", "text", "object", "nan", "deep list", "deep object", "not ascii", "digits"],
)
def test_a_record_that_is_none(run, text):
    Path("runs/x/run.json").write_bytes(text)
    said(lambda: read_record(run.path), "run.json")
    said(lambda: RunWriter.resume(run.path))


def test_a_record_that_is_a_pipe_a_link_or_gone(run, tmp_path):
    path = Path("runs/x/run.json")
    content = path.read_bytes()
    path.unlink()
    said(lambda: read_record(run.path), "cannot be read: No such file")
    os.mkfifo(path)
    said(lambda: read_record(run.path), "not a regular file")
    path.unlink()
    (tmp_path / "real.json").write_bytes(content)
    path.symlink_to(tmp_path / "real.json")
    said(lambda: read_record(run.path), "cannot be read")
    assert not is_run("x")


def test_a_duplicate_key_is_seen():
    whole = checksummed_json({"seed": 1})
    with pytest.raises(Damaged):
        parse_checksummed(whole.replace(b'"seed": 1', b'"seed": 2,\n "seed": 1'), Path("run.json"))


def test_whole_files(run, tmp_path):
    run.write("report.html", "<p>é\ud800")
    assert Path("runs/x/report.html").read_text() == "<p>é\\ud800"
    run.write("report.html", b"\xff")
    assert Path("runs/x/report.html").read_bytes() == b"\xff"
    before = os.umask(0o027)
    try:
        run.write("vocabulary.json", "{}")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("runs/x/vocabulary.json").st_mode) == 0o640
    for name in ("run.json", "lock", "metrics.jsonl", "../x", ".hidden", "a/b", ""):
        with pytest.raises(ValueError, match="not a name"):
            run.write(name, "")
    # What stands there instead of a file is replaced, never followed.
    (tmp_path / "mine").write_text("kept")
    Path("runs/x/samples.txt").symlink_to(tmp_path / "mine")
    run.write("samples.txt", "new")
    assert (tmp_path / "mine").read_text() == "kept"


def test_a_log_that_is_a_link_is_not_followed(run, tmp_path):
    (tmp_path / "mine").write_text("kept")
    Path("runs/x/metrics.jsonl").symlink_to(tmp_path / "mine")
    said(lambda: run.append("metrics", {"step": 1}), "metrics.jsonl could not be opened", kind=NotWritten, code=3)
    said(lambda: read_log(run.path, "metrics"), "cannot be read")
    assert (tmp_path / "mine").read_text() == "kept"


def test_a_finished_run_says_so(run):
    assert not is_finished(run.path)
    run.finish({"reason": "plateau", "step": 3, "loss": float("nan")})
    assert is_finished(run.path)
    assert read_ending(run.path)["ending"] == {"reason": "plateau", "step": 3, "loss": "nan"}


def test_a_linked_run_works_and_linked_checkpoints_do_not(run, tmp_path):
    run.close()
    Path("linked").symlink_to("runs/x")
    assert is_run("linked")
    with RunWriter.resume(find_run("linked")) as again:
        assert again.path == Path("runs/x").absolute()
    Path("runs/x/checkpoints").rename(tmp_path / "checkpoints")
    Path("runs/x/checkpoints").symlink_to(tmp_path / "checkpoints")
    said(lambda: RunWriter.resume(Path("runs/x")), "x has no folder of checkpoints")


def test_few_files_may_be_open(run):
    run.close()
    code = (
        "import resource; from pathlib import Path; from pellucid.runs import *\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n"
        "with RunWriter.resume(Path('runs/x')) as run:\n"
        "    for step in range(20):\n"
        "        for log in LOGS: run.append(log, {'step': step})\n"
        "        run.flush(); run.write('report.html', 'a')\n"
        "    print(sum(len(read_log(run.path, log)) for log in LOGS))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == f"{20 * len(LOGS)}\n"


def test_the_current_folder_is_gone(tmp_path):
    code = (
        "import os; from pellucid.runs import *; from pellucid.errors import PellucidError\n"
        "os.rmdir(os.getcwd())\n"
        "try: RunWriter.create(new_run_path('x', ''), {}, 1)\n"
        "except PellucidError as error: print(error)"
    )
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, cwd=tmp_path / "gone"
    )
    assert done.stdout.startswith("a run cannot be made in 'runs': No such file or directory.")


def test_neither_torch_nor_numpy_is_loaded():
    code = "import sys, pellucid.runs; print([n for n in ('torch', 'numpy', 'polars', 'rich') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "[]\n"
