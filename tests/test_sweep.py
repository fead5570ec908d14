"""Successive halving: who goes on, for how long, and what comes of it."""

import json

import pytest
from trust.kills import write_data

from pellucid.api.sweep import search_folder, sweep, sweep_of
from pellucid.cli.sweep import read_over
from pellucid.errors import PellucidError
from pellucid.figures.show import record_text
from pellucid.runs import open_run
from pellucid.training.sweep import combinations, n_rounds, steps_of_rounds
from pellucid.training.workers import WorkerOptions

ONE = WorkerOptions(workers=1)


def test_a_search_keeps_the_better_half_and_makes_a_run_of_the_best(tmp_path, monkeypatch):
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    told = []
    found = sweep(
        "names.txt",
        model="mlp",
        size="tiny",
        start="scratch",
        steps=16,
        threads=1,
        over={"learning_rate": [1e-6, 0.01], "batch_size": [8, 16]},
        workers=ONE,
        name="best",
        on_trial=lambda trial, round_, n, of: told.append((round_, of)),
    ).record
    assert told == [(0, 4)] * 4 + [(1, 2)] * 2
    assert found.steps == (8, 16)
    assert [len(trial.rounds) for trial in found.trials] == [2, 2, 1, 1]
    assert found.best.settings["learning_rate"] == 0.01  # the other one stands still
    kept = sorted(found.trials, key=lambda trial: trial.rounds[0].dev)[:2]
    assert {trial.number for trial in found.trials if len(trial.rounds) > 1} == {trial.number for trial in kept}
    run = open_run("best")
    assert run.is_finished
    assert run.record["asked"]["learning_rate"] == 0.01
    assert found.best_test == run.report().rung.test
    assert sweep_of(run.path) == found
    folder = search_folder(run.path)
    assert (folder / "sweep.svg").read_text().startswith("<svg")
    assert json.loads((folder / "sweep.json").read_text())["n_combinations"] == 4
    words = record_text(found)
    assert "Test was read once" in words
    assert "learning rate 0.01" in words


def test_rounds_double_and_combinations_are_drawn_by_the_seed():
    assert [n_rounds(n) for n in (1, 2, 5, 16)] == [1, 1, 3, 4]
    assert steps_of_rounds(100, 3) == [50, 100]
    over = {"width": [8, 16, 24], "depth": [1, 2, 3]}
    some, n = combinations(over, most=4, seed=1)
    assert (len(some), n) == (4, 9)
    assert some == combinations(over, most=4, seed=1)[0]
    assert len({str(combinations(over, most=4, seed=seed)[0]) for seed in range(20)}) > 10


def test_what_is_searched_over_is_read_by_its_type():
    assert read_over(("lr=1e-3,0.01", "--heads=2,4", "positions=rotary,learned")) == {
        "learning_rate": [0.001, 0.01],
        "n_heads": [2, 4],
        "positions": ["rotary", "learned"],
    }


@pytest.mark.parametrize(
    ("over", "options", "says"),
    [
        ({}, {}, "nothing to search over"),
        ({"learning_rte": [1, 2]}, {}, "learning_rate"),
        ({"steps": [1, 2]}, {}, "nothing to search over"),
        ({"width": [8]}, {}, "1 different values"),
        ({"width": [8, 16]}, {"width": 8}, "searched over too"),
        ({"width": [8, -1]}, {}, "width is -1"),
    ],
)
def test_a_search_that_cannot_be_is_refused_before_anything_is_trained(over, options, says):
    with pytest.raises(PellucidError, match=says):
        sweep("names", over=over, workers=ONE, steps=4, **options)


@pytest.mark.parametrize("word", ["width", "width=", "=3"])
def test_words_that_are_no_setting_are_refused(word):
    with pytest.raises(PellucidError):
        read_over((word,))
