"""The search for a learning rate: train for a hundred steps while the rate climbs from far too low to far too high.

The range goes on upwards until the loss has turned, unless its end is given. Of the loss against the rate four rules
read an answer:

steepest     where the loss falls steepest: at the rates whose slope is among the lowest tenth of all slopes. It is the
             slope of the smoothed loss by log10 of the rate. By the rate itself, where rates are spaced by a factor, it
             would be divided by ever smaller numbers towards the left, and the lowest slopes were the noise of the
             lowest rates.
flattest     where the loss hardly changes with the rate: at the rates whose slope by the rate itself, dloss/dλ, is by
             its size among the lowest tenth. It is what some courses do, on rates from 0 or 0.001 to 1. Where rates
             are a factor apart, the highest are also the farthest apart, and so the flattest.
valley       two thirds along the longest stretch of ever lower losses, as fastai's documentation describes its
             "valley". (Its code takes the half, counts the stretch's beginning back from its end as if no loss had been
             passed over, and reads noise at the lowest rates as a stretch; here the loss must have left its noise.)
middle       by factors between where the loss falls steepest and where it is lowest. Steepest and valley are careful:
             on names they stood 3 to 10 times below the rate that trained best. So this one is suggested.

Each seed has its own weights, batches and answer. Where they do not agree, where the loss never falls, or falls only at
the end of the range, there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from pellucid.data import Data
from pellucid.data.options import DataOptions
from pellucid.records import LearningRateSearch, LearningRateTrial, Plan, SweepFailure
from pellucid.training.loop import next_token_loss
from pellucid.training.optimizers import build_optimizer
from pellucid.training.options import MOST_RATE, RateOptions, TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.rng import seed_torch
from pellucid.training.tasks import open_task
from pellucid.training.tasks.task import Batches, LossFunction

RANGES = {"exponential": (1e-6, 10.0), "linear": (0.0, 1.0)}  # that are tried, where none is given
N_RATES = 100
TURNED = 0.1  # of all trials, since the smoothed loss was lowest: it will not fall any more
DIVERGED = 4.0  # times the best loss: from there on nothing is learned of the rate
AGREE = 10.0  # the most that the answers of seeds may differ by
PERCENTILE = 10.0  # of the slopes: what is lower is steep
ALONG_THE_VALLEY = 2 / 3
SMOOTHING = 3.0  # deviation of the smoothing bell, in trials of up to a hundred; of more, in hundredths of them
FEWEST = 10  # trials from which something can be read
FALLS = 0.02  # of the first loss, and
TIMES_NOISE = 3.0  # deviations of the losses around their smoothed course: a smaller fall is none

Floats = npt.NDArray[np.float64]


def search_learning_rate(
    data: DataOptions,
    options: TrainOptions,
    seeds: Sequence[int],
    asked: RateOptions | None = None,
    read: Data | None = None,
) -> LearningRateSearch:
    """Sweeps over the rate, one for each seed; nothing is kept of the networks that were trained for it.

    read: the data, where they are open already.
    """
    task = open_task(data, read)
    card = task.find_card(options.model)
    config, plan = choose_plan(card, task, options)
    torch.set_num_threads(plan.threads)
    plan = plan._replace(start="scratch")  # from counting, a sweep falls by less than the noise of its batches
    return sweep_seeds(
        lambda seed: task.build_network(card, config, plan._replace(seed=seed)),
        # In any order: where items are sorted by length, the losses of batches differ by that alone.
        lambda seed: task.make_batches(plan._replace(seed=seed), is_fair=True),
        plan._replace(steps=(asked or RateOptions()).steps),
        seeds,
        asked or RateOptions(),
        source=task.facts.description,
        network=f"{card.name} with {plan.optimizer}",
        loss_function=task.loss_function(plan),
    )


class Climb(NamedTuple):
    """The rates that are tried, and how they go on where the loss has not turned; None: they end."""

    rates: list[float]
    next_rate: Callable[[float], float] | None = None


def climb_for(asked: RateOptions) -> Climb:
    """The rates of a search. In linear steps from 0, the first is one step above it, as a rate of 0 changes nothing.

    >>> climb_for(RateOptions(spacing="linear", highest=1.0, steps=10)).rates
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    """
    usual_lowest, usual_highest = RANGES[asked.spacing]
    lowest = usual_lowest if asked.lowest is None else asked.lowest
    highest = asked.highest or min(MOST_RATE, max(usual_highest, 1000 * lowest))
    lowest = min(lowest, highest / 1000) if asked.lowest is None else lowest
    n = asked.steps
    if asked.spacing == "exponential":
        rates = rates_between(lowest, highest, n)
        factor = rates[1] / rates[0]
        return Climb(rates, None if asked.highest else lambda rate: rate * factor)
    first = lowest or highest / n
    step = (highest - first) / (n - 1)
    linear = [round(first + step * i, 12) for i in range(n)]
    return Climb(linear, None if asked.highest else lambda rate: rate + step)


def rates_between(lowest: float, highest: float, n: int) -> list[float]:
    """Each a fixed factor above the one before it.

    >>> [round(rate, 6) for rate in rates_between(0.001, 1.0, 4)]
    [0.001, 0.01, 0.1, 1.0]
    """
    return [lowest * (highest / lowest) ** (i / (n - 1)) for i in range(n)]


def sweep_learning_rates(
    model: nn.Module,
    batches: Batches,
    plan: Plan,
    rates: Sequence[float],
    seed: int,
    loss_function: LossFunction = next_token_loss,
    next_rate: Callable[[float], float] | None = None,
) -> tuple[tuple[LearningRateTrial, ...], bool]:
    """One step at each rate in turn, and whether the loss blew up before the last of them.

    next_rate: after the last of them, the rates that follow while the loss has not turned.
    Where an optimizer has two rates, both climb in the proportion of the plan. Afterwards weights, buffers, gradients,
    mode and the random numbers of torch are what they were before.
    """
    kept = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    gradients = [parameter.grad for parameter in model.parameters()]
    was_training = model.training
    optimizer = build_optimizer(model, plan)
    losses: list[float] = []
    tried = list(rates)
    try:
        model.train()
        for step, rate in enumerate(_go_on(tried, losses, next_rate), start=1):
            batch = batches.batch(step)
            with seed_torch(seed, step, "dropout"):
                optimizer.zero_grad()
                loss = loss_function(model, batch)
                loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            if not math.isfinite(loss.item()) or loss.item() > DIVERGED * min([*losses, loss.item()]):
                break
            losses.append(loss.item())
            if plan.clip:
                clip_grad_norm_(model.parameters(), plan.clip)
            optimizer.step(rate / plan.learning_rate)
    finally:
        model.load_state_dict(kept)
        model.train(was_training)
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
    return make_trials(tried[: len(losses)], losses), len(losses) < len(tried)


def _go_on(tried: list[float], losses: Sequence[float], next_rate: Callable[[float], float] | None) -> Iterator[float]:
    """The rates, and more of them while the loss has not turned; those are put behind the others."""
    yield from tried
    while next_rate is not None and next_rate(tried[-1]) <= MOST_RATE and not has_turned(losses):
        tried.append(next_rate(tried[-1]))
        yield tried[-1]


def has_turned(losses: Sequence[float]) -> bool:
    """Whether the smoothed loss was lowest a good while ago."""
    lowest = int(smooth_losses(np.array(losses, dtype=np.float64)).argmin())
    return lowest < len(losses) - max(FEWEST, TURNED * len(losses))


def sweep_seeds(
    build: Callable[[int], nn.Module],
    batches_for: Callable[[int], Batches],
    plan: Plan,
    seeds: Sequence[int],
    asked: RateOptions | None = None,
    *,
    source: str = "",
    network: str = "",
    rates: Sequence[float] = (),
    loss_function: LossFunction = next_token_loss,
) -> LearningRateSearch:
    """A sweep for each seed, with the optimizer and the clipping of the plan, and what the rules make of it.

    batches_for: best of items in any order; where they are sorted by length, their losses differ by that alone. rates:
    these and no others, in place of what is asked.
    """
    asked = asked or RateOptions()
    climb = Climb(list(rates)) if rates else climb_for(asked)
    sweeps: list[tuple[LearningRateTrial, ...]] = []
    failures: list[SweepFailure | None] = []
    for seed in seeds:
        trials, is_blown_up = sweep_learning_rates(
            build(seed), batches_for(seed), plan, climb.rates, seed, loss_function, climb.next_rate
        )
        sweeps.append(trials)
        failures.append(check_sweep(trials, is_blown_up))

    def read_all(rule: Callable[[Sequence[LearningRateTrial]], float]) -> tuple[float | None, ...]:
        return tuple(None if failed else rule(trials) for trials, failed in zip(sweeps, failures, strict=True))

    rules: dict[str, Callable[[Sequence[LearningRateTrial]], float]] = {
        "middle": partial(between, percentile=asked.percentile),
        "steepest": partial(by_percentile, percentile=asked.percentile),
        "flattest": partial(by_flatness, percentile=asked.percentile),
        "valley": by_valley,
    }
    answers = read_all(rules[asked.rule])
    suggestion, spread = combine_answers([answer for answer in answers if answer is not None], len(seeds))
    return LearningRateSearch(
        source,
        network,
        tuple(sweeps),
        tuple(seeds),
        read_all(rules["steepest"]),
        read_all(by_valley),
        answers,
        tuple(failures),
        suggestion,
        spread,
        read_all(rules["flattest"]),
        asked.rule,
        asked.percentile,
        asked.spacing,
    )


def join_searches(searches: Sequence[LearningRateSearch]) -> LearningRateSearch:
    """Searches of a seed each as one of them all; each seed's sweep is its own affair."""
    several = ("sweeps", "seeds", "by_percentile", "by_valley", "answers", "failures", "by_flatness")
    joined: dict[str, Any] = {
        name: tuple(one for search in searches for one in getattr(search, name)) for name in several
    }
    answers = [answer for answer in joined["answers"] if answer is not None]
    suggestion, spread = combine_answers(answers, len(joined["seeds"]))
    return searches[0]._replace(**joined, suggestion=suggestion, spread=spread)


