"""The plan of a run, fixed before its first step: size, batch, steps, rates, and how often it is looked at.

With --steps it follows from the data and the wishes alone. With --minutes the network is tried for a moment on a copy
that is thrown away, and as many steps are planned as the rest of the time has room for.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from pellucid.data.sides import Sides
from pellucid.errors import PellucidError
from pellucid.models.neural import NeuralCard, Recipe
from pellucid.records import Plan
from pellucid.training.evaluation import loss_on
from pellucid.training.health import HealthProbe, cadence
from pellucid.training.loop import steps
from pellucid.training.wishes import BYTES_OF_A_WEIGHT, SIZES, TrainingWishes
from pellucid.training.workshop import Workshop, workshop

# Tokens of train from which on a size is worth its weights.
WORTH = {"tiny": 0, "small": 3_000, "medium": 30_000, "large": 500_000}
TOKENS_OF_AN_ITEM = 6  # a batch of a text holds as many tokens as one of short items
SMALL = 30_000  # parameters up to which a second thread waits more than it works
MOST_THREADS = 4
EVALUATIONS, SAMPLINGS, SAVES = 20, 8, 10
TRIED_SECONDS, TRIED_STEPS, WARM_STEPS = 3.0, 60, 6
FEWEST_STEPS = 20
AS_ASKED = ("weight_decay", "clip", "momentum", "decay", "threads")
DROPOUT_FROM = 6.0  # epochs; with fewer there is more to learn than to learn by heart
KEPT_BACK = 0.08  # of the budget, for the end: test, samples, report; and
KEPT_BACK_SECONDS = 6.0  # for the start: torch, data, counting


class Pace(NamedTuple):
    """What was measured of one network in a moment, in seconds."""

    step: float
    evaluation: float
    look: float  # more than a step without one

    def of(self, n_steps: int, n_evaluations: int, n_looks: int) -> float:
        return n_steps * self.step + n_evaluations * self.evaluation + n_looks * self.look


def choose_plan(card: NeuralCard, sides: Sides, context: int, wishes: TrainingWishes) -> tuple[Any, Plan]:
    """The configuration and the plan for a network on these sides.

    context: tokens of a window of a text, or of a list's longest item with its boundary.
    """
    n_train = sides.train.n_predicted
    size = wishes.size or size_for(n_train)
    config = config_for(card, size, len(sides.vocabulary), context, wishes.network)
    because = [] if wishes.size else [f"size {size}, because train has {n_train:,} tokens"]
    plan = draft(card, config, sides, context, wishes)
    if "batch" in wishes.training and plan.batch != wishes.training["batch"]:
        because.append(f"a batch of {plan.batch:,} in place of {wishes.training['batch']:,}: train has no more")
    if wishes.steps:
        epochs = wishes.steps / workshop(card, config, plan, sides).batches.per_epoch
        config, why = with_dropout(card, config, epochs, wishes)
        return config, plan._replace(because=(*because, *why), size=size)
    seconds = max(1.0, 60 * wishes.minutes * (1 - KEPT_BACK) - KEPT_BACK_SECONDS)
    while True:
        # With dropout, as it will be if there is time for many epochs: what it costs is then in the plan.
        config, _ = with_dropout(card, config, card.recipe.epochs, wishes)
        plan, shop, pace = _fastest(card, config, plan, sides, is_asked="threads" in wishes.training)
        fitting = steps_within(seconds, pace)
        per_epoch = shop.batches.per_epoch
        enough = min(n_train, 20 * shop.model.n_parameters) / n_train * per_epoch
        if wishes.size or size == SIZES[0] or fitting >= enough:
            break
        smaller = SIZES[SIZES.index(size) - 1]
        because.append(f"size {smaller}, because {size} would see {fitting / per_epoch:.1f} epochs in this time")
        size = smaller
        config = config_for(card, size, len(sides.vocabulary), context, wishes.network)
        plan = draft(card, config, sides, context, wishes)
    most = max(FEWEST_STEPS, round(card.recipe.epochs * per_epoch))
    n_steps = max(FEWEST_STEPS, min(fitting, most))
    because.append(
        f"{1e3 * pace.step:.3g} ms a step, measured with {plan.threads} thread{'s' * (plan.threads > 1)}; "
        f"{n_steps / per_epoch:.1f} epochs"
    )
    if fitting > most:
        because.append(
            f"the time would allow {fitting:,} steps, but after {card.recipe.epochs:g} epochs dev was seen to rise"
        )
    config = config_for(card, size, len(sides.vocabulary), context, wishes.network)
    config, why = with_dropout(card, config, n_steps / per_epoch, wishes)
    because += why
    plan = with_steps(plan, n_steps, wishes.training)
    n_looks = 2 + plan.steps // plan.probe_every
    expected = pace.of(plan.steps, 1 + plan.steps // plan.evaluate_every, n_looks)
    return config, plan._replace(seconds=expected, because=tuple(because), size=size)


def _fastest(card: NeuralCard, config: Any, plan: Plan, sides: Sides, *, is_asked: bool) -> tuple[Plan, Workshop, Pace]:
    """The plan with the number of threads that is faster here and now: beside a busy neighbour that may be one."""
    found = []
    for threads in sorted({plan.threads} if is_asked else {1, plan.threads}):
        planned = plan._replace(threads=threads)
        shop = workshop(card, config, planned, sides)
        found.append((planned, shop, tried(shop)))
    return min(found, key=lambda one: one[2].step)


def size_for(n_train: int) -> str:
    """The largest size that so many tokens are worth.

    >>> [size_for(n) for n in (1_000, 20_000, 174_402, 1_000_000)]
    ['tiny', 'small', 'medium', 'large']
    """
    return [size for size in SIZES if n_train >= WORTH[size]][-1]


def config_for(card: NeuralCard, size: str, vocab_size: int, context: int, asked: Mapping[str, object]) -> Any:
    """The configuration of a size with what was asked for in its place. What memory cannot hold is refused."""
    config = dataclasses.replace(card.sized(size, vocab_size, context), **asked)
    n_parameters = rough_parameters(config)
    needed = n_parameters * BYTES_OF_A_WEIGHT / 1e9
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    if needed > available:
        raise PellucidError(
            f"about {n_parameters:,} parameters need {needed:,.0f} GB to train, and this machine has {available:,.0f}",
            fix="Choose a smaller --width, --hidden or --context, or --tokens bpe",
        )
    return config


def with_dropout(card: NeuralCard, config: Any, epochs: float, wishes: TrainingWishes) -> tuple[Any, list[str]]:
    """The configuration with dropout where the data are seen often: a hundredth for each time, up to the recipe's."""
    if not card.recipe.dropout or epochs < DROPOUT_FROM or "dropout" in wishes.network:
        return config, []
    dropout = min(card.recipe.dropout, round(epochs / 100, 2))
    because = f"dropout {dropout:g}, because everything is seen {epochs:.1f} times"
    return dataclasses.replace(config, dropout=dropout), [because]


