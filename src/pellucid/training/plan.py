"""The plan of a run, fixed before its first step: size, batch, steps, rates, and how often it is looked at.

With --steps it follows from the data and the options alone. With --minutes the network is tried for a moment on a copy
that is thrown away, and as many steps are planned as the rest of the time has room for.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from pellucid.errors import PellucidError
from pellucid.inspection.health import HealthProbe, cadence
from pellucid.models.catalogue import NetworkCard, Recipe
from pellucid.models.contracts import Network
from pellucid.models.settings import SIZES
from pellucid.options import options_of
from pellucid.records import Plan, Statement
from pellucid.training.cross_validation import FEWEST_PARTS
from pellucid.training.devices import choose_device, describe_device
from pellucid.training.distributed import ALONE, World
from pellucid.training.loop import steps, watch_nothing
from pellucid.training.optimizers import OPTIMIZERS
from pellucid.training.options import BYTES_OF_A_WEIGHT, Setting, TrainOptions
from pellucid.training.tasks.task import FEWEST_STEPS, Task
from pellucid.training.trainer import TrainingState, build_training

SMALL = 30_000  # parameters up to which a second thread waits more than it works
MOST_THREADS = 4
EVALUATIONS, SAMPLINGS, SAVES = 20, 8, 10
FEWEST_EVALUATIONS = 10  # with fewer nothing could be said of more steps
TRIED_SECONDS, TRIED_STEPS, WARM_STEPS = 3.0, 60, 4
LEAST_COMPILING = 20.0  # seconds that torch.compile takes: it is tried where half the time of all steps is more
TRIED = 0.01  # of the budget, at most, to try a size
SPEEDS_UP = 0.6  # a network with a share s of the weights takes a share s^0.6 of the time
EVALUATED = 25_000  # predictions of dev in an evaluation, at most, where a number of steps is asked for
ENOUGH_EVALUATED = 2_000  # of dev in an evaluation; rather fewer evaluations than fewer of them, but never below
LEAST_EVALUATED = 500
EVALUATED_IN_A_STEP = 3  # predictions that are evaluated in the time that one is learned from
TRIED_PREDICTIONS = 4_000  # that evaluations are timed on
LEAST_STEPS = 20  # that are made even where there is no time for them
ENOUGH_STEPS = 1_500  # that are made however often the data are seen, unless dev rises; and
FIRST_STEPS = 300  # where more are planned on the way as long as dev falls
# Of data for each weight, below which a smaller network learns more. What is counted needs not be learned.
TOKENS_OF_A_WEIGHT: Mapping[str, int] = {"scratch": 20, "counts": 5}
# On counting the first steps have something to lose. After 250 steps on JavaScript, drugs and Turkish names, half the
# rate gave dev 0.9996, 1.6255 and 2.2638, the whole 1.0096, 1.6277 and 2.2627, a quarter 1.0016, - and 2.2682.
ON_COUNTING = 0.5
WRONG = 0.01  # of the true class: there a loss is held to cross-entropy
LOOKING = 0.08  # of the time for evaluations while it trains
MIXED_BELOW = 6.0  # epochs; in more, batches of one length each learn as much, and are faster
DROPOUT_FROM = 6.0  # epochs; with fewer there is more to learn than to learn by heart
FAR, FAR_FROM, FAR_SIDE = 3, 50.0, 24  # pixels that images are moved by from so many epochs on, if they have this side
BESIDE_FOLDS = 0.5  # of the time for the network that is kept, where a cross-validation follows
KEPT_BACK = 0.06  # of the budget, for an end that takes longer than was measured; and
KEPT_BACK_SECONDS = 1.5  # for what is not measured: Python's own start, samples, the report


SIZE_REASONS = ("size-by-data", "size-by-time", "rest-by-data", "rest-by-time")


class Pace(NamedTuple):
    """What was measured of one network in a moment, in seconds."""

    step: float
    prediction: float  # of one token, row or image while it is evaluated
    look: float  # more than a step without one
    finishing: float = 0.0  # all that is measured once the training is over

    def steps_within(self, seconds: float) -> int:
        """How many steps fit, looks included."""
        n_steps = int(max(0.0, seconds) / self.step)
        for _ in range(3):
            n_steps = int(max(0.0, seconds - self.look * n_looks_of(n_steps)) / self.step)
        return n_steps


def n_looks_of(n_steps: int) -> int:
    return 2 + n_steps // cadence(max(1, n_steps))


class Trials:
    """What trial steps are made with: this process alone, or all that will train together.

    announce: tells the others what is tried, where there are others.
    """

    def __init__(self, world: World = ALONE, announce: Callable[[NetworkCard, Any, Plan, float], None] | None = None):
        self.world, self.announce = world, announce

    def pace(
        self, card: NetworkCard, config: Any, plan: Plan, task: Task, seconds: float
    ) -> tuple[TrainingState, Pace]:
        """Train for so many seconds and measure."""
        if self.announce:
            self.announce(card, config, plan, seconds)
        state = build_training(card, config, plan, task, self.world)
        return state, measure_pace(state, seconds, self.world)


def choose_plan(
    card: NetworkCard, task: Task, options: TrainOptions, spent: float = 0.0, trials: Trials | None = None
) -> tuple[Any, Plan]:
    """The configuration and the plan for a network on a task. spent: seconds of the budget that are gone, or bound."""
    task.require_options(options)
    trials = trials or Trials()
    n_train = task.n_train
    size = options.size or task.suggest_size()
    options, sizes = with_own_sizes(card, task, options)
    config = config_for(card, task, size, options.network)
    reasons: list[Statement] = []
    by = "rest" if sizes.given else "size"
    if sizes.guessed:
        facts: dict[str, object] = {"size": size, "n_train": n_train, "one": task.measure.one, "rest": sizes.guessed}
        reasons.append(Statement(f"{by}-by-data", facts))
    elif not options.size and sizes.given:
        size = ""
        reasons.append(Statement("sizes-own" if sizes.own else "sizes-given", {"rest": sizes.own}))
    plan = draft(card, config, task, options, trials.world)
    if options.batch_size is not None and plan.batch_size != options.batch_size:
        reasons.append(Statement("batch-limited", {"batch_size": plan.batch_size, "asked": options.batch_size}))
    if sizes.given and plan.start == "counts":
        reasons.append(Statement("counting-scores", {"parameters": _n_parameters_alone(card, config)}))
    reasons += [*loss_reasons(task, plan), *device_reasons(plan, options, trials.world)]
    if options.steps:
        per_epoch = build_training(card, config, plan, task).batches.per_epoch
        epochs = options.steps / per_epoch
        config, why = with_dropout(card, config, epochs, options)
        n_dev = task.n_evaluated(task.measure.side)
        looked_at = LOOKING * EVALUATED_IN_A_STEP * epochs * n_train
        n_evaluations, evaluated = evaluations_within(looked_at, n_dev)
        evaluated = min(evaluated or n_dev, EVALUATED)
        plan = with_steps(plan, options.steps, options.training, n_evaluations)
        plan = with_shift(plan, config, epochs, options)._replace(is_mixed=is_mixed(plan, task, epochs))
        if options.compile or options.precision == "auto":
            tried = _try(card, config, plan, task, options, time.monotonic(), trials)
            tried, tries = _faster_ways(card, config, tried, task, options, trials, lambda pace: options.steps)
            plan = plan._replace(precision=tried.plan.precision, is_compiled=tried.plan.is_compiled)
            reasons += tries
        plan = plan._replace(reasons=(*reasons, *why), size=size, evaluated=evaluated if evaluated < n_dev else 0)
        return config, plan
    deadline = time.monotonic() + 60 * options.minutes * (1 - KEPT_BACK) - KEPT_BACK_SECONDS - spent
    tried = _try(card, config, plan, task, options, deadline, trials)
    while sizes.guessed and size != SIZES[0] and tried.n_steps < tried.enough:
        smaller = _size_with_time(card, task, options, size, tried)
        facts = {"size": smaller, "larger": size, "epochs": tried.n_steps / tried.per_epoch, "rest": sizes.guessed}
        reasons = [one for one in reasons if one.kind not in SIZE_REASONS]  # the size is no longer that one
        reasons.append(Statement(f"{by}-by-time", facts))
        size = smaller
        config = config_for(card, task, size, options.network)
        plan = draft(card, config, task, options, trials.world)
        tried = _try(card, config, plan, task, options, deadline, trials)
    if plan.threads > 1 and options.threads is None:
        # Beside a busy neighbour one thread may be faster, and of a small network it often is.
        alone = _try(card, config, plan._replace(threads=1), task, options, deadline, trials)
        paces = {"one": 1e3 * alone.pace.step, "several": 1e3 * tried.pace.step, "threads": plan.threads}
        reasons.append(Statement("threads", paces))
        tried = alone if alone.pace.step < tried.pace.step else tried
    if is_mixed(plan, task, min(card.recipe.epochs, tried.n_steps / tried.per_epoch)):
        tried = _try(
            card, config, tried.plan._replace(is_mixed=True), task, options, deadline, trials
        )  # more is padded
    if options.compile or plan.precision == "auto":
        tried, tries = _faster_ways(card, config, tried, task, options, trials, lambda pace: tried.n_steps)
        reasons += tries
    if tried.n_steps < task.wanted_steps and options.batch_size is None and (n := _smaller_batch(tried, task)):
        reasons.append(Statement("batch-by-time", {"batch_size": n, "steps": tried.n_steps * plan.batch_size // n}))
        tried = _try(card, config, tried.plan._replace(batch_size=n), task, options, deadline, trials)
    plan, pace, per_epoch = tried.plan, tried.pace, tried.per_epoch
    folds = task.usual_folds if options.folds is None else options.folds
    by_epochs = round(card.recipe.epochs * per_epoch)
    left = max(0.0, deadline - time.monotonic() - pace.finishing)
    # Networks of folds make as many steps as this one: where it grows, the fewest that make sense must have room too.
    available = left / (1 + FEWEST_PARTS) if folds else left
    grows = task.measure.side == "dev" and pace.steps_within(available - tried.looking) > max(FIRST_STEPS, by_epochs)
    most = max(FIRST_STEPS if grows else ENOUGH_STEPS, by_epochs)
    n_steps = max(LEAST_STEPS, min(tried.n_steps, most))
    if folds:
        without, n_steps = n_steps, _steps_beside_folds(tried, n_steps, deadline)
        kind = "folds" if n_steps == without else "folds-by-time"
        reasons.append(Statement(kind, {"folds": folds, "steps": without}))
    plan = plan._replace(folds=folds)
    if n_steps < FEWEST_STEPS:
        minutes = options.minutes + (FEWEST_STEPS - n_steps) * pace.step / 60
        reasons.append(Statement("few-steps", {"steps": n_steps, "wanted": FEWEST_STEPS, "minutes": minutes}))
    pace_facts = {"milliseconds": 1e3 * pace.step, "threads": plan.threads, "epochs": n_steps / per_epoch}
    reasons.append(Statement("pace", pace_facts))
    if is_cut := n_steps == most < tried.n_steps:
        kind = "epochs-at-first" if grows else "epochs-limited"
        kind = kind if task.measure.side == "dev" else "epochs-limited-on-train"
        reasons.append(Statement(kind, {"steps": tried.n_steps, "epochs": most / per_epoch}))
    config = config_for(card, task, size or SIZES[0], options.network)
    epochs = n_steps / per_epoch
    config, why = with_dropout(card, config, epochs, options)
    plan = with_shift(plan, config, epochs, options)._replace(is_mixed=is_mixed(plan, task, epochs))
    plan = with_steps(plan, n_steps, options.training, tried.n_evaluations)
    if grows and "save_every" not in options.training:
        # By the steps that it may grow to: every checkpoint waits for the disk.
        plan = plan._replace(save_every=max(plan.save_every, min(n_steps // 2, tried.n_steps // SAVES)))
    expected = plan.steps * pace.step + tried.looking + n_looks_of(plan.steps) * pace.look
    reasons += why
    if not grows:
        available = (BESIDE_FOLDS if folds else 1.0) * left if is_cut else 0.0
    plan = plan._replace(seconds=expected, available=available, evaluated=tried.evaluated)
    return config, plan._replace(reasons=tuple(reasons), size=size)


def _steps_beside_folds(tried: _Tried, n_steps: int, deadline: float) -> int:
    """The steps that leave the other half of the time for a cross-validation, whose networks mostly need far fewer."""
    half = int(BESIDE_FOLDS * (deadline - time.monotonic() - tried.looking) / tried.pace.step)
    return min(n_steps, max(FEWEST_STEPS, half))


class _Tried(NamedTuple):
    """A network that was trained for a moment, and what the time left has room for."""

    plan: Plan
    pace: Pace
    n_steps: int
    per_epoch: int
    enough: float  # steps with which it has seen as much as a network of its size is worth
    n_evaluations: int
    evaluated: int  # predictions of dev in an evaluation; 0: all
    looking: float  # seconds for all evaluations
    n_parameters: int


def _try(
    card: NetworkCard, config: Any, plan: Plan, task: Task, options: TrainOptions, deadline: float, trials: Trials
) -> _Tried:
    """deadline: by the monotonic clock, when the last step should be done."""
    # With dropout, as it will be if there is time for many epochs: what it costs is then in the plan.
    config, _ = with_dropout(card, config, card.recipe.epochs, options)
    plan = plan._replace(precision="fp32") if plan.precision == "auto" else plan
    state, pace = trials.pace(card, config, plan, task, min(TRIED_SECONDS, TRIED * 60 * options.minutes))
    n_dev = task.n_evaluated(task.measure.side)
    left = max(1.0, deadline - time.monotonic() - pace.finishing)
    n_evaluations, evaluated = evaluations_within(LOOKING * left / pace.prediction, n_dev)
    looking = 2 * (1 + n_evaluations) * pace.prediction * (evaluated or n_dev)
    per_epoch, n_parameters = state.batches.per_epoch, state.model.n_parameters
    enough = min(1.0, TOKENS_OF_A_WEIGHT[plan.start] * n_parameters / task.n_train) * per_epoch
    n_steps = pace.steps_within(left - looking)
    return _Tried(plan, pace, n_steps, per_epoch, enough, n_evaluations, evaluated, looking, n_parameters)


def _faster_ways(
    card: NetworkCard,
    config: Any,
    tried: _Tried,
    task: Task,
    options: TrainOptions,
    trials: Trials,
    steps_of: Callable[[Pace], int],
) -> tuple[_Tried, list[Statement]]:
    """bf16 and compiled code, where they were asked for and trial steps say that they save time; and what was measured.

    Code that is compiled has to earn the time that compiling takes within the steps that there will be.
    """
    config, _ = with_dropout(card, config, card.recipe.epochs, options)
    seconds, reasons = min(TRIED_SECONDS, TRIED * 60 * options.minutes), list[Statement]()
    if options.precision == "auto" or (options.precision is None and tried.plan.device != "cpu"):
        _, other = trials.pace(card, config, tried.plan._replace(precision="bf16"), task, seconds)
        is_faster = other.step < tried.pace.step
        facts = {"full": 1e3 * tried.pace.step, "half": 1e3 * other.step, "is_faster": is_faster}
        reasons.append(Statement("precision-faster" if is_faster else "precision-slower", facts))
        if is_faster:
            tried = tried._replace(plan=tried.plan._replace(precision="bf16"), pace=other)
    at_most = steps_of(tried.pace) * tried.pace.step / 2
    if options.compile and at_most < LEAST_COMPILING:
        reasons.append(Statement("compile-untried", {"at_most": at_most, "least": LEAST_COMPILING}))
    elif options.compile:
        began = time.monotonic()
        _, other = trials.pace(card, config, tried.plan._replace(is_compiled=True), task, seconds)
        compiling = time.monotonic() - began - seconds
        saved = (tried.pace.step - other.step) * steps_of(tried.pace)
        pays = saved > compiling
        facts = {"plain": 1e3 * tried.pace.step, "compiled": 1e3 * other.step, "seconds": max(0.0, compiling)}
        reasons.append(Statement("compile-pays" if pays else "compile-waste", {**facts, "saved": saved}))
        if pays:
            tried = tried._replace(plan=tried.plan._replace(is_compiled=True), pace=other)
    return tried, reasons


def device_reasons(plan: Plan, options: TrainOptions, world: World) -> list[Statement]:
    """Where it trains, if not on the CPU of one process; and what follows from it."""
    found = []
    if plan.device != "cpu":
        found.append(Statement("device", {"device": describe_device(plan.device, world.local_rank)}))
    if world.is_shared:
        found.append(Statement("processes-shard" if plan.shard else "processes", {"processes": world.size}))
    if plan.shard and options.optimizer is None:
        found.append(Statement("shard-optimizer", {"optimizer": plan.optimizer}))
    return found


def _size_with_time(card: NetworkCard, task: Task, options: TrainOptions, size: str, tried: _Tried) -> str:
    """The next smaller size that will have seen enough, by how much fewer weights it has; else the smallest."""
    for smaller in reversed(SIZES[: SIZES.index(size)]):
        share = task.estimate_parameters(config_for(card, task, smaller, options.network)) / tried.n_parameters
        enough = min(1.0, TOKENS_OF_A_WEIGHT[tried.plan.start] * share * tried.n_parameters / task.n_train)
        if tried.n_steps / share**SPEEDS_UP >= enough * tried.per_epoch:
            return smaller
    return SIZES[0]


def _smaller_batch(tried: _Tried, task: Task) -> int:
    """Halved as often as it takes to have time for enough steps; 0 where that leaves too few predictions."""
    batch_size, of_a_row = tried.plan.batch_size, task.n_train / tried.per_epoch / tried.plan.batch_size
    n_steps = tried.n_steps
    while n_steps < task.wanted_steps and batch_size * of_a_row > task.smallest_batch and batch_size > 1:
        batch_size, n_steps = batch_size // 2, 2 * n_steps
    return batch_size if batch_size < tried.plan.batch_size else 0


def evaluations_within(n_predictions: float, n_dev: int) -> tuple[int, int]:
    """How many evaluations so many predictions have room for, and of how many of dev, and of train; 0: of all.

    >>> evaluations_within(900_000, 21_000), evaluations_within(126_000, 21_000), evaluations_within(44_000, 21_000)
    ((20, 0), (20, 3000), (10, 2000))
    >>> evaluations_within(3_000, 21_000), evaluations_within(3_000, 50)
    ((10, 500), (20, 0))
    """
    enough = max(1, min(n_dev, ENOUGH_EVALUATED))
    n_evaluations = max(FEWEST_EVALUATIONS, min(EVALUATIONS, int(n_predictions / 2 / enough) - 1))
    fitting = max(LEAST_EVALUATED, int(n_predictions / 2 / (1 + n_evaluations)))
    return n_evaluations, fitting if fitting < n_dev else 0


class PlannedSizes(NamedTuple):
    """The settings that a size decides: those that were asked for, and where the others come from."""

    given: tuple[str, ...]
    own: Mapping[str, Setting]  # those that the network has by itself, and were not asked for
    guessed: tuple[str, ...]  # from how much data, or time, there is


def with_own_sizes(card: NetworkCard, task: Task, options: TrainOptions) -> tuple[TrainOptions, PlannedSizes]:
    """The options with the network's own sizes beside those that were asked for, so that none is guessed.

    Where no size is asked for, or one by its name, that decides; and where a network has no sizes of its own.
    """
    configs = [task.make_config(card, size) for size in SIZES]
    decided = [name for name in options_of(card.config) if len({str(getattr(one, name)) for one in configs}) > 1]
    given = tuple(name for name in decided if name in options.network)
    left = [name for name in decided if name not in options.network]
    if options.size:
        return options, PlannedSizes(given, {}, ())
    own: dict[str, Setting] = {
        field.name: field.default
        for field in dataclasses.fields(card.config)
        if field.name in left and given and task.has_own_sizes and field.default is not dataclasses.MISSING
    }
    options = dataclasses.replace(options, network={**own, **options.network})
    return options, PlannedSizes(given, own, tuple(name for name in left if name not in own))


def _n_parameters_alone(card: NetworkCard, config: Any) -> int:
    """Of a network that starts from nothing, without room for a single one of them."""
    with torch.device("meta"):
        network: Network = card.build(config)
    return network.n_parameters


def config_for(card: NetworkCard, task: Task, size: str, asked: Mapping[str, Any]) -> Any:
    """The configuration of a size with what was asked for in its place. What memory cannot hold is refused."""
    config = dataclasses.replace(task.make_config(card, size), **asked)
    n_parameters = task.estimate_parameters(config)
    needed = n_parameters * BYTES_OF_A_WEIGHT / 1e9
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    if needed > available:
        raise PellucidError(
            f"about {n_parameters:,} parameters need {needed:,.0f} GB to train, and this machine has {available:,.0f}",
            fix="Choose a smaller {width}, {hidden} or {context}, or {tokens}",
            options={"width": None, "hidden": None, "context": None, "tokens": "bpe"},
        )
    return config


def with_dropout(card: NetworkCard, config: Any, epochs: float, options: TrainOptions) -> tuple[Any, list[Statement]]:
    """The configuration with dropout where the data are seen often: a hundredth for each time, up to the recipe's."""
    if not card.recipe.dropout or epochs < DROPOUT_FROM or "dropout" in options.network:
        return config, []
    dropout = min(card.recipe.dropout, round(epochs / 100, 2))
    reason = Statement("dropout", {"dropout": dropout, "epochs": epochs})
    return dataclasses.replace(config, dropout=dropout), [reason]


