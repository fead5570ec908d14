"""Measures beside scikit-learn's, and by brute force where it has none."""

import math

import numpy as np
import pytest
from sklearn import metrics

from pellucid.training.tasks.metrics import (
    accuracy,
    calibration,
    confusion,
    exact_match,
    log_loss,
    mean_absolute_error,
    mean_squared_error,
    r_squared,
    root_mean_squared_error,
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
