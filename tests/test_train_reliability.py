"""Sections 3e and 3f of the reliability catalogue, and what the data do while a run sleeps, by the command itself."""

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from trust.kills import write_data

from pellucid.cli import main
from pellucid.runs import LOGS, RunWriter, is_finished, read_log
from pellucid.runs.disk import checksummed_json, parse_checksummed
from pellucid.runs.folder import checkpoint_at, checkpoint_steps

SMALL = ["--model", "mlp", "--size", "tiny", "--batch", "16", "--threads", "1", "--seed", "3"]
TRAIN = ["train", "names.txt", *SMALL, "--steps", "40", "--name", "x"]
RESUME = ["train", "--resume", "x"]


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def pellucid_here(capsys, tmp_path, monkeypatch) -> Callable[..., Said]:
    """Runs the command in this process, which has torch already, in a folder with a list and a text."""
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    threads = torch.get_num_threads()

    def run(*words: str) -> Said:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        said = capsys.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)

    yield run
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, pellucid_program) -> Path:
    """A folder with data and the finished run x."""
    folder = tmp_path_factory.mktemp("finished")
    write_data(folder)
    done = subprocess.run([pellucid_program, *TRAIN], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def killed(finished, tmp_path, pellucid_here) -> Path:
    """The run x as it is when its process was killed just before its last checkpoint; it is in the current folder."""
    shutil.copytree(finished / "runs", tmp_path / "runs")
    run = tmp_path / "runs" / "x"
    (run / "finished.json").unlink()
    shutil.rmtree(checkpoint_at(run, 40))
    return run


@pytest.fixture
def killed_from_scratch(tmp_path, pellucid_here) -> Path:
    """The same of a network that does not stand on counts, and so may go on with other data."""
    assert pellucid_here(*TRAIN, "--start", "scratch").code == 0
    run = tmp_path / "runs" / "x"
    (run / "finished.json").unlink()
    shutil.rmtree(checkpoint_at(run, 40))
    return run


def start(folder: Path, words: list[str], **options: object) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    settings: dict[str, object] = {"env": {**os.environ, "COLUMNS": "100"}, "stdin": subprocess.DEVNULL, **options}
    python = settings.pop("python", [sys.executable])
    return subprocess.Popen(
        [*python, "-m", "pellucid", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **settings,
    )


def digests(run: Path, step: int = 40) -> dict[str, str]:
    last = checkpoint_at(run, step)
    files = [run / "model.safetensors", last / "model.safetensors", last / "optimizer.safetensors"]
    files += [run / f"{log}.jsonl" for log in LOGS if log != "timings" and (run / f"{log}.jsonl").exists()]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refused(said: Said, *words: str, code: int = 2) -> None:
    """One line with these words, nothing on stdout, and that code."""
    assert said.code == code, said
    assert said.out == ""
    line = said.err.rstrip("\n")
    assert "\n" not in line, said.err
    assert line.startswith("pellucid: ")
    assert len(line) <= 240
    assert all(word in line for word in words), line


def test_what_was_killed_ends_as_if_nothing_had_been(killed, finished, pellucid_here):
    said = pellucid_here(*RESUME)
    assert said.code == 0, said
    assert "goes on after step 36" in said.out
    assert digests(killed) == digests(finished / "runs" / "x")
    assert is_finished(killed)


def test_what_is_no_number_stops_the_run_before_the_update(pellucid_here, tmp_path):
    words = [
        *TRAIN[:-4],
        *["--steps", "60", "--name", "wild", "--optimizer", "sgd", "--learning-rate", "1000", "--clip", "0"],
    ]
    said = pellucid_here(*words, *["--schedule", "constant", "--norm", "none", "--activation", "relu"])
    last = said.err.strip().splitlines()[-1]
    assert said.code == 3, said
    assert "became" in last
    assert "at step" in last
    assert "--learning-rate" in last
    assert not is_finished(tmp_path / "runs" / "wild")
    steps = [record["step"] for record in read_log(tmp_path / "runs" / "wild", "metrics")]
    assert steps == list(range(1, len(steps) + 1))
    assert all(isinstance(record["loss"], float) for record in read_log(tmp_path / "runs" / "wild", "metrics"))
    # The same batch meets the same weights again, so it ends the same.
    again = pellucid_here("train", "--resume", "wild")
    assert (again.code, again.err.strip().splitlines()[-1]) == (3, last)


@pytest.mark.parametrize(
    "words",
    [
        *(["--learning-rate", rate] for rate in ("0", "-1", "1e9", "nan", "inf")),
        *(["--batch", batch] for batch in ("0", "-1", "x")),
        *(["--steps", steps] for steps in ("0", "-1", "1.5", "99999999999")),
        *(["--minutes", minutes] for minutes in ("0", "-1", "nan", "inf")),
        ["--model", "transformer", "--width", "30", "--heads", "4"],
        ["--model", "transformr"],
        ["--model", "transformer", "--width", "1000000000"],
        ["--dropout", "1"],
        ["--name", "../x"],
        ["--name", ".x"],
        ["--seed", "-1"],
        ["--threads", "0"],
        ["--allow-new-data"],
        ["--steps", "10", "--minutes", "1"],
        ["--data", "names.txt"],
        ["--no-such-option"],
    ],
    ids=" ".join,
)
def test_wishes_that_cannot_be(pellucid_here, tmp_path, words):
    refused(pellucid_here("train", "names.txt", *words))
    assert not (tmp_path / "runs").exists()


def test_a_batch_larger_than_the_data(pellucid_here, tmp_path):
    said = pellucid_here("train", "names.txt", *SMALL, "--batch", "100000", "--steps", "2", "--name", "x")
    assert said.code == 0, said
    record = json.loads((tmp_path / "runs" / "x" / "run.json").read_text())
    n_items = record["data"]["items"]["train"]
    assert record["plan"]["batch_size"] == n_items
    assert f"2 steps of {n_items}" in said.out


def test_too_little_memory(tmp_path):
    write_data(tmp_path)
    limit = 3 << 30
    done = start(
        tmp_path,
        [
            "train",
            "book.txt",
            "--model",
            "transformer",
            "--width",
            "4096",
            "--depth",
            "8",
            "--heads",
            "8",
            "--steps",
            "2",
        ],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    out, err = done.communicate()
    assert done.returncode in (2, 3), out + err
    assert "Traceback" not in err
    assert "memory" in err.splitlines()[-1] or "GB" in err.splitlines()[-1]


def test_a_name_that_is_taken(finished, pellucid_here, tmp_path):
    shutil.copytree(finished / "runs", tmp_path / "runs")
    refused(pellucid_here(*TRAIN), "runs/x holds a finished run", "Choose another --name or --resume")
    assert digests(tmp_path / "runs" / "x") == digests(finished / "runs" / "x")


def test_no_room_for_a_run(pellucid_here, tmp_path):
    (tmp_path / "runs").mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path / "runs"], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        said = pellucid_here(*TRAIN)
        assert (said.code, said.out) == (2, "")
        assert "3 checkpoints need" in said.err.splitlines()[-1]
        assert os.listdir(tmp_path / "runs") == []
    finally:
        subprocess.run(["umount", tmp_path / "runs"], check=True)


def asked_to_stop(folder: Path, number: int) -> Said:
    """Start a long run, wait for some steps, send the signal, and see how it ends."""
    done = start(folder, [*TRAIN, "--steps", "20000"])
    while len(read_log(folder / "runs" / "x", "metrics")) < 30:
        assert done.poll() is None, done.communicate()
        time.sleep(0.01)
    done.send_signal(number)
    out, err = done.communicate(timeout=60)
    return Said(done.returncode, out, err)


@pytest.mark.parametrize(("number", "code", "how"), [(signal.SIGTERM, 143, "SIGTERM"), (signal.SIGINT, 130, "Ctrl-C")])
def test_asked_to_stop(tmp_path, number, code, how):
    write_data(tmp_path)
    said = asked_to_stop(tmp_path, number)
    assert said.code == code, said
    last = said.err.strip().splitlines()[-1]
    assert f"stopped by {how} at step" in last
    assert "pellucid train --resume x" in last
    run = tmp_path / "runs" / "x"
    # The step that was being done is done, in the log and saved.
    steps = [record["step"] for record in read_log(run, "metrics")]
    assert checkpoint_steps(run)[0] == steps[-1]
    RunWriter.resume(run).close()


def test_nobody_reads_the_output(tmp_path, finished):
    write_data(tmp_path)
    done = start(tmp_path, TRAIN)
    assert done.stdout is not None
    assert done.stderr is not None
    done.stdout.readline()
    done.stdout.close()
    err = done.stderr.read()
    done.stderr.close()
    # It goes on to its end; only what it cannot tell anybody there is told by the exit code.
    assert done.wait() in (0, 141), err
    assert "Traceback" not in err
    assert is_finished(tmp_path / "runs" / "x")
    assert digests(tmp_path / "runs" / "x") == digests(finished / "runs" / "x")


def test_a_run_that_is_being_trained(killed, pellucid_here):
    with RunWriter.resume(killed):
        refused(pellucid_here(*RESUME), f"is being trained by pid {os.getpid()} on host")


def test_moved_with_its_data(killed, finished, pellucid_here, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    for name in ("runs", "names.txt"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    assert pellucid_here("train", "--resume", "elsewhere/runs/x").code == 0
    assert digests(tmp_path / "elsewhere" / "runs" / "x") == digests(finished / "runs" / "x")


def test_other_surroundings_give_the_same_bits(tmp_path, finished):
    """Few open files, no home, another locale and time zone, optimized Python, other threads by the environment."""
    write_data(tmp_path)
    surroundings = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        "PYTHONHASHSEED": "77",
        "OMP_NUM_THREADS": "2",
        "TZ": "Asia/Tokyo",
    }
    done = start(
        tmp_path,
        TRAIN,
        python=[sys.executable, "-O"],
        env=surroundings,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)),
    )
    out, err = done.communicate()
    assert done.returncode == 0, out + err
    assert digests(tmp_path / "runs" / "x") == digests(finished / "runs" / "x")


def test_a_damaged_checkpoint_is_passed_over_and_said(killed, finished, pellucid_here):
    newest, before = checkpoint_steps(killed)[:2] if len(checkpoint_steps(killed)) > 1 else (36, 0)
    path = checkpoint_at(killed, newest) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    said = pellucid_here(*RESUME)
    if before:
        assert said.code == 0
        assert f"step {newest} is not used" in said.out
        assert digests(killed) == digests(finished / "runs" / "x")
    else:
        assert said.code == 2
        assert "no checkpoint of x is whole" in said.err


def test_other_symbols(killed_from_scratch, pellucid_here, tmp_path):
    text = (tmp_path / "names.txt").read_text()
    (tmp_path / "names.txt").write_text(text + "zoé\n")
    said = pellucid_here(*RESUME, "--allow-new-data")
    assert said.code == 2
    assert "symbols, the data have" in said.err
    assert "'é'" in said.err or "'z'" in said.err


def test_a_newer_run(killed, pellucid_here):
    content = json.loads((killed / "run.json").read_text())
    (killed / "run.json").write_text(json.dumps({**content, "format": 9}))
    refused(pellucid_here(*RESUME), "format 9 was made by a newer pellucid")


def test_a_run_that_names_another_model(killed, pellucid_here):
    """C2: what a run names is looked up in a closed list, never imported or called."""
    content = parse_checksummed((killed / "run.json").read_bytes(), killed)
    for change in ({"model": "os.system"}, {"config": {**content["config"], "_instantiator": "os.system"}}):
        (killed / "run.json").write_bytes(checksummed_json({**content, **change}))
        said = pellucid_here(*RESUME)
        assert said.code == 2, said
        assert "Traceback" not in said.err


def test_c8_a_run_that_names_a_file_far_away(killed, pellucid_here):
    content = parse_checksummed((killed / "run.json").read_bytes(), killed)
    content["reading"]["source"] = "/etc/passwd"
    (killed / "run.json").write_bytes(checksummed_json(content))
    refused(pellucid_here(*RESUME), "is gone", "--data")


def test_threads_are_part_of_the_run(killed, finished, pellucid_here):
    torch.set_num_threads(2)
    said = pellucid_here(*RESUME)
    assert said.code == 0
    assert torch.get_num_threads() == 1
    assert digests(killed) == digests(finished / "runs" / "x")


def test_other_threads_come_with_a_note(killed, pellucid_here):
    said = pellucid_here(*RESUME, "--threads", "2")
    assert said.code == 0
    assert "2 threads in place of 1" in said.out


def test_a_finished_run(finished, pellucid_here, tmp_path):
    shutil.copytree(finished / "runs", tmp_path / "runs")
    said = pellucid_here(*RESUME)
    assert said.code == 0
    assert "x is finished, so there is nothing to do" in said.out
    assert said.err == ""
    refused(pellucid_here(*RESUME, "--steps", "20"), "--steps")
    refused(pellucid_here(*RESUME, "--steps", "80"), "--steps")


def test_an_optimizer_that_is_gone_or_another(killed, finished, pellucid_here):
    for step in checkpoint_steps(killed):
        (checkpoint_at(killed, step) / "optimizer.safetensors").rename(killed / f"aside-{step}")
    said = pellucid_here(*RESUME)
    assert said.code == 2
    assert "optimizer.safetensors is missing" in said.err
    from pellucid.training.tensor_files import to_safetensors

    content = to_safetensors({"momentum.of.another": torch.ones(3)})
    for step in checkpoint_steps(killed):
        folder = checkpoint_at(killed, step)
        state = parse_checksummed((folder / "state.json").read_bytes(), folder)
        state["files"]["optimizer.safetensors"] = {
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        (folder / "optimizer.safetensors").write_bytes(content)
        (folder / "state.json").write_bytes(checksummed_json(state))
    said = pellucid_here(*RESUME)
    assert said.code == 2, said
    assert "optimizer" in said.err
    said = pellucid_here(*RESUME, "--fresh-optimizer")
    assert said.code == 0, said
    assert digests(killed) != digests(finished / "runs" / "x")


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["--batch-size", "64"], "--batch-size"),
        (["--rate", "1", "--model", "gru"], "--learning-rate"),
        (["--seed", "4"], "--seed"),
    ],
)
def test_changed_flags(killed, pellucid_here, words, listed):
    refused(pellucid_here(*RESUME, *words), listed, "cannot change")


