"""Rules that read a learning rate off a sweep, and when there is nothing to read."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pellucid.records import RateTrial

PERCENTILE = 10.0  # of the slopes: what is lower is steep
ALONG_THE_VALLEY = 2 / 3
SMOOTHING = 3.0  # deviation of the smoothing bell, in trials
FEWEST = 10  # trials from which something can be read
FALLS = 0.02  # of the first loss, and
NOISES = 3.0  # deviations of the losses around their smoothed course: a smaller fall is none

Floats = npt.NDArray[np.float64]


def trials_of(rates: Sequence[float], losses: Sequence[float]) -> tuple[RateTrial, ...]:
    """The losses of a sweep with their smoothed course and its slope by log10 of the rate.

    >>> [round(trial.slope, 6) for trial in trials_of([0.01, 0.1, 1.0], [3.0, 2.0, 1.0])]
    [-1.0, -1.0, -1.0]
    """
    course = smoothed(np.array(losses, dtype=np.float64))
    slopes = np.gradient(course, np.log10(rates)) if len(losses) > 1 else np.zeros(len(losses))
    return tuple(
        RateTrial(rate, loss, smooth, slope)
        for rate, loss, smooth, slope in zip(rates, losses, course.tolist(), slopes.tolist(), strict=True)
    )


def smoothed(losses: Floats) -> Floats:
    """A mean of each loss and its neighbours on both sides, by a bell. A mean of the past alone would lag behind.

    At the ends a straight line is fitted in place of the mean, so that a fall there is not bent away.
    """
    places = np.arange(len(losses))
    bell = np.exp(-0.5 * ((places[:, None] - places) / SMOOTHING) ** 2)
    bell /= bell.sum(1, keepdims=True)
    offsets = places - places[:, None]
    middle = (bell * offsets).sum(1)
    spread = (bell * offsets**2).sum(1) - middle**2
    mean = bell @ losses
    slope = ((bell * offsets * losses).sum(1) - middle * mean) / np.where(spread > 0, spread, 1.0)
    smoothed: Floats = mean - slope * middle
    return smoothed


def by_percentile(trials: Sequence[RateTrial]) -> float:
    """The middle, by factors, of the rates where the slope is among the lowest.

    >>> flat_steep_flat = [3.0] * 20 + [2.5, 2.0, 1.5] + [1.0] * 20
    >>> rates = [10 ** (-6 + 0.1 * i) for i in range(43)]
    >>> round(math.log10(by_percentile(trials_of(rates, flat_steep_flat))), 2)
    -3.9
    """
    slopes = np.array([trial.slope for trial in trials])
    steep = np.array([trial.rate for trial in trials])[slopes <= np.percentile(slopes, PERCENTILE)]
    return float(np.exp(np.log(steep).mean()))


def by_valley(trials: Sequence[RateTrial]) -> float:
    """Two thirds along the longest stretch of ever lower smoothed losses, once they have left their noise.

    >>> losses = [9.0, 9.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 4.0, 5.0]
    >>> by_valley([RateTrial(10.0 ** (i - 9), loss, loss, 0.0) for i, loss in enumerate(losses)])
    0.001
    """
    course = np.array([trial.smoothed for trial in trials])
    level = course[0] - NOISES * noise_of(trials)
    left = next((i for i in range(len(course)) if (course[i : course.argmin() + 1] < level).all()), 0)
    first, last = longest_fall(course[left:].tolist())
    return trials[left + first + round(ALONG_THE_VALLEY * (last - first))].rate


def between(trials: Sequence[RateTrial]) -> float:
    """The middle, by factors, between where the loss falls steepest and where it is lowest."""
    return math.sqrt(by_percentile(trials) * min(trials, key=lambda trial: trial.smoothed).rate)


def noise_of(trials: Sequence[RateTrial]) -> float:
    """The deviation of the losses around their smoothed course, over the half with the lower rates."""
    return float(np.std([trial.loss - trial.smoothed for trial in trials[: max(1, len(trials) // 2)]]))


def longest_fall(losses: Sequence[float]) -> tuple[int, int]:
    """The first and the last place of the longest row of ever lower numbers, others between them left out.

    Of rows of one length it is the one that ends first.

    >>> longest_fall([5, 9, 8, 3, 4, 2, 7])
    (1, 5)
    """
    # For each place the length of the longest such row that ends there, and where that one begins.
    lengths, begins = [1] * len(losses), list(range(len(losses)))
    for i, loss in enumerate(losses):
        for j in range(i):
            if loss < losses[j] and lengths[j] + 1 > lengths[i]:
                lengths[i], begins[i] = lengths[j] + 1, begins[j]
    last = max(range(len(losses)), key=lambda i: lengths[i])
    return begins[last], last


def why_not(trials: Sequence[RateTrial], is_blown_up: bool) -> str:
    """Why this sweep has no answer; "" where it has one. is_blown_up: it ended before its last rate."""
    if len(trials) < FEWEST:
        return f"it blew up after {len(trials)} steps, at the lowest rates already"
    course = np.array([trial.smoothed for trial in trials])
    noise = noise_of(trials)
    lowest = int(course.argmin())
    fall = float(course[0] - course[lowest])
    if fall <= max(FALLS * course[0], NOISES * noise):
        return (
            f"the loss never fell by more than {max(fall, 0.0):.3f} from {course[0]:.3f}, and its noise is {noise:.3f}"
        )
    if not is_blown_up and lowest >= len(trials) - 2:
        return f"the loss still falls at the highest rate, {trials[-1].rate:.2g}"
    return ""