def is_mixed(plan: Plan, task: Task, epochs: float) -> bool:
    """Whether items of a list that are seen so seldom meet others of any length, although more is padded."""
    return not plan.is_fair and epochs < MIXED_BELOW and task.is_mixable


def loss_reasons(task: Task, plan: Plan) -> list[Statement]:
    """What is to be known of a loss of numbers that was asked for classes: how steep it is where it is wrong."""
    from pellucid.layers.losses import ON_PROBABILITIES, slope_beside_cross_entropy

    if task.default_loss != "cross-entropy" or plan.loss not in ON_PROBABILITIES:
        return []
    part = slope_beside_cross_entropy(plan.loss, WRONG)
    return [Statement("flat-loss", {"loss": plan.loss, "p": WRONG, "part": part})]


def with_shift(plan: Plan, config: Any, epochs: float, options: TrainOptions) -> Plan:
    """The plan with images moved further where they are seen often: by one pixel they are learned by heart too.

    On 1,776 letters of 28 scripts dev had, with 3 pixels and with 1, 1.13 and 1.37 nats after 86 epochs; after 21 and
    27 epochs 1.47 and 1.11.
    """
    is_far = plan.shift and "shift" not in options.training and epochs > FAR_FROM
    return plan._replace(shift=FAR) if is_far and min(config.numbers[1:]) >= FAR_SIDE else plan