def test_data_that_changed_or_went(killed, finished, pellucid_here, tmp_path):
    data = tmp_path / "names.txt"
    text = data.read_text()
    data.rename(tmp_path / "moved.txt")
    said = pellucid_here(*RESUME)
    refused(said, "the data file of x is gone; it had sha256", "--data")
    data.write_text(text.replace(text.splitlines()[0] + "\n", "", 1))
    said = pellucid_here(*RESUME)
    refused(said, "is not what x was trained on", "--allow-new-data")
    assert pellucid_here(*RESUME, "--data", "moved.txt").code == 0
    assert digests(killed) == digests(finished / "runs" / "x")


def test_new_data_that_are_allowed_are_noted(killed_from_scratch, pellucid_here, tmp_path):
    data = tmp_path / "names.txt"
    data.write_text("\n".join(data.read_text().splitlines()[1:]) + "\n")
    said = pellucid_here(*RESUME, "--allow-new-data")
    assert said.code == 0, said
    assert "note: new data" in said.out
    assert read_log(killed_from_scratch, "findings")[0]["where"] == "data"


def test_other_data_are_not_counted(killed, pellucid_here, tmp_path):
    """Its counts are of its own data, and without them the network would stand on nothing."""
    data = tmp_path / "names.txt"
    data.write_text("\n".join(data.read_text().splitlines()[1:]) + "\n")
    refused(pellucid_here(*RESUME, "--allow-new-data"), "x started from counting its own data")


def test_a_run_that_does_not_exist(pellucid_here):
    refused(pellucid_here("train", "--resume", "nothing"), "there is no run called 'nothing'")
