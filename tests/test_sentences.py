"""Whatever is said of a run was measured: each kind of sentence, where it must appear and where it must not."""

import dataclasses
import math

import pytest
from tests.tiny_records import TINY_RUN

from pellucid.figures.words.ladder import best_network_words, earned_words
from pellucid.figures.words.training import headline_words, verdict_words
from pellucid.inspection.judgements import judge_updates
from pellucid.records import (
    Answers,
    Confusion,
    Ending,
    Evaluation,
    Gain,
    Ladder,
    Measure,
    Rung,
    Step,
    Timing,
    Verdict,
)
from pellucid.training.stopping import harder_dev, is_behind, judge_fit

CURVE = [Evaluation(0, 3.3, 3.3), Evaluation(500, 1.85, 1.95), Evaluation(1000, 1.82, 1.90)]
DONE = Ending("budget", 1000, 1000)


def ladder_of(network=None, simple=None, metric="accuracy", gains=()):
    """A ladder of one network and one simple model by what they reach on dev."""
    rungs = [
        Rung("mlp", False, 99, 1.8, 1.9, None, math.nan, 1.0, 1.0, metric=network, gains=gains),
        Rung("centroid", True, 9, 2.1, 2.1, None, math.nan, 1.0, None, metric=simple),
    ]
    return Ladder("x", tuple(rungs), measure=Measure(metric=metric) if metric else Measure())


def curve(train, dev):
    return [Evaluation(100 * i, *both) for i, both in enumerate(zip(train, dev, strict=True))]


