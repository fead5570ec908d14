"""The journey: every step is a command that exists, in the order that is promised, and what it says comes true."""

import json

import pytest
from tests.at_length import AT_LENGTH

from pellucid.api.learn import JOURNEY, LearnStep, all_steps, find_step, next_step
from pellucid.cli import COMMANDS, pellucid
from pellucid.data.sets import is_dataset
from pellucid.errors import PellucidError

QUICK = ("differences", "graph", "engine", "tokens", "emma", "temperature", "masks", "dice")


def test_the_way_leads_from_a_derivative_to_a_vision_transformer():
    names = list(all_steps())
    wanted = [
        *("derivative", "graph", "engine", "counting", "neural-ngram", "mlp", "initialisation", "batch-norm"),
        *("attention", "transformer", "vit", "data", "splits", "losses", "exam"),
    ]
    assert [name for name in names if name in wanted] == wanted
    assert len(set(names)) == len(names) == sum(map(len, JOURNEY.values()))
    assert list(all_steps().values()) == [step for steps in JOURNEY.values() for step in steps]


@pytest.mark.parametrize("step", all_steps().values(), ids=lambda step: step.name)
def test_a_step_is_one_sentence_and_a_command_that_parses(step: LearnStep):
    assert step.says.endswith(".")
    assert "\n" not in step.says
    first, *rest = step.words
    assert first in COMMANDS
    with pellucid.make_context("pellucid", list(step.words)) as context:
        name, command, args = pellucid.resolve_command(context, list(step.words))
        assert command is not None
        with command.make_context(name, args, parent=context) as inner:  # refuses an option that there is not
            source = inner.params.get("data") or inner.params.get("source")
    # It needs no file of anyone's and no network.
    assert source is None or is_dataset(source) or first in ("draw", "score", "tokens"), source
    if first == "draw":
        assert "--out" in rest


def test_steps_are_found_by_name_and_number():
    for number, (name, step) in enumerate(all_steps().items(), start=1):
        assert find_step(str(number)) == find_step(name) == step
    for wrong in ("0", "48000", "derivativ", ""):
        with pytest.raises(PellucidError, match="there is no step called"):
            find_step(wrong)
    with pytest.raises(PellucidError, match="Perhaps you meant derivative"):
        find_step("derivativ")
    way = [find_step("1")]
    while after := next_step(way[-1]):
        way.append(after)
    assert way == list(all_steps().values())


@pytest.mark.parametrize("name", all_steps() if AT_LENGTH else QUICK)
def test_a_step_shows_its_command_and_what_that_says(pellucid, tmp_path, name):
    step = find_step(name)
    run, alone = pellucid("learn", name), pellucid(*step.words)
    assert run.returncode == alone.returncode == (1 if name == "exam" else 0), run.stderr
    said = run.stdout.split("\n")
    assert said[0] == step.says or run.stdout.replace("\n", " ").startswith(step.says)
    assert f"$ pellucid {step.command}" in run.stdout
    if step.words[0] not in ("train", "inspect"):  # which tell how long they took
        assert alone.stdout in run.stdout
    after = next_step(step)
    assert (f"\nnext  pellucid learn {after.name}: " in run.stdout) == (after is not None)


@pytest.mark.parametrize("name", all_steps() if AT_LENGTH else ("temperature", "dice"))
def test_with_json_a_step_is_one_document(pellucid, name):
    run = pellucid("learn", name, "--json")
    document = json.loads(run.stdout)
    assert document["name"] == name
    assert document["exit_code"] == run.returncode == (1 if name == "exam" else 0)
    words = [word for word in find_step(name).words if word != "--brief"]
    if words[0] not in ("train", "inspect"):
        assert document["answer"] == json.loads(pellucid(*words, "--json").stdout)


def test_the_list_in_words_and_as_json(pellucid):
    words = pellucid("learn").stdout
    rows = json.loads(pellucid("learn", "--json").stdout)
    assert [row["name"] for row in rows] == list(all_steps())
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        assert f"  {row['number']}  {row['name']}" in words
        assert row["command"].startswith("pellucid ")
    for part in JOURNEY:
        assert f"\n{part}\n" in words
    wrong = pellucid("learn", "derivativ")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "pellucid: there is no step called 'derivativ'. Perhaps you meant derivative.\n"


def test_listing_loads_nothing_heavy(run_together):
    listed, wrong = run_together([["learn", "--json"], ["learn", "attentio"]])
    assert (listed.code, wrong.code) == (0, 2)
    assert wrong.loaded == set()
