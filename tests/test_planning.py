"""The plan: what follows from data and wishes alone, and what a moment of trying adds."""

from dataclasses import replace

import numpy as np
import pytest

from pellucid.data.options import DataOptions
from pellucid.data.prepare.tokens import Corpus
from pellucid.errors import PellucidError
from pellucid.models.catalogue import find_network, networks_for
from pellucid.records import PlanReason
from pellucid.training.options import TrainOptions
from pellucid.training.plan import Pace, choose_plan, config_for, steps_within
from pellucid.training.tasks import open_task
from pellucid.training.tasks.sequences import SequenceTask, take_part


@pytest.fixture(scope="module")
def task():
    return open_task(DataOptions("names"))


def test_with_steps_the_plan_is_the_same_every_time(task):
    wishes = TrainOptions(model="mlp", steps=100)
    plans = [choose_plan(find_network("mlp", "list"), task, wishes) for _ in range(2)]
    assert plans[0] == plans[1]
    config, plan = plans[0]
    assert (plan.steps, plan.evaluate_every, plan.sample_every, plan.save_every) == (100, 5, 12, 10)
    assert config == find_network("mlp", "list").sized("medium", 27, 16)


def test_what_was_asked_for_is_in_the_plan(task):
    training = {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": 7, "schedule": "step", "warmup": 3}
    training |= {"clip": 0.0, "threads": 1}
    wishes = TrainOptions(steps=10, size="tiny", network={"depth": 1}, **training)
    config, plan = choose_plan(find_network("transformer", "list"), task, wishes)
    for name, value in training.items():
        assert getattr(plan, name) == value
    assert (config.depth, plan.matrix_learning_rate) == (1, 0.0)


def test_a_rate_moves_the_rate_of_matrices_with_it(task):
    card = find_network("transformer", "list")
    _, usual = choose_plan(card, task, TrainOptions(steps=10))
    _, faster = choose_plan(card, task, TrainOptions(steps=10, learning_rate=2 * usual.learning_rate))
    assert faster.matrix_learning_rate == pytest.approx(2 * usual.matrix_learning_rate)


def test_a_batch_is_never_larger_than_the_data(task):
    sides = task.sides
    small = Corpus(sides.train.tokens[:31], True)
    few = type(sides)(sides.vocabulary, small, sides.dev, sides.test, ["a"] * 5, [], [])
    wishes = TrainOptions(model="mlp", steps=5, batch_size=999)
    _, plan = choose_plan(find_network("mlp", "list"), replace(task, sides=few), wishes)
    assert plan.batch_size == 5
    assert PlanReason("batch-limited", {"batch_size": 5, "asked": 999}) in plan.reasons


def test_minutes_become_steps(task):
    wishes = TrainOptions(model="neural-ngram", minutes=0.15)
    _, plan = choose_plan(find_network("neural-ngram", "list"), task, wishes)
    assert plan.steps >= 20
    assert plan.seconds > 0
    assert any(reason.kind == "pace" for reason in plan.reasons)


def test_steps_that_fit_take_the_time_they_are_given():
    pace = Pace(step=0.01, evaluation=0.2, look=0.02)
    n_steps = steps_within(60.0, pace)
    assert pace.of(n_steps, 21, 42) == pytest.approx(60, rel=0.02)
    assert steps_within(0.5, pace) == 0


def test_what_memory_cannot_hold_is_refused_before_it_is_made(task):
    card = find_network("transformer", "list")
    with pytest.raises(PellucidError, match="GB to train"):
        config_for(card, task, "tiny", {"width": 1 << 19, "n_heads": 1, "depth": 8})


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_the_rough_number_of_parameters_is_near(size):
    for card in networks_for("list").values():
        config = card.sized(size, 65, 32)
        assert 0.3 < SequenceTask.estimate_parameters(config) / card.build(config).n_parameters < 3, card.name


def test_a_part_of_a_side_is_spread_over_it(task):
    sides = task.sides
    part = take_part(sides.train, 2_000)
    assert 1_500 < part.n_predicted <= 2_500
    items = sides.vocabulary.decode(part.tokens.tolist())
    assert part.tokens[0] == part.tokens[-1] == 0
    assert len(items) == part.n_predicted - int((part.tokens[1:] == 0).sum())
    text = Corpus(np.arange(1000), False)
    assert take_part(text, 80).tokens[[0, -1]].tolist() == [0, 999]
    assert take_part(text, 5000) is text


def test_a_short_text_shrinks_the_context(tmp_path):
    (tmp_path / "short.txt").write_text("the cat sat on the mat and the dog lay by the door, as ever. " * 4)
    found = open_task(DataOptions(str(tmp_path / "short.txt"), kind="text", context=256))
    assert found.context < 256
    assert any("context 256 needs 257 tokens" in note for note in found.facts.notes)


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        ("aaaaaaaaaaaaaaaaaaaaaaaa" * 10, "text", "only one distinct symbol"),
        ("abcabcabc", "text", "too few for a dev side"),
        ("anna\nbert\n", "list", "side"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(tmp_path, content, kind, words):
    (tmp_path / "data.txt").write_text(content)
    with pytest.raises(PellucidError, match=words):
        open_task(DataOptions(str(tmp_path / "data.txt"), kind=kind))


def test_what_the_start_took_is_taken_off_the_budget(task):
    wishes = TrainOptions(model="neural-ngram", minutes=0.5, size="tiny")
    card = find_network("neural-ngram", "list")
    _, early = choose_plan(card, task, wishes)
    _, late = choose_plan(card, task, wishes, spent=1000.0)  # more than there is: no more than the fewest are left
    assert late.steps <= early.steps
    assert late.seconds < 15