def draft(card: NetworkCard, config: Any, task: Task, options: TrainOptions, world: World = ALONE) -> Plan:
    """A plan that lacks only its number of steps, if that is not asked for."""
    recipe, asked = card.recipe, options.training
    device = choose_device(options.device)
    if options.shard:
        require_sharding(options, world)
        asked = {"optimizer": "adamw", **asked}
    plan = Plan(
        steps=options.steps,
        batch_size=task.batch_size_for(recipe),
        context=task.context,
        optimizer=recipe.optimizer,
        learning_rate=recipe.learning_rate,
        matrix_learning_rate=recipe.matrix_learning_rate,
        momentum=0.9,
        weight_decay=recipe.weight_decay,
        clip=recipe.clip,
        warmup=0,
        schedule=recipe.schedule,
        evaluate_every=1,
        probe_every=1,
        sample_every=1,
        save_every=1,
        threads=threads_for(task.estimate_parameters(config), world.local_size),
        seed=options.seed,
        loss=task.default_loss,
        start=task.default_start,
        shift=recipe.shift if task.facts.kind == "images" else 0,
        is_fair=card.skips_padding and task.facts.kind == "list",
    )
    plan = plan._replace(**{name: value for name, value in asked.items() if name in Plan._fields})
    precision = options.precision or ("fp32" if device == "cpu" or options.steps else "auto")
    plan = plan._replace(device=device, precision=precision, processes=world.size)
    require_parts(plan)
    plan = _with_rates(plan._replace(batch_size=min(plan.batch_size, task.max_batch_size)), recipe, asked)
    return with_steps(plan, max(1, options.steps), asked)


