"""Columns that give the target away are found; columns that only help are not."""

import numpy as np
import polars as pl
import pytest

from pellucid.data.options import DataOptions
from pellucid.data.splits import SplitRequest
from pellucid.data.splits.leaks import avoided_errors, find_leaks
from pellucid.data.splits.split import split_data
from pellucid.errors import PellucidError
from pellucid.figures.words.notes import note_sentences
from pellucid.figures.words.splitting import verdict_sentences
from pellucid.figures.words.training import data_notes
from pellucid.training.tasks import open_task

N = 400


def patients(seed: int = 0) -> pl.DataFrame:
    """Who died, and columns that tell it in every way, beside two that only help."""
    draw = np.random.default_rng(seed)
    died = draw.random(N) < 0.3
    age = draw.normal(60, 8, N) + 12 * died
    day = np.where(died, draw.integers(1, 300, N), -1)
    return pl.DataFrame(
        {
            "number": draw.permutation(N) + 1,
            "age": age.round(1),
            "ward": draw.choice(["a", "b", "c"], N),
            "died_on_day": [int(one) if one > 0 else None for one in day],
            "code": np.where(died, draw.integers(5, 9, N), draw.integers(1, 5, N)),
            "score": (draw.random(N) + np.where(died, 2.0, 0.0)).round(6),
            "died": np.where(died, "yes", "no"),
        }
    )


def test_codes_scores_and_what_is_known_only_after_are_found():
    frame = patients()
    names = [name for name in frame.columns if name != "died"]
    found = {leak.column: leak.kind for leak in find_leaks(frame, names, "died", is_class=True)}
    assert found == {"died_on_day": "missing", "code": "foretells", "score": "foretells"}


def test_columns_that_only_help_are_not_called_leaks():
    """Also where the file is sorted by the target, so that equal values stand in its order: 40 seeds, none."""
    for seed in range(40):
        frame = patients(seed).sort("died")
        assert not find_leaks(frame, ["number", "age", "ward"], "died", is_class=True)


def test_numbers_are_given_away_by_a_curve_and_by_names():
    draw = np.random.default_rng(0)
    x = draw.normal(size=N)
    who = draw.integers(0, 40, N)
    frame = pl.DataFrame(
        {
            "curve": np.exp(3 * x),
            "noisy": x + 0.3 * draw.normal(size=N),
            "name": [f"n{one}" for one in who],
            "x": x,
            "by_name": draw.normal(size=40)[who],
        }
    )
    assert {one.column for one in find_leaks(frame, ["curve", "noisy", "name"], "x", is_class=False)} == {"curve"}
    assert {one.column for one in find_leaks(frame, ["curve", "noisy", "name"], "by_name", is_class=False)} == {"name"}


def test_each_row_is_left_out_once():
    """Against a loop that asks the other rows of a value for their commonest class."""
    draw = np.random.default_rng(0)
    codes, target = draw.integers(0, 12, 120), draw.integers(0, 3, 120)
    errors = 0
    for row in range(120):
        others = [target[one] for one in range(120) if one != row and codes[one] == codes[row]]
        counts = np.bincount(others, minlength=3)
        wins = counts[target[row]] == counts.max() and (counts == counts.max()).sum() == 1
        errors += not wins
    usual = 120 - np.bincount(target).max()
    assert avoided_errors(codes, target) <= 1 - errors / usual + 1e-12  # ours asks for one row more, and never for less


def test_train_tells_leaks_and_leaves_out_what_it_is_told(tmp_path):
    path = tmp_path / "patients.csv"
    patients().write_csv(path)
    task = open_task(DataOptions(str(path), target="died"))
    said = data_notes(task.facts)
    assert said[0].startswith("died_on_day gives the target away: that it is missing avoids 100 % of the errors")
    assert said[1].startswith("code gives the target away")
    assert "number has another whole number in every row, as identifiers have, and was left out" in note_sentences(
        task.facts.notes
    )
    without = open_task(DataOptions(str(path), target="died", leave_out="died_on_day,code,score"))
    assert not without.facts.leaks
    assert without.sides.preparation.features == ("age", "ward")
    assert "left out as asked: died_on_day, code, score" in note_sentences(without.facts.notes)
    with pytest.raises(PellucidError, match="Perhaps you meant 'score'"):
        open_task(DataOptions(str(path), target="died", leave_out="scor"))


def test_split_tells_leaks_of_its_target(tmp_path):
    path = tmp_path / "patients.csv"
    patients().write_csv(path)
    from pellucid.data import open_data

    report = split_data(open_data(path), SplitRequest(target="died", repeats=0)).report
    assert "code gives the target away: alone it foretells 100 %" in " ".join(verdict_sentences(report))
