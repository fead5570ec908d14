"""Whole runs, in this process: what they leave, what they say, and that they can be stopped anywhere."""

import dataclasses
import hashlib
import json
import math
import shutil
from pathlib import Path

import pytest

from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError, Stopped
from pellucid.figures.report_page import report_html
from pellucid.figures.words.ladder import earned_words
from pellucid.figures.words.training import headline_words
from pellucid.records import Replan, Resumption, Step, Timing, as_plain
from pellucid.runs import Run, open_run
from pellucid.training import trainer
from pellucid.training.callbacks import Callbacks
from pellucid.training.options import TrainOptions
from pellucid.training.run import ResumeOptions, resume_run, train_run

WISHES = TrainOptions(model="mlp", steps=24, size="tiny", seed=3, threads=1)
LOGS = ("metrics", "evaluations", "health", "samples", "findings")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """A list that is small enough to learn from in a moment."""
    from pellucid.data import open_data

    path = tmp_path_factory.mktemp("data") / "few.txt"
    path.write_text("\n".join(open_data("names").items[::40]) + "\n")
    return DataOptions(str(path), kind="list")


@pytest.fixture(scope="module")
def whole(names, tmp_path_factory):
    """A run that was never stopped."""
    place = tmp_path_factory.mktemp("whole") / "whole"
    train_run(names, WISHES, place, Callbacks(page=report_html))
    return place


def fingerprint(run: Path) -> dict[str, str]:
    """The SHA-256 of everything that must not depend on when and how often a run was stopped."""
    last = max((run / "checkpoints").glob("step-*"))
    files = [run / f"{log}.jsonl" for log in LOGS]
    files += [run / "model.safetensors", last / "model.safetensors", last / "optimizer.safetensors"]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists()}


