"""The plan: what follows from data and wishes alone, and what a moment of trying adds."""

from dataclasses import replace

import numpy as np
import polars
import pytest

from pellucid.data.options import DataOptions
from pellucid.data.prepare.tokens import Corpus, take_part
from pellucid.data.readers.memory import MEMORY, read_memory
from pellucid.errors import PellucidError
from pellucid.figures.words.notes import note_sentences
from pellucid.figures.words.training import plan_reason
from pellucid.models.catalogue import find_network, networks_for
from pellucid.records import Statement
from pellucid.training import plan as planning
from pellucid.training.options import TrainOptions
from pellucid.training.plan import (
    EVALUATIONS,
    LEAST_STEPS,
    Pace,
    choose_plan,
    config_for,
    n_looks_of,
    with_dropout,
)
from pellucid.training.run import command_of
from pellucid.training.tasks import open_task
from pellucid.training.tasks.counted_sides import CountedSides
from pellucid.training.tasks.pairs import TIMED
from pellucid.training.tasks.sequences import SequenceTask
from pellucid.training.tasks.task import FEWEST_PREDICTIONS, FEWEST_STEPS
from pellucid.training.trainer import build_training


@pytest.fixture(scope="module")
def task():
    return open_task(DataOptions("names"))


def test_with_steps_the_plan_is_the_same_every_time(task):
    wishes = TrainOptions(model="mlp", steps=100)
    plans = [choose_plan(find_network("mlp", "list"), task, wishes) for _ in range(2)]
    assert plans[0] == plans[1]
    config, plan = plans[0]
    assert (plan.steps, plan.evaluate_every, plan.sample_every, plan.save_every) == (100, 10, 12, 10)
    assert config == find_network("mlp", "list").of_size("medium", 27, 16)


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
    _, plan = choose_plan(find_network("mlp", "list"), replace(task, counted=CountedSides(few)), wishes)
    assert plan.batch_size == 5
    assert Statement("batch-limited", {"batch_size": 5, "asked": 999}) in plan.reasons


def test_minutes_become_steps(task):
    wishes = TrainOptions(model="neural-ngram", minutes=0.15)
    _, plan = choose_plan(find_network("neural-ngram", "list"), task, wishes)
    assert plan.steps >= 20
    assert plan.seconds > 0
    assert any(reason.kind == "pace" for reason in plan.reasons)


def test_steps_that_fit_take_the_time_they_are_given():
    pace = Pace(step=0.01, prediction=1e-4, look=0.02)
    n_steps = pace.steps_within(60.0)
    assert n_steps * pace.step + n_looks_of(n_steps) * pace.look == pytest.approx(60, rel=0.02)
    assert pace.steps_within(0.02) == 0


def plan_at(monkeypatch, task, pace, model="gru", **options):
    """The plan of a network where every size is as slow, and a batch half as large is twice as fast."""

    def measure(state, seconds, world):
        return pace._replace(step=pace.step * state.plan.batch_size / draft_size)

    card = task.find_card(model)
    draft_size = task.batch_size_for(card.recipe)
    monkeypatch.setattr(planning, "measure_pace", measure)
    asked = TrainOptions(model=model, threads=1, kind=task.facts.kind, **options)
    return choose_plan(card, task, asked)[1]


def reason_of(plan, kind):
    return next((reason for reason in plan.reasons if reason.kind == kind), None)


@pytest.mark.parametrize("milliseconds", [1, 10, 100, 300, 1000])
def test_never_few_steps_where_a_smaller_batch_can_help(monkeypatch, task, milliseconds):
    plan = plan_at(monkeypatch, task, Pace(milliseconds / 1e3, 1e-6, 0.0), minutes=1.0)
    per_step = task.n_train * plan.batch_size / task.max_batch_size
    assert plan.steps >= FEWEST_STEPS or per_step <= 2 * FEWEST_PREDICTIONS
    assert (reason_of(plan, "batch-by-time") is not None) == (milliseconds >= 300)
    if plan.steps < FEWEST_STEPS:
        assert reason_of(plan, "few-steps").facts["wanted"] == FEWEST_STEPS


