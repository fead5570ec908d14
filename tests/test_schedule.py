"""The learning rate by step, and a number of steps that follows the clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.errors import PellucidError
from pellucid.figures.words.training import growth_words, replan_words
from pellucid.records import Evaluation, Plan, Replan, Timing
from pellucid.training.optimizers import SCHEDULES, learning_rate_factor, planned_rate_factor
from pellucid.training.options import TrainOptions
from pellucid.training.trainer import GROWS_FROM, PACED, TOLERATED, extend_plan, follow_clock


@pytest.mark.parametrize("decay", SCHEDULES)
@pytest.mark.parametrize(("steps", "warm_up"), [(1, 0), (1, 1), (10, 0), (100, 10), (7, 6), (3, 5)])
def test_it_climbs_then_falls_and_never_reaches_zero(decay, steps, warm_up):
    factors = [learning_rate_factor(step, steps, warm_up, decay) for step in range(1, steps + 1)]
    assert all(0 < factor <= 1 for factor in factors)
    top = min(warm_up, steps)
    assert factors[:top] == sorted(factors[:top])
    assert factors[top:] == sorted(factors[top:], reverse=True)
    if steps > warm_up:
        assert factors[warm_up] == 1.0


def test_where_each_decay_stands():
    halfway = {decay: learning_rate_factor(51, 100, 0, decay) for decay in SCHEDULES}
    assert halfway == {"linear": 0.5, "cosine": pytest.approx(0.5), "step": 1.0, "constant": 1.0}
    assert [learning_rate_factor(step, 100, 0, "step") for step in (60, 61, 90, 91)] == [1.0, 0.1, 0.1, 0.01]
    assert learning_rate_factor(100, 100, 0, "linear") == pytest.approx(0.01)
    assert learning_rate_factor(10_000, 10_000, 0, "cosine") < 1e-7


def test_an_unknown_decay_brings_the_nearest():
    with pytest.raises(PellucidError, match=r"'cosin'\. Perhaps you meant cosine"):
        learning_rate_factor(5, 10, 0, "cosin")


def plan_of(steps, schedule="linear", warmup=0, seconds=0.0):
    return Plan(
        *(steps, 32, 8, "adamw", 1e-3, 0, 0, 0, 1, warmup, schedule, max(1, steps // 20), 1, 1, 1, 1, 1),
        seconds=seconds,
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(steps=st.integers(2, 300), share=st.floats(0.01, 0.99), stretch=st.floats(0.2, 4.0), warmup=st.integers(0, 20))
def test_steps_that_are_changed_on_the_way_carry_on_where_the_rate_was(schedule, steps, share, stretch, warmup):
    """Before the change nothing differs; after it the rate goes on down without a leap, to about where it would end."""
    plan = plan_of(steps, schedule, warmup)
    at = max(1, min(steps - 1, int(share * steps)))
    changed = plan.changed_by(Replan(at, at + max(1, int((steps - at) * stretch))))
    before = [learning_rate_factor(step, steps, warmup, schedule) for step in range(1, steps + 1)]
    after = [planned_rate_factor(changed, step) for step in range(1, changed.steps + 1)]
    assert after[:at] == before[:at]
    assert all(0 < factor <= 1 for factor in after)
    # What was passed at each step, by the steps of the first plan: the factor lies between those beside it.
    for step in range(at + 1, changed.steps + 1):
        place = at + (step - at) * (steps - at) / (changed.steps - at)
        around = before[max(0, int(place) - 1) : int(place) + 1]
        assert min(around) - 1e-9 <= after[step - 1] <= max(around) + 1e-9


def test_steps_that_are_changed_to_what_they_were_change_nothing():
    plan = plan_of(50, warmup=5)
    twice = plan.changed_by(Replan(10, 30)).changed_by(Replan(20, 40))
    assert [planned_rate_factor(plan.changed_by(Replan(17, 50)), step) for step in range(1, 51)] == pytest.approx(
        [planned_rate_factor(plan, step) for step in range(1, 51)]
    )
    # By hand: 10 of 50, then 10 of 20 for the 40 left: at 30 of 50. Then 20 steps for the last 20.
    assert planned_rate_factor(twice, 20) == learning_rate_factor(30, 50, 5, "linear")
    assert planned_rate_factor(twice, 40) == learning_rate_factor(50, 50, 5, "linear")


def train_by(plan, seconds_of):
    """Follow a plan on a machine where a step takes so long; the seconds it took, and the steps."""
    step, clock, timings = 0, 0.0, []
    while step < plan.steps:
        step += 1
        clock += seconds_of(step)
        if step % plan.evaluate_every == 0 or step == plan.steps:
            timings.append(Timing(step, clock, 1.0))
            if change := follow_clock(plan, timings):
                assert change.step == step < change.steps
                plan = plan.changed_by(change)
    return clock, step


@pytest.mark.parametrize("pace", [0.2, 0.5, 0.8, 0.95, 1.05, 1.3, 2.0, 5.0])
def test_a_run_ends_in_time_however_fast_the_steps_are(pace):
    seconds, steps = train_by(plan_of(1000, seconds=100.0), lambda step: 0.1 * pace)
    assert seconds == pytest.approx(100, rel=0.1)
    assert (steps == 1000) == (abs(pace - 1) < TOLERATED)


@pytest.mark.parametrize("at", [0.1, 0.3, 0.6, 0.8])
@pytest.mark.parametrize("slower", [0.5, 2.0, 3.0])
def test_a_run_ends_in_time_when_the_machine_gets_something_else_to_do(at, slower):
    """Up to what the evaluations take that are needed to see it: a twentieth of the steps each."""
    seconds, _ = train_by(plan_of(1000, seconds=100.0), lambda step: 0.1 * (slower if step > 1000 * at else 1))
    assert seconds < 100 * (1 + PACED * max(0, slower - 1) / 20)
    assert seconds > 80


def test_without_a_clock_nothing_is_changed():
    assert follow_clock(plan_of(100), [Timing(5, 1.0, 1.0), Timing(10, 50.0, 1.0)]) is None
    assert follow_clock(plan_of(100, seconds=9.0), [Timing(5, 9.0, 1.0)]) is None  # one timing has no pace


def grow_by(plan, dev_of, seconds_of=lambda step: 0.1, metric=None):
    """Follow a plan that may grow; dev_of: the loss on dev after a step. The plan at its end, and the seconds."""
    clock, timings, evaluations = 0.0, [], [Evaluation(0, 3.0, dev_of(0))]
    step = 0
    while step < plan.steps:
        step += 1
        clock += seconds_of(step)
        if step % plan.evaluate_every == 0 or step == plan.steps:
            timings.append(Timing(step, clock, 1.0))
            evaluations.append(Evaluation(step, 2.0, dev_of(step), metric))
            if change := extend_plan(plan, evaluations, timings) or follow_clock(plan, timings):
                assert change.step == step < change.steps
                plan = plan.changed_by(change)
    return plan, clock


def growing(steps=100, seconds=10.0, available=100.0):
    return plan_of(steps, seconds=seconds)._replace(available=available)


def test_a_plan_grows_as_long_as_dev_falls_and_ends_in_time():
    plan, seconds = grow_by(growing(), lambda step: 3 - step / 1e4)
    assert [(one.step, one.steps, one.why) for one in plan.replans[1:4]] == [
        (60, 200, "dev"),
        (120, 400, "dev"),
        (240, 800, "dev"),
    ]
    assert plan.steps == pytest.approx(1000, rel=0.01)
    assert seconds <= 100.0
    # As often in all as a plan of its own would be, or twice: looking takes time too.
    assert plan.steps / plan.evaluate_every <= 2 * 20
    assert replan_words(plan) == (
        " (100 were planned, and more after steps 60, 120, 240 and 1 more, where dev was still falling)"
    )


def test_it_stops_growing_where_dev_does_not_fall_any_more():
    plan, _ = grow_by(growing(), lambda step: abs(step - 300) / 1e4)
    assert plan.steps == 800  # at step 240 it fell still, and from 480 on it does not
    unchanged, _ = grow_by(growing(), lambda step: abs(step - 50) / 1e4)
    assert (unchanged.steps, replan_words(unchanged), growth_words(unchanged)) == (100, "", "")


@pytest.mark.parametrize(
    ("plan", "metric", "dev"),
    [
        (plan_of(100), None, 0.0),  # a number of steps that was asked for
        (growing(available=0.0), None, 0.0),  # the time decided how many there are
        (growing(available=10.5), None, 0.0),  # next to no time is left
        (growing(), 1.0, 0.0),  # every answer on dev is right
        (growing(), None, float("nan")),  # nothing was held out
    ],
)
def test_where_a_plan_does_not_grow(plan, metric, dev):
    assert grow_by(plan, lambda step: dev - step / 1e4, metric=metric)[0].steps == 100


@pytest.mark.parametrize("pace", [0.2, 0.5, 1.0, 3.0])
def test_a_plan_that_epochs_decided_has_all_of_the_time_and_not_more_steps_for_being_fast(pace):
    """With dev at rest, so that it does not grow: a slow machine costs it no step as long as there is time."""
    plan, _ = grow_by(growing(), lambda step: float(step), lambda step: 0.1 * pace)
    assert plan.steps == 100
    late, seconds = grow_by(growing(available=20.0), lambda step: float(step), lambda step: 0.4)
    assert late.steps < 100
    assert seconds < 22


def test_a_plan_that_grew_goes_down_with_the_clock_if_it_must():
    plan, seconds = grow_by(growing(), lambda step: 3 - step / 1e4, lambda step: 0.1 if step < 300 else 0.4)
    assert {one.why for one in plan.replans[1:]} == {"dev", "clock"}
    assert seconds < 115
    assert "where dev was still falling; and changed on the way to end in time" in replan_words(plan)


def test_growth_is_told_while_it_trains():
    plan = growing(300).changed_by(Replan(180, 600, "dev"))
    assert growth_words(plan) == "step 180: dev is still falling, so 600 steps are planned in place of 300"
    assert growth_words(plan.changed_by(Replan(300, 500))) == ""
    assert GROWS_FROM * 300 == 180


@pytest.mark.parametrize(
    "asked",
    ["340", "340:300", "900:1000", "0:10", "a:b", "340:500,500:600", "340:500,", "340:500:", "340:500:it", "3:9:dev:1"],
)
def test_changes_that_cannot_be_are_refused(asked):
    with pytest.raises(PellucidError, match="each change is a step that there is"):
        TrainOptions(steps=900, replan=asked)
    with pytest.raises(PellucidError, match="without"):
        TrainOptions(replan="340:500")


def test_changes_are_read_as_they_are_spelled():
    changes = (Replan(180, 600, "dev"), Replan(400, 500))
    asked = ",".join(change.spelled for change in changes)
    assert asked == "180:600:dev,400:500"
    assert TrainOptions(steps=300, replan=asked).replans == changes