def combine_answers(answers: Sequence[float], n_seeds: int) -> tuple[float | None, float]:
    """The middle of the seeds' answers, None where they do not agree, and the largest over the smallest.

    >>> combine_answers([0.1, 0.4], n_seeds=2), combine_answers([0.1], n_seeds=2)
    ((0.2, 4.0), (None, 1.0))
    """
    if not answers:
        return None, math.nan
    spread = max(answers) / min(answers)
    if 2 * len(answers) <= n_seeds or spread > AGREE:
        return None, spread
    middle = math.exp(math.fsum(map(math.log, answers)) / len(answers))
    return float(f"{middle:.2g}"), spread  # more digits would claim more than a hundred steps can tell


def make_trials(rates: Sequence[float], losses: Sequence[float]) -> tuple[LearningRateTrial, ...]:
    """The losses of a sweep with their smoothed course and its slopes, by log10 of the rate and by the rate itself.

    >>> [round(trial.slope, 6) for trial in make_trials([0.01, 0.1, 1.0], [3.0, 2.0, 1.0])]
    [-1.0, -1.0, -1.0]
    """
    course = smooth_losses(np.array(losses, dtype=np.float64))
    by_log, by_rate = (
        np.gradient(course, places) if len(losses) > 1 else np.zeros(len(losses))
        for places in (np.log10(rates), np.array(rates))
    )
    columns = (rates, losses, course.tolist(), by_log.tolist(), by_rate.tolist())
    return tuple(LearningRateTrial(*row) for row in zip(*columns, strict=True))