# For each reason: curves that have it, and curves that are near it and have it not; counting reaches 1.977.
REASONS = {
    "dev rose": (
        curve([3.3, 2.0, 1.85, 1.75, 1.70], [3.3, 2.05, 1.90, 1.91, 1.93]),
        curve([3.3, 2.0, 1.85, 1.85, 1.86], [3.3, 2.05, 1.90, 1.91, 1.93]),  # train rose too
    ),
    "by heart": (
        curve([3.3, 1.2, 1.1, 1.05, 1.0], [3.3, 2.0, 1.92, 1.91, 1.90]),
        curve([3.3, 1.8, 1.7, 1.65, 1.6], [3.3, 2.0, 1.92, 1.91, 1.90]),
    ),
    "still falling": (
        curve([3.3, 2.7, 2.4, 2.1, 1.8], [3.3, 2.75, 2.5, 2.25, 1.95]),
        curve([3.3, 2.0, 1.9, 1.85, 1.8], [3.3, 2.1, 2.0, 1.96, 1.95]),
    ),
    "behind simple models": (
        curve([3.3, 2.5, 2.2, 2.1, 2.08], [3.3, 2.5, 2.22, 2.14, 2.12]),
        curve([3.3, 2.5, 2.0, 1.9, 1.88], [3.3, 2.5, 2.02, 1.94, 1.92]),
    ),
    "nothing by heart": (
        curve([3.3, 2.5, 2.0, 1.96, 1.95], [3.3, 2.5, 2.0, 1.965, 1.96]),
        curve([3.3, 2.5, 2.0, 1.90, 1.89], [3.3, 2.5, 2.0, 1.965, 1.96]),
    ),
    "at rest": (
        curve([3.3, 2.1, 1.95, 1.87, 1.82], [3.3, 2.15, 2.0, 1.93, 1.904]),
        curve([3.3, 2.1, 1.95, 1.87, 1.82], [3.3, 2.15, 2.0, 1.99, 1.98]),  # counting is better
    ),
    "nothing learned": (
        curve([2.0, 2.0, 2.0], [2.0, 2.1, 2.1]),
        curve([2.0, 1.9, 1.9], [2.0, 1.95, 1.95]),
    ),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_verdict_is_given_where_its_reason_is_and_nowhere_else(reason):
    there, near = REASONS[reason]
    best, ladder = min(there, key=lambda one: one.dev), ladder_of(metric="")
    rungs = [one if one.is_counted else one._replace(train=best.train, dev=best.dev) for one in ladder.rungs]
    ladder = ladder._replace(rungs=tuple(rungs))
    assert judge_fit(there, DONE, 1.977).reason == reason
    assert judge_fit(near, DONE, 1.977).reason != reason
    # The numbers of its sentence are the curve's own.
    said = verdict_words(judge_fit(there, DONE, 1.977), there, ladder)
    known = {f"{loss:.4f}" for one in there for loss in (one.train, one.dev)}
    assert any(number in said for number in known)


def test_behind_is_told_by_what_the_models_are_judged_by():
    """Its loss is the lower one, but it is right less often: that is no good fit."""
    verdict = judge_fit(CURVE, DONE, 2.1, is_behind=True)
    assert verdict == Verdict("under-fit", "behind simple models")
    words = verdict_words(verdict, CURVE, ladder_of(0.5, 0.9))
    assert "with 50.00 % of accuracy where centroid has 90.00 %" in words
    assert judge_fit(CURVE, DONE, 2.1).name == "good fit"
    # Next to nothing is left to learn, but a simple model learned more of it.
    solved = [Evaluation(0, 2.3, 2.3), Evaluation(100, 0.01, 0.02)]
    assert judge_fit(solved, DONE, guessing=2.3).reason == "solved"
    assert judge_fit(solved, DONE, guessing=2.3, is_behind=True).reason == "behind simple models"


@pytest.mark.parametrize(
    ("gain", "network", "expected"),
    [
        (None, 0.8, True),  # not known how sure it is: then by the number
        (None, 0.9, False),
        (Gain("dev", -0.1, -0.2, -0.05, 40), 0.8, True),
        (Gain("dev", -0.1, -0.3, 0.1, 40), 0.8, False),  # no more than chance can make
        (Gain("dev", -0.1, math.nan, math.nan, 1), 0.8, True),
    ],
)
def test_behind_means_more_than_chance(gain, network, expected):
    ladder = ladder_of(network, 0.9, gains=(gain,) if gain else ())
    assert is_behind(ladder, ladder.rungs[0]) == expected
    assert not is_behind(ladder_of(0.1, 0.9, metric=""), ladder.rungs[0])


def test_one_answer_for_everything_is_no_fit():
    verdict = judge_fit(CURVE, DONE, 2.1, says_one_thing=True)
    assert verdict == Verdict("under-fit", "same answer")
    assert "says the same of every example of dev" in verdict_words(verdict, CURVE, ladder_of(0.9, 0.9))
    classes = ("a", "b")
    assert Answers(4, {}, {}, Confusion(classes, ((3, 0), (1, 0)))).says_one_thing
    assert not Answers(4, {}, {}, Confusion(classes, ((2, 1), (1, 0)))).says_one_thing
    assert not Answers(4, {}, {}, Confusion(classes, ((4, 0), (0, 0)))).says_one_thing  # there is only one class
    assert Answers(2, {}, {}, points=((1.0, 5.0), (2.0, 5.0))).says_one_thing
    assert not Answers(2, {}, {}, points=((1.0, 5.0), (2.0, 5.5))).says_one_thing
    assert not Answers(9, {}, {}, points=((1.0, 5.0), (2.0, 5.0))).says_one_thing  # of nine only two are known


def test_by_heart_is_not_drift():
    far = [Evaluation(0, 3.3, 3.6), Evaluation(500, 1.5, 2.0), Evaluation(1000, 1.4, 1.95)]
    assert judge_fit(far, DONE, 2.1).reason == "by heart"
    # For a model that keeps a few numbers dev is as much harder: then it is the data that differ.
    drifted = judge_fit(far, DONE, 2.1, harder=0.4)
    assert drifted == Verdict("good fit", "at rest", harder=0.4)
    assert "for the simplest model dev is 0.4000 harder than train too" in verdict_words(
        drifted, far, ladder_of(0.9, 0.8)
    )
    near = judge_fit(CURVE, DONE, 2.1, harder=0.4)
    assert "harder" not in verdict_words(near, CURVE, ladder_of(0.9, 0.8))
    # Guessing costs the same everywhere; a memory of train says nothing of how hard dev is.
    rungs = [
        Rung("x", True, n, train, dev, None, 0.0, 0.0, None) for n, train, dev in ((1, 3, 3), (27, 2, 2.5), (9e5, 1, 2))
    ]
    assert harder_dev(rungs) == 0.5
    assert harder_dev(rungs[:1]) == 0.0


def test_where_dev_ended_is_told_as_it_was():
    above = [*CURVE, Evaluation(1100, 1.81, 1.905)]
    assert "dev ended 0.0050 above its best" in verdict_words(
        Verdict("good fit", "at rest"), above, ladder_of(0.9, 0.8)
    )
    assert "lowest at the end" in verdict_words(Verdict("good fit", "at rest"), CURVE, ladder_of(0.9, 0.8))


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ((), "The best network, mlp, earns 10.00 points of accuracy over"),
        ((Gain("dev", 0.1, 0.05, 0.15, 90), Gain("test", 0.1, 0.02, 0.2, 90)), "The best network, mlp, earns"),
        (
            (Gain("dev", 0.1, 0.05, 0.15, 90), Gain("test", -0.1, -0.2, 0.1, 90)),
            "No gain of the best network, mlp, can be",
        ),
    ],
)
def test_what_dev_and_test_do_not_both_show_is_no_gain_of_the_best_network(gains, words):
    assert best_network_words(ladder_of(0.9, 0.8, gains=gains)).startswith(words)
    assert "is level with" in best_network_words(ladder_of(0.8, 0.8))


def test_what_the_budget_did_stands_in_the_headline():
    steps = tuple(Step(i, 1.0, 5, 0.1, 1.0) for i in range(1, 5))
    run = dataclasses.replace(TINY_RUN, steps=steps, timings=(Timing(4, 8.0, 10.0, stepping=6.0),))
    epochs = 20 / run.data.n_tokens["train"]
    said = f"It made 4 steps, {epochs:.1f} epochs, in 8.0 s, of which 75.00 % went into them."
    assert headline_words(run) == f"{earned_words(run.ladder)} {said}"
    unknown = dataclasses.replace(run, timings=())
    assert headline_words(unknown).endswith(f"It made 4 steps, {epochs:.1f} epochs.")


def test_how_slow_a_matrix_is_is_told_by_its_own_pace():
    slow = [one for one in judge_updates({"a": 5e-5, "b": 1e-3}) if one.severity == "note"]
    assert [one.means for one in slow] == ["20,000 steps like these would move it by its own size"]
    assert [one.means for one in judge_updates({"a": 0.0, "b": 1e-3})] == ["it does not move"]
    assert [one.severity for one in judge_updates({"a": 5e-4, "b": 1e-3})] == ["sound"]