def rough_parameters(config: Any) -> int:
    """About how many parameters a configuration has, by its settings alone; to build one that is too large would fail.

    >>> from pellucid.models.transformer import TransformerConfig
    >>> rough_parameters(TransformerConfig(vocab_size=27, context=16, width=64, depth=4, n_heads=4))
    200064
    """
    settings = dataclasses.asdict(config)
    vocab_size, depth = settings["vocab_size"], settings.get("depth", 1)
    width, hidden, embedding = (settings.get(name, 0) for name in ("width", "hidden", "embedding"))
    tables = vocab_size * (2 * width + hidden + embedding) + (settings.get("order", 1) - 1) * vocab_size**2
    inner = (12 if "n_heads" in settings else 6) * depth * width**2 + (depth - 1) * hidden**2
    return int(tables + inner + settings.get("context", 0) * embedding * hidden)


def draft(card: NeuralCard, config: Any, sides: Sides, context: int, wishes: TrainingWishes) -> Plan:
    """A plan that lacks only its number of steps, if that is not asked for."""
    recipe, asked = card.recipe, wishes.training
    plan = Plan(
        steps=wishes.steps,
        batch=batch_for(recipe, sides, context),
        context=context,
        optimizer=recipe.optimizer,
        rate=recipe.rate,
        matrix_rate=recipe.matrix_rate,
        momentum=0.9,
        weight_decay=recipe.weight_decay,
        clip=recipe.clip,
        warm_up=0,
        decay=recipe.decay,
        evaluate_every=1,
        probe_every=1,
        sample_every=1,
        save_every=1,
        threads=threads_for(config),
        seed=wishes.seed,
    )
    plan = _with_rates(plan, recipe, asked)
    given: dict[str, Any] = {name: asked[name] for name in AS_ASKED if name in asked}
    plan = plan._replace(**given)
    if "batch" in asked:
        plan = plan._replace(batch=min(int(asked["batch"]), _most_rows(sides, context)))
    return with_steps(plan, max(1, wishes.steps), asked)