def with_steps(plan: Plan, n_steps: int, asked: Mapping[str, Any], n_evaluations: int = EVALUATIONS) -> Plan:
    """The plan with so many steps and all that follows from their number."""
    return plan._replace(
        steps=n_steps,
        warmup=asked.get("warmup", n_steps // 40),
        evaluate_every=max(1, n_steps // n_evaluations),
        probe_every=cadence(n_steps),
        sample_every=max(1, n_steps // SAMPLINGS),
        save_every=asked.get("save_every", max(1, n_steps // SAVES)),
    )


def _with_rates(plan: Plan, recipe: Recipe, asked: Mapping[str, Any]) -> Plan:
    """The rates as asked for. A rate that was asked for moves Muon's with it, unless that was asked for too."""
    optimizer = OPTIMIZERS[plan.optimizer]
    usual = recipe.learning_rate if plan.optimizer == recipe.optimizer else optimizer.learning_rate
    usual *= ON_COUNTING if plan.start == "counts" else 1.0
    learning_rate = float(asked.get("learning_rate", usual))
    matrix_rate = 0.0
    if optimizer.matrix_learning_rate:
        matrix_rate = (recipe.matrix_learning_rate or optimizer.matrix_learning_rate) * learning_rate / usual
    return plan._replace(
        learning_rate=learning_rate, matrix_learning_rate=float(asked.get("matrix_learning_rate", matrix_rate))
    )


def require_sharding(options: TrainOptions, world: World) -> None:
    """Refuse what a network that is divided over processes cannot do."""
    if not world.is_shared:
        raise PellucidError(
            "{shard} divides a network over processes, and there is one",
            fix="Add --processes 2, start it with torchrun, or leave it out",
            options={"shard": None},
        )
    if options.optimizer == "muon":
        raise PellucidError(
            "muon needs whole matrices, and {shard} divides them",
            fix="Choose {optimizer}, or leave {shard} out",
            options={"shard": None, "optimizer": "adamw"},
        )


def require_parts(plan: Plan) -> None:
    """Refuse a batch that has fewer rows than there are processes and pieces to share it."""
    n_parts = plan.processes * plan.accumulate
    if n_parts > plan.batch_size:
        raise PellucidError(
            f"a batch of {plan.batch_size} cannot be cut into {n_parts} "
            f"({plan.processes} processes, {plan.accumulate} pieces each)",
            fix="Choose a larger {batch_size}, or fewer of them",
            options={"batch_size": n_parts},
        )


def threads_for(n_parameters: int, n_processes: int = 1) -> int:
    """One for a small network, else as many as there are cores for each process of the machine, up to a few."""
    cores = max(1, len(os.sched_getaffinity(0)) // n_processes)
    return 1 if n_parameters <= SMALL else min(MOST_THREADS, cores)


def measure_pace(state: TrainingState, seconds: float = TRIED_SECONDS, world: World = ALONE) -> Pace:
    """Train the network for a moment and measure; whoever asks throws it away afterwards.

    world: processes that train it together; rank 0 says when it is enough.
    """
    plan = with_steps(state.plan, 10**6, {})
    probe = HealthProbe(state.model)
    began = last = time.monotonic()
    taken: list[float] = []
    for step in steps(state.model, state.batches, state.optimizer, plan, engine=state.engine):
        now = time.monotonic()
        taken.append(now - last)
        # Of slow steps two tell enough: the first one makes what all others find ready.
        is_enough = step.step >= TRIED_STEPS or (step.step > 1 and now - began > seconds)
        if world.broadcast(is_enough):
            break
        last = time.monotonic() if world.is_shared else now
    # The median: the first steps and those in which the machine did something else do not count.
    each = statistics.median(taken[min(WARM_STEPS, len(taken) - 1) :])
    looked = time.monotonic()
    watch = watch_nothing if plan.shard or not world.is_main else probe.watch
    [_] = steps(state.model, state.batches, state.optimizer, plan._replace(steps=1), watch=watch, engine=state.engine)
    evaluated = time.monotonic()
    sides = ("train", state.task.measure.side)
    for side in sides:
        state.task.evaluate(state.model, side, TRIED_PREDICTIONS, world)
    n_tried = 2 * max(1, min(TRIED_PREDICTIONS, state.task.n_evaluated(sides[1])))
    prediction = (time.monotonic() - evaluated) / n_tried
    finishing = state.task.seconds_to_finish(state.model, prediction)
    return Pace(each, prediction, max(0.0, evaluated - looked - each), finishing)
