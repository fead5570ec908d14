"""Damaged and crafted run folders, as of trust/tampered.py and trust/crafted.py, in short and on a run that counts."""

import pytest
from trust.crafted import craft_many
from trust.run_folders import make_runs
from trust.tampered import tamper

from pellucid.records import Confusion, Evaluation, Plan, Replan, as_plain, from_plain
from pellucid.records.validity import RULES, Between, OneOf

PLAN = Plan(900, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, 0, "linear", 45, 5, 5, 5, 1, 1)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return folder, make_runs(folder, kinds=("counted",))


def test_no_damage_is_believed(counted):
    folder, runs = counted
    tally, wrong = tamper(runs, 250, 3, 0, 5, folder)
    assert wrong == []
    assert tally["refused"] > 200


def test_no_crafted_folder_crashes(counted):
    folder, runs = counted
    tally, wrong = craft_many(runs, 30, 0, 5, folder)
    assert wrong == []
    assert tally["named"] > 5
    assert tally["70"] == 0


def test_every_rule_names_a_field_of_its_record():
    for kind, rules in RULES.items():
        assert set(rules) <= set(kind._fields), kind


@pytest.mark.parametrize("name", [name for name, rule in RULES[Plan].items() if isinstance(rule, Between)])
def test_a_number_out_of_range_is_named(name):
    with pytest.raises(ValueError, match=rf"Plan\.{name} cannot be -1"):
        from_plain(Plan, {**as_plain(PLAN), name: -1})


@pytest.mark.parametrize("name", [name for name, rule in RULES[Plan].items() if isinstance(rule, OneOf)])
def test_a_name_that_there_is_not_is_named(name):
    with pytest.raises(ValueError, match=rf"Plan\.{name} cannot be 'no'"):
        from_plain(Plan, {**as_plain(PLAN), name: "no"})


@pytest.mark.parametrize(
    ("kind", "plain", "says"),
    [
        (Replan, {"step": 2**70, "steps": 3}, "Replan.step"),
        (Replan, {"step": True, "steps": 3}, "Replan.step"),
        (Replan, {"step": 1}, "Replan.steps is missing"),
        (Evaluation, {"step": 1, "train": 10**400, "dev": 1}, "Evaluation.train"),
        (Evaluation, {"step": 1, "train": "\ud800", "dev": 1}, "Evaluation.train"),
        (Confusion, {"classes": ["a", "\ud800"], "counts": []}, "Confusion.classes"),
        (Confusion, {"classes": ["a", "b"], "counts": [[1, 2]]}, "Confusion.counts"),
        (Confusion, {"classes": ["a"], "counts": [[-1]]}, "Confusion.counts"),
        (Plan, {**as_plain(PLAN), "evaluate_every": 0}, "Plan.evaluate_every"),
    ],
)
def test_what_cannot_be_is_named(kind, plain, says):
    with pytest.raises(ValueError, match=says):
        from_plain(kind, plain)


def test_the_bytes_of_a_file_name_are_no_half_character():
    pair = {"classes": ["\udcff.txt"], "counts": [[1]]}
    assert from_plain(Confusion, pair).classes == ("\udcff.txt",)