def smooth_losses(losses: Floats) -> Floats:
    """A mean of each loss and its neighbours on both sides, by a bell. A mean of the past alone would lag behind.

    At the ends a straight line is fitted in place of the mean, so that a fall there is not bent away.
    """
    places = np.arange(len(losses))
    deviation = SMOOTHING * max(1.0, len(losses) / N_RATES)
    bell = np.exp(-0.5 * ((places[:, None] - places) / deviation) ** 2)
    bell /= bell.sum(1, keepdims=True)
    offsets = places - places[:, None]
    middle = (bell * offsets).sum(1)
    spread = (bell * offsets**2).sum(1) - middle**2
    mean = bell @ losses
    slope = ((bell * offsets * losses).sum(1) - middle * mean) / np.where(spread > 0, spread, 1.0)
    smoothed: Floats = mean - slope * middle
    return smoothed


def by_percentile(trials: Sequence[LearningRateTrial], percentile: float = PERCENTILE) -> float:
    """The middle, by factors, of the rates where the slope is among the lowest.

    >>> flat_steep_flat = [3.0] * 20 + [2.5, 2.0, 1.5] + [1.0] * 20
    >>> rates = [10 ** (-6 + 0.1 * i) for i in range(43)]
    >>> round(math.log10(by_percentile(make_trials(rates, flat_steep_flat))), 2)
    -3.9
    """
    slopes = np.array([trial.slope for trial in trials])
    steep = np.array([trial.learning_rate for trial in trials])[slopes <= np.percentile(slopes, percentile)]
    return float(np.exp(np.log(steep).mean()))