@pytest.mark.parametrize("milliseconds", [0.01, 1000])
def test_why_a_size_and_so_many_epochs_is_told_as_it_came_about(monkeypatch, task, milliseconds):
    plan = plan_at(monkeypatch, task, Pace(milliseconds / 1e3, 1e-9, 0.0), minutes=1.0)
    is_slow = milliseconds > 1
    by_data, by_time = reason_of(plan, "size-by-data"), reason_of(plan, "size-by-time")
    assert (by_data is None, by_time is None) == (is_slow, not is_slow)
    assert (by_time or by_data).facts["size"] == plan.size
    assert (reason_of(plan, "epochs-at-first") is None) == is_slow
    assert (plan.available > plan.seconds) != is_slow
    assert not is_slow or plan.available == 0.0
    asked = plan_at(monkeypatch, task, Pace(milliseconds / 1e3, 1e-9, 0.0), minutes=1.0, size="small")
    assert not [one.kind for one in asked.reasons if one.kind.startswith("size-by-")]


@pytest.mark.parametrize(("milliseconds", "kind"), [(1, "epochs-at-first"), (20, "epochs-at-first"), (33, None)])
def test_beside_folds_a_plan_grows_only_where_they_have_the_time_to(monkeypatch, milliseconds, kind):
    small = open_task(DataOptions("penguins", target="species"))
    plan = plan_at(monkeypatch, small, Pace(milliseconds / 1e3, 1e-6, 0.0), "tabm", minutes=1.0)
    found = [one for one in plan.reasons if one.kind.startswith("epochs-")]
    assert [one.kind for one in found] == ([kind] if kind else [])
    assert (plan.available > 0) == bool(kind)
    assert all("epochs are planned at first, fewer if dev rises, more" in plan_reason(one) for one in found)


@pytest.mark.parametrize(
    ("milliseconds", "kinds"), [(5, ["folds", "epochs-at-first"]), (33, ["folds", "epochs-limited"])]
)
def test_a_plan_that_cannot_grow_beside_folds_says_no_more_than_that_epochs_limit_it(monkeypatch, milliseconds, kinds):
    """21 batches an epoch, so 50 epochs are 1,050 steps: half of the time holds 1,500, a quarter only 850."""
    small = open_task(DataOptions("penguins", target="species"))
    plan = plan_at(monkeypatch, small, Pace(milliseconds / 1e3, 1e-6, 0.0), "tabm", minutes=1.0, batch_size=14)
    assert [one.kind for one in plan.reasons if one.kind.startswith(("folds", "epochs"))] == kinds
    limited = reason_of(plan, "epochs-limited")
    assert limited is None or plan_reason(limited).endswith("71.4 epochs are planned, fewer if dev rises")
    assert plan_at(monkeypatch, small, Pace(0.033, 1e-6, 0.0), "tabm", minutes=1.0, folds=0).folds == 0


@pytest.mark.parametrize(("milliseconds", "kind"), [(0.01, "rest-by-data"), (1000, "rest-by-time")])
def test_why_sizes_beside_one_that_was_asked_for_are_so_is_told_as_it_came_about(monkeypatch, task, milliseconds, kind):
    pace = Pace(milliseconds / 1e3, 1e-9, 0.0)
    plan = plan_at(monkeypatch, task, pace, "transformer", minutes=1.0, network={"width": 32})
    told = [one for one in plan.reasons if one.kind.startswith("rest-by-")]
    assert [one.kind for one in told] == [kind]
    assert f"of size {plan.size}, because" in plan_reason(told[0])


def test_where_nothing_is_held_out_no_plan_grows_and_all_of_the_time_is_its(monkeypatch):
    task = open_task(DataOptions("xor"))
    plan = plan_at(monkeypatch, task, Pace(0.001, 1e-6, 0.0), "mlp", minutes=0.5)
    assert (plan.steps, reason_of(plan, "epochs-at-first")) == (planning.ENOUGH_STEPS, None)
    assert reason_of(plan, "epochs-limited-on-train") is not None
    assert plan.available > plan.seconds


