"""Successive halving: many settings are tried for a few steps, the better half for twice as many, until one is left.

Every training of a round begins with its first weights and has a learning rate that comes down to its end, so that what
is compared is what a training of that length reaches, and no half of a longer one. Trials are judged by dev alone and
their networks are thrown away; the best settings then train one run, and only for it test is read.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from pellucid.data import Data
from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError
from pellucid.records import SweepRound, SweepTrial
from pellucid.training.options import Setting, TrainOptions
from pellucid.training.workers import WorkerOptions, run_pieces

FEWEST_STEPS = 10  # of the first round
EVALUATIONS = 5  # of one training, of which the lowest counts
SEARCHING = 0.6  # of the time for the search; the rest is for the run
Settings = Mapping[str, Setting]
Heard = Callable[
    [SweepTrial, int, int, int], None
]  # a trial that was trained, its round, how many are done, of how many


class TrialResult(NamedTuple):
    """What a worker found out of one trial."""

    dev: float
    parameters: int
    seconds: float
    seconds_of_step: float


def combinations(over: Mapping[str, Sequence[Setting]], most: int, seed: int) -> tuple[list[dict[str, Setting]], int]:
    """Every combination of the values, or as many as that, drawn by the seed; and how many there are in all.

    >>> combinations({"width": [32, 64], "depth": [1, 2, 3]}, most=2, seed=1)[1]
    6
    """
    every = [dict(zip(over, values, strict=True)) for values in itertools.product(*over.values())]
    if len(every) <= most:
        return every, len(every)
    kept = sorted(random.Random(seed).sample(range(len(every)), most))
    return [every[place] for place in kept], len(every)


def n_rounds(n_trials: int) -> int:
    """Until one is left, halved each time; the last compares two.

    >>> [n_rounds(n) for n in (1, 2, 3, 8)]
    [1, 1, 2, 3]
    """
    return max(1, math.ceil(math.log2(max(1, n_trials))))


def steps_of_rounds(last: int, n_trials: int) -> list[int]:
    """Steps of each round, twice as many as in the one before it; the last has so many.

    >>> steps_of_rounds(400, 8)
    [100, 200, 400]
    """
    return [max(1, last >> left) for left in reversed(range(n_rounds(n_trials)))]


@lru_cache(maxsize=2)
def _open_task(data: DataOptions) -> Any:
    """Read once by each worker, however many trials it makes."""
    from pellucid.training.tasks import open_task

    return open_task(data)


def measure_trial(data: DataOptions, read: Data | None, options: TrainOptions) -> TrialResult:
    """Train a network with these options to the end of its steps; back: its lowest loss on dev. Nothing is kept."""
    from pellucid.training.loop import steps
    from pellucid.training.plan import choose_plan
    from pellucid.training.tasks import open_task
    from pellucid.training.trainer import build_training

    began = time.monotonic()
    task = _open_task(data) if read is None else open_task(data, read)
    card = task.find_card(options.model)
    config, plan = choose_plan(card, task, options)
    state = build_training(card, config, plan, task)
    every, lowest, side = max(1, plan.steps // EVALUATIONS), math.inf, task.measure.side
    stepping = time.monotonic()
    evaluating = 0.0
    try:
        for step in steps(state.model, state.batches, state.optimizer, plan, engine=state.engine):
            if step.step % every == 0 or step.step == plan.steps:
                now = time.monotonic()
                lowest = min(lowest, task.evaluate_for(state.model, side, plan).loss)
                evaluating += time.monotonic() - now
    except PellucidError:
        lowest = math.inf  # it blew up, which is an answer
    ended = time.monotonic()
    each = (ended - stepping - evaluating) / plan.steps
    return TrialResult(lowest if math.isfinite(lowest) else math.inf, state.model.n_parameters, ended - began, each)


def search_settings(
    data: DataOptions,
    read: Data | None,
    trials: Sequence[tuple[Settings, TrainOptions]],
    workers: WorkerOptions,
    *,
    last: int,
    seconds: float,
    on_trial: Heard = lambda trial, round_, n, of: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> tuple[list[SweepTrial], list[int]]:
    """Trials, the best first, and the steps of each round.

    last: steps of the last round; 0: as many as the seconds have room for, by what a first few steps of each took.
    """
    made = [SweepTrial(number, settings, 0, ()) for number, (settings, _) in enumerate(trials, start=1)]
    asked, deadline = [options for _, options in trials], time.monotonic() + seconds if not last else math.inf
    steps = steps_of_rounds(last, len(trials)) if last else []
    if not last:
        began = time.monotonic()
        paces = _train_all(data, read, range(len(made)), asked, FEWEST_STEPS, workers, is_stopped, lambda *_: None)
        taken = time.monotonic() - began
        pace = sum(result.seconds_of_step for result in paces.values()) / workers.n_at_once(len(made))
        # Steps of a round take as long as those of another: half as many trials, twice as long. Trials have to start,
        # too: those of all rounds together less than twice as many as now.
        starting = 2 * max(0.0, taken - FEWEST_STEPS * pace)
        first, fitting = (
            int(left / n_rounds(len(trials)) / max(1e-9, pace)) for left in (seconds, seconds - taken - starting)
        )
        if first < FEWEST_STEPS:
            raise PellucidError(
                f"{seconds / 60:.2g} minutes have room for {first} steps of each of {len(trials)} trials in the first "
                f"round, and {FEWEST_STEPS} are the fewest that tell them apart",
                fix="Give it more {minutes}, or fewer values",
                options={"minutes": None},
            )
        first = max(fitting, FEWEST_STEPS)
        steps = [first << number for number in range(n_rounds(len(trials)))]
    alive = list(range(len(made)))
    for number, n_steps in enumerate(steps):
        if number and time.monotonic() > deadline:
            break  # the clock went faster than the trials: who is best so far gets the rest of the time
        told = _Told(made, number, n_steps, len(alive), on_trial)
        _train_all(data, read, alive, asked, n_steps, workers, is_stopped, told.hear)
        if is_stopped():
            break
        # Equal ones in the order in which they were named, so that it does not matter which was done first.
        alive = sorted(alive, key=lambda place: (made[place].dev, place))[: max(1, math.ceil(len(alive) / 2))]
    ranked = sorted(made, key=lambda trial: (-len(trial.rounds), trial.dev, trial.number))
    return ranked, steps[: max((len(trial.rounds) for trial in made), default=0)]


@dataclass
class _Told:
    """One round while it goes on: every result is added to its trial, and told."""

    made: list[SweepTrial]
    number: int
    n_steps: int
    of: int
    on_trial: Heard
    n_done: int = 0

    def hear(self, place: int, result: TrialResult) -> None:
        self.n_done += 1
        trial = self.made[place]
        rounds = (*trial.rounds, SweepRound(self.n_steps, result.dev, result.seconds))
        self.made[place] = trial._replace(parameters=result.parameters, rounds=rounds)
        self.on_trial(self.made[place], self.number, self.n_done, self.of)


def _train_all(
    data: DataOptions,
    read: Data | None,
    places: Sequence[int],
    asked: Sequence[TrainOptions],
    n_steps: int,
    workers: WorkerOptions,
    is_stopped: Callable[[], bool],
    heard: Callable[[int, TrialResult], None],
) -> dict[int, TrialResult]:
    """Each of these trials for so many steps, several at once."""
    pieces = [(data, read, replace(asked[place], steps=n_steps)) for place in places]
    found = {}
    for number, result in run_pieces(measure_trial, pieces, workers, is_stopped=is_stopped):
        found[places[number]] = result
        heard(places[number], result)
    return found