def by_flatness(trials: Sequence[LearningRateTrial], percentile: float = PERCENTILE) -> float:
    """The middle, by factors, of the rates where dloss/dλ is by its size among the lowest.

    >>> rates = [0.1 * i for i in range(1, 42)]
    >>> round(by_flatness(make_trials(rates, [(rate - 2) ** 2 for rate in rates]), percentile=5), 1)
    2.0
    """
    sizes = np.abs([trial.rate_slope for trial in trials])
    flat = np.array([trial.learning_rate for trial in trials])[sizes <= np.percentile(sizes, percentile)]
    return float(np.exp(np.log(flat).mean()))


def by_valley(trials: Sequence[LearningRateTrial]) -> float:
    """Two thirds along the longest stretch of ever lower smoothed losses, once they have left their noise.

    >>> losses = [9.0, 9.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 4.0, 5.0]
    >>> by_valley([LearningRateTrial(10.0 ** (i - 9), loss, loss, 0.0) for i, loss in enumerate(losses)])
    0.001
    """
    course = np.array([trial.smoothed for trial in trials])
    level = course[0] - TIMES_NOISE * noise_of(trials)
    left = next((i for i in range(len(course)) if (course[i : course.argmin() + 1] < level).all()), 0)
    first, last = longest_fall(course[left:].tolist())
    return trials[left + first + round(ALONG_THE_VALLEY * (last - first))].learning_rate


def between(trials: Sequence[LearningRateTrial], percentile: float = PERCENTILE) -> float:
    """The middle, by factors, between where the loss falls steepest and where it is lowest."""
    return math.sqrt(by_percentile(trials, percentile) * min(trials, key=lambda trial: trial.smoothed).learning_rate)


def noise_of(trials: Sequence[LearningRateTrial]) -> float:
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


def check_sweep(trials: Sequence[LearningRateTrial], is_blown_up: bool) -> SweepFailure | None:
    """Why this sweep has no answer; None where it has one. is_blown_up: it ended before its last learning rate."""
    last = trials[-1].learning_rate if trials else math.nan
    if len(trials) < FEWEST:
        return SweepFailure("blew-up", len(trials), last)
    course = np.array([trial.smoothed for trial in trials])
    noise, lowest = noise_of(trials), int(course.argmin())
    first, fall = float(course[0]), float(course[0] - course[lowest])
    if fall <= max(FALLS * first, TIMES_NOISE * noise):
        return SweepFailure("no-fall", len(trials), last, first, fall, noise)
    if not is_blown_up and lowest >= len(trials) - 2:
        return SweepFailure("still-falling", len(trials), last, first, fall, noise)
    return None
