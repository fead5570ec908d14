"""Nothing damaged is believed: the checks on every line of a log, and the seal of a finished run."""

import json
import random
import shutil
from pathlib import Path

import pytest

from pellucid.errors import PellucidError
from pellucid.runs import Damaged, Run, RunWriter, follow_log, read_log, read_record, read_seal
from pellucid.runs.disk import checksummed_json

RECORD = {"seed": 1, "data": {"source": "names"}}


@pytest.fixture
def run(tmp_path):
    """A run with three lines in one log and one in another."""
    with RunWriter.create(tmp_path / "x", RECORD, n_bytes=1000) as writer:
        for step in (1, 2, 3):
            writer.append("metrics", {"step": step, "loss": 1 / step})
        writer.append("timings", {"step": 3})
        writer.write("vocabulary.json", "[1, 2]")
        yield writer


def finish(run: RunWriter) -> Path:
    run.finish({"reason": "budget"})
    run.close()
    return run.path


def opened(path: Path) -> Run:
    """The run, whose record is too short to be sound."""
    return Run(path, read_record(path))


def test_every_damage_to_a_line_of_a_running_run_is_found(run):
    path = run.path / "metrics.jsonl"
    whole = path.read_bytes()
    for at in range(len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << (at % 8)
        path.write_bytes(damaged)
        with pytest.raises(Damaged, match=r"metrics\.jsonl of 'x' is damaged: line [123]"):
            read_log(run.path, "metrics")


@pytest.mark.parametrize("order", ["213", "132", "13", "23", "1123", "1223", "321"])
def test_lines_that_were_moved_lost_or_doubled_are_found(run, order):
    path = run.path / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[int(place) - 1] for place in order))
    with pytest.raises(Damaged, match="is not what was written"):
        read_log(run.path, "metrics")


def test_a_log_in_the_place_of_another_is_found(run):
    shutil.copy(run.path / "timings.jsonl", run.path / "metrics.jsonl")
    with pytest.raises(Damaged, match="line 1"):
        read_log(run.path, "metrics")


def test_a_line_is_json_as_any_other(run):
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], len(line.pop("check"))) for line in lines] == [(1, 16), (2, 16), (3, 16)]
    assert lines == read_log(run.path, "metrics")


def test_a_log_is_followed_while_it_is_written(run):
    first = follow_log(run.path, "metrics")
    assert [record["step"] for record in first.records] == [1, 2, 3]
    assert (first.end.n_lines, first.n_torn, first.is_from_start, first.damage) == (3, 0, True, "")
    assert follow_log(run.path, "metrics", first.end).records == []
    run.append("metrics", {"step": 4})
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 5, ')
    second = follow_log(run.path, "metrics", first.end)
    assert (second.records, second.n_torn, second.is_from_start) == ([{"step": 4}], 12, False)
    assert second.end.n_lines == 4
    # What was taken back by a run that goes on comes from the start again.
    run.rewind(0)
    run.append("metrics", {"step": 1, "loss": 9.0})
    third = follow_log(run.path, "metrics", second.end)
    assert (third.records, third.is_from_start) == ([{"step": 1, "loss": 9.0}], True)
    for step in range(2, 9):
        run.append("metrics", {"step": step})
    fourth = follow_log(run.path, "metrics", second.end)
    assert (len(fourth.records), fourth.is_from_start) == (8, True)


def test_a_run_that_is_not_there_yet_has_no_lines(tmp_path):
    assert read_log(tmp_path / "soon", "metrics") == follow_log(tmp_path / "soon", "metrics").records == []


def test_what_is_before_a_damage_is_told(run):
    path = run.path / "metrics.jsonl"
    known = follow_log(run.path, "metrics")
    path.write_bytes(path.read_bytes().replace(b'"step": 2', b'"step": 7'))
    part = follow_log(run.path, "metrics")
    assert ([record["step"] for record in part.records], part.damage) == ([1], "line 2 is not what was written")
    assert follow_log(run.path, "metrics", known.end).records == []  # it ends there with the same check: nothing is new