class StopAt(Callbacks):
    """Asks to stop after a step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def on_step(self, step: Step, timing: Timing) -> None:
        if step.step == self.step:
            import signal

            self.stop.ask(signal.SIGTERM)


def test_a_run_is_a_folder_that_anyone_can_read(whole):
    record = json.loads((whole / "run.json").read_text())
    assert (record["model"], record["seed"], record["plan"]["steps"]) == ("mlp", 3, 24)
    steps = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [step["step"] for step in steps] == list(range(1, 25))
    assert all(math.isfinite(step["loss"]) for step in steps)
    assert (whole / "report.html").read_text().startswith("<!doctype html>")
    assert str(whole) not in (whole / "run.json").read_text()


def test_what_is_read_back_is_what_was_said(names, tmp_path):
    said = train_run(names, WISHES, tmp_path / "run", Callbacks(page=report_html))
    assert as_plain(open_run(tmp_path / "run").report()) == as_plain(said)  # where nan is a word, and equals itself
    network = next(rung for rung in said.ladder.rungs if not rung.is_counted)
    assert [gain.side for gain in network.gains] == ["dev", "test"]
    is_earned = all(gain.verdict == "ahead" for gain in network.gains)
    assert earned_words(said.ladder).startswith("The mlp on counting earns" if is_earned else "No gain of the mlp")
    assert {rung.name for rung in said.ladder.rungs} >= {"uniform", "unigram", "bigram", "mlp on counting"}
    assert said.start.is_as_expected
    assert said.evaluations[0].step == 0
    assert len(said.samples) == 10
    assert said.health[0].step == 1
    assert said.ending.reason == "budget"


def test_looks_of_the_same_process_are_not_read_again(names, tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "health", property(lambda run: pytest.fail("read from the log")))
    options = TrainOptions(model="transformer", steps=3, size="tiny", threads=1)
    said = train_run(names, options, tmp_path / "own", Callbacks())
    monkeypatch.undo()
    assert len(said.health) >= 2
    assert as_plain(open_run(tmp_path / "own").health) == as_plain(said.health)


def test_the_same_seed_gives_the_same_bits(whole, names, tmp_path):
    train_run(names, WISHES, tmp_path / "again", Callbacks(page=report_html))
    assert fingerprint(tmp_path / "again") == fingerprint(whole)


def test_stopped_after_any_step_it_ends_the_same(whole, names, tmp_path):
    wanted = fingerprint(whole)
    # In the middle, where something is evaluated, sampled, saved or looked at, and next to the ends.
    for step in (1, 11, 12, 23):
        run = tmp_path / f"at-{step}"
        with pytest.raises(Stopped, match=rf"stopped by SIGTERM at step {step}\. Go on with pellucid train --resume"):
            train_run(names, WISHES, run, StopAt(step))
        resume_run(run, ResumeOptions(), Callbacks())
        assert fingerprint(run) == wanted, step
        assert open_run(run).report().forecast == open_run(whole).report().forecast


@pytest.fixture(scope="module")
def late(names, tmp_path_factory):
    """A run with a clock, on a machine that is twice as slow as was planned; and what it reported."""
    place = tmp_path_factory.mktemp("late") / "late"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            trainer,
            "follow_clock",
            lambda plan, timings: Replan(timings[-1].step, 16) if plan.steps == 24 and timings[-1].step >= 10 else None,
        )
        return place, train_run(names, WISHES, place, Callbacks(page=report_html))


def test_a_run_that_followed_the_clock_is_made_again_by_its_command(late, names, tmp_path):
    place, report = late
    assert (report.ending.step, report.plan.replans[0].steps) == (16, 24)
    assert report.command[-2:] == ("--replan", "10:16")
    assert "It made 16 steps (24 were planned, and changed on the way to end in time)" in headline_words(report)
    asked = dataclasses.replace(WISHES, replan=report.command[-1])
    again = train_run(names, asked, tmp_path / "again", Callbacks(page=report_html))
    assert fingerprint(tmp_path / "again") == fingerprint(place)
    assert again.command == report.command


@pytest.mark.parametrize("step", [4, 10, 12])
def test_it_goes_on_after_a_stop_as_it_would_have(late, names, tmp_path, step):
    """Before, at and after the step at which its plan was changed."""
    with pytest.raises(Stopped):
        train_run(names, dataclasses.replace(WISHES, replan="10:16"), tmp_path / "run", StopAt(step))
    resume_run(tmp_path / "run", ResumeOptions(), Callbacks(page=report_html))
    assert fingerprint(tmp_path / "run") == fingerprint(late[0])


@pytest.fixture(scope="module")
def grown(names, tmp_path_factory):
    """A run whose plan grew once because dev was falling; and what it reported."""
    place = tmp_path_factory.mktemp("grown") / "grown"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            trainer,
            "extend_plan",
            lambda plan, evaluations, timings: Replan(16, 48, "dev") if timings[-1].step == 16 else None,
        )
        return place, train_run(names, WISHES, place, Callbacks(page=report_html))


def test_a_run_that_grew_is_made_again_by_its_command(grown, names, tmp_path):
    place, report = grown
    assert (report.ending.step, report.plan.replans[0].steps) == (48, 24)
    assert report.command[-2:] == ("--replan", "16:48:dev")
    assert "(24 were planned, and more after step 16, where dev was still falling)" in headline_words(report)
    # From there on it is evaluated half as often, and at the end.
    assert [one.step for one in report.evaluations] == [*range(0, 16, 2), *range(16, 49, 4)]
    asked = dataclasses.replace(WISHES, replan=report.command[-1])
    again = train_run(names, asked, tmp_path / "again", Callbacks(page=report_html))
    assert fingerprint(tmp_path / "again") == fingerprint(place)
    assert again.command == report.command
    assert (tmp_path / "again" / "replans.jsonl").read_bytes() == (place / "replans.jsonl").read_bytes()


@pytest.mark.parametrize("step", [4, 16, 33])
def test_a_run_that_grows_goes_on_after_a_stop_as_it_would_have(grown, names, tmp_path, step):
    """Before, at and after the step at which its plan grew."""
    with pytest.raises(Stopped):
        train_run(names, dataclasses.replace(WISHES, replan="16:48:dev"), tmp_path / "run", StopAt(step))
    resume_run(tmp_path / "run", ResumeOptions(), Callbacks(page=report_html))
    assert fingerprint(tmp_path / "run") == fingerprint(grown[0])


def test_a_finished_run_is_only_read(whole):
    before = fingerprint(whole)
    read = resume_run(whole, ResumeOptions(), Callbacks(page=report_html))
    assert as_plain(read) == as_plain(open_run(whole).report())
    assert fingerprint(whole) == before


def stop_at_nine(source: str, folder: Path, options: TrainOptions) -> Path:
    """A run that was stopped, with data of its own."""
    shutil.copy(source, folder / "own.txt")
    with pytest.raises(Stopped):
        train_run(DataOptions(str(folder / "own.txt"), kind="list"), options, folder / "runs" / "own", StopAt(9))
    return folder / "runs" / "own"


@pytest.fixture
def stopped(names, tmp_path):
    return stop_at_nine(names.source, tmp_path, WISHES)


@pytest.fixture
def stopped_from_scratch(names, tmp_path):
    return stop_at_nine(names.source, tmp_path, dataclasses.replace(WISHES, start="scratch"))


def going_on(run: Path, **changes: object) -> None:
    resume_run(run, ResumeOptions(**changes), Callbacks(page=report_html))


def test_data_that_are_gone_are_asked_for(stopped, tmp_path, whole):
    (tmp_path / "own.txt").rename(tmp_path / "elsewhere.txt")
    with pytest.raises(PellucidError, match=r"the data file of own is gone; it had sha256 .*Pass it with data='FILE'"):
        going_on(stopped)
    going_on(stopped, data=str(tmp_path / "elsewhere.txt"))
    assert fingerprint(stopped) == fingerprint(whole)


def test_other_data_are_refused_unless_allowed(stopped_from_scratch, tmp_path):
    stopped = stopped_from_scratch
    with (tmp_path / "own.txt").open("a") as file:
        file.write("annabella\n")
    with pytest.raises(PellucidError, match=r"is not what own was trained on.*add allow_new_data"):
        going_on(stopped)
    going_on(stopped, is_new_data_allowed=True)
    notes = (stopped / "findings.jsonl").read_text()
    assert "new data from step 10 on" in notes


def test_a_run_that_counted_its_data_goes_on_with_no_others(stopped, tmp_path):
    with (tmp_path / "own.txt").open("a") as file:
        file.write("annabella\n")
    with pytest.raises(PellucidError, match=r"own started from counting its own data, and cannot go on with others\."):
        going_on(stopped, is_new_data_allowed=True)


def test_data_with_other_symbols_never_fit(stopped_from_scratch, tmp_path):
    stopped = stopped_from_scratch
    with (tmp_path / "own.txt").open("a") as file:
        file.write("zoé\n")
    with pytest.raises(PellucidError, match=r"the checkpoint has 27 symbols, the data have 28 \(first new: 'é'\)"):
        going_on(stopped, is_new_data_allowed=True)


def test_a_run_can_be_moved_with_its_data_beside_it(stopped, tmp_path, whole):
    (tmp_path / "far").mkdir()
    shutil.move(stopped, tmp_path / "far" / "renamed")
    going_on(tmp_path / "far" / "renamed")
    assert fingerprint(tmp_path / "far" / "renamed") == fingerprint(whole)


def test_other_threads_are_told(stopped):
    heard: list[Resumption] = []

    class Ear(Callbacks):
        def on_resume(self, resumption: Resumption) -> None:
            heard.append(resumption)

    resume_run(stopped, ResumeOptions(threads=2), Ear())
    assert heard == [Resumption(heard[0].step, threads=(1, 2))]


def test_a_text_works_as_well(tmp_path):
    (tmp_path / "song.txt").write_text("row, row, row your boat, gently down the stream. " * 60)
    wishes = TrainOptions(steps=8, size="tiny", threads=1)
    data = DataOptions(str(tmp_path / "song.txt"), kind="text", context=16)
    report = train_run(data, wishes, tmp_path / "song", Callbacks(page=report_html))
    assert report.data.kind == "text"
    assert report.plan.context == 16
    assert len(report.samples) == 1
    network = next(rung for rung in report.ladder.rungs if not rung.is_counted)
    assert network.bits_per_character == pytest.approx(network.dev / math.log(2))


def test_the_report_says_how_to_make_it_again(pellucid, tmp_path, whole, names):
    wishes = TrainOptions(model="mlp", steps=4, size="tiny", network={"hidden": 24}, batch_size=16, learning_rate=0.02)
    data = DataOptions(names.source, kind="list")
    report = train_run(data, wishes, tmp_path / "first", Callbacks())
    shutil.copy(names.source, tmp_path)
    program, *words = report.command
    assert program == "pellucid"
    assert pellucid(*words, "--name", "again", cwd=tmp_path).returncode == 0
    first, again = (tmp_path / run / "model.safetensors" for run in ("first", "runs/again"))
    assert first.read_bytes() == again.read_bytes()
