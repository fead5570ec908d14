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

from torch import nn
from torch.nn.utils import clip_grad_norm_

from pellucid.records import Plan, RateSearch, RateTrial
from pellucid.training.loop import next_token
from pellucid.training.optimizers import optimizer_for
from pellucid.training.randomness import drawing
from pellucid.training.rate_rules import between, by_percentile, by_valley, trials_of, why_not
from pellucid.training.task import Ask, Batches

LOWEST, HIGHEST, N_RATES = 1e-6, 10.0, 100
DIVERGED = 4.0  # times the best loss: from there on nothing is learned of the rate
AGREE = 10.0  # the most that the answers of seeds may differ by


def rates_between(lowest: float, highest: float, n: int) -> list[float]:
    """Each a fixed factor above the one before it.

    >>> [round(rate, 6) for rate in rates_between(0.001, 1.0, 4)]
    [0.001, 0.01, 0.1, 1.0]
    """
    return [lowest * (highest / lowest) ** (i / (n - 1)) for i in range(n)]


def sweep(
    model: nn.Module, batches: Batches, plan: Plan, rates: Sequence[float], seed: int, ask: Ask = next_token
) -> tuple[tuple[RateTrial, ...], bool]:
    """One step at each rate in turn, and whether the loss blew up before the last of them.

    Where an optimizer has two rates, both climb in the proportion of the plan. Afterwards weights, buffers, gradients,
    mode and the random numbers of torch are what they were before.
    """
    kept = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    gradients = [parameter.grad for parameter in model.parameters()]
    was_training = model.training
    optimizer = optimizer_for(model, plan)
    losses: list[float] = []
    try:
        model.train()
        for step, rate in enumerate(rates, start=1):
            batch = batches.batch(step)
            with drawing(seed, step, "dropout"):
                optimizer.zero()
                loss = ask(model, batch)
                loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            if not math.isfinite(loss.item()) or loss.item() > DIVERGED * min([*losses, loss.item()]):
                break
            losses.append(loss.item())
            if plan.clip:
                clip_grad_norm_(model.parameters(), plan.clip)
            optimizer.step(rate / plan.rate)
    finally:
        model.load_state_dict(kept)
        model.train(was_training)
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
    return trials_of(rates[: len(losses)], losses), len(losses) < len(rates)


def search(
    build: Callable[[int], nn.Module],
    batches_for: Callable[[int], Batches],
    plan: Plan,
    seeds: Sequence[int],
    *,
    source: str = "",
    network: str = "",
    rates: Sequence[float] = (),
    ask: Ask = next_token,
) -> RateSearch:
    """A sweep for each seed, with the optimizer and the clipping of the plan, and what the rules make of it.

    batches_for: best of items in any order; where they are sorted by length, their losses differ by that alone.
    """
    rates = rates or rates_between(LOWEST, HIGHEST, N_RATES)
    sweeps: list[tuple[RateTrial, ...]] = []
    percentiles: list[float | None] = []
    valleys: list[float | None] = []
    answers: list[float] = []
    notes: list[str] = []
    for seed in seeds:
        trials, is_blown_up = sweep(build(seed), batches_for(seed), plan, rates, seed, ask)
        reason = why_not(trials, is_blown_up)
        sweeps.append(trials)
        percentiles.append(None if reason else by_percentile(trials))
        valleys.append(None if reason else by_valley(trials))
        if reason:
            notes.append(f"Seed {seed} has no answer: {reason}.")
        else:
            answers.append(between(trials))
    suggestion, spread, says = agreed(answers, len(seeds))
    return RateSearch(
        source,
        network,
        tuple(sweeps),
        tuple(seeds),
        tuple(percentiles),
        tuple(valleys),
        suggestion,
        spread,
        (
            says,
            *_beside("The loss fell fastest at", percentiles),
            *_beside("Its valley is two thirds down at", valleys),
            *notes,
        ),
    )


def agreed(answers: Sequence[float], n_seeds: int) -> tuple[float | None, float, str]:
    """The middle of the seeds' answers, the largest over the smallest, and a sentence. None where they do not agree.

    >>> agreed([0.1, 0.4], n_seeds=2)
    (0.2, 4.0, 'Try a rate of 0.2: 2 of 2 seeds say between 0.1 and 0.4.')
    >>> agreed([0.001, 0.4], n_seeds=2)[0]
    """
    if not answers:
        return None, math.nan, f"No answer: none of the {n_seeds} sweeps has one."
    low, high = min(answers), max(answers)
    spread = high / low
    seen = f"{len(answers)} of {n_seeds} seeds say between {low:.2g} and {high:.2g}"
    if 2 * len(answers) <= n_seeds:
        return None, spread, f"No answer: only {seen}."
    if spread > AGREE:
        return None, spread, f"No answer: {seen}, which is more than {AGREE:g} times apart."
    middle = math.exp(math.fsum(map(math.log, answers)) / len(answers))
    rate = float(f"{middle:.2g}")  # more digits would claim more than a hundred steps can tell
    return rate, spread, f"Try a rate of {rate:g}: {seen}."


def _beside(where: str, found: Sequence[float | None]) -> list[str]:
    """
    >>> _beside("It fell fastest at", [0.1, None, 0.1004])
    ['It fell fastest at 0.1.']
    """
    ends = sorted({f"{rate:.2g}": rate for rate in found if rate is not None}.items(), key=lambda item: item[1])
    return [f"{where} {' to '.join(dict.fromkeys([ends[0][0], ends[-1][0]]))}."] if ends else []
