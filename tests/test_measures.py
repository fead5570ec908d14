"""Measures beside scikit-learn's, and by brute force where it has none."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics
from tests.at_length import some_of

from pellucid.data.prepare.tokens import Corpus
from pellucid.records.intervals import student_factor
from pellucid.training.tasks.metrics import (
    Units,
    accuracy,
    calibration,
    class_units,
    confusion,
    exact_match,
    log_loss,
    mean_absolute_error,
    mean_absolute_error_interval,
    mean_squared_error,
    number_units,
    paired_gain,
    r_squared,
    r_squared_interval,
    root_mean_squared_error,
    token_units,
    tokens_right,
)

NAMES = ("a", "b", "c", "d")


@pytest.fixture(params=[0, 1, 2])
def answered(request):
    """Probabilities of four classes, the last of which never occurs, and the classes."""
    draw = np.random.default_rng(request.param)
    return draw.dirichlet(np.full(4, 0.5), 200), draw.integers(0, 3, 200)


def test_accuracy_is_scikit_learns(answered):
    probabilities, classes = answered
    assert accuracy(probabilities, classes) == metrics.accuracy_score(classes, probabilities.argmax(1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_loss_is_scikit_learns(answered, dtype):
    probabilities, classes = answered
    theirs = metrics.log_loss(classes, probabilities, labels=range(4))
    assert log_loss(probabilities.astype(dtype), classes) == pytest.approx(theirs, rel=1e-6)


def test_a_probability_of_zero_costs_much_and_not_everything():
    probabilities, classes = np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 1])
    theirs = metrics.log_loss(classes, probabilities, labels=[0, 1])
    assert log_loss(probabilities, classes) == pytest.approx(theirs) == pytest.approx((36.04 + 0.69) / 2, abs=0.01)


def test_who_is_sure_and_right_loses_nothing():
    assert math.copysign(1, log_loss(np.eye(2), np.array([0, 1]))) == 1
    assert log_loss(np.eye(2), np.array([0, 1])) == 0


def test_the_confusion_is_scikit_learns(answered):
    probabilities, classes = answered
    ours = confusion(probabilities.argmax(1), classes, NAMES)
    assert ours.classes == NAMES
    assert np.array_equal(ours.counts, metrics.confusion_matrix(classes, probabilities.argmax(1), labels=range(4)))


@pytest.mark.parametrize("n_bins", [1, 3, 10, 15])
def test_calibration_by_brute_force(answered, n_bins):
    probabilities, classes = answered
    confidences, is_right = probabilities.max(1), probabilities.argmax(1) == classes
    ours = calibration(confidences, is_right, n_bins)
    assert len(ours.bins) == n_bins
    error = 0.0
    for place, one in enumerate(ours.bins):
        inside = [i for i, c in enumerate(confidences) if place / n_bins < c <= (place + 1) / n_bins]
        assert (one.low, one.high, one.n) == (place / n_bins, (place + 1) / n_bins, len(inside))
        if inside:
            assert one.confidence == pytest.approx(sum(confidences[i] for i in inside) / len(inside))
            assert one.share_right == pytest.approx(sum(bool(is_right[i]) for i in inside) / len(inside))
            error += abs(sum(float(is_right[i]) - confidences[i] for i in inside)) / len(classes)
        else:
            assert math.isnan(one.confidence)
            assert math.isnan(one.share_right)
    assert ours.error == pytest.approx(error)


def test_the_ends_of_the_bins():
    seen = calibration(np.array([0.0, 0.5, 0.5000001, 1.0, 1.0000001]), np.array([True] * 5), n_bins=2)
    assert [one.n for one in seen.bins] == [2, 3]


def test_whoever_is_right_as_often_as_sure_has_no_error():
    confidences, is_right = np.full(100, 0.75), np.arange(100) < 75
    assert calibration(confidences, is_right).error == 0
    assert calibration(confidences, np.ones(100, dtype=bool)).error == 0.25


@pytest.mark.parametrize("shape", [(50,), (50, 3)])
def test_measures_of_numbers_are_scikit_learns(shape):
    draw = np.random.default_rng(0)
    truths = draw.normal(5, 2, shape)
    answers = truths + draw.normal(0, 1, shape)
    spread = metrics.r2_score(truths, answers, multioutput="variance_weighted")
    assert r_squared(answers, truths) == pytest.approx(spread)
    assert mean_absolute_error(answers, truths) == pytest.approx(metrics.mean_absolute_error(truths, answers))
    assert mean_squared_error(answers, truths) == pytest.approx(metrics.mean_squared_error(truths, answers))
    rooted = math.sqrt(metrics.mean_squared_error(truths, answers))
    assert root_mean_squared_error(answers, truths) == pytest.approx(rooted)


def test_the_mean_earns_nothing_and_equal_truths_have_no_r_squared():
    truths = np.array([1.0, 2.0, 6.0])
    assert r_squared(np.full(3, 3.0), truths) == 0
    assert r_squared(np.full(3, 4.0), truths) < 0
    assert math.isnan(r_squared(np.array([1.0, 2.0]), np.array([5.0, 5.0])))


def test_float32_is_summed_in_float64():
    truths = np.full(100_000, 0.1, dtype=np.float32) + np.float32(1e4)
    answers = truths + np.float32(1)
    assert mean_absolute_error(answers, truths) == 1.0
    assert mean_squared_error(answers, truths) == 1.0


def test_pairs_by_hand():
    assert exact_match(["ab", "b", ""], ["ab", "ab", ""]) == 2 / 3
    # b against ab: no place of a, b, end is right; "" against "": its end is.
    assert tokens_right(["ab", "b", ""], ["ab", "ab", ""]) == (3 + 0 + 1) / (3 + 3 + 1)
    assert tokens_right([[1, 2, 3, 4]], [[1, 2]]) == 2 / 5
    assert tokens_right([[1, 2]], [[1, 2, 3, 4]]) == 2 / 5


def units_of(merits, sizes=None) -> Units:
    return Units(np.asarray(merits, float), np.ones(len(merits)) if sizes is None else np.asarray(sizes, float))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30, 1_000])
def test_the_factor_is_students(freedom):
    wanted = stats.t.ppf(0.975, freedom)
    assert student_factor(freedom) == pytest.approx(wanted, rel={1: 0.12, 2: 0.01}.get(freedom, 0.0025))


@pytest.mark.parametrize("n", [5, 40, 2_000])
def test_a_gain_is_the_paired_t_test(n):
    draw = np.random.default_rng(n)
    theirs = draw.normal(size=n)
    ours = theirs + draw.normal(0.2, 0.5, n)
    found = paired_gain("dev", units_of(ours), units_of(theirs))
    wanted = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert (found.side, found.n, found.mean) == ("dev", n, pytest.approx((ours - theirs).mean()))
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=0.003 * (wanted.high - wanted.low))


def test_a_gain_on_items_of_all_lengths_is_the_bootstraps():
    """Items are drawn again with what both models did on them: the loss of a token is a ratio of two sums."""
    draw = np.random.default_rng(0)
    sizes = draw.integers(2, 15, 800)
    theirs = -draw.gamma(2.0, sizes)
    ours = theirs + 0.05 * sizes + draw.normal(0, np.sqrt(sizes))
    found = paired_gain("test", units_of(ours, sizes), units_of(theirs, sizes))
    rows = draw.integers(0, 800, (4_000, 800))
    low, high = np.quantile((ours - theirs)[rows].sum(1) / sizes[rows].sum(1), [0.025, 0.975])
    assert found.mean == pytest.approx((ours.sum() - theirs.sum()) / sizes.sum())
    # An end of 4,000 draws is known to about 3 % of the width; three times that.
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.09 * (high - low))


@pytest.mark.parametrize(("n", "p_ours", "p_theirs"), some_of([(27, 0.9, 0.9), (27, 0.95, 0.8), (300, 0.75, 0.72)], 3))
def test_the_interval_of_right_and_wrong_holds_the_truth_as_often_as_it_says(n, p_ours, p_theirs):
    """2,000 sides: a share of 95 % is then known to 0.5 points, and four of these are allowed."""
    draw = np.random.default_rng(1)
    hits = 0
    for _ in range(2_000):
        hard = draw.random(n)  # rows that are hard for one are hard for the other
        ours, theirs = (hard + draw.normal(0, 0.1, n) < p for p in (p_ours, p_theirs))
        gain = paired_gain("dev", units_of(ours), units_of(theirs))
        hits += gain.low <= _true_gain(p_ours, p_theirs) <= gain.high
    assert hits / 2_000 > 0.93


def _true_gain(p_ours: float, p_theirs: float) -> float:
    """The chance that a uniform draw and a normal deviation of 0.1 stay below p, by numbers, for both."""
    places = (np.arange(20_000) + 0.5) / 20_000
    ours, theirs = (stats.norm.cdf((p - places) / 0.1).mean() for p in (p_ours, p_theirs))
    return float(ours - theirs)


@pytest.mark.parametrize("n", [2, 5, 40, 2_000])
def test_no_interval_reaches_beyond_what_is_possible(n):
    """Shares differ by at most 1, R² is at most 1, and no distance is below 0; where they are reached, that is told."""
    won = paired_gain("dev", units_of([1] * n), units_of([0] * n))
    lost = paired_gain("dev", units_of([0] * n), units_of([1] * n))
    assert (won.mean, lost.mean) == (1, -1)
    assert -1 <= won.low < won.high == 1
    assert (lost.low, lost.high) == (-won.high, -won.low)
    truths = np.arange(n + 1.0)
    nearly = truths + np.where(np.arange(n + 1) == n // 2, 0.5, 0.0)
    assert r_squared_interval(nearly, truths)[1] <= 1
    assert mean_absolute_error_interval(nearly, truths)[0] >= 0


def test_few_rows_tell_nothing():
    even = paired_gain("dev", units_of([1, 1, 0, 1]), units_of([1, 0, 1, 1]))
    assert (even.mean, even.verdict) == (0, "level")
    assert paired_gain("dev", units_of([1]), units_of([0])).verdict == "level"
    assert paired_gain("dev", units_of([]), units_of([])).verdict == "level"
    same = paired_gain("dev", units_of([-1.5] * 9), units_of([-1.5] * 9))
    assert (same.mean, same.verdict) == (0, "level")


def test_units_are_parts_of_their_measure(answered):
    probabilities, classes = answered
    of_rows = class_units(probabilities, classes)
    assert of_rows.merits.sum() / of_rows.sizes.sum() == pytest.approx(accuracy(probabilities, classes))
    answers, truths = probabilities[:, 0], probabilities[:, 0] + probabilities[:, 1] ** 2
    of_numbers = number_units(answers, truths)
    assert 1 + of_numbers.merits.mean() == pytest.approx(r_squared(answers, truths))
    losses = np.arange(9.0)
    items = token_units(losses, Corpus(np.array([0, 1, 2, 0, 3, 0, 1, 1, 1, 0], np.uint8), True), 4)
    assert (items.merits.tolist(), items.sizes.tolist()) == ([-3, -7, -26], [3, 2, 4])
    windows = token_units(losses, Corpus(np.arange(10, dtype=np.uint8), False), 4)
    assert (windows.merits.tolist(), windows.sizes.tolist()) == ([-6, -22, -8], [4, 4, 1])


def test_of_nothing_nothing_is_known():
    none, no_rows = np.zeros(0), np.zeros((0, 2))
    found = [
        accuracy(no_rows, none.astype(int)),
        log_loss(no_rows, none.astype(int)),
        calibration(none, none.astype(bool)).error,
        r_squared(none, none),
        mean_absolute_error(none, none),
        root_mean_squared_error(none, none),
        exact_match([], []),
        tokens_right([], []),
    ]
    assert all(math.isnan(one) for one in found)