def test_dropout_is_told_where_there_is_some_and_not_where_it_was_asked_for(task):
    card = find_network("transformer", "list")
    config, told = with_dropout(card, card.tiny, 10.0, TrainOptions())
    assert [(one.kind, one.facts["dropout"]) for one in told] == [("dropout", config.dropout)]
    assert with_dropout(card, card.tiny, 1.0, TrainOptions()) == (card.tiny, [])
    assert with_dropout(card, card.tiny, 10.0, TrainOptions(network={"dropout": 0.3})) == (card.tiny, [])


def test_the_rows_of_a_step_follow_from_the_time_down_to_64(monkeypatch):
    draw = np.random.default_rng(0)
    read = read_memory(polars.DataFrame({name: draw.normal(size=9_000) for name in "xyz"}), kind="table")
    rows = open_task(DataOptions(MEMORY, target="z"), read)
    sizes = [
        plan_at(monkeypatch, rows, Pace(each, 1e-6, 0.0), "tabm", minutes=1.0).batch_size for each in (0.01, 0.05, 1.0)
    ]
    assert sizes == [256, 128, 64]


def test_a_cross_validation_leaves_half_of_the_time_and_a_few_hundred_steps(monkeypatch):
    small = open_task(DataOptions("penguins", target="species"))
    plans = {
        each: plan_at(monkeypatch, small, Pace(each, 1e-6, 0.0), "tabm", minutes=1.0) for each in (0.001, 0.035, 0.15)
    }
    assert [plan.folds for plan in plans.values()] == [5, 5, 5]
    # 50 epochs of 9 batches; networks of three folds have the time to grow as far as this one may.
    assert (plans[0.001].steps, reason_of(plans[0.001], "folds-by-time")) == (450, None)
    assert plans[0.001].available == pytest.approx(
        (60 * (1 - planning.KEPT_BACK) - planning.KEPT_BACK_SECONDS) / 4, rel=0.05
    )
    assert plans[0.035].steps == pytest.approx(reason_of(plans[0.035], "folds-by-time").facts["steps"] / 2, rel=0.1)
    assert plans[0.15].steps == FEWEST_STEPS
    assert plan_at(monkeypatch, small, Pace(0.03, 1e-6, 0.0), "tabm", minutes=1.0, folds=0).folds == 0


def test_a_batch_that_was_asked_for_stays_and_the_time_it_would_take_is_told(monkeypatch, task):
    draft_size = task.batch_size_for(find_network("gru", "list").recipe)
    plan = plan_at(monkeypatch, task, Pace(1.0, 1e-6, 0.0), minutes=1.0, batch_size=draft_size, size="tiny")
    assert (plan.batch_size, reason_of(plan, "batch-by-time")) == (draft_size, None)
    facts = reason_of(plan, "few-steps").facts
    assert facts["steps"] == plan.steps < 60
    assert 60 * facts["minutes"] == pytest.approx(60 + (FEWEST_STEPS - plan.steps) * 1.0)


@pytest.mark.parametrize("microseconds", [1, 30, 300])
def test_evaluations_take_at_most_a_tenth_of_the_time(monkeypatch, task, microseconds):
    """Down to the few predictions that an evaluation needs: 42 times 4,000 at 30 µs are five seconds of sixty."""
    prediction, minutes = microseconds / 1e6, 1.0 if microseconds < 100 else 10.0
    plan = plan_at(monkeypatch, task, Pace(0.01, prediction, 0.0), minutes=minutes)
    looked_at = plan.evaluated or task.n_evaluated("dev")
    seconds = 2 * (1 + EVALUATIONS) * looked_at * prediction
    assert seconds <= 0.1 * 60 * minutes
    assert (plan.evaluated == 0) == (microseconds == 1)  # all of dev where that is cheap


def test_items_that_are_seen_seldom_meet_others_of_any_length(monkeypatch, task):
    slow, quick = (plan_at(monkeypatch, task, Pace(each, 1e-9, 0.0), minutes=1.0) for each in (0.1, 0.001))
    assert (slow.is_mixed, quick.is_mixed) == (True, False)
    card = find_network("gru", "list")
    for plan in (slow, quick):  # the command that makes a run again decides the same
        again = TrainOptions(model="gru", steps=plan.steps, size=plan.size, batch_size=plan.batch_size)
        assert choose_plan(card, task, again)[1].is_mixed == plan.is_mixed


