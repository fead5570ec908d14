"""What more steps would bring, by the curve of a run that is over.

At the end of every run the learning rate comes down, so its last slope tells nothing of a longer run, whose rate would
still be high there. So ends of runs are compared with ends of runs. On data that others made, networks were trained
with a number of steps and then with two, four and eight times as many (`benchmarks/forecast.py`): in nine of ten, each
doubling brought between nothing and MOST times what the second half of the shorter run had brought, and usually about
as much again. A power law with a term for the rate, fitted to the whole curve, foretold less.

A pure function of what the log holds, so that a resumed run has the same forecast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pellucid.records import Evaluation, Forecast, ForecastSpan, Ladder, Verdict

USUAL, MOST = 1.0, 3.0  # times what the second half brought, for each doubling; at least it is nothing
FARTHEST = 8.0  # times the steps, as far as was tried
NOTHING = 0.004  # nats, or this share of a loss below 1; of less it cannot be told whether the second half brought it
WANTED, WANTED_OF_METRIC = 0.05, 0.01  # where there is nobody to pass; the first as NOTHING is
LINEAR = "R²"  # the metric that is the loss on another scale; the others leap with every answer
FEWEST = 8  # evaluations
AROUND_HALF, AT_END = 0.1, 0.051  # of the steps: evaluations that are averaged


def forecast_more_steps(evaluations: Sequence[Evaluation], verdict: Verdict, ladder: Ladder) -> Forecast:
    """What a run like this one would gain with more steps, and how many times as many it takes to reach a goal.

    The goal is to pass the best simple model. A network that is ahead of it already is asked for a little more.
    """
    metric = ladder.measure.metric
    is_linear = metric == LINEAR and all(one.metric is not None for one in evaluations)
    losses = [(one.step, -one.metric if is_linear and one.metric is not None else one.dev) for one in evaluations]
    unit = metric if is_linear else ""
    share = 1.0 if is_linear else min(1.0, abs(losses[-1][1]))  # of a loss below 1
    network = next(rung for rung in ladder.rungs if not rung.is_counted)
    ahead = ladder.cross_validation.gain.mean if ladder.cross_validation else ladder.gap(network)
    goal, wanted = "gain", WANTED_OF_METRIC if is_linear else WANTED * share
    if ahead < 0:
        goal, wanted = "pass", -ahead if is_linear or not metric else math.nan
    if why := _why_unknown(losses, verdict, ladder.measure.side):
        return Forecast(why, goal, unit, wanted)
    fell = fall_of_second_half(losses)
    each = max(fell, NOTHING * share)
    left = losses[-1][1] + (1.0 if is_linear else 0.0)  # to a loss of 0, or an R² of 1: nobody gains more
    # A loss that halved may halve again, which is less than it fell; far from 0 the two are the same.
    usual = USUAL * each * left / (left + each) if left > 0 else 0.0
    high = min(MOST * each, max(0.0, left))
    times = ForecastSpan(times_to_gain(wanted, high), times_to_gain(wanted, usual), math.inf)
    return Forecast("", goal, unit, wanted, fell, ForecastSpan(0.0, usual, high), times)


def fall_of_second_half(losses: Sequence[tuple[int, float]]) -> float:
    """By how much they fell from half of the steps to the end; each is a mean of the evaluations around it.

    >>> round(fall_of_second_half([(step, 3 - step / 100) for step in range(0, 101, 5)]), 4)  # 2.5 to the last two
    0.475
    """
    last = losses[-1][0]
    half = [loss for step, loss in losses if abs(step - last / 2) <= AROUND_HALF * last]
    end = [loss for step, loss in losses if step >= (1 - AT_END) * last]
    return sum(half) / len(half) - sum(end) / len(end)


def times_to_gain(wanted: float, of_a_doubling: float) -> float:
    """How many times the steps it takes where each doubling brings so much; inf where that is farther than was tried.

    >>> times_to_gain(0.05, 0.025), times_to_gain(0.05, 0.01)
    (4.0, inf)
    """
    doublings = wanted / of_a_doubling if of_a_doubling > 0 else math.inf
    return 2.0**doublings if doublings <= math.log2(FARTHEST) else math.inf


def _why_unknown(losses: Sequence[tuple[int, float]], verdict: Verdict, side: str) -> str:
    if side != "dev":
        return "nothing held out"
    if not all(math.isfinite(loss) for _, loss in losses):
        return "not finite"
    if verdict.reason == "dev rose":
        return "over-fit"
    if verdict.reason == "nothing learned":
        return "nothing learned"
    return "few evaluations" if len(losses) <= FEWEST else ""
