"""Where one class has most of the rows: measures that accuracy does not replace, and what is said of them."""

import numpy as np
import pytest
import torch
from sklearn import metrics as theirs

from pellucid.data.kinds import ReadOptions
from pellucid.data.prepare import table_sides
from pellucid.data.readers.csv import read_csv
from pellucid.data.readers.sources import MemorySource
from pellucid.figures.words.answers import majority_words, metric_lines
from pellucid.layers.losses import find_example_loss
from pellucid.records import Answers, Cutoff, DataFacts, Gain, as_plain
from pellucid.records.plain import from_plain
from pellucid.training.tasks import metrics
from pellucid.training.tasks.example_answers import Scored, answers_of

FACTS = DataFacts("a.csv", "", "table", "", "", 2, ("no", "yes"), {}, {}, class_counts=(94, 6))


@pytest.mark.parametrize("digits", [1, 8])
def test_ranks_are_measured_as_scikit_learn_does(digits):
    draw = np.random.default_rng(digits)
    is_rare = draw.random(600) < 0.08
    scores = np.round(draw.normal(size=600) + is_rare, digits)  # to one digit, many are equal
    assert metrics.area_under_curve(scores, is_rare) == pytest.approx(theirs.roc_auc_score(is_rare, scores))
    assert metrics.average_precision(scores, is_rare) == pytest.approx(theirs.average_precision_score(is_rare, scores))
    said = (scores > 1).astype(np.int64)
    ours = metrics.balanced_accuracy(said, is_rare.astype(np.int64))
    assert ours == pytest.approx(theirs.balanced_accuracy_score(is_rare, said))


def test_no_other_cutoff_is_better():
    draw = np.random.default_rng(3)
    is_rare = draw.random(300) < 0.1
    chances = np.round(1 / (1 + np.exp(3 - draw.normal(size=300) - 2 * is_rare)), 2)
    at = metrics.best_cutoff(chances, is_rare)
    merits = {one: theirs.balanced_accuracy_score(is_rare, chances >= one) for one in np.unique(chances)}
    assert merits[at] == pytest.approx(max(merits.values()))


def test_what_one_class_alone_cannot_tell_is_not_known():
    nobody = np.zeros(4, dtype=bool)
    assert np.isnan(metrics.area_under_curve(np.arange(4.0), nobody))
    assert np.isnan(metrics.average_precision(np.arange(4.0), nobody))


def test_intervals_of_numbers_are_those_of_a_bootstrap():
    draw = np.random.default_rng(0)
    truths = draw.normal(size=400)
    answers = 0.8 * truths + 0.5 * draw.normal(size=400)
    rows = draw.integers(0, 400, (4_000, 400))
    for name, interval in (
        ("r_squared", metrics.r_squared_interval(answers, truths)),
        ("mean_absolute_error", metrics.mean_absolute_error_interval(answers, truths)),
    ):
        again = [getattr(metrics, name)(answers[one], truths[one]) for one in rows]
        low, high = np.quantile(again, [0.025, 0.975])
        width = high - low
        assert interval == pytest.approx((low, high), abs=0.15 * width)


def answered(share_rare, knowledge, n=1_500):
    """A table with a rare class, and the answers of a network that knows so much of it."""
    draw = np.random.default_rng(1)
    lines = [
        f"{x},{'yes' if y else 'no'}" for x, y in zip(draw.normal(size=n), draw.random(n) < share_rare, strict=True)
    ]
    table = read_csv(MemorySource("made.csv", "\n".join(["x,y", *lines]).encode()), ReadOptions(), "")
    sides = table_sides(table, "y")

    def score(examples):
        truths = torch.from_numpy(examples.targets)
        lead = 3.0 - knowledge * truths + torch.from_numpy(draw.normal(size=len(examples)))
        return Scored(examples, torch.stack([lead, -lead], dim=1), truths, torch.zeros(len(examples), 0))

    loss = find_example_loss("cross-entropy", "classification")
    return answers_of(sides, "dev", score(sides.dev), score(sides.test), loss)


def test_the_majority_is_nothing_learned_and_is_said_so():
    answers = answered(0.06, knowledge=0.0)
    words = "\n".join(metric_lines(answers, FACTS))
    assert answers.metrics["balanced accuracy"] == pytest.approx(0.5, abs=0.05)
    assert "Saying no always is right in" in words
    assert "nothing is earned" in words or "no more than chance can make" in words or "points less" in words
    assert "points more" not in words


def test_a_network_that_knows_the_rare_class_is_told_from_the_majority():
    answers = answered(0.06, knowledge=6.0)
    words = "\n".join(metric_lines(answers, FACTS))
    assert answers.metrics["AUC"] > 0.95
    assert "points more (95 % interval" in words
    assert "nothing is earned" not in words
    assert "With yes said from a probability of" in words
    assert isinstance(answers.cutoff, Cutoff)
    (_, _), (missed, found) = answers.cutoff.dev.counts
    assert found / (found + missed) > 0.9
    plain = as_plain(answers)
    assert as_plain(from_plain(Answers, plain)) == plain


def test_of_even_classes_nothing_more_is_said():
    answers = answered(0.5, knowledge=6.0)
    assert list(answers.metrics) == ["accuracy", "log loss"]
    assert len(metric_lines(answers, FACTS)) == 2
    assert not answers.over_majority


def test_behind_the_majority_is_said():
    behind = Answers(500, {"accuracy": 0.9}, {}, over_majority=(Gain("dev", -0.04, -0.06, -0.02, 500),))
    assert "4.00 points less" in majority_words(behind, FACTS)