def test_a_network_that_computes_no_padding_has_fair_batches(monkeypatch, task):
    """Batches of one length each swing its loss from step to step, and save it nothing."""
    fair, sorted_plan = (
        plan_at(monkeypatch, task, Pace(0.001, 1e-9, 0.0), model, minutes=1.0) for model in ("transformer", "gru")
    )
    assert [(plan.is_fair, plan.is_mixed) for plan in (fair, sorted_plan)] == [(True, False), (False, False)]
    fair = fair._replace(start="scratch")
    for is_fair in (True, False):  # a run that was planned with others goes on with them
        plan = fair._replace(is_fair=is_fair)
        card = task.find_card("transformer")
        batches = build_training(card, config_for(card, task, "tiny", {}), plan, task).batches
        assert batches.by_length != is_fair
    text = open_task(DataOptions(MEMORY), read_memory("the cat sat on the mat. " * 200, kind="text"))
    assert not choose_plan(text.find_card("transformer"), text, TrainOptions(steps=5, size="tiny"))[1].is_fair


def test_items_of_very_different_lengths_are_not_mixed(task):
    words = ["ab", "abc", "a" * 60, "b" * 30] * 50
    broad = open_task(
        DataOptions(MEMORY), read_memory([f"{word}{place}" for place, word in enumerate(words)], kind="list")
    )
    assert (task.is_mixable, broad.is_mixable) == (True, False)


def test_what_follows_the_last_step_is_inside_the_time(monkeypatch, task):
    quick, slow = (
        plan_at(monkeypatch, task, Pace(0.1, 1e-6, 0.0, finishing), minutes=1.0, size="tiny", batch_size=8)
        for finishing in (0.0, 20.0)
    )
    assert quick.seconds - slow.seconds == pytest.approx(20, abs=2)


