"""How good answers are: for classes, for numbers, for pairs.

Every measure is a mean over examples, or is made of such means, so it does not depend on their order.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pellucid.data.prepare.tokens import Corpus
from pellucid.data.vocabularies import Vocabulary, word_spans
from pellucid.records import Calibration, ConfidenceBin, Confusion, Gain, TokenAccuracy
from pellucid.records.intervals import student_factor

Floats = NDArray[Any]
Classes = NDArray[np.int64]

# A probability of 0 costs as much as this one, the smallest step from 1 in float64: 36 nats and not infinity.
LEAST = float(np.finfo(np.float64).eps)


def accuracy(probabilities: Floats, classes: Classes) -> float:
    """The share of examples whose likeliest class is the true one. probabilities: (n, K); classes: (n,).

    >>> accuracy(np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 1, 1]))
    0.6666666666666666
    """
    return float(np.mean(probabilities.argmax(axis=1) == classes)) if len(classes) else math.nan


def balanced_accuracy(answers: Classes, classes: Classes) -> float:
    """The mean over the classes that occur of the share that was found. answers, classes: (n,).

    Always saying one of K classes comes to 1/K, however frequent it is.

    >>> balanced_accuracy(np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1]))
    0.5
    """
    found = [float(np.mean(answers[classes == one] == one)) for one in np.unique(classes)]
    return sum(found) / len(found) if found else math.nan


def area_under_curve(scores: Floats, is_positive: NDArray[np.bool_]) -> float:
    """How often a positive has a higher score than a negative, of all such pairs; of equals half. scores: (n,).

    It is the area under the ROC curve; nan where one of the two is missing.

    >>> area_under_curve(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    n_positive = int(is_positive.sum())
    n_negative = len(is_positive) - n_positive
    if not n_positive or not n_negative:
        return math.nan
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # of equals the mean
    return float((ranks[is_positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def average_precision(scores: Floats, is_positive: NDArray[np.bool_]) -> float:
    """The mean precision at the positives, taken from the highest score down; equals are taken together. scores: (n,).

    Guessing comes to the share of positives; nan where there are none.

    >>> average_precision(np.array([0.9, 0.8, 0.7, 0.1]), np.array([True, False, True, False])) == (1 + 2 / 3) / 2
    True
    """
    if not is_positive.any():
        return math.nan
    hits, taken = _hits_from_the_top(scores, is_positive)
    return float((np.diff(hits, prepend=0) * hits / taken).sum() / hits[-1])


def best_cutoff(chances: Floats, is_positive: NDArray[np.bool_]) -> float:
    """The least probability from which on to say "positive", where the balanced accuracy is highest. chances: (n,).

    >>> best_cutoff(np.array([0.3, 0.2, 0.1, 0.05]), np.array([True, True, False, False]))
    0.2
    """
    hits, taken = _hits_from_the_top(chances, is_positive)
    n_positive = int(is_positive.sum())
    merit = hits / n_positive - (taken - hits) / (len(chances) - n_positive)
    return float(np.unique(chances)[::-1][int(merit.argmax())])


def _hits_from_the_top(scores: Floats, is_positive: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """For each different score, from the highest down: the positives, and all, that have it or a higher one."""
    values, places = np.unique(-scores, return_inverse=True)
    hits = np.cumsum(np.bincount(places, weights=is_positive, minlength=len(values)))
    return hits, np.cumsum(np.bincount(places, minlength=len(values)))


def log_loss(probabilities: Floats, classes: Classes) -> float:
    """The mean of −log p(true class), in nats. probabilities: (n, K); classes: (n,).

    >>> log_loss(np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 0])) == (math.log(2) + math.log(4)) / 2
    True
    """
    if not len(classes):
        return math.nan
    true = probabilities[np.arange(len(classes)), classes].astype(np.float64)
    return -float(np.log(np.maximum(true, LEAST)).mean()) + 0.0  # the loss of the sure and right is 0 and not −0


def confusion(answers: Classes, classes: Classes, names: tuple[str, ...]) -> Confusion:
    """How often each true class, a row, was answered with each class, a column. answers, classes: (n,).

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 1]), ("cat", "dog")).counts
    ((1, 1), (0, 1))
    """
    k = len(names)
    counts = np.bincount(classes * k + answers, minlength=k * k).reshape(k, k)
    return Confusion(names, tuple(tuple(row) for row in counts.tolist()))


def calibration(confidences: Floats, is_right: NDArray[np.bool_], n_bins: int = 10) -> Calibration:
    """Whether answers are right as often as they are sure. confidences: (n,), the probability of each answer.

    Bins are of equal width, and each holds its upper end. The error is Σ n_b / n · |share right − confidence|.

    >>> seen = calibration(np.array([0.6, 0.8, 0.8, 0.8]), np.array([True, True, False, True]), n_bins=2)
    >>> seen.bins[1]
    ConfidenceBin(low=0.5, high=1.0, n=4, confidence=0.75, share_right=0.75)
    >>> seen.error
    0.0
    """
    confidences = confidences.astype(np.float64)
    ends = np.arange(1, n_bins + 1) / n_bins
    # A confidence may be above 1 by a rounding error; it belongs to the last bin.
    places = np.minimum(np.searchsorted(ends, confidences, side="left"), n_bins - 1)
    bins, error = [], 0.0
    for place in range(n_bins):
        inside = places == place
        n = int(inside.sum())
        confidence = float(confidences[inside].mean()) if n else math.nan
        share_right = float(is_right[inside].mean()) if n else math.nan
        bins.append(ConfidenceBin(place / n_bins, float(ends[place]), n, confidence, share_right))
        error += n / len(confidences) * abs(share_right - confidence) if n else 0.0
    return Calibration(tuple(bins), error if len(confidences) else math.nan)


def r_squared(answers: Floats, truths: Floats) -> float:
    """How much of the squared deviation from the mean is explained: 1 − Σ (y − ŷ)² / Σ (y − ȳ)².

    answers, truths: (n,) or (n, features), where each feature has a mean of its own. The mean itself earns 0, and worse
    answers less. Where all truths are the same it is nan.

    >>> r_squared(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]))
    0.5
    """
    if not len(truths):
        return math.nan
    truths = truths.astype(np.float64)
    spread = float(((truths - truths.mean(axis=0)) ** 2).sum())
    return 1 - float(((truths - answers) ** 2).sum()) / spread if spread else math.nan


def mean_absolute_error(answers: Floats, truths: Floats) -> float:
    """The mean of |y − ŷ|, in the units of y. answers, truths: (n,) or (n, features).

    >>> mean_absolute_error(np.array([1.0, 5.0]), np.array([2.0, 2.0]))
    2.0
    """
    return float(np.abs(truths.astype(np.float64) - answers).mean()) if len(truths) else math.nan


def mean_absolute_error_interval(answers: Floats, truths: Floats) -> tuple[float, float]:
    """Where the mean absolute error of other rows like these lies, at 95 %. answers, truths: (n,)."""
    distances = np.abs(truths.astype(np.float64) - answers)
    if len(distances) < 2:
        return -math.inf, math.inf
    error = 1.96 * float(distances.std(ddof=1)) / math.sqrt(len(distances))
    return max(0.0, float(distances.mean()) - error), float(distances.mean()) + error


def r_squared_interval(answers: Floats, truths: Floats) -> tuple[float, float]:
    """Where R² of other rows like these lies, at 95 %: that of a ratio of two means. answers, truths: (n,)."""
    truths = truths.astype(np.float64)
    deviations = (truths - truths.mean()) ** 2 if len(truths) else truths
    if len(truths) < 3 or not deviations.any():
        return -math.inf, math.inf
    explained = r_squared(answers, truths)
    rest = (truths - answers) ** 2 - (1 - explained) * deviations
    error = 1.96 * float(rest.std(ddof=1)) / float(deviations.mean()) / math.sqrt(len(truths))
    return explained - error, min(1.0, explained + error)


def mean_squared_error(answers: Floats, truths: Floats) -> float:
    """The mean of (y − ŷ)². answers, truths: (n,) or (n, features).

    >>> mean_squared_error(np.array([1.0, 5.0]), np.array([2.0, 2.0]))
    5.0
    """
    return float(((truths.astype(np.float64) - answers) ** 2).mean()) if len(truths) else math.nan


def root_mean_squared_error(answers: Floats, truths: Floats) -> float:
    """The root of the mean of (y − ŷ)², in the units of y. answers, truths: (n,) or (n, features).

    >>> root_mean_squared_error(np.array([1.0, 5.0]), np.array([2.0, 2.0])) ** 2
    5.000000000000001
    """
    return math.sqrt(mean_squared_error(answers, truths))


def exact_match(answers: Sequence[Hashable], targets: Sequence[Hashable]) -> float:
    """The share of answers that are the target, whole.

    >>> exact_match(["abc", "ab"], ["abc", "abc"])
    0.5
    """
    right = sum(answer == target for answer, target in zip(answers, targets, strict=True))
    return right / len(targets) if targets else math.nan


def tokens_right(answers: Sequence[Sequence[Hashable]], targets: Sequence[Sequence[Hashable]]) -> float:
    """The share of places, of the longer of both, where answer and target have the same token; the end counts as one.

    >>> tokens_right(["abc", "ab"], ["abc", "abc"])  # 4 of 4 and 2 of 4
    0.75
    """
    n_right = n_places = 0
    for answer, target in zip(answers, targets, strict=True):
        n_right += sum(one == other for one, other in zip(answer, target, strict=False)) + (len(answer) == len(target))
        n_places += max(len(answer), len(target)) + 1
    return n_right / n_places if n_places else math.nan


def token_accuracy(
    name: str, is_right: NDArray[np.bool_], side: Corpus, vocabulary: Vocabulary
) -> TokenAccuracy | None:
    """How often the likeliest token was the true one: of all, of whole items of a list, of whole words of characters.

    name: of the side; is_right: (n,), of every token of the side but the first. None where there are none.

    >>> from pellucid.data.vocabularies import Characters
    >>> letters = Characters("abc")
    >>> items = Corpus(np.array([0, 1, 2, 0, 3, 0]), has_boundary=True)
    >>> token_accuracy("dev", np.array([True, True, True, False, True]), items, letters)
    TokenAccuracy(side='dev', share_right=0.8, n_tokens=5, whole='item', n_whole=2, n_whole_right=1)
    """
    if not len(is_right):
        return None
    found = TokenAccuracy(name, float(is_right.mean()), len(is_right))
    if side.has_boundary:
        whole = np.logical_and.reduceat(is_right, side.starts)
        return found._replace(whole="item", n_whole=len(whole), n_whole_right=int(whole.sum()))
    if vocabulary.kind != "characters":
        return found
    # The first token is not predicted, and so no word that begins with it.
    spans = np.array([span for span in word_spans(vocabulary.decode(side.tokens.tolist())) if span[0]]).reshape(-1, 2)
    n_wrong = np.concatenate([[0], np.cumsum(~is_right)])
    whole = n_wrong[spans[:, 1] - 1] == n_wrong[spans[:, 0] - 1]
    return found._replace(whole="word", n_whole=len(whole), n_whole_right=int(whole.sum()))


class Units(NamedTuple):
    """How well each item, window, row or image was done, so that two models can be compared one by one.

    The measure is sum(merits) / sum(sizes), and more is better.
    """

    merits: Floats
    sizes: Floats


def token_units(losses: Floats, side: Corpus, context: int) -> Units:
    """Tokens beside each other are alike, so they are taken together: by items of a list, by windows of a text.

    losses: of every token of the side but the first.
    """
    starts = side.starts if side.has_boundary else np.arange(0, len(losses), context)
    if not len(losses):
        return Units(np.zeros(0), np.zeros(0))
    return Units(-np.add.reduceat(losses, starts), np.diff(starts, append=len(losses)).astype(np.float64))


def class_units(scores: Floats, targets: Floats) -> Units:
    """scores: (n, classes) -> 1 for each that is right, else 0."""
    is_right = (np.argmax(scores, axis=1) == targets).astype(np.float64) if len(scores) else np.zeros(0)
    return Units(is_right, np.ones(len(is_right)))


def match_units(answers: Sequence[Hashable], targets: Sequence[Hashable]) -> Units:
    """1 for each answer that is its target, whole, else 0."""
    is_right = np.array([answer == target for answer, target in zip(answers, targets, strict=True)], dtype=np.float64)
    return Units(is_right, np.ones(len(is_right)))


def number_units(answers: Floats, targets: Floats) -> Units:
    """Of each row its part of R²: minus the squared error, over the variance of the targets."""
    errors = (answers.reshape(targets.shape) - targets) ** 2
    spread = float(((targets - targets.mean(axis=0)) ** 2).mean()) if len(targets) else 0.0
    merits = -errors.reshape(len(targets), -1).mean(axis=1) / (spread or 1.0)
    return Units(merits, np.ones(len(targets)))


def paired_gain(side: str, ours: Units, theirs: Units) -> Gain:
    """What ours earns over theirs on the same units, with its 95 % interval.

    Right or wrong: the interval of Bonett and Price (2012), which holds for few rows too; where it reaches beyond what
    two shares can differ by, it ends there. Else the mean of the differences with Student's t, units of different size
    counting by their size.

    >>> right, wrong = np.array([1.0] * 90 + [0.0] * 10), np.array([1.0] * 80 + [0.0] * 20)
    >>> paired_gain("dev", Units(right, np.ones(100)), Units(wrong, np.ones(100)))
    Gain(side='dev', mean=0.1, low=0.0343, high=0.1618, n=100)
    """
    differences, n = ours.merits - theirs.merits, len(ours.merits)
    if n < 2:
        return Gain(side, math.nan, -math.inf, math.inf, n)
    mean = float(differences.sum() / ours.sizes.sum())
    if bool(((differences == 0) | (np.abs(differences) == 1)).all()):
        won, lost = ((int(np.count_nonzero(differences == sign)) + 1) / (n + 2) for sign in (1, -1))
        middle, reach = won - lost, 1.96 * math.sqrt((won + lost - (won - lost) ** 2) / (n + 2))
        low, high = max(-1.0, middle - reach), min(1.0, middle + reach)
    else:
        rest = differences - mean * ours.sizes
        reach = math.sqrt(float((rest**2).sum()) * n / (n - 1)) / float(ours.sizes.sum()) * student_factor(n - 1)
        low, high = mean - reach, mean + reach
    return Gain(side, mean, round(low, 4), round(high, 4), n)
