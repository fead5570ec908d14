"""The start, the end and the verdict of a run, from curves like those that were recorded."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.at_length import examples

from pellucid.data.options import DataOptions
from pellucid.figures.words.training import ending_words, start_words, verdict_words
from pellucid.records import Ending, Evaluation, Ladder, Plan, Rung, Verdict
from pellucid.training.optimizers import learning_rate_factor
from pellucid.training.stopping import (
    IN_A_ROW,
    NEARLY_DONE,
    RISEN,
    WORTH_IT,
    best_evaluation,
    check_ending,
    gain_ahead,
    judge_fit,
    loss_noise,
)
from pellucid.training.tasks import open_task
from pellucid.training.tasks.task import initial_loss, label_entropy

BUDGET = Ending("budget", 0, 0)


def plan(n_evaluations: int, decay: str = "linear") -> Plan:
    return Plan(
        *(100 * n_evaluations, 128, 16, "muon", 0.01, 0.02, 0.0, 0.0, 1.0, 100, decay),
        *(100, 100, 100, 100, 1, 1),
    )


def curves(n: int, dev, train=None) -> list[Evaluation]:
    """dev, train: of the share of the run that is done."""
    return [Evaluation(100 * i, (train or dev)(i / n), dev(i / n)) for i in range(n + 1)]


def first_ending(evaluations: list[Evaluation], of: Plan) -> Ending:
    """What a run would do that asks after every evaluation."""
    endings = (check_ending(evaluations[: k + 1], of) for k in range(len(evaluations)))
    return next(ending for ending in endings if ending is not None)


# The start


@pytest.mark.parametrize(
    ("measured", "is_as_expected", "words"),
    [
        (3.2961, True, "3.2961 nats, and ln 27 = 3.2958: the network starts without opinions"),
        (17.3, False, "17.3000 nats, and ln 27 = 3.2958: it starts sure and wrong. Shrink the last layer's"),
        (3.0, True, "opinions that help"),
        (1.9, False, "knowing more than their frequencies tell"),
        (math.nan, False, "The loss is nan"),
        (math.inf, False, "The loss is inf"),
    ],
)
def test_what_the_first_loss_says(measured, is_as_expected, words):
    targets = np.repeat(np.arange(27), np.arange(1, 28) ** 2)
    start = initial_loss(measured, targets, 27)
    assert start.is_as_expected is is_as_expected
    assert words in start_words(start)
    assert start.uniform == pytest.approx(3.295836866)


@given(st.lists(st.integers(-100, 30).filter(lambda one: one >= 0 or one == -100), min_size=1, max_size=60))
def test_the_targets_entropy_is_scipys(targets):
    counts = list(Counter(one for one in targets if one >= 0).values())
    assert label_entropy(targets) == pytest.approx(stats.entropy(counts) if counts else 0.0, abs=1e-12)


# The end


def healthy(decay: str, floor: float, power: float, unrest: float, bend: float, steps: int):
    """A fall by a power of the steps, and above it what the rate keeps stirred up."""

    def at(done: float) -> float:
        factor = learning_rate_factor(max(1, round(done * steps)), steps, 0, decay) if done < 1 else 0.0
        return floor + 0.4 * (20 * done + 1) ** -power + unrest * factor**bend

    return at


@settings(max_examples=examples(150))
@given(
    decay=st.sampled_from(["linear", "cosine", "constant", "step"]),
    n=st.integers(10, 60),
    power=st.floats(0.3, 1.2),
    stirred=st.floats(0.0, 0.2),
    bend=st.sampled_from([0.5, 1.0, 2.0]),
    noise=st.sampled_from([0.0, 0.001, 0.003, 0.01]),
    seed=st.integers(0, 10_000),
)
def test_a_run_that_still_gains_is_not_stopped(decay, n, power, stirred, bend, noise, seed):
    """Whatever is stopped early would have gained less than two seeds differ by."""
    rng = np.random.default_rng(seed)
    course = healthy(decay, 1.9, power, stirred, bend, 100 * n)
    scatter = rng.normal(0, noise, n + 1) * [
        learning_rate_factor(max(1, 100 * i), 100 * n, 0, decay) for i in range(n + 1)
    ]
    seen = [Evaluation(100 * i, course(i / n) - 0.05 * i / n, course(i / n) + scatter[i]) for i in range(n + 1)]
    ending = first_ending(seen, plan(n, decay))
    assert ending.reason in ("budget", "plateau")
    if ending.reason == "plateau":
        assert course(ending.step / (100 * n)) - min(course(i / n) for i in range(n + 1)) < 2 * WORTH_IT
        assert 0.5 <= ending.step / (100 * n) <= NEARLY_DONE


def test_the_demo_s_own_shape_runs_to_its_end():
    """Four epochs of a transformer on names: steep, nearly flat in the middle, and down again as the rate goes."""
    dev = [3.30, 2.31, 2.15, 2.09, 2.06, 2.05, 2.03, 2.02, 2.02, 2.00, 2.00, 1.99, 1.98, 1.975, 1.96, 1.95, 1.94, 1.925]
    seen = [Evaluation(41 * i, loss - 0.004 * i, loss) for i, loss in enumerate([*dev, 1.915, 1.907, 1.904])]
    ending = first_ending(seen, plan(8)._replace(steps=820, warmup=20))
    assert (ending.reason, ending.step, ending.best_step) == ("budget", 820, 820)


@pytest.mark.parametrize("decay", ["linear", "constant", "cosine"])
def test_what_has_come_to_rest_is_stopped(decay):
    """A table of bigrams: after a tenth of the run it has what counting has, and nothing is left to learn."""
    rng = np.random.default_rng(1)
    seen = curves(40, lambda done: 2.453 + 0.8 * math.exp(-60 * done) + rng.normal(0, 1e-4))
    ending = first_ending(seen, plan(40, decay))
    assert ending.reason == "plateau"
    assert 0.5 <= ending.step / 4000 <= NEARLY_DONE
    assert "dev has stood at 2.45" in ending_words(ending, seen, plan(40))


def test_a_small_squared_error_that_still_falls_by_a_tenth_is_no_plateau():
    """Of 0.02, as prices leave it, a tenth is 0.002: next to nothing in nats, and much of what is left to learn."""

    def falls(share: float) -> float:
        return 0.02 + 0.98 * math.exp(-40 * share) - 0.004 * share

    assert first_ending(curves(20, falls), plan(20)).reason == "budget"
    assert first_ending(curves(20, lambda share: 100 * falls(share) + 1), plan(20)).reason == "budget"
    assert first_ending(curves(20, lambda share: 0.02 + 0.98 * math.exp(-40 * share)), plan(20)).reason == "plateau"


def test_a_flat_stretch_before_a_drop_of_the_rate_is_no_plateau():
    seen = curves(40, lambda done: 2.3 if done < 0.6 else 2.1)
    assert first_ending(seen, plan(40, "step")).reason == "budget"


def test_over_fitting_is_stopped_and_the_best_is_named():
    seen = curves(40, lambda done: 2.0 + 2 * (done - 0.25) ** 2, lambda done: 2.0 - done)
    ending = first_ending(seen, plan(40))
    assert (ending.reason, ending.best_step) == ("over-fit", 1000)
    # From 0.35 on dev is more than RISEN above the best; so many evaluations in a row are waited for.
    assert ending.step == 1000 + 400 + 100 * IN_A_ROW
    assert "2.0000 at step 1,000" in ending_words(ending, seen, plan(40))


@pytest.mark.parametrize(
    ("available", "best", "metric", "seconds", "words"),
    [
        (0.0, 3000, None, 60.0, "All 4,000 steps of the plan are done."),
        (90.0, 3000, None, 60.0, "Dev has not fallen since step 3,000, so no more were planned."),
        (90.0, 4000, None, 60.0, "Dev was at its lowest at the last of them."),
        (90.0, 4000, 1.0, 60.0, "Every answer on dev is right, so no more were planned."),
        (90.0, 4000, None, 85.0, "There was no time for more."),
    ],
)
def test_why_no_more_steps_were_planned_is_told_as_it_was(available, best, metric, seconds, words):
    seen = [Evaluation(step, 2.0, 2.0 - (step == best), metric) for step in (3000, 4000)]
    says = ending_words(Ending("budget", 4000, best), seen, plan(40)._replace(available=available), seconds)
    assert says.startswith("All 4,000 steps of the plan are done.")
    assert says.endswith(words)


def test_a_rise_of_both_is_not_over_fitting():
    seen = curves(40, lambda done: 2.0 + 2 * (done - 0.25) ** 2, lambda done: 1.9 + 2 * (done - 0.25) ** 2)
    assert first_ending(seen, plan(40)).reason != "over-fit"


@pytest.mark.parametrize("seed", range(5))
def test_unrest_is_not_over_fitting(seed):
    """Noise of 0.02 nats passes RISEN often, but not by four of its own deviations four times in a row."""
    rng = np.random.default_rng(seed)
    seen = curves(60, lambda done: 2.0 - 0.1 * done + rng.normal(0, 0.02), lambda done: 2.0 - 0.2 * done)
    assert first_ending(seen, plan(60, "constant")).reason == "budget"


def test_what_is_not_finite_stops_nothing_here():
    seen = curves(20, lambda done: math.nan)
    assert first_ending(seen, plan(20)).reason == "budget"
    assert check_ending([], plan(20)) is None


@given(st.lists(st.floats(0.5, 4.0), min_size=3, max_size=30), st.floats(-0.01, 0.01))
def test_the_gain_ahead_is_scipys_regression(losses, slope):
    seen = [Evaluation(100 * i, 2.0 + slope * i, loss) for i, loss in enumerate(losses)]
    of = plan(len(losses) + 5)
    gain = gain_ahead(seen, of)
    recent = seen[len(seen) // 2 :]
    if len(recent) < 8 or recent[-1].step < of.steps / 2:
        assert gain is None
        return
    falls = []
    for side in ("train", "dev"):
        line = stats.linregress([one.step for one in recent], [getattr(one, side) for one in recent])
        falls.append(max(0.0, 2 * line.stderr - line.slope))
    assert gain == pytest.approx(2 * max(falls) * (of.steps - recent[-1].step), abs=1e-6)


def test_unrest_is_the_deviation_of_noise_on_any_straight_course():
    rng = np.random.default_rng(0)
    found = [loss_noise((3 - 0.01 * np.arange(16) + rng.normal(0, 0.01, 16)).tolist()) for _ in range(500)]
    assert np.median(found) == pytest.approx(0.01, rel=0.15)


# The verdict


def test_verdicts():
    def of(train: list[float], dev: list[float], count=1.977, ending=BUDGET):
        seen = [Evaluation(100 * i, *both) for i, both in enumerate(zip(train, dev, strict=True))]
        verdict = judge_fit(seen, ending, count)
        simple = Rung("bigram", True, 9, 0.0, count or 0.0, None, 0.0, 0.0, None)
        return verdict.name, verdict_words(verdict, seen, Ladder("names", (simple,)))

    good = of([3.3, 2.1, 1.95, 1.87, 1.82], [3.3, 2.15, 2.0, 1.93, 1.904])
    assert good[0] == "good fit"
    assert "dev is 1.9040 and train 1.8200" in good[1]

    over = of([3.3, 2.0, 1.85, 1.75, 1.70], [3.3, 2.05, 1.90, 1.91, 1.93])
    assert over[0] == "over-fit"
    assert "lowest at step 200 with 1.9000 and then rose to 1.9300" in over[1]
    assert "train fell from 1.8500 to 1.7000" in over[1]

    by_heart = of([3.3, 1.2, 1.1, 1.05, 1.0], [3.3, 2.0, 1.92, 1.91, 1.90])
    assert by_heart[0] == "over-fit"
    assert "0.9000 below" in by_heart[1]

    behind = of([3.3, 2.5, 2.4, 2.1, 2.08], [3.3, 2.5, 2.42, 2.14, 2.12])
    assert behind[0] == "under-fit"
    assert "counting alone reaches 1.9770" in behind[1]

    no_gap = of([3.3, 2.5, 2.0, 1.96, 1.95], [3.3, 2.5, 2.0, 1.965, 1.96])
    assert no_gap[0] == "under-fit"
    assert "0.0100 apart" in no_gap[1]

    falling = of([3.3, 2.7, 2.4, 2.1, 1.8], [3.3, 2.75, 2.5, 2.25, 1.95])
    assert falling[0] == "under-fit"
    assert "fell by" in falling[1]

    told = of([3.3, 2.0, 1.9], [3.3, 2.1, 2.05], None, Ending("over-fit", 200, 100))
    assert told[0] == "over-fit"


def test_a_rise_within_the_unrest_is_no_over_fitting():
    rng = np.random.default_rng(0)
    dev = [1.95 + rng.normal(0, 0.01) for _ in range(20)]
    dev[10], dev[-1] = 1.93, 1.945
    seen = [Evaluation(100 * i, loss - 0.05 - 0.001 * i, loss) for i, loss in enumerate(dev)]
    assert seen[-1].dev - best_evaluation(seen).dev < RISEN
    assert judge_fit(seen, BUDGET, 1.977).name == "good fit"


def test_a_run_of_one_evaluation_has_a_verdict():
    assert judge_fit([Evaluation(0, 3.3, 3.3)], BUDGET, None).name == "under-fit"


def test_where_nothing_is_left_to_learn_it_fits():
    curve = [Evaluation(0, 2.3, 2.3), Evaluation(50, 0.002, 0.004), Evaluation(100, 0.0001, 0.0002)]
    assert judge_fit(curve, Ending("budget", 100, 100), None, guessing=2.3).name == "good fit"
    assert judge_fit(curve, Ending("budget", 100, 100)).name != "good fit"  # against nothing known it stays open


def test_no_good_fit_behind_the_simple_models():
    curve = [Evaluation(0, 3.3, 3.3), Evaluation(500, 1.5, 2.05), Evaluation(1000, 1.6, 2.0)]
    assert judge_fit(curve, Ending("budget", 1000, 1000), best_count_dev=1.9).name == "under-fit"
    assert judge_fit(curve, Ending("budget", 1000, 1000), best_count_dev=2.1).name != "under-fit"


def test_weights_that_were_best_before_the_first_step_learned_nothing():
    curve = [Evaluation(0, 2.0, 2.0), Evaluation(50, 1.7, 2.1), Evaluation(100, 1.5, 2.2)]
    assert judge_fit(curve, Ending("over-fit", 100, 0), 2.0) == Verdict("over-fit", "nothing learned")
    flat = [Evaluation(0, 2.0, 2.0), Evaluation(50, 2.0, 2.1), Evaluation(100, 2.0, 2.1)]
    assert judge_fit(flat, Ending("budget", 100, 0), 2.0) == Verdict("under-fit", "nothing learned")


@pytest.mark.parametrize(
    ("random_loss", "name", "reason"),
    [
        (0.64, "good fit", "rest is random"),
        (0.5, "under-fit", "nothing by heart"),
        (None, "under-fit", "nothing by heart"),
    ],
)
def test_where_only_what_is_random_is_left_it_is_no_under_fit(random_loss, name, reason):
    """Symbols that repeat what stood before, after a few that nothing tells: dev stands where these alone stand."""
    seen = [Evaluation(0, 2.2, 2.2), Evaluation(500, 0.65, 0.66), Evaluation(1000, 0.641, 0.645)]
    verdict = judge_fit(seen, Ending("budget", 1000, 1000), 1.6, math.log(9), random_loss=random_loss)
    assert (verdict.name, verdict.reason) == (name, reason)
    says = verdict_words(verdict, seen, Ladder("copy-back", ()))
    assert ("what was drawn at random costs 0.6400 a token by itself" in says) == (reason == "rest is random")


def test_of_generated_items_it_is_known_what_was_drawn_at_random():
    """By hand: 4 of 8 symbols are drawn, for 12 symbols and an end."""
    copied = open_task(DataOptions("copy-back", kind="list"))
    assert copied.facts.random_loss == pytest.approx(4 * math.log(8) / 13)
    assert open_task(DataOptions("names")).facts.random_loss is None


def test_the_gap_is_told_as_it_was_judged_on_the_whole_of_both_sides():
    """On the way dev lay far above train, by chance of the few that were looked at."""
    seen = [Evaluation(0, 3.3, 3.3), Evaluation(500, 1.5, 2.01), Evaluation(1000, 1.4, 2.0)]
    ending, whole = Ending("budget", 1000, 1000), Evaluation(1000, 1.8, 1.9)
    assert judge_fit(seen, ending, 2.1).reason == "by heart"
    verdict = judge_fit(seen, ending, 2.1, whole=whole)
    assert verdict.reason == "at rest"
    ladder = Ladder("names", (Rung("transformer", False, 9, whole.train, whole.dev, None, 0.0, 0.0, None),))
    assert verdict_words(verdict, seen, ladder).startswith("at step 1,000 dev is 1.9000 and train 1.8000, 0.1000 apart")