def test_a_finished_run_is_sealed_file_by_file(run):
    path = finish(run)
    seal = read_seal(path)
    assert seal is not None
    assert sorted(seal.files) == ["metrics.jsonl", "run.json", "timings.jsonl", "vocabulary.json"]
    draw = random.Random(1)
    for name in ("metrics.jsonl", "timings.jsonl"):
        whole = (path / name).read_bytes()
        for _ in range(60):
            at, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
            (path / name).write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            with pytest.raises(Damaged, match=f"{name} of 'x' is damaged"):
                read_log(path, name.removesuffix(".jsonl"))
        for cut in range(len(whole)):
            (path / name).write_bytes(whole[:cut])
            with pytest.raises(Damaged, match=f"{name} of 'x' is damaged"):
                read_log(path, name.removesuffix(".jsonl"))
        (path / name).unlink()
        with pytest.raises(Damaged, match=f"{name} of 'x' is damaged: it is missing"):
            read_log(path, name.removesuffix(".jsonl"))
    (path / "health.jsonl").write_bytes(b"")
    with pytest.raises(Damaged, match="finished without such a file"):
        read_log(path, "health")


def test_a_limit_far_above_the_file_takes_no_memory(run):
    assert opened(finish(run)).read_file("vocabulary.json", most=1 << 50) == b"[1, 2]"


def test_a_refusal_says_what_can_still_be_done(run):
    path = finish(run)
    found = opened(path)
    (path / "vocabulary.json").write_text("[1, 3]")
    with pytest.raises(Damaged) as caught:
        found.read_json("vocabulary.json")
    assert str(caught.value) == (
        "vocabulary.json of 'x' is damaged: its content is not what was written. "
        "Take it from a copy; pellucid train --resume x still shows the report of a finished run."
    )
    (path / "vocabulary.json").unlink()
    with pytest.raises(Damaged, match="it is missing"):
        found.read_json("vocabulary.json")
    (path / "finished.json").write_bytes((path / "finished.json").read_bytes()[:-2])
    with pytest.raises(Damaged, match="or remove it: with pellucid train --resume x"):
        read_log(path, "metrics")


def test_the_seal_itself_cannot_be_bent(run):
    path = finish(run)
    whole = (path / "finished.json").read_bytes()
    for at in range(len(whole)):
        (path / "finished.json").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(PellucidError):
            read_seal(path)
    for files in (3, [], {"a": 1}, {"a": {"bytes": "x", "sha256": "y"}}, {"a": {"bytes": 1}}):
        (path / "finished.json").write_bytes(checksummed_json({"ending": {}, "files": files}))
        with pytest.raises(Damaged, match="files is not a size and a SHA-256"):
            read_seal(path)


def as_format_1(path: Path) -> None:
    """Make a run what a pellucid before seals would have left."""
    from pellucid.runs import disk

    record = read_record(path)
    (path / "run.json").write_bytes(disk._with_checksum({"format": 1, **record}))
    for log in path.glob("*.jsonl"):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        log.write_text("".join(json.dumps({k: v for k, v in one.items() if k != "check"}) + "\n" for one in lines))


def test_a_run_from_before_seals_is_read_and_gone_on_with(run):
    run.close()
    as_format_1(run.path)
    assert [record["step"] for record in read_log(run.path, "metrics")] == [1, 2, 3]
    with RunWriter.resume(run.path) as again:
        again.append("metrics", {"step": 4})
        assert "check" not in (run.path / "metrics.jsonl").read_text()
        assert [record["step"] for record in read_log(run.path, "metrics")] == [1, 2, 3, 4]
        part = follow_log(run.path, "metrics")
        again.append("metrics", {"step": 5})
        assert follow_log(run.path, "metrics", part.end).records == [{"step": 5}]
        again.finish({})
    # It is finished by this pellucid, and so it is sealed.
    text = (run.path / "metrics.jsonl").read_text()
    (run.path / "metrics.jsonl").write_text(text.replace('"step": 2', '"step": 7'))
    with pytest.raises(Damaged, match="its content is not what was written"):
        read_log(run.path, "metrics")
