"""The search for a learning rate: train for a hundred steps while the rate climbs from far too low to far too high.

Of the loss against the rate two rules read an answer:

percentile   where the loss falls steepest: at the rates whose slope is among the lowest tenth of all slopes. The
             sources take the slope by the rate itself. Where rates are spaced by a factor, that divides by ever smaller
             numbers towards the left, and the lowest slopes are the noise of the lowest rates; and a range from 0 has
             no factor at all. So here it is the slope of the smoothed loss by log10 of the rate, from a rate above 0.
valley       two thirds along the longest stretch of ever lower losses, as fastai's documentation describes its
             "valley". (Its code takes the half, counts the stretch's beginning back from its end as if no loss had been
             passed over, and reads noise at the lowest rates as a stretch; here the loss must have left its noise.)

Both are careful: on names they stood 3 to 10 times below the rate that trained best. What is suggested lies in the
middle, by factors, between where the loss falls steepest and where it is lowest. Each seed has its own weights, batches
and answer. Where they do not agree, where the loss never falls, or falls only at the end of the range, there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.rng import seed_torch
from pellucid.training.tasks import open_task
from pellucid.training.tasks.task import Batches, LossFunction

LOWEST, HIGHEST, N_RATES = 1e-6, 10.0, 100
DIVERGED = 4.0  # times the best loss: from there on nothing is learned of the rate
AGREE = 10.0  # the most that the answers of seeds may differ by
PERCENTILE = 10.0  # of the slopes: what is lower is steep
ALONG_THE_VALLEY = 2 / 3
SMOOTHING = 3.0  # deviation of the smoothing bell, in trials
FEWEST = 10  # trials from which something can be read
FALLS = 0.02  # of the first loss, and
TIMES_NOISE = 3.0  # deviations of the losses around their smoothed course: a smaller fall is none

Floats = npt.NDArray[np.float64]


def search_learning_rate(
    data: DataOptions, options: TrainOptions, seeds: Sequence[int], *, read: Data | None = None
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
        plan._replace(steps=N_RATES),
        seeds,
        source=task.facts.description,
        network=f"{card.name} with {plan.optimizer}",
        loss_function=task.loss_function(plan),
    )


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
) -> tuple[tuple[LearningRateTrial, ...], bool]:
    """One step at each rate in turn, and whether the loss blew up before the last of them.

    Where an optimizer has two rates, both climb in the proportion of the plan. Afterwards weights, buffers, gradients,
    mode and the random numbers of torch are what they were before.
    """
    kept = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    gradients = [parameter.grad for parameter in model.parameters()]
    was_training = model.training
    optimizer = build_optimizer(model, plan)
    losses: list[float] = []
    try:
        model.train()
        for step, rate in enumerate(rates, start=1):
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
    return make_trials(rates[: len(losses)], losses), len(losses) < len(rates)


def sweep_seeds(
    build: Callable[[int], nn.Module],
    batches_for: Callable[[int], Batches],
    plan: Plan,
    seeds: Sequence[int],
    *,
    source: str = "",
    network: str = "",
    rates: Sequence[float] = (),
    loss_function: LossFunction = next_token_loss,
) -> LearningRateSearch:
    """A sweep for each seed, with the optimizer and the clipping of the plan, and what the rules make of it.

    batches_for: best of items in any order; where they are sorted by length, their losses differ by that alone.
    """
    rates = rates or rates_between(LOWEST, HIGHEST, N_RATES)
    sweeps: list[tuple[LearningRateTrial, ...]] = []
    failures: list[SweepFailure | None] = []
    for seed in seeds:
        trials, is_blown_up = sweep_learning_rates(build(seed), batches_for(seed), plan, rates, seed, loss_function)
        sweeps.append(trials)
        failures.append(check_sweep(trials, is_blown_up))

    def read_all(rule: Callable[[Sequence[LearningRateTrial]], float]) -> tuple[float | None, ...]:
        return tuple(None if failed else rule(trials) for trials, failed in zip(sweeps, failures, strict=True))

    answers = read_all(between)
    suggestion, spread = combine_answers([answer for answer in answers if answer is not None], len(seeds))
    return LearningRateSearch(
        source,
        network,
        tuple(sweeps),
        tuple(seeds),
        read_all(by_percentile),
        read_all(by_valley),
        answers,
        tuple(failures),
        suggestion,
        spread,
    )


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
    """The losses of a sweep with their smoothed course and its slope by log10 of the rate.

    >>> [round(trial.slope, 6) for trial in make_trials([0.01, 0.1, 1.0], [3.0, 2.0, 1.0])]
    [-1.0, -1.0, -1.0]
    """
    course = smooth_losses(np.array(losses, dtype=np.float64))
    slopes = np.gradient(course, np.log10(rates)) if len(losses) > 1 else np.zeros(len(losses))
    return tuple(
        LearningRateTrial(rate, loss, smooth, slope)
        for rate, loss, smooth, slope in zip(rates, losses, course.tolist(), slopes.tolist(), strict=True)
    )


def smooth_losses(losses: Floats) -> Floats:
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


def by_percentile(trials: Sequence[LearningRateTrial]) -> float:
    """The middle, by factors, of the rates where the slope is among the lowest.

    >>> flat_steep_flat = [3.0] * 20 + [2.5, 2.0, 1.5] + [1.0] * 20
    >>> rates = [10 ** (-6 + 0.1 * i) for i in range(43)]
    >>> round(math.log10(by_percentile(make_trials(rates, flat_steep_flat))), 2)
    -3.9
    """
    slopes = np.array([trial.slope for trial in trials])
    steep = np.array([trial.learning_rate for trial in trials])[slopes <= np.percentile(slopes, PERCENTILE)]
    return float(np.exp(np.log(steep).mean()))


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


def between(trials: Sequence[LearningRateTrial]) -> float:
    """The middle, by factors, between where the loss falls steepest and where it is lowest."""
    return math.sqrt(by_percentile(trials) * min(trials, key=lambda trial: trial.smoothed).learning_rate)


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