def with_steps(plan: Plan, n_steps: int, asked: Mapping[str, object]) -> Plan:
    """The plan with so many steps and all that follows from their number."""
    return plan._replace(
        steps=n_steps,
        warm_up=int(str(asked.get("warm_up", n_steps // 40))),
        evaluate_every=max(1, n_steps // EVALUATIONS),
        probe_every=cadence(n_steps),
        sample_every=max(1, n_steps // SAMPLINGS),
        save_every=int(str(asked.get("save_every", max(1, n_steps // SAVES)))),
    )


def _with_rates(plan: Plan, recipe: Recipe, asked: Mapping[str, object]) -> Plan:
    """The rates as asked for. A rate that was asked for moves Muon's with it, unless that was asked for too."""
    optimizer = str(asked.get("optimizer", plan.optimizer))
    usual = plan.rate if optimizer == recipe.optimizer else {"sgd": 0.1, "adamw": 3e-3, "muon": 0.01}[optimizer]
    rate = float(str(asked.get("rate", usual)))
    matrix_rate = (recipe.matrix_rate or 0.02) * rate / usual if optimizer == "muon" else 0.0
    return plan._replace(optimizer=optimizer, rate=rate, matrix_rate=float(str(asked.get("matrix_rate", matrix_rate))))


def batch_for(recipe: Recipe, sides: Sides, context: int) -> int:
    """Items, or windows that hold as many tokens; never more than there are."""
    wanted = recipe.batch if sides.train.has_boundary else recipe.batch * TOKENS_OF_AN_ITEM // context
    return max(1, min(wanted, _most_rows(sides, context)))


def _most_rows(sides: Sides, context: int) -> int:
    return len(sides.train_items) if sides.train.has_boundary else max(1, sides.train.n_predicted // context)


def threads_for(config: Any) -> int:
    """One for a small network, else as many as there are cores, up to a few."""
    return 1 if rough_parameters(config) <= SMALL else min(MOST_THREADS, len(os.sched_getaffinity(0)))


def tried(shop: Workshop) -> Pace:
    """Train the workshop's network for a moment and measure; whoever asks throws it away afterwards."""
    plan = with_steps(shop.plan, 10**6, {})
    probe = HealthProbe(shop.model)
    began = last = time.monotonic()
    taken: list[float] = []
    for step in steps(shop.model, shop.batches, shop.optimizer, plan):
        now = time.monotonic()
        taken.append(now - last)
        last = now
        if len(taken) > WARM_STEPS and (step.step >= TRIED_STEPS or now - began > TRIED_SECONDS):
            break
    # The median: the first steps and those in which the machine did something else do not count.
    each = statistics.median(taken[WARM_STEPS:])
    looked = time.monotonic()
    [_] = steps(shop.model, shop.batches, shop.optimizer, plan._replace(steps=1), watch=probe.watch)
    evaluated = time.monotonic()
    for side in (shop.train_part, shop.sides.dev):
        loss_on(shop.model, side, plan.context)
    return Pace(each, time.monotonic() - evaluated, max(0.0, evaluated - looked - each))


def steps_within(seconds: float, pace: Pace) -> int:
    """How many steps fit, evaluations and looks included."""
    n_steps = int(max(0.0, seconds - EVALUATIONS * pace.evaluation) / pace.step)
    for _ in range(3):
        n_looks = 2 + n_steps // cadence(max(1, n_steps))
        n_steps = int(max(0.0, seconds - pace.of(0, 1 + EVALUATIONS, n_looks)) / pace.step)
    return n_steps