def test_answers_are_timed_as_they_are_written_token_by_token(monkeypatch):
    pairs = open_task(DataOptions("reverse"))
    card = pairs.find_card("transformer")
    _, plan = choose_plan(card, pairs, TrainOptions(steps=10, kind="pairs"))
    network = pairs.build_network(card, pairs.make_config(card, "tiny"), plan)
    ticks = iter([10.0, 10.5])
    monkeypatch.setattr("pellucid.training.tasks.pairs.time.monotonic", lambda: next(ticks))
    n_timed = len(pairs.sides.dev[:: max(1, len(pairs.sides.dev) // TIMED)])
    written = 0.5 / n_timed * (len(pairs.sides.dev) + len(pairs.sides.test))
    assert pairs.seconds_to_finish(network, 1e-3) == pytest.approx(written + 1e-3 * pairs.n_finishing)


def test_a_number_of_steps_is_evaluated_on_a_part_that_does_not_depend_on_the_pace(task):
    _, plan = choose_plan(find_network("gru", "list"), task, TrainOptions(steps=100))
    assert 0 < plan.evaluated <= planning.EVALUATED
    assert choose_plan(find_network("gru", "list"), task, TrainOptions(steps=100))[1] == plan


@pytest.mark.parametrize("steps", [300, 2_000, 50_000])
def test_evaluations_of_a_number_of_steps_are_a_bounded_share_of_what_is_learned_from(task, steps):
    _, plan = choose_plan(find_network("gru", "list"), task, TrainOptions(steps=steps))
    learned = steps * plan.batch_size / len(task.sides.train_items) * task.n_train
    n_evaluations = steps // plan.evaluate_every
    evaluated = plan.evaluated or task.n_evaluated("dev")
    assert 2 * (1 + n_evaluations) * evaluated <= 1.1 * planning.LOOKING * planning.EVALUATED_IN_A_STEP * learned
    assert n_evaluations >= planning.FEWEST_EVALUATIONS
    assert (plan.evaluated == 0) == (steps == 50_000)  # all of dev, where there is time for it


def test_what_memory_cannot_hold_is_refused_before_it_is_made(task):
    card = find_network("transformer", "list")
    with pytest.raises(PellucidError, match="GB to train"):
        config_for(card, task, "tiny", {"width": 1 << 19, "n_heads": 1, "depth": 8})


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_the_rough_number_of_parameters_is_near(size):
    for card in networks_for("list").values():
        config = card.of_size(size, 65, 32)
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
    assert any("context 256 needs 257 tokens" in note for note in note_sentences(found.facts.notes))


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
    wishes = TrainOptions(model="mlp", minutes=0.5, size="small")
    card = find_network("mlp", "list")
    _, early = choose_plan(card, task, wishes)
    _, late = choose_plan(card, task, wishes, spent=1000.0)  # more than there is: a second is left
    assert LEAST_STEPS <= late.steps < early.steps


def test_of_squares_of_probabilities_the_plan_says_how_flat_they_are():
    """Of classes alone: a square is the usual loss of numbers."""

    def reasons(target: str, loss: str) -> list[Statement]:
        task = open_task(DataOptions("penguins", target=target, drop_missing_target=True))
        plan = choose_plan(find_network("mlp", "table"), task, TrainOptions(steps=5, loss=loss))[1]
        return [reason for reason in plan.reasons if reason.kind == "flat-loss"]

    [reason] = reasons("species", "mse")
    assert reason.facts == {"loss": "mse", "p": 0.01, "part": pytest.approx(2 * 0.01 * 0.99)}
    assert plan_reason(reason) == (
        "mse of probabilities: where the true class has 0.01, 0.02 as steep as cross-entropy"
    )
    assert not reasons("species", "cross-entropy")
    assert not reasons("body_mass_g", "mse")


MLP_SIZES = {"context": 3, "embedding": 10, "hidden": 200, "depth": 1}


@pytest.mark.parametrize("asked", [{"depth": 1, "hidden": 200}, MLP_SIZES, {"context": 3}])
@pytest.mark.parametrize("budget", [{"steps": 20}, {"minutes": 0.2}])
def test_where_a_size_is_asked_for_none_is_guessed(task, asked, budget):
    """The classic: 27 · 10 + 30 · 200 + 200 + 200 · 27 + 27 parameters."""
    card = find_network("mlp", "list")
    options = TrainOptions(model="mlp", start="scratch", threads=1, network=asked, **budget)
    config, plan = choose_plan(card, task, options)
    assert card.build(config).n_parameters == 11_897
    assert {name: getattr(config, name) for name in MLP_SIZES} == MLP_SIZES
    assert not any("by-" in reason.kind and "size" in reason.kind for reason in plan.reasons)
    told = next(reason for reason in plan.reasons if reason.kind.startswith("sizes-"))
    rest = {name: value for name, value in MLP_SIZES.items() if name not in asked}
    assert (told.kind, told.facts["rest"]) == ("sizes-own" if rest else "sizes-given", rest)
    # The command that makes it again names no size, which would decide what was not asked for.
    command = command_of(DataOptions("names"), options, plan, "names")
    assert "--size" not in command
    again, _ = choose_plan(card, task, options)
    assert again == config


def test_a_size_by_its_name_decides_what_is_not_asked_for(task):
    card = find_network("mlp", "list")
    options = TrainOptions(model="mlp", steps=20, size="small", threads=1, network={"hidden": 200})
    config, plan = choose_plan(card, task, options)
    assert (config.context, config.embedding, config.hidden) == (5, 16, 200)
    assert plan.size == "small"


def test_a_transformer_has_no_sizes_of_its_own(task):
    options = TrainOptions(model="transformer", steps=20, threads=1, network={"width": 32})
    config, plan = choose_plan(find_network("transformer", "list"), task, options)
    assert config.width == 32
    told = next(reason for reason in plan.reasons if reason.kind == "rest-by-data")
    assert set(told.facts["rest"]) == {"depth", "n_heads"}
    assert plan.size == told.facts["size"] == "medium"
    assert plan_reason(told).startswith("depth and n_heads of size medium, because train has")
    alone = next(reason for reason in plan.reasons if reason.kind == "counting-scores")
    assert alone.facts["parameters"] == find_network("transformer", "list").build(config).n_parameters
